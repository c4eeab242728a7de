//! Conversion between a tool result and readable JSON, `{payload, meta, summary}`.

use serde_json::{Map, Value, json};

use super::reader::block_text;
use super::{
    ERROR_TOOL, EnvelopeError, EnvelopeReader, EnvelopeResult, ErrorPayload, Fallback,
    ToolEnvelope, ToolEnvelopeMeta, WriteError,
};
use crate::json::JsonObject;
use crate::schema::type_name;

/// Error returned when readable JSON cannot be encoded as a tool result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The JSON is not an object.
    #[error("expected an object with `payload`, `meta` and `summary`, found {found}")]
    NotAnObject {
        /// JSON type that was found.
        found: &'static str,
    },
    /// A required member is missing.
    #[error("`{member}` is missing")]
    Missing {
        /// Name of the member.
        member: &'static str,
    },
    /// A member has the wrong type.
    #[error("`{member}` must be {expected}, found {found}")]
    WrongType {
        /// Name of the member.
        member: &'static str,
        /// Expected JSON type, with its article.
        expected: &'static str,
        /// JSON type that was found.
        found: &'static str,
    },
    /// A member is unknown and would be lost.
    #[error("unknown member `{name}`")]
    UnknownMember {
        /// Name of the member.
        name: String,
    },
    /// `extra` contains a member that the envelope itself defines.
    #[error("`extra.{name}` is a member of the envelope itself")]
    ReservedMember {
        /// Name of the member, `payload` or `meta`.
        name: &'static str,
    },
    /// `meta` is not valid envelope metadata.
    #[error(transparent)]
    Meta(EnvelopeError),
    /// The envelope cannot be serialized.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Decodes a tool result, a text block or the text of a block into `{payload, meta, summary}`.
///
/// A single block has no summary; the result then has an empty one. `isError` is added only if it
/// differs from what [`encode`] would set, and `extra` only if the envelope has members other than
/// `payload` and `meta`. Encoding restores the tool result, byte for byte if it was written by a
/// strict writer. Members of the result other than `content` and `isError` are not preserved.
///
/// # Errors
///
/// Returns the text of block 0 and the reason if there is no envelope.
pub fn decode<'a>(reader: &EnvelopeReader, input: &'a str) -> Result<Value, Fallback<'a>> {
    if !input.trim_start().starts_with(['{', '"']) {
        return decode_block(reader, input);
    }
    let parsed = serde_json::from_str(input);
    let json: Value = parsed
        .map_err(|source| Fallback::new(Some(input), EnvelopeError::ResultNotJson { source }))?;
    match json.as_str().or_else(|| block_text(&json)) {
        Some(text) => decode_block(reader, text).map_err(Fallback::into_owned),
        None => reader.read_result(&json).map(to_readable).map_err(Fallback::into_owned),
    }
}

/// Encodes `{payload, meta, summary}` as a tool result.
///
/// Unless the input sets it, `isError` is present for an error of the tool `mcp`.
///
/// # Errors
///
/// Returns an error if a member is missing, has the wrong type or is unknown.
pub fn encode(json: Value) -> Result<Value, EncodeError> {
    let Value::Object(mut members) = json else {
        return Err(EncodeError::NotAnObject { found: type_name(&json) });
    };
    let payload = take(&mut members, "payload")?;
    let meta =
        ToolEnvelopeMeta::from_json(take(&mut members, "meta")?).map_err(EncodeError::Meta)?;
    let summary = match take(&mut members, "summary")? {
        Value::String(text) => text,
        other => return Err(wrong_type("summary", "a string", &other)),
    };
    let is_error = members.shift_remove("isError").as_ref().map(parse_is_error).transpose()?;
    let extra = members.shift_remove("extra").map_or_else(|| Ok(Map::new()), parse_extra)?;
    if let Some((name, _)) = members.into_iter().next() {
        return Err(EncodeError::UnknownMember { name });
    }
    let is_error = is_error.or_else(|| implied_error(&payload, &meta));
    let mut result = ToolEnvelope { payload, meta, extra }.to_result(summary)?;
    if let Some(is_error) = is_error {
        result["isError"] = Value::Bool(is_error);
    }
    Ok(result)
}

fn decode_block<'a>(reader: &EnvelopeReader, text: &'a str) -> Result<Value, Fallback<'a>> {
    let envelope = reader.read_block(text).map_err(|reason| Fallback::new(Some(text), reason))?;
    let is_error = implied_error(&envelope.payload, &envelope.meta);
    Ok(to_readable(EnvelopeResult { envelope, summary: "", is_error }))
}

fn to_readable(result: EnvelopeResult<'_>) -> Value {
    let EnvelopeResult { envelope: ToolEnvelope { payload, meta, extra }, summary, .. } = result;
    let implied = implied_error(&payload, &meta);
    let mut json = json!({"payload": payload, "meta": meta, "summary": summary});
    if result.is_error != implied {
        json["isError"] = result.is_error.unwrap_or(false).into();
    }
    if !extra.is_empty() {
        json["extra"] = extra.into();
    }
    json
}

/// Returns the default of `isError`: `true` for errors of the tool `mcp`, absent otherwise.
fn implied_error(payload: &Value, meta: &ToolEnvelopeMeta) -> Option<bool> {
    (meta.tool() == ERROR_TOOL && ErrorPayload::read(payload).is_ok()).then_some(true)
}

fn take(members: &mut JsonObject, member: &'static str) -> Result<Value, EncodeError> {
    members.shift_remove(member).ok_or(EncodeError::Missing { member })
}

fn parse_is_error(is_error: &Value) -> Result<bool, EncodeError> {
    is_error.as_bool().ok_or_else(|| wrong_type("isError", "a boolean", is_error))
}

fn parse_extra(extra: Value) -> Result<JsonObject, EncodeError> {
    let Value::Object(members) = extra else {
        return Err(wrong_type("extra", "an object", &extra));
    };
    match ["payload", "meta"].into_iter().find(|name| members.contains_key(*name)) {
        Some(name) => Err(EncodeError::ReservedMember { name }),
        None => Ok(members),
    }
}

fn wrong_type(member: &'static str, expected: &'static str, found: &Value) -> EncodeError {
    EncodeError::WrongType { member, expected, found: type_name(found) }
}

#[cfg(test)]
mod tests;
