//! Results of MCP servers in the dialect `data`: relayed unchanged.

use super::tool_result::{ToolResult, json_text};
use super::{ResultStatus, ResultWriter};
use crate::envelope::McpMeta;
use crate::outcome::Outcome;
use crate::payload::Payload;

/// Whether the server's result has content to relay; otherwise only the data is written.
pub(super) fn has_content(meta: &McpMeta, data: &Payload) -> bool {
    let has_result = meta.is_error || !meta.content.is_empty() || meta.structured_content.is_some();
    has_result || is_empty_list(data)
}

fn is_empty_list(data: &Payload) -> bool {
    match data.as_value() {
        Some(value) => value.as_array().is_some_and(Vec::is_empty),
        None => data.as_raw().is_some_and(|raw| raw.get() == "[]"),
    }
}

impl ResultWriter<'_> {
    /// Writes the server's members unchanged, except for repaired structured content.
    pub(super) fn write_relayed(
        &self,
        out: &mut Vec<u8>,
        outcome: &Outcome,
        meta: &McpMeta,
    ) -> ResultStatus {
        let data = &outcome.envelope.data;
        let (structured, issues) = match &meta.structured_content {
            _ if !outcome.repairs().is_empty() => {
                (Some(json_text(data)), self.validate_output(data))
            }
            Some(structured) => {
                let text = serde_json::to_string(structured).expect("a JSON value serializes");
                let spec = self.tool.operation().spec();
                (Some(text.into()), self.tool.mappings().output.validate(spec, structured))
            }
            // Data from the blocks with a declared schema becomes structured content.
            None if self.tool.mappings().output.is_declared && !meta.is_error => {
                (Some(json_text(data)), self.validate_output(data))
            }
            None => (None, Vec::new()),
        };
        if !issues.is_empty() && !meta.is_error {
            return self.write_invalid_output(out, outcome, &issues);
        }
        let structured = structured.filter(|_| issues.is_empty());
        let mut tool_result = ToolResult::with_server_members(outcome);
        tool_result.blocks = &meta.content;
        tool_result.structured =
            structured.as_deref().and_then(|text| self.structured_content(text));
        tool_result.is_error = meta.is_error;
        tool_result.write(out, self.generation)
    }
}
