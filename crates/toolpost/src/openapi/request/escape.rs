//! Percent-encoding of text in URLs.

use percent_encoding::percent_encode_byte;

/// Characters that are not escaped, in addition to the unreserved characters of RFC 3986.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PercentEscape {
    /// No other characters.
    All,
    /// Reserved characters and complete `%XX` triplets (RFC 6570), except for `#`.
    AllowReservedInQuery,
    /// Like `AllowReservedInQuery`, except for characters that would end a segment or the path.
    AllowReservedInPath,
    /// As in `application/x-www-form-urlencoded`, with `+` for a space.
    Form,
    /// All characters. Headers, cookies and multipart bodies do not use percent-encoding.
    None,
}

impl PercentEscape {
    /// Returns the escaping of a query or form value.
    pub(super) fn for_query(allow_reserved: bool) -> Self {
        if allow_reserved { Self::AllowReservedInQuery } else { Self::All }
    }

    pub(super) fn escaped(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.push(&mut out, text);
        out
    }

    pub(super) fn push(self, out: &mut String, text: &str) {
        if self == Self::None {
            return out.push_str(text);
        }
        self.push_bytes(out, text.as_bytes());
    }

    /// Like `push`, for bytes that may not be valid UTF-8.
    pub(super) fn push_bytes(self, out: &mut String, bytes: &[u8]) {
        for (at, byte) in bytes.iter().enumerate() {
            if *byte == b' ' && self == Self::Form {
                out.push('+');
            } else if self.is_unescaped(*byte)
                || (*byte == b'%' && self.keeps_triplet(&bytes[at..]))
            {
                out.push(char::from(*byte));
            } else {
                out.push_str(percent_encode_byte(*byte));
            }
        }
    }

    fn is_unescaped(self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric()
            || b"-._".contains(&byte)
            || match self {
                Self::All | Self::None => byte == b'~',
                Self::Form => byte == b'*',
                Self::AllowReservedInQuery => b"~:/?[]@!$&'()*+,;=".contains(&byte),
                Self::AllowReservedInPath => b"~:[]@!$&'()*+,;=".contains(&byte),
            }
    }

    fn keeps_triplet(self, rest: &[u8]) -> bool {
        let is_triple = rest.len() > 2 && rest[1..3].iter().all(u8::is_ascii_hexdigit);
        is_triple && matches!(self, Self::AllowReservedInQuery | Self::AllowReservedInPath)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_escape_matches_each_url_component() {
        const RESERVED: &str = ":/?#[]@!$&'()*+,;=";
        let rows = [
            (PercentEscape::All, "aZ0-._~", "aZ0-._~"),
            (PercentEscape::All, "ä %41|\\\n", "%C3%A4%20%2541%7C%5C%0A"),
            (
                PercentEscape::All,
                RESERVED,
                "%3A%2F%3F%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D",
            ),
            (PercentEscape::AllowReservedInQuery, RESERVED, ":/?%23[]@!$&'()*+,;="),
            (PercentEscape::AllowReservedInPath, RESERVED, ":%2F%3F%23[]@!$&'()*+,;="),
            (PercentEscape::AllowReservedInQuery, "%41%4%zz% é|", "%41%254%25zz%25%20%C3%A9%7C"),
            (PercentEscape::Form, "a + b~*", "a+%2B+b%7E*"),
            (PercentEscape::None, "a b%", "a b%"),
        ];
        for (escape, text, expected) in rows {
            let mut out = String::new();
            escape.push(&mut out, text);
            assert_eq!(out, expected, "{escape:?} {text}");
        }
    }
}
