//! Results as the two blocks of a ToolEnvelope.

use serde_json::Value;

use super::reply::Reply;
use super::{Sent, Writing, blocks};
use crate::envelope::ContentBlock;
use crate::error::CallError;
use crate::outcome::Outcome;
use crate::schema::Issue;
use crate::tool_envelope::{ERROR_TOOL, ErrorPayload, Meta, PREFIX, Reader, ToolEnvelope};

impl Writing<'_> {
    pub(super) fn packed(&self, out: &mut Vec<u8>, outcome: &Outcome) -> Sent {
        if is_packed(blocks(&outcome.envelope.meta)) {
            return self.packed_before(out, outcome);
        }
        if let Some(error) = outcome.envelope.failure() {
            return self.error(out, &error, Reply::aside(outcome));
        }
        let envelope = &outcome.envelope;
        let value = match (envelope.data.as_value(), envelope.data.as_raw()) {
            (Some(value), _) => Ok(value.clone()),
            (None, raw) => serde_json::from_str(raw.map_or("", |raw| raw.get())),
        };
        let written = value.map_err(|error| error.to_string()).and_then(|payload| {
            let summary = summary(blocks(&envelope.meta), &payload);
            let meta = Meta::new(self.tool.name(), self.epoch_ms);
            let block = ToolEnvelope::new(payload, meta).to_block();
            block.map(|block| (summary, block)).map_err(|error| error.to_string())
        });
        match written {
            Ok((summary, block)) => {
                let mut reply = Reply::aside(outcome);
                reply.texts.extend([vec![summary.as_str()], vec![block.as_str()]]);
                reply.write(out, self.era);
                Sent::Success
            }
            Err(reason) => {
                let error = CallError::output_validation_failed(
                    self.tool.id().as_str(),
                    &[Issue::new("", reason)],
                );
                self.error(out, &error, Reply::aside(outcome));
                Sent::DoesNotFit
            }
        }
    }

    /// What a server packed itself goes on as it is.
    fn packed_before(&self, out: &mut Vec<u8>, outcome: &Outcome) -> Sent {
        let is_error = outcome.envelope.is_error();
        let mut reply = Reply::of(outcome);
        reply.blocks = blocks(&outcome.envelope.meta);
        reply.is_error = is_error;
        reply.write(out, self.era);
        if is_error { Sent::Failure } else { Sent::Success }
    }
}

/// The words and the block of a failure.
pub(super) fn failure(error: &CallError, details: Option<&Value>, epoch_ms: i64) -> [String; 2] {
    let code = error.code().as_str();
    let mut payload = ErrorPayload::from_call_error(code, error.message(), details);
    payload.recoverable = error.is_retryable();
    let json = serde_json::to_value(&payload).expect("maps with text keys are JSON");
    let envelope = ToolEnvelope::new(json, Meta::new(ERROR_TOOL, epoch_ms));
    [payload.to_string(), envelope.to_block().expect("every member is text or a boolean")]
}

fn is_packed(blocks: &[ContentBlock]) -> bool {
    let [ContentBlock::Text(_), ContentBlock::Text(second)] = blocks else { return false };
    second.text.starts_with(PREFIX) && Reader::default().read_block(&second.text).is_ok()
}

/// Markdown for people: what the tool wrote, or what the payload says.
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
