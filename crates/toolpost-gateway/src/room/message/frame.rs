//! Data of streams: raw frames `#<stream>#<data>` beside the messages.

use super::draft::ReadError;

/// How many bytes the id of a stream may have.
const LONGEST_ID: usize = 256;

/// The stream and the data of a text frame; nothing where it is no such frame.
///
/// # Errors
///
/// `invalid_message`: it begins like one and has no id.
///
/// ```
/// use toolpost_gateway::room::message::stream_frame;
///
/// assert_eq!(stream_frame("#stream-1#a#b").unwrap().unwrap(), ("stream-1", "a#b"));
/// assert!(stream_frame(r#"{"kind":"chat"}"#).is_none());
/// assert!(stream_frame("#stream-1").unwrap().is_err());
/// ```
pub fn stream_frame(text: &str) -> Option<Result<(&str, &str), ReadError>> {
    let rest = text.strip_prefix('#')?;
    let parts = rest.split_once('#').ok_or_else(no_id);
    Some(parts.and_then(|(id, data)| Ok((check(id)?, data))))
}

/// As [`stream_frame`], for a binary frame.
///
/// # Errors
///
/// As [`stream_frame`]; also an id that is not UTF-8.
pub fn stream_bytes(bytes: &[u8]) -> Option<Result<(&str, &[u8]), ReadError>> {
    let rest = bytes.strip_prefix(b"#")?;
    let Some(end) = memchr::memchr(b'#', rest) else { return Some(Err(no_id())) };
    let id = std::str::from_utf8(&rest[..end]).map_err(|_| no_id());
    Some(id.and_then(|id| Ok((check(id)?, &rest[end + 1..]))))
}

fn check(id: &str) -> Result<&str, ReadError> {
    if id.is_empty() || id.len() > LONGEST_ID || id.contains(char::is_control) {
        return Err(no_id());
    }
    Ok(id)
}

fn no_id() -> ReadError {
    ReadError::invalid(format!(
        "data of a stream is `#<stream>#<data>`, and the id of a stream has 1 to {LONGEST_ID} bytes"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_whatever_stands_behind_the_second_mark() {
        let long = format!("#{}#", "x".repeat(LONGEST_ID + 1));
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
            assert_eq!(stream_frame(text).map(Result::ok), expected, "{text}");
            let bytes = stream_bytes(text.as_bytes()).map(Result::ok);
            let expected = expected.map(|it| it.map(|(id, data)| (id, data.as_bytes())));
            assert_eq!(bytes, expected, "{text}");
        }
        assert_eq!(stream_bytes(b"#a#\xff").unwrap().unwrap(), ("a", &b"\xff"[..]));
        assert!(stream_bytes(b"#\xff#").unwrap().is_err());
    }
}
