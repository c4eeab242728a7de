//! Joining and leaving.

use std::sync::Arc;

use toolpost::Identity;

use super::{ConnectionId, DisconnectCause, Effect, Participant, ParticipantJoin, Room, RoomError};
use crate::room::capability::Capabilities;
use crate::room::message::{Protocol, RejectionCode};

/// Maximum number of departed participants whose usage is remembered.
const MAX_DEPARTED: usize = 1_000;

impl Room {
    /// Joins an authenticated participant and replaces its earlier connection.
    pub(super) fn join(&mut self, join: ParticipantJoin) {
        if let Err(rejection) = self.check_can_join(&join.id, &join.identity) {
            let connection = join.connection;
            let cause = DisconnectCause::Rejected(rejection);
            return self.effects.push(Effect::Close { connection, cause });
        }
        let ParticipantJoin {
            connection,
            id,
            token_capabilities: own,
            identity,
            protocol,
            history,
            kinds,
        } = join;
        let uses_defaults = own.is_none();
        let own = own.unwrap_or_else(|| self.default_capabilities_for(&id));
        let may = self.grants.effective_capabilities(&id, &own);
        let previous = self.participants.remove(&id);
        let usage =
            previous.as_ref().map(|earlier| earlier.usage).or_else(|| self.departed.remove(&id));
        let mut usage = usage.unwrap_or_default();
        usage.paused_until.take_if(|until| *until <= self.now);
        let participant = Participant {
            connection,
            protocol,
            token_capabilities: own,
            uses_defaults,
            capabilities: may.clone(),
            identity,
            kinds,
            usage,
            is_shut_down: false,
        };
        self.participants.insert(Arc::clone(&id), participant);
        self.connections.insert(connection, Arc::clone(&id));
        if let Some(previous) = &previous {
            self.connections.remove(&previous.connection);
            let cause = DisconnectCause::Replaced;
            self.effects.push(Effect::Close { connection: previous.connection, cause });
        }
        self.rebuild_recipients();
        self.send_welcome(&id, history);
        // Replacing a connection does not change presence for the other participants.
        if previous.is_none() {
            self.announce_presence("join", &id, &may);
        }
    }

    /// Returns the capabilities of a participant whose identity defines none. An invitation with
    /// capabilities replaces the defaults.
    pub(super) fn default_capabilities_for(&self, id: &str) -> Capabilities {
        match self.grants.invitation(id).is_some_and(|invitation| invitation.is_limited) {
            true => Capabilities::default(),
            false => self.default_capabilities.clone(),
        }
    }

    pub(crate) fn check_can_join(&self, id: &str, identity: &Identity) -> Result<(), RoomError> {
        self.check_membership(id, identity)?;
        if self.participants.get(id).is_some_and(|present| !present.identity.is_same(identity)) {
            let detail = format!("`{id}` is in use by another identity in this room");
            return Err(RejectionCode::AuthViolation.error(detail));
        }
        let limit = self.settings.max_participants;
        if self.participants.len() >= limit && !self.participants.contains_key(id) {
            let detail = format!("participant limit reached: {limit} are in this room");
            return Err(RejectionCode::RoomFull.error(detail));
        }
        Ok(())
    }

    /// Handles the end of a connection. A replaced connection is ignored.
    pub(super) fn leave(&mut self, connection: ConnectionId) {
        let Some(id) = self.connections.remove(&connection) else { return };
        let Some(participant) = self.participants.remove(&id) else { return };
        self.rebuild_recipients();
        if self.departed.len() >= MAX_DEPARTED {
            self.departed.pop_first();
        }
        self.departed.insert(Arc::clone(&id), participant.usage);
        self.close_streams_of(&id);
        self.announce_presence("leave", &id, &participant.capabilities);
    }

    pub(super) fn update_protocol(&mut self, sender: &str, protocol: Option<Protocol>) {
        let Some(protocol) = protocol else { return };
        let Some(participant) = self.participants.get_mut(sender) else { return };
        if participant.protocol != protocol {
            participant.protocol = protocol;
            self.rebuild_recipients();
        }
    }
}
