//! Media types: how a body of a type is encoded and decoded, and which types a range includes.

use reqwest::header::{CONTENT_TYPE, HeaderMap};

/// Kind of a body, by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaKind {
    /// `application/json` and `+json`.
    Json,
    /// One JSON value per line.
    JsonLines,
    /// JSON values, each after a record separator (RFC 7464).
    JsonSequence,
    /// `application/x-www-form-urlencoded`.
    Form,
    /// `multipart/*`.
    Multipart,
    /// `text/event-stream`.
    EventStream,
    /// `text/*` and other text types, such as XML.
    Text,
    /// Any other type. In JSON, a value is a `$binary` object.
    Binary,
    /// There is no media type.
    Unknown,
}

impl MediaKind {
    pub(crate) fn from_content_type(content_type: &str) -> Self {
        let essence = essence(content_type).to_ascii_lowercase();
        let (kind, subtype) = essence.split_once('/').unwrap_or((&essence, ""));
        let suffix = subtype.rsplit_once('+').map_or("", |(_, suffix)| suffix);
        match (kind, subtype, suffix) {
            ("", ..) => Self::Unknown,
            ("multipart", ..) => Self::Multipart,
            ("text", "event-stream", _) => Self::EventStream,
            ("application", "x-www-form-urlencoded", _) => Self::Form,
            (_, "jsonl" | "x-jsonl" | "json-lines" | "jsonlines" | "x-jsonlines", _)
            | (_, "ndjson" | "x-ndjson", _) => Self::JsonLines,
            (_, "json-seq", _) | (.., "json-seq") => Self::JsonSequence,
            (_, "json" | "x-json", _) | (.., "json") => Self::Json,
            ("text", ..) | (.., "xml" | "yaml") => Self::Text,
            ("application", subtype, _) if TEXT_SUBTYPES.contains(&subtype) => Self::Text,
            // Only text types have a charset.
            _ if parameter(content_type, "charset").is_some() => Self::Text,
            _ => Self::Binary,
        }
    }

    /// Returns the kind in which a value is sent. A range that includes JSON counts as JSON.
    pub(crate) fn of_request(media_type: &str) -> Self {
        match &*essence(media_type).to_ascii_lowercase() {
            "*/*" | "application/*" => Self::Json,
            _ => match Self::from_content_type(media_type) {
                Self::EventStream => Self::Text,
                Self::Unknown => Self::Binary,
                kind => kind,
            },
        }
    }

    /// Whether a body of this kind is a sequence of values that can be streamed.
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Self::EventStream) || self.is_json_list()
    }

    /// Whether a body of this kind is a sequence of JSON values.
    pub(crate) fn is_json_list(self) -> bool {
        matches!(self, Self::JsonLines | Self::JsonSequence)
    }
}

/// Subtypes of `application/*` that are text.
const TEXT_SUBTYPES: [&str; 16] = [
    "csv",
    "ecmascript",
    "graphql",
    "javascript",
    "jose",
    "jwt",
    "pgp-signature",
    "sdp",
    "sql",
    "toml",
    "x-pem-file",
    "x-sh",
    "x-yaml",
    "xml",
    "xml-dtd",
    "yaml",
];

/// Returns the preference of a media type for requests. Lower is better.
pub(crate) fn rank(media_type: &str) -> u8 {
    match MediaKind::of_request(media_type) {
        MediaKind::Json if essence(media_type).eq_ignore_ascii_case("application/json") => 0,
        MediaKind::Json => 1,
        MediaKind::JsonLines | MediaKind::JsonSequence => 2,
        MediaKind::Form => 3,
        MediaKind::Multipart => 4,
        MediaKind::Text | MediaKind::EventStream => 5,
        MediaKind::Binary | MediaKind::Unknown => 6,
    }
}

/// Returns the `Content-Type` header; empty if there is none.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

/// Returns the media type without parameters.
pub(crate) fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

/// Whether a media type is one that can be sent: valid in a header, and not a range.
pub(crate) fn is_concrete(media_type: &str) -> bool {
    is_valid(media_type) && !is_range(media_type)
}

/// Whether a media type is valid in a header: `text/plain`, `image/*; q=1`.
pub(crate) fn is_valid(media_type: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let is_written = media_type.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let parts = essence(media_type).split_once('/');
    is_written && parts.is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

/// Whether a media type contains a wildcard.
pub(crate) fn is_range(media_type: &str) -> bool {
    essence(media_type).contains('*')
}

/// Whether a media type or range includes another media type.
pub(crate) fn covers(range: &str, media_type: &str) -> bool {
    let (range, media_type) = (essence(range), essence(media_type));
    match range.split_once('/') {
        Some(("*", "*")) => true,
        Some((kind, "*")) => {
            let own = media_type.split('/').next().unwrap_or_default();
            own.eq_ignore_ascii_case(kind)
        }
        _ => range.eq_ignore_ascii_case(media_type),
    }
}

/// Whether a media type is JSON: `application/json`, `text/json` or a `+json` suffix.
pub(crate) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type).to_ascii_lowercase();
    essence == "application/json" || essence == "text/json" || essence.ends_with("+json")
}

/// Returns the value of a parameter without quotes.
pub(crate) fn parameter<'m>(media_type: &'m str, name: &str) -> Option<&'m str> {
    let mut parameters = media_type.split(';').skip(1).filter_map(|piece| piece.split_once('='));
    let (_, value) = parameters.find(|(key, _)| key.trim().eq_ignore_ascii_case(name))?;
    Some(value.trim().trim_matches(['"', '\'']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_map_to_kinds() {
        use MediaKind::{
            Binary, EventStream, Form, Json, JsonLines, JsonSequence, Multipart, Text, Unknown,
        };
        let rows = [
            ("application/json", Json),
            ("Application/JSON; charset=utf-8", Json),
            ("application/problem+json", Json),
            ("application/vnd.api.v2+json;x=y", Json),
            ("application/*+json", Json),
            ("text/json", Json),
            ("application/x-ndjson", JsonLines),
            ("application/jsonl", JsonLines),
            ("application/json-seq", JsonSequence),
            ("application/geo+json-seq", JsonSequence),
            ("application/x-www-form-urlencoded", Form),
            ("multipart/form-data", Multipart),
            ("multipart/mixed; boundary=x", Multipart),
            ("text/event-stream;charset=utf-8", EventStream),
            ("text/plain", Text),
            ("text/*", Text),
            ("text/html; charset=latin1", Text),
            ("image/svg+xml", Text),
            ("application/xml", Text),
            ("application/yaml", Text),
            ("application/x-thing; charset=utf-8", Text),
            ("image/png", Binary),
            ("image/*", Binary),
            ("application/pdf", Binary),
            ("application/octet-stream", Binary),
            ("application/jsonpath", Binary),
            ("nonsense", Binary),
            ("", Unknown),
            (" ; charset=utf-8", Unknown),
        ];
        for (text, expected) in rows {
            assert_eq!(MediaKind::from_content_type(text), expected, "{text}");
        }
        for (text, expected) in [
            ("*/*", Json),
            ("application/*", Json),
            ("image/*", Binary),
            ("text/event-stream", Text),
            ("", Binary),
        ] {
            assert_eq!(MediaKind::of_request(text), expected, "{text}");
        }
    }

    #[test]
    fn media_types_are_classified() {
        let rows = [
            // Each row: a media type; whether it is valid, a range, JSON, and included in
            // `image/*`.
            ("application/json", true, false, true, false),
            ("Application/Problem+JSON; charset=utf-8", true, false, true, false),
            ("image/*", true, true, false, true),
            ("IMAGE/png", true, false, false, true),
            ("*/*", true, true, false, false),
            ("json", false, false, false, false),
            ("text/", false, false, false, false),
            ("text/plain\r\nx: y", false, false, false, false),
            ("", false, false, false, false),
        ];
        for (text, valid, range, json, image) in rows {
            let found = (is_valid(text), is_range(text), is_json(text), covers("image/*", text));
            assert_eq!(found, (valid, range, json, image), "{text}");
        }
        assert!(covers("*/*", "a/b") && covers("a/B;x=y", "A/b") && !covers("a/b", "a/c"));
        assert_eq!(parameter("text/x; a=b; Charset=\"utf-8\"", "charset"), Some("utf-8"));
    }
}
