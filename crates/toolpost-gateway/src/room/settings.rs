//! Room settings.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolpost::{Identity, IdentityKind};

use super::capability::CapabilityTexts;
use super::room_name::RoomName;
use crate::units::{Count, PositiveDuration, Size};

/// Settings of one room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { participants = 20 }")]
#[schemars(rename = "Room")]
#[non_exhaustive]
pub struct RoomSettings {
    /// Maximum number of messages in the history.
    #[serde(rename = "history")]
    pub max_history_messages: usize,
    /// Maximum total size of the history.
    #[serde(rename = "history_bytes", with = "Size::<0>")]
    pub max_history_bytes: usize,
    /// Maximum size of the past messages in a welcome. Earlier ones are in the history.
    #[serde(rename = "welcome_bytes", with = "Size::<0>")]
    pub max_welcome_bytes: usize,
    /// Maximum number of concurrent participants.
    #[serde(rename = "participants", with = "Count")]
    pub max_participants: usize,
    /// Maximum message size.
    #[serde(rename = "message_bytes", with = "Size::<1>")]
    pub max_message_bytes: usize,
    /// Maximum number of messages per participant and minute. Up to half of them can be sent in a
    /// burst.
    #[serde(with = "Count")]
    pub messages_per_minute: u32,
    /// Maximum number of open streams.
    #[serde(rename = "streams")]
    pub max_streams: usize,
    /// How long a proposal stays open.
    #[serde(with = "PositiveDuration")]
    pub proposal_expires: Duration,
    /// Short kinds of `mcpx` clients, such as `mcp/response:tools/call` without the tool: `accept`,
    /// `warn` (accept, with one notice to each participant) or `reject`
    pub short_kinds: ShortKinds,
    /// Capabilities of participants whose identity has none, in either notation.
    #[serde(with = "CapabilityTexts")]
    pub capabilities: Vec<String>,
    /// Names of the identities that may join; every identity if absent.
    pub members: Option<Vec<String>>,
}

/// What happens to messages of `mcpx` clients with a short kind, which is deprecated there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[non_exhaustive]
pub enum ShortKinds {
    /// They are accepted.
    #[default]
    Accept,
    /// They are accepted, and each participant gets one notice.
    Warn,
    /// They are rejected.
    Reject,
}

impl Default for RoomSettings {
    fn default() -> Self {
        let defaults =
            ["chat", "chat/*", "mcp/proposal", "mcp/withdraw", "mcp/response", "reasoning/*"];
        Self {
            max_history_messages: 1_000,
            max_history_bytes: 8 * 1024 * 1024,
            max_welcome_bytes: 1024 * 1024,
            max_participants: 256,
            max_message_bytes: 1024 * 1024,
            messages_per_minute: 1_200,
            max_streams: 64,
            proposal_expires: Duration::from_secs(600),
            short_kinds: ShortKinds::default(),
            capabilities: defaults.map(str::to_owned).into(),
            members: None,
        }
    }
}

impl RoomSettings {
    /// Whether an identity may join under this participant name without an invitation.
    pub(crate) fn admits(&self, identity: &Identity, participant: &str) -> bool {
        let is_member = |member: &String| match identity.kind {
            // Participants without a token choose their name.
            IdentityKind::Local => member == participant,
            _ => identity.is_named(member),
        };
        identity.kind == IdentityKind::Operator
            || self.members.as_ref().is_none_or(|members| members.iter().any(is_member))
    }
}

/// Settings of all rooms.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoomsSettings {
    /// Configured rooms by name.
    pub rooms: BTreeMap<RoomName, RoomSettings>,
    /// Maximum number of open rooms, besides the lobby and configured rooms.
    pub max_rooms: usize,
    /// Maximum number of these rooms that one caller opened.
    pub max_rooms_per_caller: usize,
}

impl Default for RoomsSettings {
    fn default() -> Self {
        Self { rooms: BTreeMap::new(), max_rooms: 256, max_rooms_per_caller: 32 }
    }
}
