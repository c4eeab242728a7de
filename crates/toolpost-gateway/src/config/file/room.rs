//! `[room.NAME]`: what holds for one room of the workspace.

use std::num::{NonZeroU32, NonZeroUsize};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits::non_zero;
use super::{CapabilityText, DurationText, SizeText};
use crate::room::RoomSettings;

/// Settings of one room; a room without a table has the defaults.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { participants = 20 }")]
#[schemars(rename = "Room")]
pub(in super::super) struct RoomText {
    /// How many messages are kept for those who come later.
    history: usize,
    /// How many bytes these may have together.
    history_bytes: SizeText,
    /// How many may be there at the same time.
    participants: NonZeroUsize,
    /// The largest message.
    pub(in super::super) message_bytes: SizeText,
    /// How many messages one participant may send in a minute; half of them at once.
    messages_per_minute: NonZeroU32,
    /// How many streams may be open at the same time.
    streams: usize,
    /// How long a proposal waits for somebody.
    pub(in super::super) proposal_expires: DurationText,
    /// What those may do whose identity says nothing about it.
    pub(in super::super) capabilities: Vec<CapabilityText>,
    /// Who may come in, by the names of their identities; everybody who is known, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    pub(in super::super) members: Option<Vec<String>>,
}

impl Default for RoomText {
    fn default() -> Self {
        let usual = RoomSettings::default();
        Self {
            history: usual.max_history_messages,
            history_bytes: size_text(usual.max_history_bytes),
            participants: non_zero(usual.max_participants),
            message_bytes: size_text(usual.max_message_bytes),
            messages_per_minute: NonZeroU32::new(usual.messages_per_minute)
                .unwrap_or(NonZeroU32::MIN),
            streams: usual.max_streams,
            proposal_expires: DurationText(usual.proposal_expires),
            capabilities: usual.capabilities.into_iter().map(CapabilityText).collect(),
            members: usual.members,
        }
    }
}

impl RoomText {
    pub(in super::super) fn settings(self) -> RoomSettings {
        RoomSettings {
            max_history_messages: self.history,
            max_history_bytes: to_usize(self.history_bytes),
            max_participants: self.participants.get(),
            max_message_bytes: to_usize(self.message_bytes),
            messages_per_minute: self.messages_per_minute.get(),
            max_streams: self.streams,
            proposal_expires: self.proposal_expires.0,
            capabilities: self.capabilities.into_iter().map(|text| text.0).collect(),
            members: self.members,
        }
    }
}

fn size_text(number: usize) -> SizeText {
    SizeText(u64::try_from(number).unwrap_or(u64::MAX))
}

fn to_usize(size: SizeText) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}
