//! Names of rooms.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

/// Name of a room: 1 to 64 ASCII letters, digits, `-`, `_` and `.`, not only dots. The characters
/// are restricted because the name appears in URLs and logs. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoomName(Arc<str>);

/// Error returned when a string is not the name of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid room name; use 1 to {} letters, digits, `-`, `_` and `.`, not only dots",
    RoomName::MAX_BYTES
)]
#[non_exhaustive]
pub struct RoomNameError;

impl RoomName {
    /// Maximum size of a name, in bytes.
    pub const MAX_BYTES: usize = 64;

    /// Parses a name.
    ///
    /// # Errors
    ///
    /// The text is empty, too long, consists of dots, or contains another character.
    pub fn parse(text: &str) -> Result<Self, RoomNameError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = (1..=Self::MAX_BYTES).contains(&text.len())
            && text.bytes().all(is_allowed)
            && text.bytes().any(|byte| byte != b'.');
        if is_name { Ok(Self(text.into())) } else { Err(RoomNameError) }
    }
}

impl FromStr for RoomName {
    type Err = RoomNameError;

    fn from_str(text: &str) -> Result<Self, RoomNameError> {
        Self::parse(text)
    }
}

impl Deref for RoomName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for RoomName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RoomName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_name_is_plain_and_bounded() {
        let long = "x".repeat(65);
        for (text, is_name) in [
            ("lobby", true),
            ("a-b_c.9", true),
            (".a", true),
            ("Z", true),
            (&long[1..], true),
            (&long, false),
            ("", false),
            (".", false),
            ("..", false),
            ("a b", false),
            ("a/b", false),
            ("a\\b", false),
            ("a*", false),
            ("a:b", false),
            ("é", false),
            ("a\n", false),
        ] {
            assert_eq!(RoomName::parse(text).is_ok(), is_name, "{text}");
        }
    }
}
