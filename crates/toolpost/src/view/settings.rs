//! Settings of a view.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Wire format of tool results, configured per endpoint.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum Dialect {
    /// The data. Results of MCP servers are relayed unchanged.
    #[default]
    Data,
    /// The envelope: `{data, meta}`.
    Envelope,
    /// `{ok: true, data}` on success, `{ok: false, error}` on failure.
    Ok,
    /// The two blocks of a ToolEnvelope, without structured content.
    ToolEnvelopeV1,
}

/// Generation of the MCP protocol, which determines the format of tool results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProtocolGeneration {
    /// Up to 2025-11-25: structured content must be an object.
    Legacy,
    /// From 2026-07-28 on: structured content can be any JSON, and results are marked complete.
    Modern,
}

/// Which operations are listed as tools.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[non_exhaustive]
pub enum ListMode {
    /// Every operation that the caller can access, including offline ones.
    All,
    /// Only the four operations that find and call all others.
    Compact,
    /// `compact` above a number of operations, otherwise `all`.
    #[default]
    Auto,
}

/// Error returned when a name is not one of the known names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not one of {}", expected.join(", "))]
pub struct UnknownNameError {
    found: String,
    expected: Vec<&'static str>,
}

/// Settings of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewSettings {
    /// Wire format of results.
    pub dialect: Dialect,
    /// The only namespace to list. Its tools are named without the namespace.
    pub namespace: Option<Arc<str>>,
    /// Namespaces whose operations are not exposed as tools.
    pub hidden_namespaces: Vec<Arc<str>>,
    /// Namespaces whose tools can be called but are not listed, unless one of them is the only
    /// namespace.
    pub unlisted_namespaces: Vec<Arc<str>>,
    /// Number of operations above which [`ListMode::Auto`] lists the compact set.
    pub compact_above: usize,
    /// Maximum number of tools per page.
    pub page_size: usize,
    /// Maximum number of cached listings. Callers with different access need separate listings.
    pub max_cached_listings: usize,
}

impl Default for ViewSettings {
    fn default() -> Self {
        Self {
            dialect: Dialect::default(),
            namespace: None,
            hidden_namespaces: Vec::new(),
            unlisted_namespaces: Vec::new(),
            compact_above: 60,
            page_size: 1_000,
            max_cached_listings: 64,
        }
    }
}

impl ViewSettings {
    /// Creates default settings with the given dialect.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, ..Self::default() }
    }
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 4] = [Self::Data, Self::Envelope, Self::Ok, Self::ToolEnvelopeV1];

    /// Returns the name in the configuration.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl ProtocolGeneration {
    /// The first protocol version without a handshake.
    const FIRST_MODERN_VERSION: &'static str = "2026-07-28";

    /// Returns the generation of a protocol version. Versions are dates, so they sort as text.
    pub fn from_version(version: &str) -> Self {
        if version >= Self::FIRST_MODERN_VERSION { Self::Modern } else { Self::Legacy }
    }
}

impl ListMode {
    const ALL: [Self; 3] = [Self::All, Self::Compact, Self::Auto];

    /// Returns the name in the configuration and in URLs.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl FromStr for Dialect {
    type Err = UnknownNameError;

    fn from_str(name: &str) -> Result<Self, UnknownNameError> {
        parse_name(name, &Self::ALL, Self::as_str)
    }
}

impl FromStr for ListMode {
    type Err = UnknownNameError;

    fn from_str(name: &str) -> Result<Self, UnknownNameError> {
        parse_name(name, &Self::ALL, Self::as_str)
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn parse_name<T: Copy>(
    name: &str,
    all: &[T],
    as_str: fn(T) -> &'static str,
) -> Result<T, UnknownNameError> {
    let found = all.iter().copied().find(|one| as_str(*one) == name);
    let expected = || all.iter().copied().map(as_str).collect();
    found.ok_or_else(|| UnknownNameError { found: name.to_owned(), expected: expected() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialect_and_list_mode_names_round_trip() {
        for dialect in Dialect::ALL {
            assert_eq!(dialect.as_str().parse(), Ok(dialect));
        }
        for listed in ListMode::ALL {
            assert_eq!(listed.as_str().parse(), Ok(listed));
        }
        let error = "okay".parse::<Dialect>().unwrap_err();
        let expected = "`okay` is not one of data, envelope, ok, tool-envelope-v1";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn protocol_generation_follows_version() {
        for (version, generation) in [
            ("2024-11-05", ProtocolGeneration::Legacy),
            ("2025-11-25", ProtocolGeneration::Legacy),
            ("2026-07-28", ProtocolGeneration::Modern),
            ("2027-01-01", ProtocolGeneration::Modern),
            ("", ProtocolGeneration::Legacy),
        ] {
            assert_eq!(ProtocolGeneration::from_version(version), generation, "{version}");
        }
    }
}
