//! JSON objects with unparsed members, and their adaptation to the protocol generation of the
//! client.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use toolpost::view::ProtocolGeneration;
use toolpost::{CallError, Payload};

/// The members of a JSON object in order, with unparsed values.
#[derive(Debug, Default)]
pub(super) struct RawObject<'a>(Vec<(String, &'a str)>);

/// Members that are added to results for clients from 2026-07-28 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultHints {
    /// The result type: complete.
    Complete,
    /// The cache lifetime and scope in addition.
    Cached(CacheVisibility),
}

/// Cache scope of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheVisibility {
    /// As declared by the server.
    FromSource,
    /// Only the caller may cache the result: other callers may lack access.
    Private,
}

const RESULT_TYPE: &str = "resultType";
const TTL: &str = "ttlMs";
const CACHE_SCOPE: &str = "cacheScope";
/// Members that exist only from 2026-07-28 on.
const MODERN_MEMBERS: [&str; 3] = [RESULT_TYPE, TTL, CACHE_SCOPE];
const PRIVATE: &str = r#""private""#;

/// Returns a payload as JSON text, without a copy if it is text already.
pub(super) fn payload_json(payload: &Payload) -> Cow<'_, str> {
    match payload.as_raw() {
        Some(raw) => Cow::Borrowed(raw.get()),
        None => Cow::Owned(serde_json::to_string(payload).expect("a tree is JSON")),
    }
}

/// Adapts the result of a source to the protocol generation of the client. Other members are
/// unchanged.
pub(super) fn adapt_result(
    text: Cow<'_, str>,
    generation: ProtocolGeneration,
    hints: ResultHints,
) -> Result<Vec<u8>, CallError> {
    if !text.starts_with('{') {
        return Err(CallError::execution("the source returned an invalid result"));
    }
    // An object with an unreadable member name, such as a lone surrogate, is treated as empty.
    let mut object = RawObject::parse(&text).unwrap_or_default();
    let is_changed = match generation {
        ProtocolGeneration::Modern => object.add_hints(hints),
        _ => object.remove(&MODERN_MEMBERS),
    };
    Ok(if is_changed { object.to_vec() } else { text.into_owned().into_bytes() })
}

impl<'a> RawObject<'a> {
    /// Parses a JSON object; `None` if the text is not a valid object.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns the value of a member. Of duplicates, the last one counts, as in most JSON parsers.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rfind(|(member, _)| member == name).map(|(_, value)| *value)
    }

    /// Sets the value of a member, or adds the member.
    pub(super) fn set(&mut self, name: &str, json: &'a str) {
        match self.0.iter_mut().rfind(|(member, _)| member == name) {
            Some((_, value)) => *value = json,
            None => self.0.push((name.to_owned(), json)),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let length: usize = self.0.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        out.reserve(length + 2);
        out.push(b'{');
        for (index, (name, value)) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            append_json(out, name);
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
        out.push(b'}');
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// Adds the missing hints and returns whether the object changed. The default lifetime is zero,
    /// since a result may change at any time.
    pub(super) fn add_hints(&mut self, hints: ResultHints) -> bool {
        let mut is_changed = self.add_if_missing(RESULT_TYPE, r#""complete""#);
        if let ResultHints::Cached(scope) = hints {
            is_changed |= self.add_if_missing(TTL, "0");
            is_changed |= self.add_if_missing(CACHE_SCOPE, PRIVATE);
            if scope == CacheVisibility::Private && self.get(CACHE_SCOPE) != Some(PRIVATE) {
                self.set(CACHE_SCOPE, PRIVATE);
                is_changed = true;
            }
        }
        is_changed
    }

    fn add_if_missing(&mut self, name: &str, json: &'a str) -> bool {
        let is_new = self.get(name).is_none();
        if is_new {
            self.0.push((name.to_owned(), json));
        }
        is_new
    }

    fn remove(&mut self, names: &[&str]) -> bool {
        let before = self.0.len();
        self.0.retain(|(name, _)| !names.contains(&name.as_str()));
        self.0.len() < before
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = RawObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    members.push((name, value.get()));
                }
                Ok(RawObject(members))
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}

/// Appends a value as JSON.
pub(super) fn append_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("what is written here has a JSON form");
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: ResultHints = ResultHints::Complete;
    const CACHED: ResultHints = ResultHints::Cached(CacheVisibility::FromSource);
    const CACHED_PRIVATE: ResultHints = ResultHints::Cached(CacheVisibility::Private);

    #[test]
    fn result_members_match_protocol_generation() {
        use ProtocolGeneration::{Legacy, Modern};
        let complete = r#"{ "a" :  1.50 , "resultType":"complete"}"#;
        let public = r#"{"a":1,"resultType":"complete","ttlMs":9,"cacheScope":"public"}"#;
        for (text, generation, hints, expected) in [
            (r#"{ "a" :  1.50 }"#, Legacy, CACHED, r#"{ "a" :  1.50 }"#),
            (r#"{"\ud83d":1}"#, Legacy, PLAIN, r#"{"\ud83d":1}"#),
            (complete, Legacy, PLAIN, r#"{"a":1.50}"#),
            (public, Legacy, CACHED, r#"{"a":1}"#),
            (complete, Modern, PLAIN, complete),
            (public, Modern, CACHED, public),
            (
                public,
                Modern,
                CACHED_PRIVATE,
                r#"{"a":1,"resultType":"complete","ttlMs":9,"cacheScope":"private"}"#,
            ),
            ("{}", Modern, PLAIN, r#"{"resultType":"complete"}"#),
            (
                r#"{"a":[ 1e2 ],"ttlMs":7}"#,
                Modern,
                CACHED,
                r#"{"a":[ 1e2 ],"ttlMs":7,"resultType":"complete","cacheScope":"private"}"#,
            ),
            (
                r#"{"new \"line\"\n":{}}"#,
                Modern,
                PLAIN,
                r#"{"new \"line\"\n":{},"resultType":"complete"}"#,
            ),
        ] {
            let written = adapt_result(text.into(), generation, hints).unwrap();
            assert_eq!(
                String::from_utf8(written).unwrap(),
                expected,
                "{text} {generation:?} {hints:?}"
            );
        }
        for text in ["[]", "1", r#""{""#, "null"] {
            assert!(adapt_result(text.into(), Legacy, PLAIN).is_err(), "{text}");
        }
    }

    #[test]
    fn deeply_nested_result_passes_through() {
        let text = format!(r#"{{"a":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        let written =
            adapt_result(text.as_str().into(), ProtocolGeneration::Modern, PLAIN).unwrap();
        assert_eq!(written.len(), text.len() + r#","resultType":"complete""#.len());
    }
}
