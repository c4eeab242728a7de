//! What somebody may beyond what his token says: grants, revocations, invitations. It outlives the
//! process.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RoomError;
use crate::room::capability::{Capabilities, Capability};
use crate::room::message::RoomMessage;

/// Of how many participants something is kept.
const MAX_PARTICIPANTS: usize = 2_000;
/// How many grants are kept of each.
const MAX_GRANTS_PER_PARTICIPANT: usize = 100;

/// How many bytes all of it may have.
const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;

/// How all of those stand of whom there is something to keep.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RoomGrants {
    /// The last message that changed something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<Box<str>>,
    participants: BTreeMap<Box<str>, ParticipantGrants>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ParticipantGrants {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) grants: Vec<Grant>,
    /// What his token says and does not hold here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) revoked: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) invitation: Option<Invitation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kicked: Option<Kicked>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Grant {
    /// The id of the message.
    pub(super) id: Box<str>,
    pub(super) by: Box<str>,
    pub(super) capabilities: Vec<Value>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Invitation {
    pub(super) by: Box<str>,
    /// Of a token that is known in this room only; none for those who have a token already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token_hash: Option<Box<str>>,
    #[serde(default)]
    pub(super) capabilities: Vec<Value>,
    /// Whether it named capabilities, so that he has those instead of what everybody has.
    #[serde(default)]
    pub(super) is_limited: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kicked {
    pub(super) by: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

impl RoomGrants {
    pub(super) fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// What is kept, as of a message.
    pub(super) fn snapshot(&mut self, last: &str) -> String {
        self.last = Some(last.into());
        self.participants.retain(|_, record| !record.is_empty());
        serde_json::to_string(self).expect("texts and values are JSON")
    }

    pub(super) fn get(&self, id: &str) -> Option<&ParticipantGrants> {
        self.participants.get(id)
    }

    /// Whether there is room for one more thing to be kept of somebody.
    pub(super) fn check_capacity(&self, id: &str) -> Result<(), RoomError> {
        let grants = self.get(id).map(|record| record.grants.len());
        let has_capacity = grants.map_or(self.participants.len() < MAX_PARTICIPANTS, |grants| {
            grants < MAX_GRANTS_PER_PARTICIPANT
        });
        let bytes = serde_json::to_string(self).map_or(0, |text| text.len());
        if has_capacity && bytes < MAX_DOCUMENT_BYTES {
            return Ok(());
        }
        let detail = format!(
            "a room stores {MAX_GRANTS_PER_PARTICIPANT} grants for each of {MAX_PARTICIPANTS} participants, and {MAX_DOCUMENT_BYTES} bytes in \
             all; revoke some first"
        );
        Err(RoomError::new("limit_exceeded", detail))
    }

    pub(super) fn entry(&mut self, id: &str) -> &mut ParticipantGrants {
        self.participants.entry(id.into()).or_default()
    }

    /// Who has this token.
    pub(super) fn invited_participant(&self, token_hash: &str) -> Option<Arc<str>> {
        let has_token = |record: &ParticipantGrants| {
            let hash =
                record.invitation.as_ref().and_then(|invitation| invitation.token_hash.as_deref());
            hash == Some(token_hash)
        };
        let found = self.participants.iter().find(|(_, record)| has_token(record));
        found.map(|(id, _)| Arc::from(&**id))
    }

    /// What somebody may, whose token says that he may this.
    pub(super) fn effective_capabilities(&self, id: &str, own: &Capabilities) -> Capabilities {
        let Some(record) = self.get(id) else { return own.clone() };
        let revoked: Vec<Capability> =
            record.revoked.iter().filter_map(|value| Capability::compile(value).ok()).collect();
        let is_retained = |own_capability: &&Capability| {
            !revoked.iter().any(|revoked| revoked.covers(own_capability))
        };
        let mut effective = Capabilities::new(own.iter().filter(is_retained).cloned());
        for value in record.granted_capabilities() {
            // They were compiled when they were granted.
            if let Ok(capability) = Capability::compile(value) {
                effective.add(capability);
            }
        }
        effective
    }

    /// The first of these messages that is newer than what is kept.
    pub(super) fn first_unapplied(&self, messages: &[(i64, RoomMessage)]) -> usize {
        let Some(last) = &self.last else {
            // Nothing was ever kept, or the room is older than this store.
            return if self.participants.is_empty() { 0 } else { messages.len() };
        };
        // One that is not among them is older than all of them.
        messages.iter().rposition(|(_, message)| message.id == *last).map_or(0, |at| at + 1)
    }
}

impl ParticipantGrants {
    /// What he was given here, by an invitation or by grants.
    pub(super) fn granted_capabilities(&self) -> impl Iterator<Item = &Value> {
        let invited = self.invitation.iter().flat_map(|invitation| &invitation.capabilities);
        let granted = self.grants.iter().flat_map(|grant| &grant.capabilities);
        invited.chain(granted)
    }

    fn is_empty(&self) -> bool {
        let Self { grants, revoked, invitation, kicked } = self;
        grants.is_empty() && revoked.is_empty() && invitation.is_none() && kicked.is_none()
    }
}
