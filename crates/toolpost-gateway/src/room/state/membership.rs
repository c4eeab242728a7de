//! `space/invite` and `space/kick`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use toolpost::{Identity, IdentityKey, IdentityKind};

use super::grants::{Invitation, Kicked, ParticipantGrants};
use super::handle_grant::parse_payload;
use super::{DisconnectCause, Effect, RESERVED_PARTICIPANTS, Room, RoomError};
use crate::auth::Token;
use crate::room::message::{BaseKind, Draft, RejectionCode};

/// An accepted invitation.
pub(super) struct Invite {
    payload: InvitePayload,
    /// The room token; absent for an identity that was kicked, whose invitation ends the kick.
    token: Option<Token>,
}

#[derive(Debug, Deserialize)]
struct InvitePayload {
    participant_id: Box<str>,
    #[serde(default)]
    initial_capabilities: Vec<Value>,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct KickPayload {
    pub(super) participant_id: Box<str>,
    #[serde(default)]
    reason: Option<String>,
}

impl Room {
    pub(super) fn check_invite(&self, sender: &str, draft: &Draft) -> Result<Invite, RoomError> {
        let invite: InvitePayload = parse_payload(draft, "`participant_id`")?;
        check_participant_name(&invite.participant_id)?;
        let record = self.grants.get(&invite.participant_id);
        let is_kicked = record.is_some_and(|record| record.kicked.is_some());
        if record.is_some_and(|record| record.invitation.is_none() && !record.grants.is_empty()) {
            let detail = format!(
                "`{}` holds grants as another identity; revoke them or choose another name",
                invite.participant_id
            );
            return Err(RejectionCode::AlreadyExists.error(detail));
        }
        let token = match (self.create_token)(&invite.participant_id) {
            Err(error) if !is_kicked => return Err(error),
            token => token.ok(),
        };
        if self.participants.contains_key(&*invite.participant_id) {
            let detail = format!("`{}` is already in the room", invite.participant_id);
            return Err(RejectionCode::AlreadyExists.error(detail));
        }
        let mut given = invite.initial_capabilities.clone();
        // The new token also carries the capabilities granted to this name earlier.
        given.extend(record.into_iter().flat_map(ParticipantGrants::granted_capabilities).cloned());
        if !given.is_empty() {
            self.check_covers(sender, &given, "give")?;
        }
        self.grants.check_capacity(&invite.participant_id)?;
        Ok(Invite { payload: invite, token })
    }

    pub(super) fn invite(&mut self, Invite { payload, token }: &Invite, by: &str) {
        let inviter = self.identity_of(by).filter(|_| token.is_some()).cloned();
        let own_inviters = inviter.iter().flat_map(|inviter| inviter.inviters()).cloned();
        let inviters = inviter.iter().map(|inviter| inviter.key().into_owned());
        let inviters = inviters.chain(own_inviters).collect();
        let record = self.grants.entry(&payload.participant_id);
        record.kicked = None;
        record.invitation = Some(Invitation {
            by: by.into(),
            token_hash: token.as_ref().map(|token| token.hash().to_string().into()),
            inviters,
            capabilities: payload.initial_capabilities.clone(),
            is_limited: !payload.initial_capabilities.is_empty(),
        });
    }

    /// Announces the invitation. Only the inviter receives the token.
    pub(super) fn announce_invitation(
        &mut self,
        Invite { payload: invite, token }: &Invite,
        (by, id): (&Arc<str>, &str),
    ) {
        if !self.participants.contains_key(by) {
            return;
        }
        let mut payload = json!({
            "status": if token.is_some() { "created" } else { "added" },
            "participant_id": invite.participant_id,
        });
        if let Some(token) = token {
            payload["token"] = token.reveal().into();
        }
        let ack = self.gateway_message(BaseKind::SpaceInviteAck, &[by], &[id], &payload);
        self.send_to_addressees(ack);
        let invited = json!({
            "event": "invited",
            "participant": {
                "id": invite.participant_id,
                "capabilities": invite.initial_capabilities,
            },
            "invited_by": &**by,
            "reason": invite.reason,
        });
        let presence = self.gateway_message(BaseKind::SystemPresence, &[], &[], &invited);
        let others = self.other_recipients(by);
        self.send(presence, others);
    }

    pub(super) fn check_kick(&self, sender: &str, draft: &Draft) -> Result<KickPayload, RoomError> {
        let kick: KickPayload = parse_payload(draft, "`participant_id`")?;
        if &*kick.participant_id == sender {
            let detail = "participants cannot kick themselves; leave the room instead";
            return Err(RejectionCode::InvalidOperation.error(detail));
        }
        let is_own = [crate::admin::OPERATOR].iter().chain(&RESERVED_PARTICIPANTS);
        if is_own.into_iter().any(|own| *own == &*kick.participant_id) {
            let detail = format!("`{}` is reserved and cannot be kicked", kick.participant_id);
            return Err(RejectionCode::InvalidOperation.error(detail));
        }
        self.check_participant_known(&kick.participant_id)?;
        Ok(kick)
    }

    /// Removes the grants and the invitation of a participant and bars it until it is invited
    /// again.
    pub(super) fn kick(&mut self, kick: &KickPayload, by: &str) {
        let record = self.grants.entry(&kick.participant_id);
        record.grants.clear();
        let inviters = record.invitation.take().map(|invitation| invitation.inviters);
        record.kicked = Some(Kicked {
            by: by.into(),
            reason: kick.reason.clone(),
            inviters: inviters.unwrap_or_default(),
        });
    }

    pub(super) fn disconnect(&mut self, id: &str, cause: DisconnectCause) {
        let Some(participant) = self.participants.get(id) else { return };
        let connection = participant.connection;
        self.leave(connection);
        self.effects.push(Effect::Close { connection, cause });
    }

    /// Checks that an identity may join under this participant name: it is not kicked, the name is
    /// not that of a guest, and it is a member, invited, or the operator.
    pub(crate) fn check_membership(&self, id: &str, identity: &Identity) -> Result<(), RoomError> {
        let record = self.grants.get(id);
        if let Some(Kicked { by, reason, .. }) = record.and_then(|grants| grants.kicked.as_ref()) {
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let detail = format!("`{by}` kicked you from this room{reason}");
            return Err(RejectionCode::Kicked.error(detail));
        }
        let invitation = record.and_then(|grants| grants.invitation.as_ref());
        let is_guest = matches!(identity.kind, IdentityKind::Guest { .. });
        if !is_guest && invitation.is_some_and(|invitation| invitation.token_hash.is_some()) {
            let detail = format!("`{id}` is a guest of this room and requires a token of its own");
            return Err(RejectionCode::AuthViolation.error(detail));
        }
        if invitation.is_some() || !is_guest && self.settings.admits(identity, id) {
            return Ok(());
        }
        let detail = format!("`{id}` is not in `members` of this room");
        Err(RejectionCode::NotAMember.error(detail))
    }
}

impl Room {
    /// Returns the identity of a participant, or of the approver whose decision is applied.
    pub(super) fn identity_of(&self, name: &str) -> Option<&Arc<Identity>> {
        let deciding = self.deciding_identity.as_ref().filter(|identity| identity.id == name);
        deciding.or_else(|| Some(&self.participants.get(name)?.identity))
    }

    /// Returns the key of a sender for the journal. Participants without a token choose their name.
    pub(super) fn sender_key(&self, name: &str) -> IdentityKey<'static> {
        let kind = self.identity_of(name).map_or(&IdentityKind::Gateway, |identity| &identity.kind);
        IdentityKey::new(kind, name).into_owned()
    }

    /// Returns the chain of invitations of a participant, which may have been kicked.
    pub(super) fn inviters_of(&self, name: &str) -> Vec<IdentityKey<'static>> {
        let record = self.grants.get(name);
        let invitation = record.and_then(|record| record.invitation.as_ref());
        let kicked = record.and_then(|record| record.kicked.as_ref());
        let inviters = invitation.map(|invitation| &invitation.inviters);
        inviters.or(kicked.map(|kicked| &kicked.inviters)).cloned().unwrap_or_default()
    }
}

pub(crate) fn check_participant_name(id: &str) -> Result<(), RoomError> {
    let is_valid = !id.is_empty() && id.len() <= 128 && !id.chars().any(char::is_control);
    if !is_valid {
        let detail = "a participant name has 1 to 128 bytes and no control characters";
        return Err(RoomError::invalid(detail));
    }
    if RESERVED_PARTICIPANTS.contains(&id) || id.starts_with("system:") {
        return Err(RoomError::invalid(format!("`{id}` is a reserved name")));
    }
    Ok(())
}
