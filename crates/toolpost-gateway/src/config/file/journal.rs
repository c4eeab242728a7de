//! `[journal]`: what is written down about calls, and for how long it is kept.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{DurationText, SizeText};
use crate::journal::{JournalMode, JournalSettings};

/// What is meant where something else stands.
const EXPECTED: &str = "\"sync\", \"batch\", \"off\" or a table such as { mode = \"sync\" }";

/// `journal = "sync"`, or a table.
#[derive(Debug, Default)]
pub(in super::super) struct JournalText(JournalTable);

/// What is written down about every call.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Journal")]
struct JournalTable {
    /// `sync`: answers wait until what was done is on the disk; `batch`: they do not; `off`: nothing
    /// is written down.
    mode: ModeText,
    /// How much of an input or an output is kept; of larger ones there is the SHA-256.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SizeText", extend("default" = "64KiB"))]
    body_limit: Option<SizeText>,
    /// How long records are kept, such as "30d"; for ever if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    retain_for: Option<DurationText>,
    /// How much is kept, such as "10GiB".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SizeText", extend("default" = "4GiB"))]
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
    /// How long records are kept, if that is said.
    pub(in super::super) fn retain_for(&self) -> Option<Duration> {
        self.0.retain_for.as_ref().map(|time| time.0)
    }

    pub(in super::super) fn settings(self, folder: &Path) -> JournalSettings {
        self.0.settings(folder)
    }
}

impl<'de> Deserialize<'de> for JournalText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JournalVisitor;
        impl<'de> Visitor<'de> for JournalVisitor {
            type Value = JournalText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<JournalText, E> {
                let mode = ModeText::ALL.into_iter().find(|mode| mode.as_str() == text);
                let mode = mode.ok_or_else(|| E::custom(format!("expected {EXPECTED}")))?;
                Ok(JournalText(JournalTable { mode, ..JournalTable::default() }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JournalText, A::Error> {
                JournalTable::deserialize(MapAccessDeserializer::new(map)).map(JournalText)
            }
        }
        deserializer.deserialize_any(JournalVisitor)
    }
}

impl JsonSchema for JournalText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "JournalOrMode".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<JournalTable>();
        json_schema!({"anyOf": [{"enum": ModeText::ALL.map(ModeText::as_str)}, table]})
    }
}

impl ModeText {
    const ALL: [Self; 3] = [Self::Sync, Self::Batch, Self::Off];

    fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Batch => "batch",
            Self::Off => "off",
        }
    }
}

impl JournalTable {
    fn settings(self, folder: &Path) -> JournalSettings {
        let default = JournalSettings::default();
        let to_usize = |size: SizeText| usize::try_from(size.0).unwrap_or(usize::MAX);
        JournalSettings {
            mode: match self.mode {
                ModeText::Sync => JournalMode::Sync,
                ModeText::Batch => JournalMode::Batch,
                ModeText::Off => JournalMode::Off,
            },
            body_limit: self.body_limit.map_or(default.body_limit, to_usize),
            retain_for: self.retain_for.map(|time| time.0),
            retain_size: self.retain_size.map(|size| size.0).or(default.retain_size),
            path: self.path.map(|path| folder.join(path)),
        }
    }
}
