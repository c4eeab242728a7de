//! `capability/grant` and `capability/revoke`.

use serde::Deserialize;
use serde_json::Value;
use toolpost::json::error_message;

use super::grants::Grant;
use super::{Room, RoomError};
use crate::room::capability::Capability;
use crate::room::message::{BaseKind, Draft, RejectionCode, RoomMessage, quoted};

const MAX_CAPABILITIES_PER_MESSAGE: usize = 100;

#[derive(Debug, Clone, Deserialize)]
pub(super) struct GrantPayload {
    pub(super) recipient: Box<str>,
    capabilities: Vec<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RevokePayload {
    pub(super) recipient: Box<str>,
    #[serde(default)]
    grant_id: Option<Box<str>>,
    #[serde(default)]
    capabilities: Vec<Value>,
}

impl Room {
    pub(super) fn check_grant(
        &self,
        sender: &str,
        draft: &Draft,
    ) -> Result<GrantPayload, RoomError> {
        let grant: GrantPayload = parse_payload(draft, "`recipient` and `capabilities`")?;
        self.check_participant_known(&grant.recipient)?;
        self.check_covers(sender, &grant.capabilities, "grant")?;
        self.grants.check_capacity(&grant.recipient)?;
        Ok(grant)
    }

    /// Checks that the participant is known, which catches misspelled names.
    pub(super) fn check_participant_known(&self, id: &str) -> Result<(), RoomError> {
        let is_known = self.is_known_participant(id);
        is_known.then_some(()).ok_or_else(|| RoomError::participant_not_found(id))
    }

    /// Checks that the sender holds the capabilities that it grants or revokes.
    pub(super) fn check_covers(
        &self,
        sender: &str,
        values: &[Value],
        verb: &str,
    ) -> Result<(), RoomError> {
        if values.is_empty() || values.len() > MAX_CAPABILITIES_PER_MESSAGE {
            return Err(RoomError::invalid(format!(
                "expected 1 to {MAX_CAPABILITIES_PER_MESSAGE} capabilities"
            )));
        }
        let own = self.participants.get(sender).map(|participant| &participant.capabilities);
        for value in values {
            let capability = Capability::compile(value).map_err(|error| {
                RoomError::invalid(format!("{error}: {}", quoted_capability(value)))
            })?;
            if !own.is_some_and(|own| own.covers(&capability)) {
                let detail = format!(
                    "you cannot {verb} {}: your capabilities do not cover it",
                    quoted_capability(value)
                );
                return Err(RejectionCode::CapabilityViolation.error(detail));
            }
        }
        Ok(())
    }

    pub(super) fn check_revoke(
        &self,
        sender: &str,
        draft: &Draft,
    ) -> Result<RevokePayload, RoomError> {
        let revoke: RevokePayload =
            parse_payload(draft, "`recipient`, and `grant_id` or `capabilities`")?;
        self.check_participant_known(&revoke.recipient)?;
        let record = self.grants.get(&revoke.recipient);
        let Some(id) = &revoke.grant_id else {
            self.check_covers(sender, &revoke.capabilities, "revoke")?;
            self.check_holds(&revoke)?;
            return Ok(revoke);
        };
        if !revoke.capabilities.is_empty() {
            return Err(RoomError::invalid("name `grant_id` or `capabilities`, not both"));
        }
        let grant = record.and_then(|grants| grants.grants.iter().find(|grant| grant.id == *id));
        let Some(grant) = grant else {
            let detail = format!("`{}` has no grant {}", revoke.recipient, quoted(id));
            return Err(RejectionCode::UnknownGrant.error(detail));
        };
        if &*grant.by != sender {
            self.check_covers(sender, &grant.capabilities, "revoke")?;
        }
        Ok(revoke)
    }

    /// Checks that a present recipient holds the capabilities; those of an absent one are unknown.
    fn check_holds(&self, revoke: &RevokePayload) -> Result<(), RoomError> {
        let Some(participant) = self.participants.get(&*revoke.recipient) else {
            return Ok(());
        };
        let is_held =
            |value: &Value| participant.capabilities.iter().any(|held| is_equivalent(held, value));
        let Some(value) = revoke.capabilities.iter().find(|value| !is_held(value)) else {
            return Ok(());
        };
        let covers =
            |held: &&Capability| Capability::compile(value).is_ok_and(|value| held.covers(&value));
        let wider = participant.capabilities.iter().find(covers);
        let value = quoted_capability(value);
        Err(RejectionCode::UnknownGrant.error(match wider {
            Some(wider) => {
                let wider = quoted_capability(wider.value());
                format!("{value} is covered by {wider}; revoke that instead")
            }
            None => format!("`{}` does not have {value}", revoke.recipient),
        }))
    }

    pub(super) fn grant(&mut self, grant: GrantPayload, id: &str, by: &str) {
        let GrantPayload { recipient, capabilities } = grant;
        let record = self.grants.entry(&recipient);
        // Replayed after a crash, and already stored.
        if record.grants.iter().any(|grant| &*grant.id == id) {
            return;
        }
        record.revoked.retain(|value| !capabilities.contains(value));
        record.grants.push(Grant { id: id.into(), by: by.into(), capabilities });
        self.refresh_capabilities(&recipient);
    }

    pub(super) fn revoke(&mut self, revoke: &RevokePayload) {
        let own = self
            .participants
            .get(&*revoke.recipient)
            .map(|participant| participant.token_capabilities.clone());
        let record = self.grants.entry(&revoke.recipient);
        if let Some(id) = &revoke.grant_id {
            record.grants.retain(|grant| grant.id != *id);
        }
        for value in &revoke.capabilities {
            let Ok(revoked) = Capability::compile(value) else { continue };
            // Revoking a capability also removes the narrower ones that it covers.
            let is_retained = |granted: &Value| {
                Capability::compile(granted).is_ok_and(|granted| !revoked.covers(&granted))
            };
            for grant in &mut record.grants {
                grant.capabilities.retain(is_retained);
            }
            record.grants.retain(|grant| !grant.capabilities.is_empty());
            if let Some(invitation) = &mut record.invitation {
                invitation.capabilities.retain(is_retained);
            }
            // Also for an absent participant: its token capabilities are known only when it joins.
            let is_own = own
                .as_ref()
                .is_none_or(|own| own.iter().any(|capability| revoked.covers(capability)));
            if is_own && !record.revoked.contains(value) {
                record.revoked.push(value.clone());
            }
        }
        self.refresh_capabilities(&revoke.recipient);
    }

    pub(super) fn refresh_capabilities(&mut self, id: &str) {
        let Some(participant) = self.participants.get(id) else { return };
        let capabilities = self.grants.effective_capabilities(id, &participant.token_capabilities);
        if let Some(participant) = self.participants.get_mut(id) {
            participant.capabilities = capabilities;
        }
    }

    /// Applies a journaled message whose changes were not stored.
    pub(super) fn replay_unapplied(&mut self, message: &RoomMessage) {
        let payload = message.payload.as_ref().map_or("{}", |payload| payload.get());
        match message.kind.base() {
            Some(BaseKind::CapabilityGrant) => {
                if let Ok(grant) = serde_json::from_str(payload) {
                    self.grant(grant, &message.id, &message.from);
                }
            }
            Some(BaseKind::CapabilityRevoke) => {
                if let Ok(revoke) = serde_json::from_str(payload) {
                    self.revoke(&revoke);
                }
            }
            Some(BaseKind::SpaceKick) => {
                if let Ok(kick) = serde_json::from_str(payload) {
                    self.kick(&kick, &message.from);
                }
            }
            _ => {}
        }
    }
}

/// Parses the payload of a message. On failure, the error names the expected members.
pub(super) fn parse_payload<'de, T: Deserialize<'de>>(
    draft: &'de Draft,
    expected: &str,
) -> Result<T, RoomError> {
    let text = draft.payload.as_ref().map_or("{}", |payload| payload.get());
    serde_json::from_str(text).map_err(|error| {
        RoomError::invalid(format!(
            "the payload of `{}` must have {expected}: {}",
            draft.kind.short(),
            error_message(&error)
        ))
    })
}

/// Whether two capabilities are equivalent, in either notation.
fn is_equivalent(held: &Capability, value: &Value) -> bool {
    held.value() == value
        || Capability::compile(value)
            .is_ok_and(|compiled| compiled.covers(held) && held.covers(&compiled))
}

fn quoted_capability(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => quoted(&other.to_string()),
    }
}
