//! Binary data in JSON: `{"$binary": base64, "contentType"?, "filename"?}`.

use std::borrow::Cow;

use data_encoding::BASE64;
use serde_json::Value;

use super::super::media_type;
use super::super::plan::{Parameter, ParameterSerialization};
use crate::json::ValuePath;
use crate::schema::Issue;

pub(super) const OCTET_STREAM: &str = "application/octet-stream";

/// Ends the message about a value that must be a `$binary` object.
pub(super) const BINARY_HINT: &str = "; pass bytes as {\"$binary\": \"<base64>\"}";

/// A `$binary` object.
#[derive(Debug, Clone, Copy)]
pub(super) struct BinaryValue<'v> {
    encoded: &'v str,
    pub(super) content_type: Option<&'v str>,
    pub(super) filename: Option<&'v str>,
}

impl<'v> BinaryValue<'v> {
    pub(super) fn from_value(value: &'v Value) -> Option<Self> {
        let members = value.as_object()?;
        let member = |name: &str| members.get(name).and_then(Value::as_str);
        let (content_type, filename) = (member("contentType"), member("filename"));
        Some(Self { encoded: member("$binary")?, content_type, filename })
    }

    pub(super) fn decode(&self, path: &ValuePath<'_>) -> Result<Vec<u8>, Issue> {
        decode_base64(self.encoded, &path.member("$binary"))
    }

    /// Whether the stated content type matches a declared type or range.
    pub(super) fn has_type(&self, declared: &str) -> bool {
        self.content_type.is_some_and(|stated| media_type::covers(declared, stated))
    }

    /// Returns the content type to send: the declared type, or the stated one for a range.
    pub(super) fn content_type_for<'t>(
        &'t self,
        declared: &'t str,
        path: &ValuePath<'_>,
    ) -> Result<Cow<'t, str>, Issue> {
        if media_type::is_concrete(declared) {
            return Ok(declared.into());
        }
        Ok(self
            .declared_type(path)?
            .filter(|stated| media_type::covers(declared, stated))
            .unwrap_or(OCTET_STREAM)
            .into())
    }

    /// Returns the stated content type, which must be a valid media type.
    pub(super) fn declared_type(&self, path: &ValuePath<'_>) -> Result<Option<&'v str>, Issue> {
        match self.content_type {
            Some(stated) if !media_type::is_concrete(stated) => {
                Err(path.member("contentType").issue("expected a media type such as `image/png`"))
            }
            stated => Ok(stated),
        }
    }
}

/// Whether a value is a `$binary` object or an array that contains one.
pub(super) fn contains_binary(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| BinaryValue::from_value(item).is_some()),
        one => BinaryValue::from_value(one).is_some(),
    }
}

/// Returns the bytes of a parameter, if its value is a `$binary` object. In JSON, it is an object.
pub(super) fn parameter_bytes(
    parameter: &Parameter,
    value: &Value,
) -> Result<Option<Vec<u8>>, Issue> {
    let is_json = matches!(&parameter.serialization,
        ParameterSerialization::Content(media_type) if media_type::is_json(media_type));
    let binary = BinaryValue::from_value(value).filter(|_| !is_json);
    binary.map(|binary| binary.decode(&ValuePath::ROOT.member(&parameter.input))).transpose()
}

/// Decodes strict base64: standard alphabet, padded, with padding only at the end.
fn decode_base64(encoded: &str, path: &ValuePath<'_>) -> Result<Vec<u8>, Issue> {
    // The decoder accepts concatenated padded texts, so padding before the end is rejected here.
    let unpadded = &encoded.as_bytes()[..encoded.len().saturating_sub(2)];
    if let Some(at) = memchr::memchr(b'=', unpadded) {
        return Err(path.issue(format!("invalid base64: the padding ends at character {at}")));
    }
    BASE64.decode(encoded.as_bytes()).map_err(|error| {
        let problem = match error.kind {
            data_encoding::DecodeKind::Length => "its length is not a multiple of 4".to_owned(),
            _ => format!("character {} is invalid", error.position),
        };
        path.issue(format!("invalid base64 (standard alphabet, padded): {problem}"))
    })
}
