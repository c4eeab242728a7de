//! Text inside an address: what is written as it is, and what as `%XX`.

/// What stays as it is beside the unreserved characters of RFC 3986.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    /// Nothing else.
    All,
    /// The reserved characters and whole `%XX`, as in the reserved expansion of RFC 6570; except
    /// `#`, which would end a query.
    ReservedInQuery,
    /// The same, except what would end a segment or the path.
    ReservedInPath,
    /// As `application/x-www-form-urlencoded` has it, with `+` for a space.
    Form,
    /// Everything: headers, cookies and parts of bodies know no `%XX`.
    Nothing,
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

impl Escape {
    pub(super) fn push(self, out: &mut String, text: &str) {
        if self == Self::Nothing {
            return out.push_str(text);
        }
        self.push_bytes(out, text.as_bytes());
    }

    /// As `push`, for what need not be text.
    pub(super) fn push_bytes(self, out: &mut String, bytes: &[u8]) {
        for (at, byte) in bytes.iter().enumerate() {
            if *byte == b' ' && self == Self::Form {
                out.push('+');
            } else if self.keeps(*byte) || (*byte == b'%' && self.keeps_triple(&bytes[at..])) {
                out.push(char::from(*byte));
            } else {
                out.push('%');
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }

    fn keeps(self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric()
            || b"-._".contains(&byte)
            || match self {
                Self::All | Self::Nothing => byte == b'~',
                Self::Form => byte == b'*',
                Self::ReservedInQuery => b"~:/?[]@!$&'()*+,;=".contains(&byte),
                Self::ReservedInPath => b"~:[]@!$&'()*+,;=".contains(&byte),
            }
    }

    fn keeps_triple(self, rest: &[u8]) -> bool {
        let is_triple = rest.len() > 2 && rest[1..3].iter().all(u8::is_ascii_hexdigit);
        is_triple && matches!(self, Self::ReservedInQuery | Self::ReservedInPath)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_escapes_what_it_must() {
        const RESERVED: &str = ":/?#[]@!$&'()*+,;=";
        let rows = [
            (Escape::All, "aZ0-._~", "aZ0-._~"),
            (Escape::All, "ä %41|\\\n", "%C3%A4%20%2541%7C%5C%0A"),
            (Escape::All, RESERVED, "%3A%2F%3F%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D"),
            (Escape::ReservedInQuery, RESERVED, ":/?%23[]@!$&'()*+,;="),
            (Escape::ReservedInPath, RESERVED, ":%2F%3F%23[]@!$&'()*+,;="),
            (Escape::ReservedInQuery, "%41%4%zz% é|", "%41%254%25zz%25%20%C3%A9%7C"),
            (Escape::Form, "a + b~*", "a+%2B+b%7E*"),
            (Escape::Nothing, "a b%", "a b%"),
        ];
        for (escape, text, expected) in rows {
            let mut out = String::new();
            escape.push(&mut out, text);
            assert_eq!(out, expected, "{escape:?} {text}");
        }
    }
}
