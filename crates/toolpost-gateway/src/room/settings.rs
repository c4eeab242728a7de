//! What holds for rooms.

use std::collections::BTreeMap;
use std::time::Duration;

/// What holds for one room.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoomSettings {
    /// How many messages are kept for those who come later.
    pub history: usize,
    /// How many bytes these may have together.
    pub history_bytes: usize,
    /// How many may be there at the same time.
    pub participants: usize,
    /// The largest message in bytes.
    pub message_bytes: usize,
    /// How many messages one participant may send in a minute; half of them at once.
    pub messages_per_minute: u32,
    /// How many streams may be open at the same time.
    pub streams: usize,
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
        let usual =
            ["chat", "chat/*", "mcp/proposal", "mcp/withdraw", "mcp/response", "reasoning/*"];
        Self {
            history: 1_000,
            history_bytes: 8 * 1024 * 1024,
            participants: 256,
            message_bytes: 1024 * 1024,
            messages_per_minute: 1_200,
            streams: 64,
            proposal_expires: Duration::from_secs(600),
            capabilities: usual.map(str::to_owned).into(),
            members: None,
        }
    }
}

/// What holds for the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkspaceSettings {
    /// The rooms that are named.
    pub rooms: BTreeMap<String, RoomSettings>,
    /// How many rooms may be open at the same time, named or not.
    pub most_rooms: usize,
}

impl Default for WorkspaceSettings {
    fn default() -> Self {
        Self { rooms: BTreeMap::new(), most_rooms: 256 }
    }
}
