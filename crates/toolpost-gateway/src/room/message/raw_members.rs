//! The members of a JSON object with their raw text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use toolpost::{Payload, PayloadError};

/// An object with unparsed members, in the order received.
pub(super) struct RawMembers<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RawMembers<'a> {
    /// Parses an object; members that are `null` count as absent.
    pub(super) fn parse(text: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// Removes the member with this name and returns its value.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RawMembersVisitor)
    }
}

struct RawMembersVisitor;

impl<'de> Visitor<'de> for RawMembersVisitor {
    type Value = RawMembers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawMembers<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((BorrowedKey(key), value)) =
            entries.next_entry::<BorrowedKey<'de>, &'de RawValue>()?
        {
            if value.get() != "null" {
                members.push((key, value));
            }
        }
        Ok(RawMembers(members))
    }
}

/// An object key, borrowed if it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct BorrowedKey<'a>(#[serde(borrow)] Cow<'a, str>);

/// Validates an untrusted JSON document. Duplicate keys are rejected, so that the gateway and the
/// recipients read the same values.
pub(super) fn check_json(text: &str) -> Result<(), PayloadError> {
    Payload::from_untrusted_text(text.as_bytes()).map(drop)
}

/// Parses a string value.
pub(super) fn parse_string(raw: &RawValue) -> Option<Box<str>> {
    serde_json::from_str(raw.get()).ok()
}

/// Parses a list of strings. A single string is accepted as a list of one.
pub(super) fn parse_strings(raw: &RawValue) -> Option<Vec<Box<str>>> {
    match parse_string(raw) {
        Some(one) => Some(vec![one]),
        None => serde_json::from_str(raw.get()).ok(),
    }
}

/// Truncates a text for an error message.
pub(super) fn truncate(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return text.into();
    }
    format!("{}…", &text[..text.floor_char_boundary(max_bytes)]).into()
}
