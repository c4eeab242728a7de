//! Results of MCP servers in the dialect `data`: equal to what came.

use std::borrow::Cow;

use serde_json::Value;

use super::reply::{Reply, json_text};
use super::{Sent, Writing};
use crate::envelope::{McpMeta, Meta};
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::schema::Issue;

/// Whether the result that came says something of itself; else its data is all there is.
pub(super) fn speaks_for_itself(meta: &McpMeta, data: &Payload) -> bool {
    let has_said = meta.is_error || !meta.content.is_empty() || meta.structured_content.is_some();
    has_said || is_empty_list(data)
}

/// Whether a server sent blocks and nothing else.
pub(super) fn is_unstructured(meta: &Meta) -> bool {
    matches!(meta, Meta::Mcp(meta) if meta.structured_content.is_none())
}

fn is_empty_list(data: &Payload) -> bool {
    match data.as_value() {
        Some(value) => value.as_array().is_some_and(Vec::is_empty),
        None => data.as_raw().is_some_and(|raw| raw.get() == "[]"),
    }
}

impl Writing<'_> {
    /// The original blocks, `_meta` and members; structured content too, unless it was repaired.
    pub(super) fn relayed(&self, out: &mut Vec<u8>, outcome: &Outcome, meta: &McpMeta) -> Sent {
        let data = &outcome.envelope.data;
        let (structured, issues) = match &meta.structured_content {
            _ if !outcome.repairs().is_empty() => (Some(json_text(data)), self.misfits(data)),
            Some(structured) => (Some(text(structured)), self.value_misfits(structured)),
            // The data was found in the blocks, and the schema that it fits is declared.
            None if self.is_declared() && !meta.is_error => {
                (Some(json_text(data)), self.misfits(data))
            }
            None => (None, Vec::new()),
        };
        if !issues.is_empty() && !meta.is_error {
            return self.does_not_fit(out, outcome, &issues);
        }
        let structured = structured.filter(|_| issues.is_empty());
        let mut reply = Reply::of(outcome);
        reply.blocks = &meta.content;
        reply.structured = structured.as_deref().and_then(|text| self.placed(text));
        reply.is_error = meta.is_error;
        reply.write(out, self.era);
        if meta.is_error { Sent::Failure } else { Sent::Success }
    }

    fn is_declared(&self) -> bool {
        self.tool.forms().giving.is_declared
    }

    fn value_misfits(&self, value: &Value) -> Vec<Issue> {
        let spec = self.tool.operation().spec();
        self.tool.forms().giving.misfits(spec, value)
    }
}

fn text(value: &Value) -> Cow<'_, str> {
    Cow::Owned(serde_json::to_string(value).expect("a tree is JSON"))
}
