//! `[approval]`, and what sources and operations say about it.

use std::num::NonZeroUsize;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::DurationText;

/// Which calls wait until somebody with the scope `toolpost:approve` agrees, and for how long.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table such as { operations = [\"files.write*\"] }"
)]
#[schemars(rename = "Approval")]
pub(in super::super) struct ApprovalText {
    /// Patterns over operation ids, beside what sources and operations say; `*` stands for anything.
    /// The namespaces `gateway` and `hub` are never meant.
    pub(in super::super) operations: Vec<String>,
    /// How long a call waits for a decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText", extend("default" = "10m"))]
    pub(in super::super) expires: Option<DurationText>,
    /// How many calls may wait at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NonZeroUsize", extend("default" = 100))]
    pub(in super::super) max_pending: Option<NonZeroUsize>,
    /// How many calls of one caller may wait at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NonZeroUsize", extend("default" = 10))]
    pub(in super::super) max_pending_per_caller: Option<NonZeroUsize>,
}

/// `true`, `false` or `["pattern"]`.
#[derive(Debug)]
pub(in super::super) enum ApprovalRuleText {
    Always(bool),
    Patterns(Vec<String>),
}

impl<'de> Deserialize<'de> for ApprovalRuleText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ApprovalRuleVisitor;
        impl<'de> Visitor<'de> for ApprovalRuleVisitor {
            type Value = ApprovalRuleText;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("true, false, or a list of patterns such as [\"delete*\"]")
            }

            fn visit_bool<E: Error>(self, always: bool) -> Result<ApprovalRuleText, E> {
                Ok(ApprovalRuleText::Always(always))
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                patterns: A,
            ) -> Result<ApprovalRuleText, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(patterns))
                    .map(ApprovalRuleText::Patterns)
            }
        }
        deserializer.deserialize_any(ApprovalRuleVisitor)
    }
}

impl JsonSchema for ApprovalRuleText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ApprovalRule".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "boolean"},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
        ]})
    }
}
