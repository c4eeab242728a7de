//! Bytes inside JSON: `{"$binary": base64, "contentType"?, "filename"?}`.

use std::borrow::Cow;

use data_encoding::BASE64;
use serde_json::Value;

use super::super::media;
use super::super::place::Place;
use crate::schema::Issue;

const ANY: &str = "application/octet-stream";

/// An object that stands for bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Binary<'v> {
    encoded: &'v str,
    pub(super) content_type: Option<&'v str>,
    pub(super) filename: Option<&'v str>,
}

impl<'v> Binary<'v> {
    pub(super) fn of(value: &'v Value) -> Option<Self> {
        let members = value.as_object()?;
        let member = |name: &str| members.get(name).and_then(Value::as_str);
        let (content_type, filename) = (member("contentType"), member("filename"));
        Some(Self { encoded: member("$binary")?, content_type, filename })
    }

    pub(super) fn decode(&self, place: &Place<'_>) -> Result<Vec<u8>, Issue> {
        decode(self.encoded, &place.member("$binary"))
    }

    /// Whether it says to be of a type.
    pub(super) fn is(&self, declared: &str) -> bool {
        self.content_type.is_some_and(|stated| media::covers(declared, stated))
    }

    /// What it is sent as: as declared, and where that is open, as it says itself.
    pub(super) fn sent_as<'t>(
        &'t self,
        declared: &'t str,
        place: &Place<'_>,
    ) -> Result<Cow<'t, str>, Issue> {
        if media::is_valid(declared) && !media::is_range(declared) {
            return Ok(declared.into());
        }
        Ok(self
            .stated(place)?
            .filter(|stated| media::covers(declared, stated))
            .unwrap_or(ANY)
            .into())
    }

    /// The type that it says it has, which has to be one.
    pub(super) fn stated(&self, place: &Place<'_>) -> Result<Option<&'v str>, Issue> {
        let is_type = |stated: &str| media::is_valid(stated) && !media::is_range(stated);
        match self.content_type {
            Some(stated) if !is_type(stated) => {
                Err(place.member("contentType").issue("it is no media type such as `image/png`"))
            }
            stated => Ok(stated),
        }
    }
}

/// Strict base64: the standard alphabet, padded, and padding only at the end.
pub(super) fn decode(encoded: &str, place: &Place<'_>) -> Result<Vec<u8>, Issue> {
    // The crate reads padded pieces one after another as one text.
    let unpadded = &encoded.as_bytes()[..encoded.len().saturating_sub(2)];
    if let Some(at) = memchr::memchr(b'=', unpadded) {
        return Err(place.issue(format!("it is no base64: the padding ends at character {at}")));
    }
    BASE64.decode(encoded.as_bytes()).map_err(|error| {
        let problem = match error.kind {
            data_encoding::DecodeKind::Length => "its length is no multiple of 4".to_owned(),
            _ => format!("character {} does not belong there", error.position),
        };
        place.issue(format!("it is no base64 (standard alphabet, padded): {problem}"))
    })
}
