//! Joining and leaving.

use std::sync::Arc;

use super::{Arrival, Closing, ConnectionId, Effect, Participant, Refusal, Room, TOOLPOST};
use crate::room::capability::Capabilities;
use crate::room::message::Protocol;

/// Of how many who have left it is remembered what they had used up.
const MOST_LEFT: usize = 1_000;

impl Room {
    /// Lets somebody in who is who he says, in the place of an earlier connection of his.
    pub(super) fn arrive(&mut self, arrival: Arrival) {
        if let Err(refusal) = self.check_arrival(&arrival.id) {
            let connection = arrival.connection;
            let closing = Closing::Refused(refusal.message);
            return self.effects.push(Effect::Close { connection, closing });
        }
        let Arrival { connection, id, own, identity, protocol, history } = arrival;
        let is_usual = own.is_none();
        let own = own.unwrap_or_else(|| self.usual_of(&id));
        let may = self.may(&id, &own);
        let before = self.present.remove(&id);
        let spent = before.as_ref().map(|one| one.spent).or_else(|| self.left.remove(&id));
        let mut spent = spent.unwrap_or_default();
        spent.paused.take_if(|pause| pause.is_over(self.now));
        let participant = Participant {
            connection,
            protocol,
            own,
            is_usual,
            may: may.clone(),
            identity,
            spent,
            is_shut_down: false,
        };
        self.present.insert(Arc::clone(&id), participant);
        self.connections.insert(connection, Arc::clone(&id));
        if let Some(before) = &before {
            self.connections.remove(&before.connection);
            let closing = Closing::Replaced;
            self.effects.push(Effect::Close { connection: before.connection, closing });
        }
        self.count_everyone();
        self.welcome(&id, history);
        // To the others nothing has changed if he was there.
        if before.is_none() {
            self.announce("join", &id, &may);
        }
    }

    /// What somebody may whose identity says nothing about it. An invitation may say it instead.
    pub(super) fn usual_of(&self, id: &str) -> Capabilities {
        let invitation = self.standings.get(id).and_then(|it| it.invitation.as_ref());
        match invitation.is_some_and(|it| it.is_limited) {
            true => Capabilities::default(),
            false => self.usual.clone(),
        }
    }

    /// Whether somebody may come in, and there is a place for him.
    pub(crate) fn check_arrival(&self, id: &str) -> Result<(), Refusal> {
        self.check_member(id)?;
        let most = self.settings.participants;
        if self.present.len() >= most && !self.present.contains_key(id) {
            let words = format!("{most} participants are in this room, which is the limit");
            return Err(Refusal::new("room_full", words));
        }
        Ok(())
    }

    /// The end of a connection; of one that was replaced nobody needs to hear.
    pub(super) fn leave(&mut self, connection: ConnectionId) {
        let Some(id) = self.connections.remove(&connection) else { return };
        let Some(participant) = self.present.remove(&id) else { return };
        self.count_everyone();
        if self.left.len() >= MOST_LEFT {
            self.left.pop_first();
        }
        self.left.insert(Arc::clone(&id), participant.spent);
        self.end_streams_of(&id);
        self.announce("leave", &id, &participant.may);
    }

    /// Somebody speaks another protocol than was thought; from now on he is answered in it.
    pub(super) fn speaks(&mut self, who: &str, protocol: Option<Protocol>) {
        let Some(protocol) = protocol else { return };
        let Some(participant) = self.present.get_mut(who) else { return };
        if participant.protocol != protocol {
            participant.protocol = protocol;
            self.count_everyone();
        }
    }

    pub(super) fn is_for_toolpost(&self, to: &[Box<str>]) -> bool {
        to.is_empty() || to.iter().any(|id| &**id == TOOLPOST)
    }
}
