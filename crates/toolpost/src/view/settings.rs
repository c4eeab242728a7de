//! What is settled about a view before anything is listed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// How results stand on the wire; settled for each endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Dialect {
    /// The data; what came from an MCP server goes out as it came.
    #[default]
    Data,
    /// `{data, meta}`.
    Envelope,
    /// `{ok: true, data}` or `{ok: false, error}`.
    Ok,
    /// The two blocks of a ToolEnvelope, and nothing structured.
    ToolEnvelopeV1,
}

/// What a client understands of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProtocolGeneration {
    /// Up to 2025-11-25: whatever is structured is an object.
    Legacy,
    /// From 2026-07-28 on: any JSON may be structured, and a result says that it is complete.
    Modern,
}

/// Which operations are listed as tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ListMode {
    /// Every operation that the caller may call, offline ones too.
    All,
    /// The four operations through which every other is found and called.
    Compact,
    /// [`ListMode::All`], or [`ListMode::Compact`] where that would be too many.
    #[default]
    Auto,
}

/// A name that is none of those that there are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not one of {}", expected.join(", "))]
pub struct UnknownNameError {
    found: String,
    expected: Vec<&'static str>,
}

/// What holds for a whole endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewSettings {
    /// How results stand on the wire.
    pub dialect: Dialect,
    /// The one namespace that is shown, and then under its operations' own names.
    pub namespace: Option<Arc<str>>,
    /// Namespaces that are no tools.
    pub hidden_namespaces: Vec<Arc<str>>,
    /// Above how many operations [`ListMode::Auto`] is compact.
    pub compact_above: usize,
    /// How many tools a page has at most.
    pub page_size: usize,
    /// How many listings are kept; they differ by what callers may see.
    pub max_cached_listings: usize,
}

impl Default for ViewSettings {
    fn default() -> Self {
        Self {
            dialect: Dialect::default(),
            namespace: None,
            hidden_namespaces: Vec::new(),
            compact_above: 60,
            page_size: 1_000,
            max_cached_listings: 64,
        }
    }
}

impl ViewSettings {
    /// The defaults in some dialect.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, ..Self::default() }
    }
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 4] = [Self::Data, Self::Envelope, Self::Ok, Self::ToolEnvelopeV1];

    /// The name in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Envelope => "envelope",
            Self::Ok => "ok",
            Self::ToolEnvelopeV1 => "tool-envelope-v1",
        }
    }
}

impl ProtocolGeneration {
    /// The first version of the protocol that needs no handshake.
    const FIRST_MODERN_VERSION: &'static str = "2026-07-28";

    /// The era of a protocol version; versions are dates, so text order is time order.
    pub fn from_version(version: &str) -> Self {
        if version >= Self::FIRST_MODERN_VERSION { Self::Modern } else { Self::Legacy }
    }
}

impl ListMode {
    const ALL: [Self; 3] = [Self::All, Self::Compact, Self::Auto];

    /// The name in a configuration and in an address.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Compact => "compact",
            Self::Auto => "auto",
        }
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
