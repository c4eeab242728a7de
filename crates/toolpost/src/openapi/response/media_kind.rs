//! Media types of responses.

/// Kind of a body, by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaKind {
    /// `application/json` and `+json`.
    Json,
    /// `text/*` and other readable types.
    Text,
    /// `text/event-stream`.
    EventStream,
    /// One JSON value per line.
    JsonLines,
    /// JSON values, each after a record separator.
    JsonSequence,
    /// Any other type.
    Binary,
    /// The response has no content type.
    Unknown,
}

impl MediaKind {
    pub(crate) fn from_content_type(content_type: &str) -> Self {
        let essence = essence(content_type).to_ascii_lowercase();
        let (kind, subtype) = essence.split_once('/').unwrap_or((&essence, ""));
        let suffix = subtype.rsplit_once('+').map(|(_, suffix)| suffix);
        match (kind, subtype) {
            ("", _) => Self::Unknown,
            ("text", "event-stream") => Self::EventStream,
            (_, "jsonl" | "x-jsonl" | "x-ndjson" | "ndjson" | "jsonlines" | "x-jsonlines") => {
                Self::JsonLines
            }
            (_, "json-seq") => Self::JsonSequence,
            _ if suffix == Some("json-seq") => Self::JsonSequence,
            (_, "json" | "x-json") => Self::Json,
            _ if suffix == Some("json") => Self::Json,
            ("text", _) => Self::Text,
            _ if matches!(suffix, Some("xml" | "yaml")) => Self::Text,
            (
                "application",
                "xml" | "yaml" | "x-yaml" | "javascript" | "ecmascript" | "graphql",
            )
            | ("application", "toml" | "x-www-form-urlencoded" | "sql" | "x-sh" | "csv") => {
                Self::Text
            }
            // Only text types have a charset.
            _ if charset(content_type).is_some() => Self::Text,
            _ => Self::Binary,
        }
    }

    /// Whether a body of this kind is a sequence of values that can be streamed.
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Self::EventStream | Self::JsonLines | Self::JsonSequence)
    }
}

/// Returns the content type without parameters.
pub(crate) fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Returns the `charset` parameter of a content type.
pub(super) fn charset(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').skip(1).filter_map(|piece| piece.split_once('='));
    let (_, value) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Some(value.trim().trim_matches(['"', '\'']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_map_to_media_kinds() {
        use MediaKind::{Binary, EventStream, Json, JsonLines, JsonSequence, Text, Unknown};
        let rows = [
            ("application/json", Json),
            ("Application/JSON; charset=utf-8", Json),
            ("application/problem+json", Json),
            ("application/vnd.api.v2+json;x=y", Json),
            ("text/json", Json),
            ("text/plain", Text),
            ("text/html; charset=latin1", Text),
            ("image/svg+xml", Text),
            ("application/xml", Text),
            ("application/yaml", Text),
            ("application/x-thing; charset=utf-8", Text),
            ("text/event-stream;charset=utf-8", EventStream),
            ("application/x-ndjson", JsonLines),
            ("application/jsonl", JsonLines),
            ("application/json-seq", JsonSequence),
            ("application/geo+json-seq", JsonSequence),
            ("image/png", Binary),
            ("application/octet-stream", Binary),
            ("application/jsonpath", Binary),
            ("nonsense", Binary),
            ("", Unknown),
            (" ; charset=utf-8", Unknown),
        ];
        for (text, expected) in rows {
            assert_eq!(MediaKind::from_content_type(text), expected, "{text}");
        }
    }
}
