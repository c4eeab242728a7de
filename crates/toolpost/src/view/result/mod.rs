//! Writes the outcome of a call as a tool result.

mod data;
mod error_text;
mod remedy;
mod tool_envelope;
mod tool_result;

use std::borrow::Cow;

use serde_json::Value;

use super::output::SchemaForm;
use super::settings::{Dialect, ProtocolGeneration};
use super::tool::Tool;
use crate::clock;
use crate::envelope::{ContentBlock, Meta};
use crate::error::{CallError, RetryContext};
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::schema::Issue;
use tool_result::{MediaContent, StructuredContent, ToolResult, json_text};

/// The member of a result's `_meta` that lists every change made to the data.
pub const REPAIRS_META: &str = "toolpost/repairs";
/// The member of a result's `_meta` that lists the remaining mismatches of the data.
pub const WARNINGS_META: &str = "toolpost/warnings";
/// The member of a result's `_meta` that is true if the structured content is `{"result": data}`
/// instead of the data.
pub const WRAPPED_META: &str = "toolpost/wrapped";
/// The member of an error result's `_meta` that holds the error.
pub const ERROR_META: &str = "toolpost/error";

/// The member of a result's `_meta` that is true if the result is that of an earlier call.
pub const REPLAYED_META: &str = "toolpost/replayed";

/// Status of a written result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultStatus {
    /// The call succeeded.
    Success,
    /// The call failed, or the tool reported an error.
    Failure,
    /// The call succeeded, but the data does not match a schema that the operation guarantees;
    /// written as an error.
    InvalidOutput,
}

impl Tool {
    /// Appends the result of `tools/call`, including for a failed call.
    ///
    /// The result always matches the published output schema.
    pub fn write_result(
        &self,
        out: &mut Vec<u8>,
        generation: ProtocolGeneration,
        call_result: Result<Outcome, CallError>,
    ) -> ResultStatus {
        self.write_result_at(out, generation, call_result, clock::epoch_ms())
    }

    /// Like [`Tool::write_result`], with the time in milliseconds since 1970. Only
    /// [`Dialect::ToolEnvelopeV1`] contains the time.
    pub fn write_result_at(
        &self,
        out: &mut Vec<u8>,
        generation: ProtocolGeneration,
        call_result: Result<Outcome, CallError>,
        epoch_ms: i64,
    ) -> ResultStatus {
        let writing = ResultWriter { tool: self, generation, epoch_ms };
        match call_result {
            Ok(outcome) => writing.write_outcome(out, &outcome),
            Err(error) => writing.write_error(out, &error, ToolResult::of_error(&error)),
        }
    }
}

/// Writes one result.
struct ResultWriter<'a> {
    tool: &'a Tool,
    generation: ProtocolGeneration,
    epoch_ms: i64,
}

impl ResultWriter<'_> {
    fn write_outcome(&self, out: &mut Vec<u8>, outcome: &Outcome) -> ResultStatus {
        match self.tool.dialect() {
            Dialect::Data => match &outcome.envelope.meta {
                Meta::Mcp(meta) if data::has_content(meta, &outcome.envelope.data) => {
                    self.write_relayed(out, outcome, meta)
                }
                _ => self.write_data(out, outcome),
            },
            Dialect::Envelope => self.write_envelope(out, outcome),
            Dialect::Ok => self.write_ok(out, outcome),
            Dialect::ToolEnvelopeV1 => self.write_tool_envelope(out, outcome),
        }
    }

    fn write_data(&self, out: &mut Vec<u8>, outcome: &Outcome) -> ResultStatus {
        let mut tool_result = ToolResult::with_server_members(outcome);
        if let Some(summary) = self.summary(&outcome.envelope.data) {
            tool_result.texts.push(vec![&summary]);
            return tool_result.write(out, self.generation);
        }
        let text = json_text(&outcome.envelope.data);
        let structured = match self.structured_content(outcome, &text) {
            Ok(structured) => structured,
            Err(issues) => return self.write_invalid_output(out, outcome, &issues),
        };
        tool_result.media = MediaContent::of(&outcome.envelope);
        if tool_result.media.is_none() {
            tool_result.texts.push(vec![&text]);
        }
        // Without a published schema, structured content would only repeat the bytes.
        if tool_result.media.is_none() || self.tool.mappings().output.form.is_some() {
            tool_result.structured = structured;
        }
        tool_result.write(out, self.generation)
    }

    /// Returns the data if it is a summary, which is written as it is instead of as JSON.
    fn summary(&self, data: &Payload) -> Option<String> {
        if !self.tool.summarizes() {
            return None;
        }
        match to_value(data).ok()?.into_owned() {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Writes the whole envelope, including for tool errors.
    fn write_envelope(&self, out: &mut Vec<u8>, outcome: &Outcome) -> ResultStatus {
        let is_error = outcome.envelope.is_error();
        let issues = self.mismatches(outcome);
        if !issues.is_empty() && !is_error {
            return self.write_invalid_output(out, outcome, &issues);
        }
        let data = json_text(&outcome.envelope.data);
        let meta = serde_json::to_string(&outcome.envelope.meta).expect("meta serializes");
        let json = vec![r#"{"data":"#, &data, r#","meta":"#, &meta, "}"];
        let mut tool_result = ToolResult::with_metadata(outcome);
        tool_result.is_error = is_error;
        tool_result.structured =
            issues.is_empty().then(|| StructuredContent { parts: json.clone(), is_wrapped: false });
        tool_result.texts.push(json);
        tool_result.write(out, self.generation)
    }

    fn write_ok(&self, out: &mut Vec<u8>, outcome: &Outcome) -> ResultStatus {
        if let Some(error) = outcome.envelope.tool_error() {
            return self.write_error(out, &error, ToolResult::with_metadata(outcome));
        }
        let issues = self.mismatches(outcome);
        if !issues.is_empty() {
            return self.write_invalid_output(out, outcome, &issues);
        }
        let data = json_text(&outcome.envelope.data);
        let json = vec![r#"{"ok":true,"data":"#, &data, "}"];
        let mut tool_result = ToolResult::with_metadata(outcome);
        tool_result.structured = Some(StructuredContent { parts: json.clone(), is_wrapped: false });
        tool_result.texts.push(json);
        tool_result.write(out, self.generation)
    }

    /// Writes an error; any content already in `tool_result` follows the error text.
    fn write_error(
        &self,
        out: &mut Vec<u8>,
        error: &CallError,
        tool_result: ToolResult<'_>,
    ) -> ResultStatus {
        let details = error_text::error_details(error, self.tool.mappings().input.input_path());
        let details = details.as_deref();
        match self.tool.dialect() {
            Dialect::Ok => {
                let ok_json = error_text::ok_dialect_json(error, details);
                let mut tool_result = tool_result.into_error();
                let parts = vec![ok_json.as_str()];
                tool_result.structured = Some(StructuredContent { parts, is_wrapped: false });
                tool_result.texts.push(vec![&ok_json]);
                tool_result.write(out, self.generation)
            }
            Dialect::ToolEnvelopeV1 => {
                let [message, block] =
                    tool_envelope::error_blocks(error, details, self.tool, self.epoch_ms);
                let mut tool_result = tool_result.into_error();
                // Readers of a ToolEnvelope expect exactly two blocks.
                tool_result.blocks = &[];
                tool_result.texts.extend([vec![message.as_str()], vec![block.as_str()]]);
                tool_result.write(out, self.generation)
            }
            Dialect::Data | Dialect::Envelope => {
                let message = error_text::message_text(error, details);
                let json = error_text::error_json(error, details);
                let mut tool_result = tool_result.into_error();
                tool_result.texts.push(vec![&message]);
                tool_result.error = Some(&json);
                tool_result.write(out, self.generation)
            }
        }
    }

    /// Writes a call with invalid output as an error with the data in its details, followed by the
    /// tool's own content.
    fn write_invalid_output(
        &self,
        out: &mut Vec<u8>,
        outcome: &Outcome,
        issues: &[Issue],
    ) -> ResultStatus {
        let spec = self.tool.operation().spec();
        let mut error = CallError::output_validation_failed(self.tool.id().as_str(), issues);
        if let Ok(data) = to_value(&outcome.envelope.data) {
            error = error.with_data(data.into_owned());
        }
        let error = error.finalize(RetryContext {
            dispatched: true,
            kind: spec.kind,
            idempotent: spec.idempotent,
        });
        let mut tool_result = ToolResult::with_metadata(outcome).without_warnings();
        tool_result.blocks = blocks(&outcome.envelope.meta);
        self.write_error(out, &error, tool_result);
        ResultStatus::InvalidOutput
    }

    /// Returns the mismatches between the data and a declared schema that is published. A relaxed
    /// schema accepts any data in a wrapper.
    fn mismatches(&self, outcome: &Outcome) -> Vec<Issue> {
        match self.tool.mappings().output.form {
            Some(SchemaForm::Declared) => self.validate_output(outcome),
            _ => Vec::new(),
        }
    }

    /// Validates data against the published schema, unless the pipeline has found it valid.
    fn validate_output(&self, outcome: &Outcome) -> Vec<Issue> {
        if outcome.matches_schema {
            return Vec::new();
        }
        let (mapping, spec) = (&self.tool.mappings().output, self.tool.operation().spec());
        match to_value(&outcome.envelope.data) {
            Ok(value) => mapping.validate(spec, &value),
            Err(error) => vec![Issue::new("", error.to_string())],
        }
    }

    /// Returns the data as structured content: unchanged, wrapped in `{result}`, or `None`.
    ///
    /// # Errors
    ///
    /// Returns the mismatches if the data does not match a declared schema.
    fn structured_content<'t>(
        &self,
        outcome: &Outcome,
        text: &'t str,
    ) -> Result<Option<StructuredContent<'t>>, Vec<Issue>> {
        let mapping = &self.tool.mappings().output;
        let is_always_wrapped = mapping.is_wrapped(self.generation);
        let is_wrapped = match mapping.form {
            None if text == "null" => return Ok(None),
            // Legacy clients require structured content to be an object.
            None => {
                self.generation == ProtocolGeneration::Legacy && !text.trim_start().starts_with('{')
            }
            Some(SchemaForm::Relaxed) => {
                is_always_wrapped || !self.validate_output(outcome).is_empty()
            }
            Some(SchemaForm::Declared) => {
                let issues = self.validate_output(outcome);
                if !issues.is_empty() {
                    return Err(issues);
                }
                is_always_wrapped
            }
        };
        let parts = if is_wrapped { vec![r#"{"result":"#, text, "}"] } else { vec![text] };
        Ok(Some(StructuredContent { parts, is_wrapped }))
    }
}

fn to_value(data: &Payload) -> serde_json::Result<Cow<'_, Value>> {
    match data.as_value() {
        Some(value) => Ok(Cow::Borrowed(value)),
        None => serde_json::from_str(data.as_raw().map_or("", |raw| raw.get())).map(Cow::Owned),
    }
}

fn blocks(meta: &Meta) -> &[ContentBlock] {
    match meta {
        Meta::Mcp(meta) => &meta.content,
        _ => &[],
    }
}
