//! Media types and the encodings they select.

use super::super::plan::ContentKind;

/// Returns the content kind of a media type. A range that includes JSON counts as JSON.
pub(super) fn content_kind(media_type: &str) -> ContentKind {
    let essence = essence(media_type);
    let (family, kind) = essence.split_once('/').unwrap_or((&essence, ""));
    match (family, kind) {
        ("multipart", _) => ContentKind::Multipart,
        ("application", "x-www-form-urlencoded") => ContentKind::Form,
        (_, "json") | ("*" | "application", "*") => ContentKind::Json,
        (
            "application",
            "jsonl" | "x-jsonl" | "json-lines" | "x-ndjson" | "ndjson" | "json-seq",
        ) => ContentKind::JsonLines,
        (_, kind) if kind.ends_with("+json") => ContentKind::Json,
        (_, kind) if kind.ends_with("+json-seq") => ContentKind::JsonLines,
        ("text", _) => ContentKind::Text,
        ("application", kind) if is_text(kind) => ContentKind::Text,
        (_, kind) if kind.ends_with("+xml") || kind.ends_with("+yaml") => ContentKind::Text,
        _ => ContentKind::Binary,
    }
}

fn is_text(kind: &str) -> bool {
    matches!(
        kind,
        "xml"
            | "yaml"
            | "x-yaml"
            | "javascript"
            | "ecmascript"
            | "graphql"
            | "toml"
            | "sql"
            | "csv"
            | "xml-dtd"
            | "jwt"
            | "jose"
            | "pgp-signature"
            | "x-pem-file"
            | "sdp"
    )
}

/// Returns the media type without parameters, in lower case.
pub(super) fn essence(media_type: &str) -> String {
    let essence = media_type.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

pub(super) fn is_event_stream(media_type: &str) -> bool {
    essence(media_type) == "text/event-stream"
}

/// Returns the preference of a media type. Lower is better.
pub(super) fn rank(media_type: &str) -> u8 {
    match content_kind(media_type) {
        ContentKind::Json if essence(media_type) == "application/json" => 0,
        ContentKind::Json => 1,
        ContentKind::JsonLines => 2,
        ContentKind::Form => 3,
        ContentKind::Multipart => 4,
        ContentKind::Text => 5,
        ContentKind::Binary => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_map_to_content_kinds() {
        use ContentKind::{Binary, Form, Json, JsonLines, Multipart, Text};
        for (media_type, expected) in [
            ("application/json", Json),
            ("Application/JSON; charset=utf-8", Json),
            ("application/problem+json", Json),
            ("application/*+json", Json),
            ("text/json", Json),
            ("*/*", Json),
            ("application/*", Json),
            ("application/x-ndjson", JsonLines),
            ("application/geo+json-seq", JsonLines),
            ("application/x-www-form-urlencoded", Form),
            ("multipart/form-data", Multipart),
            ("multipart/mixed; boundary=x", Multipart),
            ("text/plain", Text),
            ("text/*", Text),
            ("application/xml", Text),
            ("image/svg+xml", Text),
            ("application/yaml", Text),
            ("image/*", Binary),
            ("application/octet-stream", Binary),
            ("application/pdf", Binary),
            ("", Binary),
        ] {
            assert_eq!(content_kind(media_type), expected, "{media_type}");
        }
    }
}
