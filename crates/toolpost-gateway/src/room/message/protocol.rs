//! The supported protocol families and their versions.

use std::fmt;

/// Protocol of a participant. The two families encode the same messages differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// `mcpx/v0.1`: extended kinds, one correlation.
    Mcpx01,
    /// `mew/v0.3`: short kinds, a list of correlations.
    Mew03,
    /// `mew/v0.4`: `mew/v0.3` with streams and participant control.
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
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
