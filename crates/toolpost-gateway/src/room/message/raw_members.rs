//! The members of an object as they came, each with its text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use toolpost::{Payload, PayloadError};

/// An object whose members are still text, in the order in which they came.
pub(super) struct RawMembers<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RawMembers<'a> {
    /// The members of one object; what is `null` counts as absent.
    pub(super) fn parse(text: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// A member by its name, taken out.
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

/// A key that is borrowed where it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct BorrowedKey<'a>(#[serde(borrow)] Cow<'a, str>);

/// Checks one JSON document of somebody outside, in which no key stands twice: whoever checks it and
/// whoever acts on it read the same.
pub(super) fn check_json(text: &str) -> Result<(), PayloadError> {
    Payload::from_untrusted_text(text.as_bytes()).map(drop)
}

/// The value of a member that is a text.
pub(super) fn parse_string(raw: &RawValue) -> Option<Box<str>> {
    serde_json::from_str(raw.get()).ok()
}

/// A list of texts, as which one text is taken too.
pub(super) fn parse_strings(raw: &RawValue) -> Option<Vec<Box<str>>> {
    match parse_string(raw) {
        Some(one) => Some(vec![one]),
        None => serde_json::from_str(raw.get()).ok(),
    }
}

/// The beginning of a text, for an explanation.
pub(super) fn truncate(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return text.into();
    }
    format!("{}…", &text[..text.floor_char_boundary(max_bytes)]).into()
}
