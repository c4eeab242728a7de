//! Results of sources, adapted to the protocol generation of the client.

use std::borrow::Cow;

use serde_json::value::RawValue;
use toolpost::json::RawObject;
use toolpost::view::ProtocolGeneration;
use toolpost::{CallError, Payload};

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

/// Adapts the result of a source to the protocol generation of the client.
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
        ProtocolGeneration::Modern => add_hints(&mut object, hints),
        _ => {
            let before = object.0.len();
            object.0.retain(|(name, _)| !MODERN_MEMBERS.contains(&&**name));
            object.0.len() < before
        }
    };
    if !is_changed {
        return Ok(text.into_owned().into_bytes());
    }
    Ok(serde_json::to_vec(&object).expect("texts are joined"))
}

/// Adds the missing hints and returns whether the object changed. The default lifetime is zero,
/// since a result may change at any time.
pub(super) fn add_hints(object: &mut RawObject<'_>, hints: ResultHints) -> bool {
    let mut is_changed = add_if_missing(object, RESULT_TYPE, r#""complete""#);
    if let ResultHints::Cached(scope) = hints {
        is_changed |= add_if_missing(object, TTL, "0");
        is_changed |= add_if_missing(object, CACHE_SCOPE, PRIVATE);
        let is_private = object.get(CACHE_SCOPE).is_some_and(|scope| scope.get() == PRIVATE);
        if scope == CacheVisibility::Private && !is_private {
            object.set(CACHE_SCOPE, raw(PRIVATE));
            is_changed = true;
        }
    }
    is_changed
}

fn add_if_missing(object: &mut RawObject<'_>, name: &'static str, json: &'static str) -> bool {
    let is_new = object.get(name).is_none();
    if is_new {
        object.set(name, raw(json));
    }
    is_new
}

fn raw(json: &'static str) -> &'static RawValue {
    serde_json::from_str(json).expect("the constants are JSON")
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
