//! Entry points to the parsers of server messages, for fuzzing.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::dispatcher::{Dispatcher, ReplyFn};
use super::result::{self, ResultOptions};
use super::server_messages::ServerMessageHandler;
use super::settings::{Elicitation, McpSettings, McpTransport, StdioSettings};
use super::tool;
use crate::envelope::Envelope;
use crate::payload::Payload;
use crate::schema::Schema;
use crate::spec::OperationSpec;

/// Dispatches a message and returns the responses; `None` if the message is invalid.
pub fn dispatch_message(text: &str) -> Option<Vec<String>> {
    let stdio = StdioSettings::new("true", [""; 0]);
    let mut settings = McpSettings::new(McpTransport::Stdio(stdio));
    settings.elicitation = Elicitation::Defaults;
    let dispatcher = Dispatcher::new(ServerMessageHandler::new("any".into(), Arc::new(settings)));
    let (sender, responses) = std::sync::mpsc::channel();
    let reply = || -> ReplyFn {
        let sender = sender.clone();
        // The receiver is read after dispatching.
        Box::new(move |response| drop(sender.send(response)))
    };
    dispatcher.dispatch(text, None, &reply).ok()?;
    Some(responses.try_iter().collect())
}

/// Parses a tool of a tool list.
pub fn tool(tool: &Value) -> Option<OperationSpec> {
    tool::parse("any", tool, true).ok().map(|tool| tool.spec)
}

/// Parses the result of a tool without an output schema.
pub fn result(text: String) -> Option<Envelope<Payload>> {
    let raw = RawValue::from_string(text).ok()?;
    let options = ResultOptions { parse_json_text: false, tool_envelope: false };
    result::to_envelope(&raw, &Schema::unknown(), options).ok()
}
