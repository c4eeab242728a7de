//! What waits for somebody who may: proposals, and what became of them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;

use super::refusal::short;
use super::{Decision, GATEWAY, Refusal, Room, Verdict};
use crate::room::capability::{Capabilities, Decision as Allowance, Subject};
use crate::room::message::{Asked, ContextOf, Draft, Kind, Message, Protocol};

/// How many may wait at the same time.
const MOST_OPEN: usize = 500;
/// How many of one participant.
const MOST_OF_ONE: usize = 50;
/// How many bytes their payloads may have.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// How many are remembered, open ones included.
const MOST: usize = 2_000;

#[derive(Debug, Default)]
pub(super) struct Proposals {
    known: HashMap<Box<str>, Proposal>,
    order: VecDeque<Box<str>>,
}

#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) asked: Asked,
    pub(super) from: Arc<str>,
    to: Vec<Box<str>>,
    payload: Option<Box<RawValue>>,
    state: State,
    since: i64,
}

#[derive(Debug)]
enum State {
    Open {
        expires: i64,
    },
    Fulfilled {
        by: Arc<str>,
        /// The message that fulfilled it.
        with: Box<str>,
    },
    Rejected {
        by: Arc<str>,
    },
    Withdrawn,
    Expired,
}

/// A proposal that waits, for those who look from outside.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) id: Box<str>,
    pub(crate) from: Arc<str>,
    pub(crate) asked: Asked,
    pub(crate) payload: Option<Box<RawValue>>,
    /// In milliseconds since 1970.
    pub(crate) since: i64,
    pub(crate) expires: i64,
}

impl Proposals {
    pub(super) fn get(&self, id: &str) -> Option<&Proposal> {
        self.known.get(id)
    }

    /// The one of these that is a proposal, and whose it is.
    pub(super) fn whose(&self, id: &str) -> Option<(Box<str>, Arc<str>)> {
        let proposal = self.known.get(id)?;
        Some((id.into(), Arc::clone(&proposal.from)))
    }

    pub(super) fn open(&self) -> Vec<Waiting> {
        let waiting = self.order.iter().filter_map(|id| {
            let Proposal { asked, from, payload, state, since, .. } = self.known.get(id)?;
            let State::Open { expires } = state else { return None };
            Some(Waiting {
                id: id.clone(),
                from: Arc::clone(from),
                asked: asked.clone(),
                payload: payload.clone(),
                since: *since,
                expires: *expires,
            })
        });
        waiting.collect()
    }

    /// Whether there is room for one more of somebody.
    pub(super) fn check_room(&self, who: &str) -> Result<(), Refusal> {
        let open = || self.known.values().filter(|one| one.is_open());
        let bytes: usize = open().map(Proposal::bytes).sum();
        let limits = [
            (open().count() < MOST_OPEN, format!("{MOST_OPEN} proposals wait in this room")),
            (
                open().filter(|one| &*one.from == who).count() < MOST_OF_ONE,
                format!("{MOST_OF_ONE} of your proposals wait"),
            ),
            (bytes < MOST_BYTES, format!("proposals with {MOST_BYTES} bytes wait in this room")),
        ];
        match limits.into_iter().find(|(is_room, _)| !is_room) {
            None => Ok(()),
            Some((_, words)) => {
                Err(Refusal::new("limit_exceeded", format!("{words}, which is the limit")))
            }
        }
    }

    /// Whether an id is that of a proposal which waits.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.known.get(id).is_some_and(Proposal::is_open)
    }

    /// Whether any waits.
    pub(super) fn any_open(&self) -> bool {
        self.known.values().any(Proposal::is_open)
    }

    pub(super) fn add(&mut self, message: &Message, since: i64, expires: i64) {
        let Some(method) = message.kind.method() else { return };
        let proposal = Proposal {
            asked: Asked { method: method.into(), name: message.kind.context().map(Into::into) },
            from: Arc::clone(&message.from),
            to: message.to.clone(),
            payload: message.payload.clone(),
            state: State::Open { expires },
            since,
        };
        if self.known.insert(message.id.clone(), proposal).is_none() {
            self.order.push_back(message.id.clone());
        }
        // Those that wait are never forgotten; there are not so many of them.
        if self.order.len() > MOST {
            let is_over = |id: &str| !self.is_open(id);
            if let Some(at) = self.order.iter().position(|id| is_over(id))
                && let Some(oldest) = self.order.remove(at)
            {
                self.known.remove(&oldest);
            }
        }
    }

    /// All that it names were looked at before.
    pub(super) fn fulfilled_by_request(&mut self, request: &Message) {
        for id in &request.correlation {
            let (by, with) = (Arc::clone(&request.from), request.id.clone());
            self.end(id, State::Fulfilled { by, with });
        }
    }

    /// A response may answer a proposal itself: somebody who may has done what was proposed.
    pub(super) fn answered(&mut self, response: &Message) {
        let (by, with) = (Arc::clone(&response.from), response.id.clone());
        self.end_that_of(response, State::Fulfilled { by, with });
    }

    pub(super) fn rejected(&mut self, message: &Message) {
        let by = Arc::clone(&message.from);
        self.end_that_of(
            message,
            if &*by == GATEWAY { State::Expired } else { State::Rejected { by } },
        );
    }

    pub(super) fn withdrawn(&mut self, message: &Message) {
        self.end_that_of(message, State::Withdrawn);
    }

    /// Ends the one that a message is about, and none that it only names.
    fn end_that_of(&mut self, message: &Message, state: State) {
        if let Some(context) = &message.context_of {
            self.end(&context.request_id, state);
        }
    }

    fn end(&mut self, id: &str, state: State) {
        if let Some(proposal) = self.known.get_mut(id).filter(|one| one.is_open()) {
            proposal.state = state;
            // Nobody needs to see it again.
            proposal.payload = None;
        }
    }

    fn expired(&self, now: i64) -> Vec<Box<str>> {
        let is_over =
            |one: &Proposal| matches!(one.state, State::Open { expires } if expires <= now);
        self.known.iter().filter(|(_, one)| is_over(one)).map(|(id, _)| id.clone()).collect()
    }
}

impl Proposal {
    fn bytes(&self) -> usize {
        self.payload.as_ref().map_or(0, |payload| payload.get().len())
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Whether it still waits; else what became of it.
    pub(super) fn check_open(&self) -> Result<(), Refusal> {
        let words = match &self.state {
            State::Open { .. } => return Ok(()),
            State::Fulfilled { by, with } => format!("was fulfilled by `{by}` with `{with}`"),
            State::Rejected { by } => format!("was rejected by `{by}`"),
            State::Withdrawn => format!("was withdrawn by `{}`", self.from),
            State::Expired => "has expired".to_owned(),
        };
        Err(Refusal::new("proposal_closed", format!("the proposal {words}")))
    }

    /// What messages about it are about.
    pub(super) fn context(&self, id: &str) -> ContextOf {
        ContextOf {
            method: self.asked.method.clone(),
            name: self.asked.name.clone(),
            request_id: id.into(),
            from: Arc::clone(&self.from),
            proposal_id: Some(id.into()),
            proposer: Some(Arc::clone(&self.from)),
            outcome: None,
        }
    }

    /// Whether somebody may do what is proposed.
    pub(super) fn check_may(&self, may: &Capabilities) -> Result<(), Refusal> {
        let kind = Kind::request(&self.asked);
        let subject = Subject::new(kind.full(), self.payload.as_deref());
        match may.decide(&subject) {
            Allowance::Allowed { .. } => Ok(()),
            Allowance::Refused { reason } => Err(Refusal::capability(reason.to_string())),
        }
    }
}

impl Room {
    /// Whether a request fulfils a proposal as it may.
    pub(super) fn check_fulfilment(&self, draft: &Draft) -> Result<(), Refusal> {
        for id in &draft.correlation {
            let Some(proposal) = self.proposals.get(id) else { continue };
            proposal.check_open()?;
            let same = draft.kind.method() == Some(&*proposal.asked.method)
                && draft.kind.context() == proposal.asked.name.as_deref();
            if !same {
                let words = format!(
                    "the proposal is about `{}`, and the request about something else",
                    short(Kind::request(&proposal.asked).full())
                );
                return Err(Refusal::new("proposal_mismatch", words));
            }
        }
        Ok(())
    }

    /// The proposal that a message ends, and whether it still can be ended.
    pub(super) fn ended_proposal(&self, draft: &Draft) -> Result<ContextOf, Refusal> {
        let found = draft.correlation.iter().find_map(|id| Some((id, self.proposals.get(id)?)));
        let Some((id, proposal)) = found else {
            let words =
                "`correlation_id` must name the proposal, and this names none that is known";
            return Err(Refusal::new("unknown_proposal", words));
        };
        proposal.check_open()?;
        Ok(proposal.context(id))
    }

    pub(super) fn is_proposer(&self, who: &str, draft: &Draft) -> bool {
        let found = draft.correlation.iter().find_map(|id| self.proposals.get(id));
        found.is_some_and(|proposal| &*proposal.from == who)
    }

    /// Says of each proposal whose time has come that nobody took it up, to everybody.
    pub(super) fn expire_proposals(&mut self) {
        for id in self.proposals.expired(self.now) {
            let Some(proposal) = self.proposals.get(&id) else { continue };
            let (context, to) = (proposal.context(&id), Box::from(&*proposal.from));
            let words = "nobody took the proposal up in time";
            let mut message = self.own(
                "mcp/reject",
                vec![to],
                vec![id],
                &json!({
                    "reason": "timeout",
                    "message": words,
                }),
            );
            message.context_of = Some(context.clone());
            self.observe(&message, None);
            self.deliver(message, None, None);
            self.tell_proposer(&context, "expired", GATEWAY, None);
        }
    }

    /// Tells the one who proposed what became of it, wherever he looks.
    pub(super) fn tell_proposer(
        &mut self,
        context: &ContextOf,
        state: &str,
        by: &str,
        response: Option<(&str, &str)>,
    ) {
        let (Some(id), Some(who)) = (&context.proposal_id, &context.proposer) else { return };
        let Some(to) = self.present.get(who).map(super::Participant::alone) else { return };
        let mut payload = json!({
            "proposal_id": id,
            "state": state,
            "by": by,
            "method": context.method,
            "name": context.name,
        });
        if let Some((response, outcome)) = response {
            payload["request_id"] = (&*context.request_id).into();
            payload["response_id"] = response.into();
            payload["outcome"] = outcome.into();
            if context.from != *who {
                payload["approved_by"] = (&*context.from).into();
            }
        }
        let (to_id, id) = (Box::from(&**who), id.clone());
        let message = self.own("system/proposal", vec![to_id], vec![id], &payload);
        self.tell(message, to);
    }

    /// Somebody who need not be here decides, as if he had said it.
    pub(super) fn decide(&mut self, decision: Decision) {
        let Decision { proposal, by, own, identity, verdict, answer } = decision;
        self.deciding = Some(identity);
        let decided = self.decided(&proposal, &by, own.as_ref(), verdict);
        self.deciding = None;
        // Whoever does not wait any more needs no answer.
        let _ = answer.send(decided);
    }

    fn decided(
        &mut self,
        id: &str,
        by: &Arc<str>,
        own: Option<&Capabilities>,
        verdict: Verdict,
    ) -> Result<(), Refusal> {
        self.check_member(by)?;
        let unknown = || Refusal::new("unknown_proposal", "no such proposal is known here");
        let proposal = self.proposals.get(id).ok_or_else(unknown)?;
        proposal.check_open()?;
        if proposal.from == *by {
            return Err(Refusal::new("own_proposal", "nobody approves his own proposal"));
        }
        self.check_member(by)?;
        let usual = self.usual_of(by);
        let may = self.may(by, own.unwrap_or(&usual));
        let draft = match verdict {
            Verdict::Approved => {
                proposal.check_may(&may)?;
                proposal.fulfilment(id)
            }
            Verdict::Rejected { reason } => {
                // Whoever may do it may also say that it shall not be done.
                proposal.check_may(&may).or_else(|_| check_rejecting(&may))?;
                proposal.rejection(id, reason.as_deref())
            }
        };
        self.check_silence(by, draft.kind.short())?;
        self.speak_for(by, draft)
    }
}

fn check_rejecting(may: &Capabilities) -> Result<(), Refusal> {
    let subject = Subject::new("mcp/reject", None);
    match may.decide(&subject) {
        Allowance::Allowed { .. } => Ok(()),
        Allowance::Refused { reason } => Err(Refusal::capability(reason.to_string())),
    }
}

impl Proposal {
    /// The request that is proposed.
    fn fulfilment(&self, id: &str) -> Draft {
        Draft {
            payload: self.payload.clone(),
            to: self.to.clone(),
            ..Self::draft(Kind::request(&self.asked), id)
        }
    }

    fn rejection(&self, id: &str, reason: Option<&str>) -> Draft {
        let payload = json!({"reason": reason.unwrap_or("disagree")}).to_string();
        let kind = Kind::plain("mcp/reject");
        Draft {
            payload: RawValue::from_string(payload).ok(),
            to: vec![Box::from(&*self.from)],
            ..Self::draft(kind, id)
        }
    }

    fn draft(kind: Kind, proposal: &str) -> Draft {
        Draft {
            protocol: Some(Protocol::Mew04),
            id: None,
            ts: None,
            from: None,
            to: Vec::new(),
            kind,
            correlation: vec![proposal.into()],
            context: None,
            payload: None,
            extra: Vec::new(),
        }
    }
}
