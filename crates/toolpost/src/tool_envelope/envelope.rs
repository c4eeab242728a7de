//! The envelope of a block, and its serialization.

use data_encoding::BASE64;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{EnvelopeError, MAX_DEPTH, PREFIX};
use crate::clock::timestamp;
use crate::json::JsonObject;
use crate::schema::type_name;

/// A payload with the name of the tool that created it and the creation time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolEnvelope {
    /// The result of the tool; any JSON.
    pub payload: Value,
    /// The tool that created the envelope, and when.
    pub meta: ToolEnvelopeMeta,
    /// Members other than `payload` and `meta`, kept so that writing restores what was read.
    #[serde(flatten)]
    pub(super) extra: JsonObject,
}

/// The tool that created an envelope, and when. The version is always 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolEnvelopeMeta {
    tool: String,
    /// The timestamp as it was read, because ISO 8601 has several notations for the same time.
    ts: String,
    version: u8,
    #[serde(flatten)]
    extra: JsonObject,
}

/// Error returned when an envelope cannot be serialized.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The envelope exceeds the nesting depth that readers accept.
    #[error("envelope nests deeper than {limit} levels")]
    TooDeep {
        /// Maximum number of levels, including the envelope itself.
        limit: usize,
    },
}

impl ToolEnvelope {
    /// Creates an envelope for `payload`.
    pub fn new(payload: Value, meta: ToolEnvelopeMeta) -> Self {
        Self { payload, meta, extra: Map::new() }
    }

    /// Returns the members of the envelope other than `payload` and `meta`.
    pub fn extra(&self) -> &JsonObject {
        &self.extra
    }

    /// Returns the text of block 1.
    ///
    /// # Errors
    ///
    /// Returns [`WriteError::TooDeep`] if the reader would reject the text.
    pub fn to_block(&self) -> Result<String, WriteError> {
        if !self.fits_depth_limit() {
            return Err(WriteError::TooDeep { limit: MAX_DEPTH });
        }
        let json = serde_json::to_vec(self).expect("an envelope serializes");
        let mut block = String::with_capacity(PREFIX.len() + json.len().div_ceil(3) * 4);
        block.push_str(PREFIX);
        BASE64.encode_append(&json, &mut block);
        Ok(block)
    }

    /// Returns the tool result, with `summary` in block 0 and this envelope in block 1.
    ///
    /// # Errors
    ///
    /// Returns [`WriteError::TooDeep`] if the reader would reject the result.
    pub fn to_result(&self, summary: impl Into<String>) -> Result<Value, WriteError> {
        let text_block = |text: String| json!({"type": "text", "text": text});
        Ok(json!({"content": [text_block(summary.into()), text_block(self.to_block()?)]}))
    }

    /// Whether the envelope can be read back. It counts as one level and `meta` as another.
    fn fits_depth_limit(&self) -> bool {
        let extra_fits = self.extra.values().all(|value| fits_depth(value, MAX_DEPTH - 1));
        let in_meta = self.meta.extra.values().all(|value| fits_depth(value, MAX_DEPTH - 2));
        extra_fits && in_meta && fits_depth(&self.payload, MAX_DEPTH - 1)
    }

    /// Builds the envelope from decoded JSON.
    ///
    /// The version is checked before any member that another version may define differently.
    pub(super) fn from_json(json: Value) -> Result<Self, EnvelopeError> {
        let Value::Object(mut members) = json else {
            return Err(EnvelopeError::RootNotAnObject { found: type_name(&json) });
        };
        let meta = members.shift_remove("meta").ok_or(EnvelopeError::MissingMeta)?;
        let meta = ToolEnvelopeMeta::from_json(meta)?;
        let payload = members.shift_remove("payload").ok_or(EnvelopeError::MissingPayload)?;
        Ok(Self { payload, meta, extra: members })
    }
}

impl ToolEnvelopeMeta {
    /// Creates metadata with the tool name and the time in milliseconds since the Unix epoch.
    pub fn new(tool: impl Into<String>, epoch_ms: i64) -> Self {
        Self { tool: tool.into(), ts: timestamp(epoch_ms), version: 1, extra: Map::new() }
    }

    /// Returns the name of the tool that created the envelope.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns the creation time as it was read, or in ISO 8601.
    pub fn ts(&self) -> &str {
        &self.ts
    }

    /// Returns the fields other than `tool`, `ts` and `version`.
    pub fn extra(&self) -> &JsonObject {
        &self.extra
    }
    pub(super) fn from_json(json: Value) -> Result<Self, EnvelopeError> {
        let Value::Object(mut fields) = json else {
            return Err(EnvelopeError::MetaNotAnObject { found: type_name(&json) });
        };
        check_version(&take(&mut fields, "version")?)?;
        let tool = take_text(&mut fields, "tool")?;
        let ts = take_text(&mut fields, "ts")?;
        Ok(Self { tool, ts, version: 1, extra: fields })
    }
}

fn take(fields: &mut JsonObject, field: &'static str) -> Result<Value, EnvelopeError> {
    fields.shift_remove(field).ok_or(EnvelopeError::MissingMetaField { field })
}

fn take_text(fields: &mut JsonObject, field: &'static str) -> Result<String, EnvelopeError> {
    match take(fields, field)? {
        Value::String(text) => Ok(text),
        other => Err(wrong_type(field, "a string", &other)),
    }
}

/// Checks the version numerically: `1.0` equals 1.
fn check_version(version: &Value) -> Result<(), EnvelopeError> {
    let Value::Number(number) = version else {
        return Err(wrong_type("version", "a number", version));
    };
    let version = number.clone();
    match number.as_f64() {
        Some(1.0) => Ok(()),
        Some(below) if below < 1.0 => Err(EnvelopeError::VersionMismatch { version }),
        _ => Err(EnvelopeError::UnsupportedMetaVersion { version }),
    }
}

fn wrong_type(field: &'static str, expected: &'static str, found: &Value) -> EnvelopeError {
    EnvelopeError::WrongMetaFieldType { field, expected, found: type_name(found) }
}

/// Whether `value` has at most `levels` levels of arrays and objects.
fn fits_depth(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| fits_depth(item, levels - 1)),
        Value::Object(members) => {
            levels > 0 && members.values().all(|member| fits_depth(member, levels - 1))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(envelope: &ToolEnvelope) -> String {
        let block = envelope.to_block().unwrap();
        let json = BASE64.decode(block.strip_prefix(PREFIX).unwrap().as_bytes()).unwrap();
        String::from_utf8(json).unwrap()
    }

    #[test]
    fn to_block_writes_compact_ordered_json() {
        let payload = json!({"b": [1, 2.5, "é ✓ 𝄞"], "a": null});
        let envelope = ToolEnvelope::new(payload, ToolEnvelopeMeta::new("t", 1_750_185_000_007));
        assert_eq!(
            written(&envelope),
            r#"{"payload":{"b":[1,2.5,"é ✓ 𝄞"],"a":null},"meta":{"tool":"t","ts":"2025-06-17T18:30:00.007Z","version":1}}"#
        );
    }

    #[test]
    fn to_block_restores_canonical_order() {
        let cases = [
            (
                json!({"payload": 1, "meta": {"tool": "t", "ts": "once", "version": 1}}),
                r#"{"payload":1,"meta":{"tool":"t","ts":"once","version":1}}"#,
            ),
            (
                json!({"z": 0, "meta": {"y": [], "version": 1.0, "ts": "", "tool": "", "x": {}}, "payload": null}),
                r#"{"payload":null,"meta":{"tool":"","ts":"","version":1,"y":[],"x":{}},"z":0}"#,
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(written(&ToolEnvelope::from_json(json).unwrap()), expected);
        }
    }

    #[test]
    fn to_result_has_two_text_blocks() {
        let envelope = ToolEnvelope::new(json!(true), ToolEnvelopeMeta::new("t", 0));
        let block = envelope.to_block().unwrap();
        let expected = format!(
            r#"{{"content":[{{"type":"text","text":"s"}},{{"type":"text","text":"{block}"}}]}}"#
        );
        assert_eq!(envelope.to_result("s").unwrap().to_string(), expected);
    }

    #[test]
    fn to_block_rejects_too_deep_payload() {
        for (levels, fits) in [(0, true), (MAX_DEPTH - 1, true), (MAX_DEPTH, false), (500, false)] {
            let payload = (0..levels).fold(json!(0), |inner, _| json!([inner]));
            let block = ToolEnvelope::new(payload, ToolEnvelopeMeta::new("t", 0)).to_block();
            assert_eq!(block.is_ok(), fits, "{levels}");
            if let Ok(block) = block {
                crate::tool_envelope::EnvelopeReader::default().read_block(&block).unwrap();
            }
        }
    }
}
