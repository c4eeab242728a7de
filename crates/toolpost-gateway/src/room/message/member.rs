//! The members of an object as they came, each with its text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use toolpost::{Payload, PayloadError};

/// An object whose members are still text, in the order in which they came.
pub(super) struct Members<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// The members of one object; what is `null` counts as absent.
    pub(super) fn read(text: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// A member by its name, taken out.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Members<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((Key(key), value)) = entries.next_entry::<Key<'de>, &'de RawValue>()? {
            if value.get() != "null" {
                members.push((key, value));
            }
        }
        Ok(Members(members))
    }
}

/// A key that is borrowed where it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Checks one JSON document of somebody outside, in which no key stands twice: whoever checks it and
/// whoever acts on it read the same.
pub(super) fn check(text: &str) -> Result<(), PayloadError> {
    Payload::text_from_outside(text.as_bytes()).map(drop)
}

/// The value of a member that is a text.
pub(super) fn text(raw: &RawValue) -> Option<Box<str>> {
    serde_json::from_str(raw.get()).ok()
}

/// A list of texts, as which one text is taken too.
pub(super) fn texts(raw: &RawValue) -> Option<Vec<Box<str>>> {
    match text(raw) {
        Some(one) => Some(vec![one]),
        None => serde_json::from_str(raw.get()).ok(),
    }
}

/// The beginning of a text, for an explanation.
pub(super) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return text.into();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)]).into()
}
