//! What holds for rooms.

use std::collections::BTreeMap;
use std::time::Duration;

/// What holds for one room.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoomSettings {
    /// How many messages are kept for those who come later.
    pub max_history_messages: usize,
    /// How many bytes these may have together.
    pub max_history_bytes: usize,
    /// How many may be there at the same time.
    pub max_participants: usize,
    /// The largest message in bytes.
    pub max_message_bytes: usize,
    /// How many messages one participant may send in a minute; half of them at once.
    pub messages_per_minute: u32,
    /// How many streams may be open at the same time.
    pub max_streams: usize,
    /// How long a proposal waits for somebody.
    pub proposal_expires: Duration,
    /// What those may do whose identity says nothing about it: capabilities in either notation, a
    /// pattern as its JSON.
    pub capabilities: Vec<String>,
    /// Who may come in, by their names; everybody who is known where there is no list.
    pub members: Option<Vec<String>>,
}

impl Default for RoomSettings {
    fn default() -> Self {
        let defaults =
            ["chat", "chat/*", "mcp/proposal", "mcp/withdraw", "mcp/response", "reasoning/*"];
        Self {
            max_history_messages: 1_000,
            max_history_bytes: 8 * 1024 * 1024,
            max_participants: 256,
            max_message_bytes: 1024 * 1024,
            messages_per_minute: 1_200,
            max_streams: 64,
            proposal_expires: Duration::from_secs(600),
            capabilities: defaults.map(str::to_owned).into(),
            members: None,
        }
    }
}

/// What holds for the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoomsSettings {
    /// The rooms that are named.
    pub rooms: BTreeMap<String, RoomSettings>,
    /// How many rooms may be open at the same time, named or not.
    pub max_rooms: usize,
}

impl Default for RoomsSettings {
    fn default() -> Self {
        Self { rooms: BTreeMap::new(), max_rooms: 256 }
    }
}
