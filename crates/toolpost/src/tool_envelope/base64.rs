//! Base64 for envelopes: strict encoding, lenient decoding.

use std::sync::LazyLock;

use data_encoding::{BASE64, Encoding, Specification};

use super::EnvelopeError;

/// Accepts both alphabets without padding and ignores trailing bits.
static LENIENT: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification
        .symbols
        .push_str("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    specification.translate.from.push_str("-_");
    specification.translate.to.push_str("+/");
    specification.check_trailing_bits = false;
    specification.encoding().expect("a valid base64 specification")
});

/// A base64 error, with the bytes decoded before it.
pub(super) struct Base64Error {
    pub(super) error: EnvelopeError,
    pub(super) decoded_prefix: Vec<u8>,
}

pub(super) fn decode(encoded: &str) -> Result<Vec<u8>, Base64Error> {
    // `BASE64.decode` accepts concatenated padded segments; here only the end may be padded.
    let unpadded = &encoded.as_bytes()[..encoded.len().saturating_sub(2)];
    if !unpadded.contains(&b'=')
        && let Ok(bytes) = BASE64.decode(encoded.as_bytes())
    {
        return Ok(bytes);
    }
    decode_leniently(encoded)
}

/// Returns the number of bytes `encoded` decodes to, if it is valid base64.
pub(super) fn decoded_len(encoded: &str) -> usize {
    let symbols = encoded.bytes().filter(|&byte| is_symbol(byte)).count();
    symbols / 4 * 3 + symbols % 4 * 3 / 4
}

/// Returns the offset of the first symbol that is not needed for the first `decoded` bytes.
pub(super) fn encoded_end(encoded: &str, decoded: usize) -> usize {
    let needed = (decoded * 4).div_ceil(3);
    encoded
        .bytes()
        .enumerate()
        .filter(|&(_, byte)| !byte.is_ascii_whitespace() && byte != b'=')
        .nth(needed)
        .map_or(encoded.len(), |(at, _)| at)
}

fn decode_leniently(encoded: &str) -> Result<Vec<u8>, Base64Error> {
    let mut symbols = Vec::with_capacity(encoded.len());
    let mut padding = None;
    for (at, found) in encoded.char_indices() {
        match found {
            '=' => {
                padding = Some(at);
                break;
            }
            _ if found.is_ascii() && is_symbol(found as u8) => symbols.push(found as u8),
            _ if found.is_ascii_whitespace() => {}
            _ => {
                let error = EnvelopeError::InvalidBase64Character { at, found };
                return Err(Base64Error { error, decoded_prefix: decode_complete_bytes(&symbols) });
            }
        }
    }
    match check_end(encoded, symbols.len(), padding) {
        Ok(()) => Ok(decode_complete_bytes(&symbols)),
        Err(error) => Err(Base64Error { error, decoded_prefix: decode_complete_bytes(&symbols) }),
    }
}

/// Checks the length and the padding, which is absent or completes the last group of four.
fn check_end(encoded: &str, symbols: usize, padding: Option<usize>) -> Result<(), EnvelopeError> {
    if symbols % 4 == 1 {
        return Err(EnvelopeError::InvalidBase64Length { symbols });
    }
    let Some(start) = padding else { return Ok(()) };
    let missing = (4 - symbols % 4) % 4;
    let mut seen = 0;
    for (at, found) in encoded[start..].char_indices() {
        match found {
            '=' if seen < missing => seen += 1,
            _ if found.is_ascii_whitespace() => {}
            _ => return Err(EnvelopeError::InvalidBase64Padding { at: start + at }),
        }
    }
    if seen == missing {
        Ok(())
    } else {
        Err(EnvelopeError::InvalidBase64Padding { at: encoded.len() })
    }
}

/// Decodes all complete bytes. A lone symbol after the last group of four is ignored.
fn decode_complete_bytes(symbols: &[u8]) -> Vec<u8> {
    let usable = symbols.len() - usize::from(symbols.len() % 4 == 1);
    LENIENT.decode(&symbols[..usable]).expect("valid symbols in a valid number")
}

fn is_symbol(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_accepts_all_base64_variants() {
        let bytes = [0xfb, 0xff, 0xbf, 0x00];
        for encoded in [
            "+/+/AA==",
            "-_-_AA==",
            "+_-/AA==",
            "+/+/AA",
            "-_-_AA",
            " +/+/\r\n\tAA = = ",
            "+/+/AB==",
            "+/+/AP",
        ] {
            assert_eq!(decode(encoded).ok().as_deref(), Some(&bytes[..]), "{encoded}");
            assert_eq!(decoded_len(encoded), bytes.len(), "{encoded}");
        }
    }

    #[test]
    fn decode_error_reports_position() {
        let cases = [
            ("QUJD.EVG", "invalid base64 character '.' at byte 4", "ABC"),
            ("QUJ\u{e9}", "invalid base64 character 'é' at byte 3", "AB"),
            ("QUJDR", "invalid base64 length: 5 symbols, one more than a multiple of 4", "ABC"),
            ("QQ==QQ==", "invalid base64 padding at byte 4", "A"),
            ("QQ=", "invalid base64 padding at byte 3", "A"),
            ("QQ===", "invalid base64 padding at byte 4", "A"),
            ("QUJD=", "invalid base64 padding at byte 4", "ABC"),
            ("QQ==\nbehind", "invalid base64 padding at byte 5", "A"),
            ("=", "invalid base64 padding at byte 0", ""),
        ];
        for (encoded, message, before) in cases {
            let fault = decode(encoded).err().unwrap_or_else(|| panic!("{encoded} was read"));
            assert_eq!(fault.error.to_string(), message, "{encoded}");
            assert_eq!(fault.decoded_prefix, before.as_bytes(), "{encoded}");
        }
    }

    #[test]
    fn encoded_end_returns_first_unneeded_symbol() {
        let cases = [("QUJDREVG", 3, 4), ("QUJ DREVG", 3, 5), ("QQ==\nQQ", 1, 5), ("QUJD", 3, 4)];
        for (encoded, decoded, expected) in cases {
            assert_eq!(encoded_end(encoded, decoded), expected, "{encoded}");
        }
    }
}
