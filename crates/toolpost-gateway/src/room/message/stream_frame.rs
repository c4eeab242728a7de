//! Stream data: raw frames `#<stream>#<data>`, sent alongside messages.

use super::draft::MessageParseError;

/// Maximum size of a stream id, in bytes.
const MAX_STREAM_ID_BYTES: usize = 256;

/// Parses a text stream frame into the stream id and the data. Returns `None` if the text is not a
/// stream frame.
///
/// # Errors
///
/// `invalid_message`: the text begins with `#` but has no valid stream id.
///
/// ```
/// use toolpost_gateway::room::message::parse_stream_frame;
///
/// assert_eq!(parse_stream_frame("#stream-1#a#b").unwrap().unwrap(), ("stream-1", "a#b"));
/// assert!(parse_stream_frame(r#"{"kind":"chat"}"#).is_none());
/// assert!(parse_stream_frame("#stream-1").unwrap().is_err());
/// ```
pub fn parse_stream_frame(text: &str) -> Option<Result<(&str, &str), MessageParseError>> {
    let rest = text.strip_prefix('#')?;
    let is_valid = |id: &str| {
        !id.is_empty() && id.len() <= MAX_STREAM_ID_BYTES && !id.contains(char::is_control)
    };
    let parts = rest.split_once('#').filter(|(id, _)| is_valid(id));
    Some(parts.ok_or_else(|| {
        MessageParseError::invalid(format!(
            "a stream frame is `#<stream>#<data>`, and a stream id has 1 to {MAX_STREAM_ID_BYTES} bytes"
        ))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_frame_splits_at_second_hash() {
        let long = format!("#{}#", "x".repeat(MAX_STREAM_ID_BYTES + 1));
        for (text, expected) in [
            ("#stream-1#", Some(Some(("stream-1", "")))),
            ("#stream-1#a#b\n", Some(Some(("stream-1", "a#b\n")))),
            ("", None),
            ("{}", None),
            (" #a#b", None),
            ("#", Some(None)),
            ("##", Some(None)),
            ("##data", Some(None)),
            ("#a", Some(None)),
            ("#a\n#b", Some(None)),
            (&long, Some(None)),
        ] {
            assert_eq!(parse_stream_frame(text).map(Result::ok), expected, "{text}");
        }
    }
}
