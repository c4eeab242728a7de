//! Durations, sizes and counts in settings: parsing, formatting and JSON Schemas.
//!
//! A setting names one of the types in `#[serde(with = "…")]`: serde takes the functions of the
//! type, and schemars its schema. The setting itself has a plain type, or an `Option` of it.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Expected, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Parses `500ms`, `10s`, `2m`, `1h`, `30d`; a bare number is seconds.
///
/// # Errors
///
/// A message that describes what is wrong with the text.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(parse_seconds(text)?)
        .map_err(|_| format!("duration `{text}` is too long"))
}

/// Parses the same text as [`parse_duration`] to seconds.
pub(crate) fn parse_seconds(text: &str) -> Result<f64, String> {
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
    number.map(|(number, seconds)| number * seconds).ok_or_else(|| {
        format!("invalid duration `{text}`; use a form such as 500ms, 10s, 2m or 1h")
    })
}

fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        _ if !millis.is_multiple_of(1_000) => format!("{millis}ms"),
        _ if !millis.is_multiple_of(60_000) || millis == 0 => format!("{}s", millis / 1_000),
        _ if !millis.is_multiple_of(3_600_000) => format!("{}m", millis / 60_000),
        _ => format!("{}h", millis / 3_600_000),
    }
}

const SIZE_UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

fn parse_size(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = if unit.is_empty() { "B" } else { unit.trim_start() };
    let (_, shift) = SIZE_UNITS.into_iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Reads a string or a number with `parse`. Errors name the expected format, but not the value, which
/// may be a secret.
struct TextVisitor<T> {
    expected: String,
    parse: fn(&str) -> Option<T>,
}

impl<T> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        let wrong = || E::custom(format_args!("expected {}", &self as &dyn Expected));
        (self.parse)(text).ok_or_else(wrong)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// A duration such as `"10s"`, or a number of seconds.
pub(crate) type DurationText = BoundedDuration<false>;

/// A [`DurationText`] that is greater than zero.
pub(crate) type PositiveDuration = BoundedDuration<true>;

pub(crate) struct BoundedDuration<const IS_POSITIVE: bool>;

impl<const IS_POSITIVE: bool> BoundedDuration<IS_POSITIVE> {
    pub(crate) fn serialize<S: Serializer>(
        duration: &(impl Into<Option<Duration>> + Copy),
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        (*duration).into().map(format_duration).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: From<Duration>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        let expected = "a duration such as \"500ms\", \"10s\", \"2m\" or \"1h\"".to_owned();
        let parse = |text: &str| parse_duration(text).ok();
        let duration = deserializer.deserialize_any(TextVisitor { expected, parse })?;
        if IS_POSITIVE && duration.is_zero() {
            return Err(D::Error::custom("must be greater than zero"));
        }
        Ok(duration.into())
    }
}

impl<const IS_POSITIVE: bool> JsonSchema for BoundedDuration<IS_POSITIVE> {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn schema_id() -> Cow<'static, str> {
        Self::schema_name()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {"type": "string", "pattern": r"^([0-9.]+(ms|s|m|h|d)?|.*\$\{.*)$"},
                {"type": "number", "exclusiveMinimum": 0},
            ],
        })
    }
}

/// A size such as `"64KiB"`, or a number of bytes; at least `MIN` bytes.
pub(crate) struct Size<const MIN: u64>;

impl<const MIN: u64> Size<MIN> {
    pub(crate) fn serialize<S: Serializer>(
        size: &impl Serialize,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes = serde_json::to_value(size).ok().and_then(|size| size.as_u64());
        let fits = |(_, shift): &&(&str, u32)| {
            bytes.is_some_and(|bytes| bytes > 0 && bytes.is_multiple_of(1 << shift))
        };
        match bytes.zip(SIZE_UNITS[..4].iter().find(fits)) {
            Some((bytes, (unit, shift))) => {
                format!("{}{unit}", bytes >> shift).serialize(serializer)
            }
            None => bytes.serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        let least = if MIN > 0 { format!(" of at least {MIN} bytes") } else { String::new() };
        let expected = format!("a size{least} such as \"64KiB\", \"10MiB\" or \"4GiB\"");
        let parse = |text: &str| {
            let bytes = parse_size(text).filter(|bytes| *bytes >= MIN)?;
            T::try_from(bytes).ok()
        };
        deserializer.deserialize_any(TextVisitor { expected, parse })
    }
}

impl<const MIN: u64> JsonSchema for Size<MIN> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {"type": "string", "pattern": r"^([0-9]+ *(B|KiB|MiB|GiB|TiB)?|.*\$\{.*)$"},
                {"type": "integer", "minimum": MIN},
            ],
        })
    }
}

/// A whole number that is greater than zero.
pub(crate) struct Count;

impl Count {
    pub(crate) fn serialize<S: Serializer>(
        count: &impl Serialize,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        count.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        let count = NonZeroU64::deserialize(deserializer)?.get();
        let wrong = |_| D::Error::invalid_value(Unexpected::Unsigned(count), &"a smaller number");
        T::try_from(count).map_err(wrong)
    }
}

impl JsonSchema for Count {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 1})
    }
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

    #[test]
    fn parse_size_accepts_units() {
        for (text, expected) in [
            ("64KiB", Some(65_536)),
            ("10 MiB", Some(10_485_760)),
            ("4GiB", Some(4_294_967_296)),
            ("17", Some(17)),
            ("17B", Some(17)),
            ("0", Some(0)),
            ("", None),
            ("KiB", None),
            ("-1", None),
            ("4GB", None),
            ("99999999TiB", None),
        ] {
            assert_eq!(parse_size(text), expected, "{text}");
        }
    }

    /// Each row: the text of a setting as it is read and as it is written.
    #[test]
    fn values_are_written_as_they_are_read() {
        #[derive(Serialize, Deserialize)]
        struct Settings {
            #[serde(with = "DurationText")]
            wait: Option<Duration>,
            #[serde(with = "Size::<0>")]
            bytes: usize,
        }
        for (wait, bytes) in [("1500ms", "64KiB"), ("0s", "4GiB"), ("90s", "1MiB"), ("2h", "5KiB")]
        {
            let text = serde_json::json!({"wait": wait, "bytes": bytes}).to_string();
            let settings: Settings = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&settings).unwrap(), text);
        }
    }
}
