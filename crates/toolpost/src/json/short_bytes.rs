//! Fast operations on short strings. For property names, calling a library function to compare or
//! copy them costs more than the operation itself.
//!
//! Two overlapping words, one from the front and one from the back, cover every length between one
//! word and two.

/// Whether two strings are equal.
#[inline]
pub(crate) fn str_eq(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    match one.len() {
        2..4 => first_and_last_chunk::<2>(one) == first_and_last_chunk::<2>(other),
        4..8 => first_and_last_chunk::<4>(one) == first_and_last_chunk::<4>(other),
        8..=16 => first_and_last_chunk::<8>(one) == first_and_last_chunk::<8>(other),
        _ => one == other,
    }
}

/// Whether `bytes` contains `one` or `other`.
#[inline]
pub(super) fn contains_either(bytes: &[u8], one: u8, other: u8) -> bool {
    let either = |word| word_contains_byte(word, one) || word_contains_byte(word, other);
    if let (4..8, Some((front, back))) = (bytes.len(), first_and_last_chunk::<4>(bytes)) {
        let (front, back) = (u32::from_ne_bytes(*front), u32::from_ne_bytes(*back));
        return either(u64::from(front) << 32 | u64::from(back));
    }
    if let (8..=16, Some((front, back))) = (bytes.len(), first_and_last_chunk::<8>(bytes)) {
        return either(u64::from_ne_bytes(*front)) || either(u64::from_ne_bytes(*back));
    }
    bytes.iter().any(|byte| *byte == one || *byte == other)
}

/// Copies `from` to `to`, which must have the same length.
#[inline]
pub(super) fn copy_short(to: &mut [u8], from: &[u8]) {
    match from.len() {
        4..8 => copy_chunks::<4>(to, from),
        8..=16 => copy_chunks::<8>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Returns the first and the last `N` bytes, or `None` if there are fewer.
#[inline]
fn first_and_last_chunk<const N: usize>(bytes: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
    Some((bytes.first_chunk()?, bytes.last_chunk()?))
}

#[inline]
fn copy_chunks<const N: usize>(to: &mut [u8], from: &[u8]) {
    let Some((front, back)) = first_and_last_chunk::<N>(from) else { return };
    if let Some(to) = to.first_chunk_mut() {
        *to = *front;
    }
    if let Some(to) = to.last_chunk_mut() {
        *to = *back;
    }
}

/// Whether a word of eight bytes contains a byte.
///
/// If it does, the XOR with the repeated byte has a zero byte. Subtracting one from each byte sets
/// a high bit that was not set before if and only if there is a zero byte.
#[inline]
fn word_contains_byte(word: u64, byte: u8) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let difference = word ^ (ONES * u64::from(byte));
    difference.wrapping_sub(ONES) & !difference & (ONES << 7) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn str_eq_compares_every_byte() {
        for length in 0..40 {
            let name = "abcdefghij".repeat(4)[..length].to_owned();
            assert!(str_eq(&name, &name.clone()));
            assert!(!str_eq(&name, &format!("{name}x")));
            for at in 0..length {
                let mut other = name.clone();
                other.replace_range(at..=at, "X");
                assert!(!str_eq(&name, &other), "{name} {other}");
            }
        }
    }

    #[test]
    fn contains_either_finds_byte_at_any_position() {
        for length in 0..40 {
            for filler in 0..=u8::MAX {
                let mut bytes = vec![filler; length];
                let expected = length > 0 && (filler == b'~' || filler == b'/');
                assert_eq!(contains_either(&bytes, b'~', b'/'), expected, "{bytes:?}");
                for at in 0..length {
                    for byte in [b'~', b'/'] {
                        bytes[at] = byte;
                        assert!(contains_either(&bytes, b'~', b'/'), "{bytes:?}");
                    }
                    bytes[at] = filler;
                }
            }
        }
    }

    #[test]
    fn copy_short_copies_every_byte() {
        for length in 0..40 {
            let from: Vec<u8> = (1..).take(length).collect();
            let mut to = vec![0; length];
            copy_short(&mut to, &from);
            assert_eq!(to, from);
        }
    }
}
