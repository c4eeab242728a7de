//! The protocol families that are spoken, and their versions.

use std::fmt;

/// What a participant speaks. The two families write the same messages differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// `mcpx/v0.1`: extended kinds, one correlation.
    Mcpx01,
    /// `mew/v0.3`: short kinds, a list of correlations.
    Mew03,
    /// `mew/v0.4`: as v0.3, with streams and participant control.
    Mew04,
}

impl Protocol {
    /// Every one of them, in the order in which they are named to people.
    pub const ALL: [Self; 3] = [Self::Mcpx01, Self::Mew03, Self::Mew04];

    /// The protocol of this name, which is compared to the letter.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.as_str() == text)
    }

    /// Its name in the member `protocol`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcpx01 => "mcpx/v0.1",
            Self::Mew03 => "mew/v0.3",
            Self::Mew04 => "mew/v0.4",
        }
    }

    /// Whether kinds are short in it and correlations a list.
    pub fn is_mew(self) -> bool {
        self != Self::Mcpx01
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
