//! Changes to the capabilities of a token: grants, revocations and invitations. They survive a
//! restart.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolpost::IdentityKey;

use super::RoomError;
use crate::room::capability::{Capabilities, Capability};
use crate::room::message::{RejectionCode, RoomMessage};

const MAX_PARTICIPANTS: usize = 2_000;
const MAX_GRANTS_PER_PARTICIPANT: usize = 100;

/// Maximum size of the document, in bytes.
const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;

/// The stored grants, revocations and invitations of a room.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RoomGrants {
    /// Id of the last message that changed the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<Box<str>>,
    participants: BTreeMap<Box<str>, ParticipantGrants>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ParticipantGrants {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) grants: Vec<Grant>,
    /// Token capabilities that are revoked in this room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) revoked: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) invitation: Option<Invitation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kicked: Option<Kicked>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Grant {
    /// Id of the `capability/grant` message.
    pub(super) id: Box<str>,
    pub(super) by: Box<str>,
    pub(super) capabilities: Vec<Value>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Invitation {
    pub(super) by: Box<str>,
    /// Hash of a token that is valid only in this room; absent for a participant with a gateway
    /// token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token_hash: Option<Box<str>>,
    /// The inviter of a guest, and its inviters if it is a guest too. A token without them is not
    /// valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) inviters: Vec<IdentityKey<'static>>,
    #[serde(default)]
    pub(super) capabilities: Vec<Value>,
    /// Whether the invitation names capabilities, which then replace the room defaults.
    #[serde(default)]
    pub(super) is_limited: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kicked {
    pub(super) by: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The inviters of a guest that was kicked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) inviters: Vec<IdentityKey<'static>>,
}

impl RoomGrants {
    pub(super) fn snapshot(&mut self, last: &str) -> String {
        self.last = Some(last.into());
        self.participants.retain(|_, record| !record.is_empty());
        serde_json::to_string(self).expect("texts and values are JSON")
    }

    pub(super) fn get(&self, id: &str) -> Option<&ParticipantGrants> {
        self.participants.get(id)
    }

    pub(super) fn invitation(&self, id: &str) -> Option<&Invitation> {
        self.get(id)?.invitation.as_ref()
    }

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
        Err(RejectionCode::LimitExceeded.error(detail))
    }

    pub(super) fn entry(&mut self, id: &str) -> &mut ParticipantGrants {
        self.participants.entry(id.into()).or_default()
    }

    /// Returns the name and the inviters of the guest with this token.
    pub(super) fn guest(&self, token_hash: &str) -> Option<(&str, &[IdentityKey<'static>])> {
        let mut invitations = self.participants.iter().filter_map(|(id, record)| {
            let invitation = record.invitation.as_ref()?;
            Some((&**id, invitation)).filter(|_| !invitation.inviters.is_empty())
        });
        let has_token =
            |invitation: &Invitation| invitation.token_hash.as_deref() == Some(token_hash);
        let (id, invitation) = invitations.find(|(_, invitation)| has_token(invitation))?;
        Some((id, &invitation.inviters))
    }

    /// Returns the capabilities of a participant: those of its token without the revoked ones, plus
    /// the granted ones.
    pub(super) fn effective_capabilities(&self, id: &str, own: &Capabilities) -> Capabilities {
        let Some(record) = self.get(id) else { return own.clone() };
        let revoked: Vec<Capability> =
            record.revoked.iter().filter_map(|value| Capability::compile(value).ok()).collect();
        let is_retained = |own_capability: &&Capability| {
            !revoked.iter().any(|revoked| revoked.covers(own_capability))
        };
        let mut effective = Capabilities::new(own.iter().filter(is_retained).cloned());
        for value in record.granted_capabilities() {
            // Granted capabilities were compiled before, so errors are not expected.
            if let Ok(capability) = Capability::compile(value) {
                effective.add(capability);
            }
        }
        effective
    }

    /// Index of the first message that the stored grants do not include.
    pub(super) fn first_unapplied(&self, messages: &[(i64, RoomMessage)]) -> usize {
        let Some(last) = &self.last else {
            // Nothing was stored yet, or the document has no `last`.
            return if self.participants.is_empty() { 0 } else { messages.len() };
        };
        // If the last applied message is not among these, it is older than all of them.
        messages.iter().rposition(|(_, message)| message.id == *last).map_or(0, |at| at + 1)
    }
}

impl ParticipantGrants {
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
