//! Bytes in an envelope: data of the form `{"$binary": base64, "contentType", "size"}`.

use std::borrow::Cow;

use serde::Deserialize;

use super::{Envelope, Meta};
use crate::payload::Payload;

#[derive(Deserialize)]
struct BinaryData<'a> {
    #[serde(rename = "$binary", borrow)]
    encoded: Cow<'a, str>,
}

impl Envelope<Payload> {
    /// Returns the media type and the base64 text of a binary response of an HTTP service.
    pub fn binary(&self) -> Option<(&str, Cow<'_, str>)> {
        let Meta::Http(meta) = &self.meta else { return None };
        let media_type = meta.content_type.split(';').next().unwrap_or_default().trim();
        let encoded = match (self.data.as_value(), self.data.as_raw()) {
            (Some(value), _) => value.get("$binary")?.as_str()?.into(),
            (None, raw) => serde_json::from_str::<BinaryData<'_>>(raw?.get()).ok()?.encoded,
        };
        Some((media_type, encoded))
    }
}
