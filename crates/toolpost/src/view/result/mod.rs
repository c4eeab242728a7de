//! What a call ended with, as the result of a tool.

mod data;
mod failure;
mod packed;
mod reply;

use serde_json::Value;

use super::settings::{Dialect, Era};
use super::tool::Tool;
use crate::clock;
use crate::envelope::{ContentBlock, Meta};
use crate::error::{CallError, ErrorCode};
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::schema::Issue;
use reply::{Reply, json_text};

/// The member of a result's `_meta` that lists every change made to the data.
pub const REPAIRS_META: &str = "toolpost/repairs";
/// The member of a result's `_meta` that lists what is still wrong with the data.
pub const WARNINGS_META: &str = "toolpost/warnings";
/// The member of a failure's `_meta` that holds its code, message, details, and whether to retry.
pub const ERROR_META: &str = "toolpost/error";

/// What a client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sent {
    /// The call succeeded.
    Success,
    /// The call failed, or the tool said that it did.
    Failure,
    /// The call succeeded with something that is not what the tool declares, which is a failure.
    DoesNotFit,
}

impl Tool {
    /// Appends the result of `tools/call`; a failure is one too.
    ///
    /// Data is checked against what the tool declares before a byte of it is written.
    pub fn write_result(
        &self,
        out: &mut Vec<u8>,
        era: Era,
        ended: Result<Outcome, CallError>,
    ) -> Sent {
        self.write_result_at(out, era, ended, clock::epoch_ms())
    }

    /// As [`Tool::write_result`] at some time, in milliseconds since 1970; only
    /// [`Dialect::ToolEnvelopeV1`] tells it.
    pub fn write_result_at(
        &self,
        out: &mut Vec<u8>,
        era: Era,
        ended: Result<Outcome, CallError>,
        epoch_ms: i64,
    ) -> Sent {
        let writing = Writing { tool: self, era, epoch_ms };
        match ended {
            Ok(outcome) => writing.outcome(out, &outcome),
            Err(error) => writing.error(out, &error, Reply::default()),
        }
    }
}

/// One result that is being written.
struct Writing<'a> {
    tool: &'a Tool,
    era: Era,
    epoch_ms: i64,
}

impl Writing<'_> {
    fn outcome(&self, out: &mut Vec<u8>, outcome: &Outcome) -> Sent {
        match self.tool.dialect() {
            Dialect::Data => match &outcome.envelope.meta {
                Meta::Mcp(meta) if data::speaks_for_itself(meta, &outcome.envelope.data) => {
                    self.relayed(out, outcome, meta)
                }
                _ => self.data(out, outcome),
            },
            Dialect::Envelope => self.envelope(out, outcome),
            Dialect::Ok => self.ok(out, outcome),
            Dialect::ToolEnvelopeV1 => self.packed(out, outcome),
        }
    }

    fn data(&self, out: &mut Vec<u8>, outcome: &Outcome) -> Sent {
        let issues = self.misfits(&outcome.envelope.data);
        if !issues.is_empty() {
            return self.does_not_fit(out, outcome, &issues);
        }
        let text = json_text(&outcome.envelope.data);
        let mut reply = Reply::of(outcome);
        reply.texts.push(vec![&text]);
        reply.structured = self.placed(&text);
        reply.write(out, self.era);
        Sent::Success
    }

    /// The whole envelope. A tool's failure is one too, and its data need not be what is declared.
    fn envelope(&self, out: &mut Vec<u8>, outcome: &Outcome) -> Sent {
        let is_error = outcome.envelope.is_error();
        let issues = self.misfits(&outcome.envelope.data);
        if !issues.is_empty() && !is_error {
            return self.does_not_fit(out, outcome, &issues);
        }
        let data = json_text(&outcome.envelope.data);
        let meta = serde_json::to_string(&outcome.envelope.meta).expect("a meta is JSON");
        let whole = vec![r#"{"data":"#, &data, r#","meta":"#, &meta, "}"];
        let mut reply = Reply::aside(outcome);
        reply.is_error = is_error;
        reply.structured = issues.is_empty().then(|| whole.clone());
        reply.texts.push(whole);
        reply.write(out, self.era);
        if is_error { Sent::Failure } else { Sent::Success }
    }

    fn ok(&self, out: &mut Vec<u8>, outcome: &Outcome) -> Sent {
        if let Some(error) = outcome.envelope.failure() {
            return self.error(out, &error, Reply::aside(outcome));
        }
        let issues = self.misfits(&outcome.envelope.data);
        if !issues.is_empty() {
            return self.does_not_fit(out, outcome, &issues);
        }
        let data = json_text(&outcome.envelope.data);
        let whole = vec![r#"{"ok":true,"data":"#, &data, "}"];
        let mut reply = Reply::aside(outcome);
        reply.structured = Some(whole.clone());
        reply.texts.push(whole);
        reply.write(out, self.era);
        Sent::Success
    }

    /// A failure, with whatever the reply holds already behind its words.
    fn error(&self, out: &mut Vec<u8>, error: &CallError, reply: Reply<'_>) -> Sent {
        let details = failure::details(error, self.tool.forms().taking.path());
        let details = details.as_deref();
        match self.tool.dialect() {
            Dialect::Ok => {
                let whole = failure::as_ok(error, details);
                let mut reply = reply.failed();
                // What was to be valid and is not goes out without anything to be validated.
                let is_structured = *error.code() != ErrorCode::OutputValidationFailed;
                reply.structured = is_structured.then(|| vec![whole.as_str()]);
                reply.texts.push(vec![&whole]);
                reply.write(out, self.era);
            }
            Dialect::ToolEnvelopeV1 => {
                let [words, block] = packed::failure(error, details, self.epoch_ms);
                let mut reply = reply.failed();
                // Two blocks and no more are what its readers look for.
                reply.blocks = &[];
                reply.texts.extend([vec![words.as_str()], vec![block.as_str()]]);
                reply.write(out, self.era);
            }
            Dialect::Data | Dialect::Envelope => {
                let words = failure::words(error, details);
                let json = failure::as_json(error, details);
                let mut reply = reply.failed();
                reply.texts.push(vec![&words]);
                reply.error = Some(&json);
                reply.write(out, self.era);
            }
        }
        Sent::Failure
    }

    /// A success that is none: what the tool itself said follows the reason.
    fn does_not_fit(&self, out: &mut Vec<u8>, outcome: &Outcome, issues: &[Issue]) -> Sent {
        let meta = &outcome.envelope.meta;
        let nothing =
            Issue::new("", "the tool declares an output schema and sent no structured content");
        let issues = if data::is_unstructured(meta) { &[nothing] } else { issues };
        let error = CallError::output_validation_failed(self.tool.id().as_str(), issues);
        let mut reply = Reply::aside(outcome);
        (reply.blocks, reply.warnings) = (blocks(meta), &[]);
        self.error(out, &error, reply);
        Sent::DoesNotFit
    }

    /// The places where data does not fit what is declared about it.
    fn misfits(&self, data: &Payload) -> Vec<Issue> {
        let (giving, spec) = (&self.tool.forms().giving, self.tool.operation().spec());
        if !giving.is_declared {
            return Vec::new();
        }
        match (data.as_value(), data.as_raw()) {
            (Some(value), _) => giving.misfits(spec, value),
            (None, raw) => match serde_json::from_str::<Value>(raw.map_or("", |raw| raw.get())) {
                Ok(value) => giving.misfits(spec, &value),
                Err(error) => vec![Issue::new("", error.to_string())],
            },
        }
    }

    /// Data as structured content: as it is, in `{result}`, or not at all.
    fn placed<'t>(&self, text: &'t str) -> Option<Vec<&'t str>> {
        let giving = &self.tool.forms().giving;
        let is_wrapped = match giving.is_declared {
            true => giving.is_wrapped(self.era),
            // Nobody was told what to expect, but objects were promised to those of before.
            false if text == "null" => return None,
            false => self.era == Era::Legacy && !text.trim_start().starts_with('{'),
        };
        Some(if is_wrapped { vec![r#"{"result":"#, text, "}"] } else { vec![text] })
    }
}

fn blocks(meta: &Meta) -> &[ContentBlock] {
    match meta {
        Meta::Mcp(meta) => &meta.content,
        _ => &[],
    }
}
