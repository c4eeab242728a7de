//! `[journal]`: what is written down about calls, and for how long it is kept.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use super::DurationText;
use crate::journal::{Mode, Settings};

/// What is written down about every call.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { mode = \"sync\" }")]
#[schemars(rename = "Journal")]
pub(in super::super) struct JournalText {
    /// `sync`: answers wait until what was done is on the disk; `batch`: they do not; `off`: nothing
    /// is written down.
    mode: ModeText,
    /// How much of an input or an output is kept; of larger ones there is the SHA-256. 64KiB if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SizeText")]
    body_limit: Option<SizeText>,
    /// How long records are kept, such as "30d"; for ever if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    pub(in super::super) retain_for: Option<DurationText>,
    /// How much is kept, such as "10GiB"; 4GiB if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SizeText")]
    retain_size: Option<SizeText>,
    /// Where the records are, from the folder of this file; the data folder if absent. The key and the
    /// signed head stay in the data folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    path: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum ModeText {
    Sync,
    #[default]
    Batch,
    Off,
}

impl JournalText {
    pub(in super::super) fn settings(self, folder: &Path) -> Settings {
        let default = Settings::default();
        let whole = |size: SizeText| usize::try_from(size.0).unwrap_or(usize::MAX);
        Settings {
            mode: match self.mode {
                ModeText::Sync => Mode::Sync,
                ModeText::Batch => Mode::Batch,
                ModeText::Off => Mode::Off,
            },
            body_limit: self.body_limit.map_or(default.body_limit, whole),
            retain_for: self.retain_for.map(|time| time.0),
            retain_size: self.retain_size.map(|size| size.0).or(default.retain_size),
            path: self.path.map(|path| folder.join(path)),
        }
    }
}

/// `"64KiB"`, or a number of bytes.
#[derive(Debug, Clone, Copy)]
struct SizeText(u64);

impl<'de> Deserialize<'de> for SizeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
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
        deserializer.deserialize_any(Text)
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
                {"type": "string", "pattern": "^[0-9]+ *(B|KiB|MiB|GiB|TiB)?$"},
                {"type": "integer", "minimum": 0},
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
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
