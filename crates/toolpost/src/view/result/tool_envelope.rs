//! Writes results as the two blocks of a ToolEnvelope.

use std::borrow::Cow;

use serde_json::Value;

use super::tool_result::ToolResult;
use super::{ResultStatus, ResultWriter, blocks, remedy, to_value};
use crate::envelope::ContentBlock;
use crate::error::CallError;
use crate::outcome::Outcome;
use crate::schema::Issue;
use crate::tool_envelope::{
    ERROR_TOOL, EnvelopeReader, ErrorPayload, PREFIX, ToolEnvelope, ToolEnvelopeMeta,
};
use crate::view::tool::Tool;

impl ResultWriter<'_> {
    pub(super) fn write_tool_envelope(&self, out: &mut Vec<u8>, outcome: &Outcome) -> ResultStatus {
        if is_tool_envelope(blocks(&outcome.envelope.meta)) {
            return self.write_existing_envelope(out, outcome);
        }
        if let Some(error) = outcome.envelope.tool_error() {
            return self.write_error(out, &error, ToolResult::with_metadata(outcome));
        }
        let envelope = &outcome.envelope;
        let value = to_value(&envelope.data).map(Cow::into_owned);
        let written = value.map_err(|error| error.to_string()).and_then(|payload| {
            let summary = summary(blocks(&envelope.meta), &payload);
            let meta = ToolEnvelopeMeta::new(self.tool.name(), self.epoch_ms);
            let block = ToolEnvelope::new(payload, meta).to_block();
            block.map(|block| (summary, block)).map_err(|error| error.to_string())
        });
        match written {
            Ok((summary, block)) => {
                let mut tool_result = ToolResult::with_metadata(outcome);
                // Readers expect exactly two blocks.
                let summary = with_warning(summary, tool_result.take_warning_text());
                tool_result.texts.extend([vec![summary.as_str()], vec![block.as_str()]]);
                tool_result.write(out, self.generation)
            }
            Err(reason) => {
                let error = CallError::output_validation_failed(
                    self.tool.id().as_str(),
                    &[Issue::new("", reason)],
                );
                self.write_error(out, &error, ToolResult::with_metadata(outcome));
                ResultStatus::InvalidOutput
            }
        }
    }

    /// Relays a ToolEnvelope created by the server, unchanged unless there are warnings.
    fn write_existing_envelope(&self, out: &mut Vec<u8>, outcome: &Outcome) -> ResultStatus {
        let mut tool_result = ToolResult::with_server_members(outcome);
        let warned;
        tool_result.blocks = blocks(&outcome.envelope.meta);
        if let (Some(warning), [ContentBlock::Text(first), second]) =
            (tool_result.take_warning_text(), tool_result.blocks)
        {
            let mut first = first.clone();
            first.text = with_warning(first.text, Some(warning));
            warned = [ContentBlock::Text(first), second.clone()];
            tool_result.blocks = &warned;
        }
        tool_result.is_error = outcome.envelope.is_error();
        tool_result.write(out, self.generation)
    }
}

/// Returns the text and the envelope block of an error of a call to `tool`.
pub(super) fn error_blocks(
    error: &CallError,
    details: Option<&Value>,
    tool: &Tool,
    epoch_ms: i64,
) -> [String; 2] {
    let code = error.code().as_str();
    let mut payload = ErrorPayload::from_call_error(code, error.message(), details);
    payload.recoverable |= error.is_retryable();
    payload.suggested_action = remedy::suggested_action(error, &payload, details);
    payload.next_tool = remedy::next_tool(error, tool);
    let json = serde_json::to_value(&payload).expect("the payload serializes");
    let envelope = ToolEnvelope::new(json, ToolEnvelopeMeta::new(ERROR_TOOL, epoch_ms));
    [payload.to_string(), envelope.to_block().expect("the payload is shallow")]
}

fn is_tool_envelope(blocks: &[ContentBlock]) -> bool {
    let [ContentBlock::Text(_), ContentBlock::Text(second)] = blocks else { return false };
    second.text.starts_with(PREFIX) && EnvelopeReader::default().read_block(&second.text).is_ok()
}

/// Adds a line about the warnings to the human-readable text.
fn with_warning(text: String, warning: Option<String>) -> String {
    match warning {
        Some(warning) => format!("{text}\n\n{warning}"),
        None => text,
    }
}

/// Returns human-readable Markdown: the tool's text, or else the payload.
fn summary(blocks: &[ContentBlock], payload: &Value) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(block) => Some(block.text.as_str()),
        _ => None,
    });
    let texts: Vec<_> = texts.collect();
    match payload {
        _ if !texts.is_empty() => texts.join("\n\n"),
        Value::String(text) => text.clone(),
        other => format!("```json\n{other:#}\n```"),
    }
}
