//! Parsing of human-readable durations.

use std::time::Duration;

/// Parses `500ms`, `10s`, `2m`, `1h`, `30d`; a bare number is seconds.
///
/// # Errors
///
/// A message that describes what is wrong with the text.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(format!("`{text}` is not a duration; write 500ms, 10s, 2m or 1h")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("`{text}` is not a duration; write 500ms, 10s, 2m or 1h"))?;
    Duration::try_from_secs_f64(number * seconds)
        .map_err(|_| format!("`{text}` is longer than a duration can be"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_duration_accepts_units() {
        for (text, millis) in [
            ("500ms", Some(500)),
            ("10s", Some(10_000)),
            ("10", Some(10_000)),
            ("1.5s", Some(1_500)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("30d", Some(2_592_000_000)),
            ("0", Some(0)),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("10 s", None),
            ("1w", None),
            ("99999999999999999999h", None),
        ] {
            let parsed = parse_duration(text).ok().map(|duration| duration.as_millis());
            assert_eq!(parsed, millis, "{text}");
        }
    }
}
