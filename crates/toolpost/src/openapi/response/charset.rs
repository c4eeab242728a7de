//! Decodes bytes as text.

/// Characters of windows-1252 from 0x80 to 0x9F, where it differs from ISO 8859-1.
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// Decodes bytes as text, or returns them unchanged if they are invalid. A byte order mark takes
/// precedence over `charset`. As in browsers, ISO 8859-1 is decoded as windows-1252.
pub(super) fn decode_text(bytes: Vec<u8>, charset: Option<&str>) -> Result<String, Vec<u8>> {
    match bytes.as_slice() {
        [0xef, 0xbb, 0xbf, rest @ ..] => return decode_utf8(rest.to_vec()).map_err(|_| bytes),
        [0xff, 0xfe, rest @ ..] => return decode_utf16(rest, u16::from_le_bytes).ok_or(bytes),
        [0xfe, 0xff, rest @ ..] => return decode_utf16(rest, u16::from_be_bytes).ok_or(bytes),
        _ => {}
    }
    let charset = charset.unwrap_or("utf-8").to_ascii_lowercase();
    match &*charset {
        "iso-8859-1" | "iso8859-1" | "iso_8859-1" | "latin1" | "latin-1" | "l1"
        | "windows-1252" | "cp1252" => {
            Ok(bytes.iter().map(|byte| decode_windows_1252(*byte)).collect())
        }
        "utf-16" | "utf-16le" | "utf16" => decode_utf16(&bytes, u16::from_le_bytes).ok_or(bytes),
        "utf-16be" => decode_utf16(&bytes, u16::from_be_bytes).ok_or(bytes),
        // Text with any other charset is usually UTF-8. If it is not, the bytes are returned.
        _ => decode_utf8(bytes),
    }
}

fn decode_utf8(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    String::from_utf8(bytes).map_err(std::string::FromUtf8Error::into_bytes)
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
    String::from_utf16(&units).ok().filter(|_| rest.is_empty())
}

fn decode_windows_1252(byte: u8) -> char {
    match byte {
        0x80..0xa0 => WINDOWS_1252[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_decode_by_charset_or_stay_bytes() {
        let rows: [(&[u8], Option<&str>, Option<&str>); 15] = [
            (b"plain", None, Some("plain")),
            ("ü".as_bytes(), None, Some("ü")),
            ("ü".as_bytes(), Some("UTF-8"), Some("ü")),
            ("ü".as_bytes(), Some("koi8-r"), Some("ü")),
            (b"\xfc", None, None),
            (b"\xfc", Some("koi8-r"), None),
            (b"\xfc", Some("ISO-8859-1"), Some("ü")),
            (b"\x80", Some("latin1"), Some("€")),
            (b"\xef\xbb\xbfmark", Some("latin1"), Some("mark")),
            (b"\xff\xfeh\0i\0", None, Some("hi")),
            (b"\xfe\xff\0h\0i", Some("utf-8"), Some("hi")),
            (b"h\0i\0", Some("utf-16"), Some("hi")),
            (b"\0h\0i", Some("utf-16be"), Some("hi")),
            (b"h\0i", Some("utf-16"), None),
            (b"\0\xd8", Some("utf-16"), None),
        ];
        for (bytes, charset, expected) in rows {
            let read = decode_text(bytes.to_vec(), charset);
            assert_eq!(read.as_deref().ok(), expected, "{bytes:?} {charset:?}");
            assert!(read.is_ok() || read == Err(bytes.to_vec()));
        }
    }
}
