//! `space/invite` and `space/kick`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::grant::read;
use super::standing::{Invitation, Kicked, Standing};
use super::{Closing, Effect, RESERVED, Refusal, Room};
use crate::auth::Token;
use crate::room::message::Draft;

/// An invitation that may be made.
#[derive(Debug, Deserialize)]
pub(super) struct Inviting {
    participant_id: Box<str>,
    #[serde(default)]
    initial_capabilities: Vec<Value>,
    #[serde(default)]
    reason: Option<String>,
}

/// Somebody who may be sent away.
#[derive(Debug, Deserialize)]
pub(super) struct Kicking {
    participant_id: Box<str>,
    #[serde(default)]
    reason: Option<String>,
}

impl Room {
    pub(super) fn check_invitation(&self, who: &str, draft: &Draft) -> Result<Inviting, Refusal> {
        let inviting: Inviting = read(draft, "`participant_id`")?;
        check_name(&inviting.participant_id)?;
        if self.present.contains_key(&*inviting.participant_id) {
            let words = format!("`{}` is here already", inviting.participant_id);
            return Err(Refusal::new("already_exists", words));
        }
        let mut given = inviting.initial_capabilities.clone();
        // Whoever has the new token has also what was given to this name before.
        let standing = self.standings.get(&inviting.participant_id);
        given.extend(standing.into_iter().flat_map(Standing::given).cloned());
        if !given.is_empty() {
            self.check_covers(who, &given, "give")?;
        }
        self.standings.check_room(&inviting.participant_id)?;
        Ok(inviting)
    }

    /// Makes a place for somebody, and a token that only this room knows; the one who invited him is
    /// told that, and nobody else.
    pub(super) fn invite(&mut self, inviting: &Inviting, by: &str) -> Option<Token> {
        // Whoever has a token of the gateway comes with that; without randomness there is none.
        let is_known = self.known.has(&inviting.participant_id);
        let token = if is_known { None } else { Token::generate().ok() };
        let standing = self.standings.entry(&inviting.participant_id);
        standing.kicked = None;
        standing.invitation = Some(Invitation {
            by: by.into(),
            token_hash: token.as_ref().map(|token| token.hash().to_string().into()),
            capabilities: inviting.initial_capabilities.clone(),
            is_limited: !inviting.initial_capabilities.is_empty(),
        });
        token
    }

    pub(super) fn tell_of_invitation(
        &mut self,
        inviting: &Inviting,
        (by, id): (&Arc<str>, &str),
        token: Option<&Token>,
    ) {
        let Some(to) = self.present.get(by).map(super::Participant::alone) else { return };
        let mut payload = json!({
            "status": if token.is_some() { "created" } else { "added" },
            "participant_id": inviting.participant_id,
        });
        if let Some(token) = token {
            payload["token"] = token.reveal().into();
        }
        let ack = self.own("space/invite-ack", vec![Box::from(&**by)], vec![id.into()], &payload);
        self.tell(ack, to);
        let invited = json!({
            "event": "invited",
            "participant": {
                "id": inviting.participant_id,
                "capabilities": inviting.initial_capabilities,
            },
            "invited_by": &**by,
            "reason": inviting.reason,
        });
        let presence = self.own("system/presence", Vec::new(), Vec::new(), &invited);
        let others = self.others(by);
        self.tell(presence, others);
    }

    pub(super) fn check_kick(&self, who: &str, draft: &Draft) -> Result<Kicking, Refusal> {
        let kicking: Kicking = read(draft, "`participant_id`")?;
        if &*kicking.participant_id == who {
            let words = "nobody sends himself away; leave instead";
            return Err(Refusal::new("invalid_operation", words));
        }
        let is_own = [crate::admin::OPERATOR].iter().chain(&RESERVED);
        if is_own.into_iter().any(|own| *own == &*kicking.participant_id) {
            let words = format!("`{}` belongs to the room", kicking.participant_id);
            return Err(Refusal::new("invalid_operation", words));
        }
        self.check_known(&kicking.participant_id)?;
        Ok(kicking)
    }

    /// Takes everything back that was given to him here; he stays away until he is invited again.
    pub(super) fn kick(&mut self, kicking: &Kicking, by: &str) {
        let standing = self.standings.entry(&kicking.participant_id);
        standing.grants.clear();
        standing.invitation = None;
        standing.kicked = Some(Kicked { by: by.into(), reason: kicking.reason.clone() });
    }

    /// He has heard why by then.
    pub(super) fn send_away(&mut self, kicking: &Kicking) {
        self.let_go(&kicking.participant_id, Closing::Kicked);
    }

    /// Ends the connection of somebody who is here.
    pub(super) fn let_go(&mut self, id: &str, closing: Closing) {
        let Some(participant) = self.present.get(id) else { return };
        let connection = participant.connection;
        self.leave(connection);
        self.effects.push(Effect::Close { connection, closing });
    }

    /// Whether somebody may come in at all.
    pub(crate) fn check_member(&self, id: &str) -> Result<(), Refusal> {
        let standing = self.standings.get(id);
        if let Some(Kicked { by, reason }) = standing.and_then(|it| it.kicked.as_ref()) {
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let words = format!("`{by}` has sent you away from this room{reason}");
            return Err(Refusal::new("kicked", words));
        }
        let is_invited = standing.is_some_and(|it| it.invitation.is_some());
        let members = self.settings.members.as_ref();
        let is_member = members.is_none_or(|members| members.iter().any(|member| member == id));
        if is_member || is_invited || id == crate::admin::OPERATOR {
            return Ok(());
        }
        let words = format!("`{id}` is no member of this room; somebody in it can invite you");
        Err(Refusal::new("not_a_member", words))
    }
}

/// Whether somebody may be called so.
pub(crate) fn check_name(id: &str) -> Result<(), Refusal> {
    let is_named = !id.is_empty() && id.len() <= 128 && !id.chars().any(char::is_control);
    if !is_named {
        let words = "the name of a participant has 1 to 128 bytes and no control characters";
        return Err(Refusal::invalid(words));
    }
    if RESERVED.contains(&id) || id.starts_with("system:") {
        return Err(Refusal::invalid(format!("`{id}` is the name of somebody else")));
    }
    Ok(())
}
