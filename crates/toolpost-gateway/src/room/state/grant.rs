//! `capability/grant` and `capability/revoke`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::refusal::short;
use super::standing::Grant;
use super::{Refusal, Room};
use crate::room::capability::Capability;
use crate::room::message::{Draft, Message};

/// How many capabilities one message may be about.
const MOST: usize = 100;

/// A grant that may be given.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Granting {
    pub(super) recipient: Box<str>,
    capabilities: Vec<Value>,
}

/// A revocation that may be made.
#[derive(Debug, Deserialize)]
pub(super) struct Revoking {
    pub(super) recipient: Box<str>,
    #[serde(default)]
    grant_id: Option<Box<str>>,
    #[serde(default)]
    capabilities: Vec<Value>,
}

impl Room {
    pub(super) fn check_grant(&self, who: &str, draft: &Draft) -> Result<Granting, Refusal> {
        let granting: Granting = read(draft, "`recipient` and `capabilities`")?;
        self.check_known(&granting.recipient)?;
        self.check_covers(who, &granting.capabilities, "grant")?;
        self.standings.check_room(&granting.recipient)?;
        Ok(granting)
    }

    /// Whether somebody is or was here, so that a misspelt name is told.
    pub(super) fn check_known(&self, id: &str) -> Result<(), Refusal> {
        if self.knows(id) { Ok(()) } else { Err(Refusal::no_participant(id)) }
    }

    /// Nobody gives away, or takes away, what he lacks himself.
    pub(super) fn check_covers(
        &self,
        who: &str,
        values: &[Value],
        verb: &str,
    ) -> Result<(), Refusal> {
        if values.is_empty() || values.len() > MOST {
            return Err(Refusal::invalid(format!("name between 1 and {MOST} capabilities")));
        }
        let own = self.present.get(who).map(|one| &one.may);
        for value in values {
            let capability = Capability::compile(value)
                .map_err(|error| Refusal::invalid(format!("{error}: {}", shown(value))))?;
            if !own.is_some_and(|own| own.cover(&capability)) {
                let words = format!("you cannot {verb} {}, which you lack yourself", shown(value));
                return Err(Refusal::capability(words));
            }
        }
        Ok(())
    }

    pub(super) fn check_revocation(&self, who: &str, draft: &Draft) -> Result<Revoking, Refusal> {
        let revoking: Revoking = read(draft, "`recipient`, and `grant_id` or `capabilities`")?;
        self.check_known(&revoking.recipient)?;
        let standing = self.standings.get(&revoking.recipient);
        let Some(id) = &revoking.grant_id else {
            self.check_covers(who, &revoking.capabilities, "revoke")?;
            self.check_held(&revoking)?;
            return Ok(revoking);
        };
        if !revoking.capabilities.is_empty() {
            return Err(Refusal::invalid("name `grant_id` or `capabilities`, not both"));
        }
        let grant = standing.and_then(|it| it.grants.iter().find(|grant| grant.id == *id));
        let Some(grant) = grant else {
            let words = format!("`{}` was granted nothing by `{}`", revoking.recipient, short(id));
            return Err(Refusal::new("unknown_grant", words));
        };
        if &*grant.by != who {
            self.check_covers(who, &grant.capabilities, "revoke")?;
        }
        Ok(revoking)
    }

    /// Whether there is something to take away, as far as that can be known: what the token of somebody
    /// says who is not here is not.
    fn check_held(&self, revoking: &Revoking) -> Result<(), Refusal> {
        let Some(participant) = self.present.get(&*revoking.recipient) else { return Ok(()) };
        let is_held = |value: &Value| participant.may.iter().any(|held| is_same(held, value));
        match revoking.capabilities.iter().find(|value| !is_held(value)) {
            None => Ok(()),
            Some(value) => {
                let covers = |held: &&Capability| {
                    Capability::compile(value).is_ok_and(|value| held.covers(&value))
                };
                let wider = participant.may.iter().find(covers);
                let words = match wider.map(|wider| shown(wider.value())) {
                    Some(wider) => format!("{} is part of {wider}; revoke that", shown(value)),
                    None => format!("`{}` does not hold {}", revoking.recipient, shown(value)),
                };
                Err(Refusal::new("unknown_grant", words))
            }
        }
    }

    pub(super) fn grant(&mut self, granting: Granting, id: &str, by: &str) {
        let Granting { recipient, capabilities } = granting;
        let standing = self.standings.entry(&recipient);
        // Looked at again after a crash, and kept before it.
        if standing.grants.iter().any(|grant| &*grant.id == id) {
            return;
        }
        standing.revoked.retain(|value| !capabilities.contains(value));
        standing.grants.push(Grant { id: id.into(), by: by.into(), capabilities });
        self.judge_again(&recipient);
    }

    pub(super) fn revoke(&mut self, revoking: &Revoking) {
        let own = self.present.get(&*revoking.recipient).map(|one| one.own.clone());
        let standing = self.standings.entry(&revoking.recipient);
        if let Some(id) = &revoking.grant_id {
            standing.grants.retain(|grant| grant.id != *id);
        }
        for value in &revoking.capabilities {
            let Ok(revoked) = Capability::compile(value) else { continue };
            // What is less than what is taken away goes with it.
            let is_left = |granted: &Value| {
                Capability::compile(granted).is_ok_and(|granted| !revoked.covers(&granted))
            };
            for grant in &mut standing.grants {
                grant.capabilities.retain(is_left);
            }
            standing.grants.retain(|grant| !grant.capabilities.is_empty());
            if let Some(invitation) = &mut standing.invitation {
                invitation.capabilities.retain(is_left);
            }
            // Also of somebody who is not here: what his token says is known only when he comes.
            let is_own = own.as_ref().is_none_or(|own| own.iter().any(|it| revoked.covers(it)));
            if is_own && !standing.revoked.contains(value) {
                standing.revoked.push(value.clone());
            }
        }
        self.judge_again(&revoking.recipient);
    }

    /// What somebody may has changed.
    pub(super) fn judge_again(&mut self, id: &str) {
        let Some(participant) = self.present.get(id) else { return };
        let may = self.may(id, &participant.own);
        if let Some(participant) = self.present.get_mut(id) {
            participant.may = may;
        }
    }

    /// Takes up a message that was written down and whose consequences were not.
    pub(super) fn reconsider(&mut self, message: &Message) {
        let payload = message.payload.as_ref().map_or("{}", |payload| payload.get());
        match message.kind.short() {
            "capability/grant" => {
                if let Ok(granting) = serde_json::from_str(payload) {
                    self.grant(granting, &message.id, &message.from);
                }
            }
            "capability/revoke" => {
                if let Ok(revoking) = serde_json::from_str(payload) {
                    self.revoke(&revoking);
                }
            }
            "space/kick" => {
                if let Ok(kicking) = serde_json::from_str(payload) {
                    self.kick(&kicking, &message.from);
                }
            }
            _ => {}
        }
    }

    /// Tells somebody who is here what he may now.
    pub(super) fn welcome_again(&mut self, id: &str) {
        if let Some((id, _)) = self.present.get_key_value(id) {
            let id = Arc::clone(id);
            self.welcome(&id, None);
        }
    }
}

/// The payload of a message, as it has to be.
pub(super) fn read<'de, T: Deserialize<'de>>(
    draft: &'de Draft,
    wanted: &str,
) -> Result<T, Refusal> {
    let text = draft.payload.as_ref().map_or("{}", |payload| payload.get());
    serde_json::from_str(text).map_err(|error| {
        Refusal::invalid(format!("the payload of `{}` has {wanted}: {error}", draft.kind.short()))
    })
}

/// Whether two capabilities say the same, in whichever notation.
fn is_same(held: &Capability, value: &Value) -> bool {
    held.value() == value
        || Capability::compile(value).is_ok_and(|it| it.covers(held) && held.covers(&it))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{}`", short(text)),
        other => format!("`{}`", short(&other.to_string())),
    }
}
