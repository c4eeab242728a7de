//! Detection of path traversal in texts.

/// Whether a segment of `text` is `.` or `..` in any form that a resolver may accept:
/// percent-encoded (also repeatedly), after a backslash, before a query, or with control characters
/// in between.
pub(super) fn has_dot_segment(text: &str) -> bool {
    // Fast path: most texts contain neither a dot nor a percent sign.
    if memchr::memchr2(b'.', b'%', text.as_bytes()).is_none() {
        return false;
    }
    let mut segment = SegmentState::default();
    let mut rest = text.trim_matches(is_ignored_at_ends).as_bytes();
    while let Some((path_char, length)) = next_char(rest) {
        match path_char {
            PathChar::Separator if segment.is_dots() => return true,
            PathChar::Separator => segment = SegmentState::default(),
            PathChar::Dot => segment.dots += 1,
            PathChar::Other => segment.has_other = true,
            PathChar::Ignored => {}
        }
        rest = &rest[length..];
    }
    segment.is_dots()
}

#[derive(Default)]
struct SegmentState {
    dots: usize,
    has_other: bool,
}

impl SegmentState {
    fn is_dots(&self) -> bool {
        !self.has_other && matches!(self.dots, 1 | 2)
    }
}

enum PathChar {
    Dot,
    Separator,
    Ignored,
    Other,
}

/// Returns the class of the first character and its length in bytes.
fn next_char(text: &[u8]) -> Option<(PathChar, usize)> {
    let (byte, length) = match *text.first()? {
        b'%' => decode_percent(text),
        byte => (byte, 1),
    };
    let path_char = match byte {
        b'.' => PathChar::Dot,
        b'/' | b'\\' | b'?' | b'#' | b';' | b':' => PathChar::Separator,
        0..0x20 => PathChar::Ignored,
        _ => PathChar::Other,
    };
    Some((path_char, length))
}

/// Decodes `%2e`, `%252e`, `%25252e`…; returns the byte and the length of the escape.
fn decode_percent(text: &[u8]) -> (u8, usize) {
    let mut start = 1;
    while text[start..].starts_with(b"25") {
        start += 2;
    }
    let digits = text.get(start..start + 2).and_then(|digits| str::from_utf8(digits).ok());
    match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
        Some(byte) => (byte, start + 2),
        None => (b'%', start),
    }
}

fn is_ignored_at_ends(character: char) -> bool {
    character <= ' '
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments_are_detected_in_every_encoding() {
        for (text, expected) in [
            ("", false),
            ("a/b", false),
            ("a.b/c..d", false),
            ("...", false),
            ("/.hidden/x", false),
            ("file:///a/b.txt", false),
            ("why...?", false),
            ("100%", false),
            ("%2", false),
            ("%zz/%é", false),
            (".", true),
            ("..", true),
            ("a/..", true),
            ("a/../b", true),
            ("a/./b", true),
            ("/public/%2e%2E/x", true),
            ("/public/.%2e/x", true),
            ("/public%2f..%2fx", true),
            ("/public%5c..%5Cx", true),
            ("/public/%252e%252e/x", true),
            ("/public/%25252e%2e/x", true),
            (r"a\..\b", true),
            ("a/..?x", true),
            ("a/..#x", true),
            ("a/..;x/b", true),
            ("a/.\t./b", true),
            ("a/.. ", true),
            ("c:..", true),
        ] {
            assert_eq!(has_dot_segment(text), expected, "{text}");
        }
    }
}
