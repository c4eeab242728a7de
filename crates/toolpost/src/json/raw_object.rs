//! JSON objects with unparsed members.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// The members of a JSON object in order, with unparsed values. Duplicate names are kept; the last
/// one counts, as in most JSON parsers.
///
/// # Examples
///
/// ```
/// let mut object = toolpost::json::RawObject::parse(r#"{"a": [ 1.0 ], "b": {}}"#)?;
/// assert_eq!(object.take("b").map(|raw| raw.get()), Some("{}"));
/// assert_eq!(serde_json::to_string(&object)?, r#"{"a":[ 1.0 ]}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct RawObject<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RawObject<'a> {
    /// Parses an object.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a JSON object with readable member names.
    pub fn parse(text: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// Removes the members that are `null`, for formats in which they count as absent.
    #[must_use]
    pub fn without_nulls(mut self) -> Self {
        self.0.retain(|(_, value)| value.get() != "null");
        self
    }

    /// Returns the value of a member.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.position(name).map(|at| self.0[at].1)
    }

    /// Removes a member and returns its value.
    pub fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        self.position(name).map(|at| self.0.remove(at).1)
    }

    /// Sets the value of a member, or adds the member.
    pub fn set(&mut self, name: impl Into<Cow<'a, str>>, value: &'a RawValue) {
        let name = name.into();
        match self.position(&name) {
            Some(at) => self.0[at].1 = value,
            None => self.0.push((name, value)),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().rposition(|(member, _)| member == name)
    }
}

impl Serialize for RawObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RawObjectVisitor)
    }
}

struct RawObjectVisitor;

impl<'de> Visitor<'de> for RawObjectVisitor {
    type Value = RawObject<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((MemberName(name), value)) = map.next_entry()? {
            members.push((name, value));
        }
        Ok(RawObject(members))
    }
}

/// A member name, borrowed if it has no escapes.
#[derive(Deserialize)]
pub(crate) struct MemberName<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_object_keeps_text_order_and_duplicates() {
        let text = r#"{"a":1.50,"n":null,"a":[ 2 ],"\u00e9\"":{"x" : 1}}"#;
        let mut object = RawObject::parse(text).unwrap();
        assert!(matches!(object.0[0].0, Cow::Borrowed("a")));
        assert_eq!(object.get("a").unwrap().get(), "[ 2 ]");
        object.set("é\"", object.0[0].1);
        object.set("new", RawValue::TRUE);
        let json = serde_json::to_string(&object).unwrap();
        assert_eq!(json, r#"{"a":1.50,"n":null,"a":[ 2 ],"é\"":1.50,"new":true}"#);
        let mut object = object.without_nulls();
        assert!(object.get("n").is_none());
        assert_eq!(object.take("a").unwrap().get(), "[ 2 ]");
        assert_eq!(object.take("a").unwrap().get(), "1.50");
        assert!(object.take("a").is_none());
        for wrong in ["[]", "1", "null", "{", r#"{"\ud83d":1}"#] {
            assert!(RawObject::parse(wrong).is_err(), "{wrong}");
        }
    }
}
