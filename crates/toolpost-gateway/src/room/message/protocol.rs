//! The supported protocol families and their versions.

use std::fmt;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

/// Protocol of a participant. The two families encode the same messages differently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// `mcpx/v0.1`: extended kinds, one correlation.
    Mcpx01,
    /// `mew/v0.3`: short kinds, a list of correlations.
    Mew03,
    /// `mew/v0.4`: `mew/v0.3` with streams and participant control. The gateway's own messages use
    /// it.
    #[default]
    Mew04,
}

impl Protocol {
    /// All protocols, in display order.
    pub const ALL: [Self; 3] = [Self::Mcpx01, Self::Mew03, Self::Mew04];

    /// Returns the protocol with this exact name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.as_str() == text)
    }

    /// The name in the member `protocol`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcpx01 => "mcpx/v0.1",
            Self::Mew03 => "mew/v0.3",
            Self::Mew04 => "mew/v0.4",
        }
    }

    /// Whether the protocol belongs to the `mew` family: short kinds, a list of correlations.
    pub fn is_mew(self) -> bool {
        self != Self::Mcpx01
    }

    /// Whether clients of the protocol receive stream frames.
    pub(crate) fn has_streams(self) -> bool {
        self == Self::Mew04
    }

    /// Returns the result of the MCP handshake with a participant whose family does not know it;
    /// `None` for other families, whose clients respond themselves.
    pub(crate) fn initialize_result(self, participant: &str) -> Option<Box<RawValue>> {
        let result = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": participant, "version": "0"},
        });
        to_raw_value(&result).ok().filter(|_| self.is_mew())
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
