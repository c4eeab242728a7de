//! The readers of what servers send, for those who try them with anything.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::inbox::Inbox;
use super::result::{self, Reading};
use super::settings::{Elicitation, McpSettings, McpTransport, StdioSettings};
use super::switch::{Reply, Switch};
use super::tool;
use crate::envelope::Envelope;
use crate::payload::Payload;
use crate::schema::Schema;
use crate::spec::OperationSpec;

/// Takes a message, and gives the texts of what is answered; `None` if it is no message.
pub fn answers(text: &str) -> Option<Vec<String>> {
    let stdio = StdioSettings::new("true", [""; 0]);
    let mut settings = McpSettings::new(McpTransport::Stdio(stdio));
    settings.elicitation = Elicitation::Defaults;
    let switch = Switch::new(Inbox::new("any".into(), Arc::new(settings)));
    let (sender, answers) = std::sync::mpsc::channel();
    let reply = || -> Reply {
        let sender = sender.clone();
        // Whoever reads the answers does so at the end.
        Box::new(move |answer| drop(sender.send(answer)))
    };
    switch.take(text, None, &reply).ok()?;
    Some(answers.try_iter().collect())
}

/// Takes a tool of a list.
pub fn tool(tool: &Value) -> Option<OperationSpec> {
    tool::read("any", tool, true).ok().map(|tool| tool.spec)
}

/// Takes the result of a tool whose output has no schema.
pub fn result(text: String) -> Option<Envelope<Payload>> {
    let raw = RawValue::from_string(text).ok()?;
    let reading = Reading { parse_json_text: false, tool_envelope: false };
    result::envelope(&raw, &Schema::unknown(), reading).ok()
}
