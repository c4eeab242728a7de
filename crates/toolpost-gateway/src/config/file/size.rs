//! How many bytes, as people write it.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `"64KiB"`, or a number of bytes.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct SizeText(pub(in super::super) u64);

impl<'de> Deserialize<'de> for SizeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = SizeText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"64KiB\", \"10MiB\" or \"4GiB\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SizeText, E> {
                let wrong =
                    || E::custom("expected a size such as \"64KiB\", \"10MiB\" or \"4GiB\"");
                parse_size(text).map(SizeText).ok_or_else(wrong)
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<SizeText, E> {
                self.visit_str(&bytes.to_string())
            }
        }
        deserializer.deserialize_any(SizeVisitor)
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// As it is read: the JSON Schema shows what holds if nothing is said.
impl Serialize for SizeText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let fits = |(_, shift): &(&str, u32)| self.0 > 0 && self.0.is_multiple_of(1 << shift);
        match units.into_iter().find(fits) {
            Some((unit, shift)) => serializer.serialize_str(&format!("{}{unit}", self.0 >> shift)),
            None => serializer.serialize_u64(self.0),
        }
    }
}

impl JsonSchema for SizeText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {"type": "string", "pattern": r"^([0-9]+ *(B|KiB|MiB|GiB|TiB)?|.*\$\{.*)$"},
                {"type": "integer", "minimum": 0},
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
