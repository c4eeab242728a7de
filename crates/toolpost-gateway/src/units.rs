//! Durations as they are written in settings and arguments.

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
        "ms" => Some(0.001),
        "" | "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3_600.0),
        "d" => Some(86_400.0),
        _ => None,
    };
    let number = number.parse::<f64>().ok().zip(seconds);
    let (number, seconds) =
        number.ok_or_else(|| format!("`{text}` is not a duration; write 500ms, 10s, 2m or 1h"))?;
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
