//! Timestamps of messages.

use std::borrow::Cow;

use jiff::Timestamp;

/// Length of `2026-11-18T04:00:00`.
const DATE_TIME_BYTES: usize = 19;
/// Length of a point and the digits of nanoseconds.
const MAX_FRACTION_BYTES: usize = 10;

/// Parses a date and time with an offset, as in RFC 3339; `None` for any other text.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let (date_time, rest) = text.split_at_checked(DATE_TIME_BYTES)?;
    let fraction_end = rest.find(|character| !matches!(character, '.' | '0'..='9'))?;
    let (fraction, offset) = rest.split_at(fraction_end);
    let has_digits = |digits: &str| !digits.is_empty() && !digits.contains('.');
    let is_fraction = fraction.is_empty() || fraction.strip_prefix('.').is_some_and(has_digits);
    if !has_shape(date_time, "0000-00-00T00:00:00") || !is_fraction || !is_offset(offset) {
        return None;
    }
    // More precise times are rounded down.
    let text = match fraction.get(..MAX_FRACTION_BYTES) {
        Some(nanos) if nanos.len() < fraction.len() => {
            Cow::from(format!("{date_time}{nanos}{offset}"))
        }
        _ => Cow::from(text),
    };
    text.parse().ok()
}

fn is_offset(text: &str) -> bool {
    has_shape(text, "Z") || has_shape(text, "+00:00") && text[1..3] < *"24" && text[4..] < *"60"
}

/// Whether the text has this shape: `0` is a digit, `T` and `Z` a letter in either case, `+` a sign.
fn has_shape(text: &str, shape: &str) -> bool {
    let is_match = |(byte, expected): (u8, u8)| match expected {
        b'0' => byte.is_ascii_digit(),
        b'+' => matches!(byte, b'+' | b'-'),
        expected => byte.eq_ignore_ascii_case(&expected),
    };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(is_match)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: a string, and the time in milliseconds since the Unix epoch.
    #[test]
    fn only_rfc_3339_timestamps_parse() {
        let long = "1970-01-01T00:00:01.1234567890123Z";
        for (text, expected) in [
            ("1970-01-01T00:00:01Z", Some(1_000)),
            ("1970-01-01t00:00:01z", Some(1_000)),
            ("1970-01-01T00:00:01.5Z", Some(1_500)),
            (long, Some(1_123)),
            ("1970-01-01T02:00:01+02:00", Some(1_000)),
            ("1969-12-31T23:30:01.001-00:30", Some(1_001)),
            ("2000-02-29T23:59:60Z", Some(951_868_799_000)),
            ("2026-11-16T18:00:00.042Z", Some(1_794_852_000_042)),
            ("", None),
            ("yesterday", None),
            ("1794852000", None),
            ("2026-11-16", None),
            ("2026-11-16T18:00:00", None),
            ("2026-11-16 18:00:00Z", None),
            ("2026-11-16T18:00Z", None),
            ("2026-11-16T18:00:00.Z", None),
            ("2026-11-16T18:00:00,5Z", None),
            ("2026-11-16T18:00:00.5.5Z", None),
            ("2026-11-16T18:00:00+0200", None),
            ("2026-11-16T18:00:00+23:59", Some(1_794_765_660_000)),
            ("2026-11-16T18:00:00+24:00", None),
            ("2026-11-16T18:00:00+02:60", None),
            ("2026-11-16T18:00:00Z[UTC]", None),
            ("2026-11-16T18:00:00Zulu", None),
            ("2026-02-29T00:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-11-16T24:00:00Z", None),
            ("+002026-11-16T18:00:00Z", None),
            ("2026-11-16T18:00:00é", None),
            ("２026-11-16T18:00:00Z", None),
        ] {
            let parsed = parse_timestamp(text).map(Timestamp::as_millisecond);
            assert_eq!(parsed, expected, "{text}");
        }
    }
}
