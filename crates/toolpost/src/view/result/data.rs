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
        let is_published = self.tool.mappings().output.form.is_some();
        let text = json_text(&outcome.envelope.data);
        // With a published schema, a success has structured content.
        let is_structured = meta.structured_content.is_some() || is_published && !meta.is_error;
        let structured = match is_structured.then(|| self.structured_content(outcome, &text)) {
            Some(Ok(structured)) => structured,
            Some(Err(issues)) if !meta.is_error => {
                return self.write_invalid_output(out, outcome, &issues);
            }
            Some(Err(_)) | None => None,
        };
        let mut tool_result = ToolResult::with_server_members(outcome);
        tool_result.blocks = &meta.content;
        tool_result.structured = structured;
        tool_result.is_error = meta.is_error;
        tool_result.write(out, self.generation)
    }
}
