//! The life of a message: who says it, whether it is what it says, whether it may be said, and what
//! follows from it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::grant::{Granting, Revoking, read};
use super::member::{Inviting, Kicking};
use super::refusal::short;
use super::stream::{Handing, Requesting, too_fast};
use super::{ConnectionId, Effect, Refusal, Room};
use crate::auth::Token;
use crate::room::capability::{Decision, Subject};
use crate::room::message::{
    self, ContextOf, Draft, Kind, Message, Outcome, Protocol, ReadError, answers, upgraded,
};

/// What the clients of one family say to be heard of, and nobody needs to hear.
const SWALLOWED: [&str; 2] = ["system/heartbeat", "system/pong"];

/// What the gateway alone says, beside `system/…`.
const GATEWAYS_OWN: [&str; 7] = [
    "stream/open",
    "stream/data",
    "stream/active",
    "stream/write-granted",
    "stream/write-revoked",
    "stream/ownership-transferred",
    "space/invite-ack",
];

/// A message that is understood.
struct Said {
    draft: Draft,
    /// What it answers.
    about: Option<ContextOf>,
    rpc_id: Option<Box<RawValue>>,
}

/// What follows from a message, once it is clear that it may.
enum Plan {
    Nothing,
    Cancel(Box<str>),
    Grant(Granting),
    Revoke(Revoking),
    Invite(Inviting),
    Kick(Kicking),
    OpenStream(Requesting),
    CloseStream(Box<str>),
    /// It is not handed on: what holds then is told instead.
    Hand(Handing),
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        Self::new(error.error, error.message)
    }
}

impl Room {
    pub(super) fn hear(&mut self, connection: ConnectionId, draft: Result<Box<Draft>, ReadError>) {
        // Nobody waits for the words of a connection that was replaced.
        let Some(who) = self.connections.get(&connection).cloned() else { return };
        match draft {
            Ok(draft) => {
                let (id, kind) = (draft.id.clone(), self.attempted(&who, &draft));
                if let Err(refusal) = self.say(&who, *draft) {
                    self.refuse(&who, id, kind.full(), refusal);
                }
            }
            Err(mut error) => {
                let (id, kind) = (error.id.take(), error.kind.take().unwrap_or_default());
                self.refuse(&who, id.map(Into::into), &kind, error.into());
            }
        }
    }

    /// What somebody attempts, in the words of his family.
    fn attempted(&self, who: &str, draft: &Draft) -> Kind {
        let is_short = draft.kind.is_extended() && draft.kind.method().is_none();
        let is_mew = self.present.get(who).is_none_or(|one| one.protocol.is_mew());
        match is_short && !is_mew {
            true => upgraded(draft.kind.clone(), draft.payload.as_deref())
                .unwrap_or_else(|_| draft.kind.clone()),
            false => draft.kind.clone(),
        }
    }

    /// Who says it → whose kind it is → what it is about → whether he may → how much is too much →
    /// what holds for its kind → written down, handed on, and what follows.
    fn say(&mut self, who: &Arc<str>, draft: Draft) -> Result<(), Refusal> {
        self.speaks(who, draft.protocol);
        check_sender(who, &draft)?;
        if SWALLOWED.contains(&draft.kind.short()) {
            return Ok(());
        }
        check_kind(&draft.kind)?;
        let said = self.understand(who, draft)?;
        let allowed_by = self.check_allowed(who, &said.draft)?;
        self.check_limits(who, &said.draft)?;
        self.carry_out(who, said, allowed_by)
    }

    /// Says something in the name of somebody who decided elsewhere, and may.
    pub(super) fn speak_for(&mut self, who: &Arc<str>, draft: Draft) -> Result<(), Refusal> {
        let said = self.understand(who, draft)?;
        self.carry_out(who, said, None)
    }

    /// Finds out what a message is about, and whether its kind says so.
    fn understand(&self, who: &Arc<str>, mut draft: Draft) -> Result<Said, Refusal> {
        if draft.kind.short() == "mcp" {
            draft.kind = Kind::plain(bare_kind(draft.payload.as_deref()));
        }
        check_shape(&draft)?;
        let mut about = None;
        match draft.kind.short() {
            "mcp/request" | "mcp/proposal" | "mcp/notification" => {
                draft.kind = upgraded(draft.kind, draft.payload.as_deref())
                    .map_err(|mismatch| Refusal::new(mismatch.error, mismatch.message))?;
                if matches!(draft.kind.short(), "mcp/request" | "mcp/proposal")
                    && draft.kind.method().is_none()
                {
                    let words = "the payload of a request or a proposal names a `method`";
                    return Err(Refusal::invalid(words));
                }
            }
            "mcp/response" => {
                let (kind, context) = self.answered_by(who, &draft)?;
                draft.kind = kind;
                about = Some(context);
            }
            "mcp/reject" | "mcp/withdraw" => about = Some(self.ended_proposal(&draft)?),
            _ => {}
        }
        let rpc_id = rpc_id(draft.payload.as_deref());
        Ok(Said { draft, about, rpc_id })
    }

    /// What a response answers: a request that was addressed to its sender, or a proposal that still
    /// waits and that he may do himself.
    fn answered_by(&self, who: &str, draft: &Draft) -> Result<(Kind, ContextOf), Refusal> {
        let mismatch = |it: message::Mismatch| Refusal::new(it.error, it.message);
        let correlation = &draft.correlation;
        let request = correlation.iter().find_map(|id| Some((id, self.requests.get(id)?)));
        if let Some((id, request)) = request {
            if !request.is_addressed_to(who) {
                let to = request.to.iter().map(|to| format!("`{}`", short(to)));
                let to: Vec<String> = to.take(5).collect();
                let words = format!("`{}` was asked of {}, not of you", short(id), to.join(", "));
                return Err(Refusal::new("not_addressee", words));
            }
            request.check_unanswered(who)?;
            let kind =
                if names_result(draft) { Kind::plain("mcp/response") } else { draft.kind.clone() };
            let kind = answers(kind, &request.asked).map_err(mismatch)?;
            return Ok((kind, request.context(id).ending(draft.payload.as_deref())));
        }
        let proposal = correlation.iter().find_map(|id| Some((id, self.proposals.get(id)?)));
        let Some((id, proposal)) = proposal else {
            let words = "`correlation_id` must name the request, and this names none that is known";
            return Err(Refusal::new("unknown_request", words));
        };
        proposal.check_open()?;
        if &*proposal.from == who {
            let words = "a proposal is answered by somebody else";
            return Err(Refusal::new("not_addressee", words));
        }
        if let Some(participant) = self.present.get(who) {
            proposal.check_may(&participant.may)?;
        }
        let context = proposal.context(id).ending(draft.payload.as_deref());
        // Some clients answer whatever they see, with an error where they do not know it.
        if context.outcome != Some(Outcome::Result) {
            let words = "a proposal is answered by whoever has done it; reject it otherwise";
            return Err(Refusal::new("not_addressee", words));
        }
        let kind = answers(draft.kind.clone(), &proposal.asked).map_err(mismatch)?;
        Ok((kind, context))
    }

    /// Whether he may say it, and by which capability.
    fn check_allowed(&self, who: &str, draft: &Draft) -> Result<Option<Value>, Refusal> {
        let Some(participant) = self.present.get(who) else { return Ok(None) };
        let subject = Subject::new(draft.kind.full(), draft.payload.as_deref());
        match participant.may.decide(&subject) {
            Decision::Allowed { by } => Ok(Some(by.value().clone())),
            Decision::Refused { .. } if self.is_implied(who, draft) => Ok(None),
            Decision::Refused { reason } => Err(Refusal::capability(reason.to_string())),
        }
    }

    /// What belongs to something that somebody may: taking back his own proposal, thanking for a grant,
    /// answering who asks how he is, closing his own stream.
    fn is_implied(&self, who: &str, draft: &Draft) -> bool {
        match draft.kind.short() {
            "mcp/withdraw" => self.is_proposer(who, draft),
            "capability/grant-ack" => {
                let grants = self.standings.get(who).map(|it| it.grants.as_slice());
                let mut grants = grants.unwrap_or_default().iter();
                grants.any(|grant| draft.correlation.contains(&grant.id))
            }
            "participant/status" | "participant/compact-done" => {
                let is_order = |message: &&Arc<Message>| {
                    draft.correlation.contains(&message.id)
                        && message.kind.short().starts_with("participant/")
                        && message.to.iter().any(|to| &**to == who)
                };
                self.history.last(usize::MAX).any(|message| is_order(&message))
            }
            "stream/close" => self.is_own_stream(who, draft),
            _ => false,
        }
    }

    fn check_limits(&mut self, who: &str, draft: &Draft) -> Result<(), Refusal> {
        let (now, per_minute) = (self.now, self.settings.messages_per_minute);
        let Some(participant) = self.present.get_mut(who) else { return Ok(()) };
        participant.spent.rate.take(now, per_minute).map_err(|wait| too_fast(wait, per_minute))?;
        let connection = participant.connection;
        self.check_silence(who, draft.kind.short())?;
        if draft.id.as_deref().is_some_and(|id| self.is_taken(id, who, connection)) {
            let words = "a message with this `id` was sent already; each needs an id of its own";
            return Err(Refusal::new("duplicate_id", words));
        }
        Ok(())
    }

    /// Whether an id means something already: it was given in this connection or by somebody else, or is
    /// still needed.
    fn is_taken(&self, id: &str, who: &str, connection: ConnectionId) -> bool {
        let is_others = self.requests.get(id).is_some_and(|request| &*request.from != who)
            || self.proposals.get(id).is_some_and(|proposal| &*proposal.from != who);
        let is_needed = self.proposals.is_open(id) || self.requests.is_waiting(id, self.now);
        is_others || is_needed || self.ids.is_taken(id, who, connection)
    }

    /// What holds for messages of its kind.
    fn plan(&self, who: &Arc<str>, said: &Said) -> Result<Plan, Refusal> {
        let draft = &said.draft;
        let kind = draft.kind.short();
        Ok(match kind {
            "mcp/request" | "mcp/notification" => {
                self.check_fulfilment(draft)?;
                self.cancelled(who, draft).map_or(Plan::Nothing, Plan::Cancel)
            }
            "mcp/proposal" => {
                self.proposals.check_room(who)?;
                Plan::Nothing
            }
            "mcp/withdraw" if !self.is_proposer(who, draft) => {
                let words = "only the one who proposed it can withdraw it; reject it instead";
                return Err(Refusal::new("not_proposer", words));
            }
            "capability/grant" => Plan::Grant(self.check_grant(who, draft)?),
            "capability/revoke" => Plan::Revoke(self.check_revocation(who, draft)?),
            "space/invite" => Plan::Invite(self.check_invitation(who, draft)?),
            "space/kick" => Plan::Kick(self.check_kick(who, draft)?),
            "stream/request" => Plan::OpenStream(self.check_stream_request(draft)?),
            "stream/close" => Plan::CloseStream(self.check_close(who, draft)?),
            "stream/grant-write" | "stream/revoke-write" | "stream/transfer-ownership" => {
                Plan::Hand(self.check_handing(who, draft)?)
            }
            _ if kind.starts_with("participant/") => {
                self.check_order(who, draft)?;
                Plan::Nothing
            }
            _ => Plan::Nothing,
        })
    }

    /// Writes it down, hands it on, and does what follows from it.
    fn carry_out(
        &mut self,
        who: &Arc<str>,
        said: Said,
        allowed_by: Option<Value>,
    ) -> Result<(), Refusal> {
        let plan = self.plan(who, &said)?;
        let rpc_id = said.rpc_id;
        let mut message = self.message(who, said.draft, said.about);
        let connection = self.present.get(who).map_or(0, |one| one.connection);
        self.ids.add(&message.id, who, connection);
        if let Plan::Hand(handing) = &plan {
            self.hand(handing, message.kind.short(), (who, &message.id));
            return Ok(());
        }
        self.address(&mut message, &plan);
        self.observe(&message, rpc_id);
        let (keep, token) = self.keep(&plan, &message);
        let message = self.deliver(message, allowed_by, keep);
        self.follow(plan, &message, token.as_ref());
        Ok(())
    }

    fn message(&mut self, who: &Arc<str>, draft: Draft, about: Option<ContextOf>) -> Message {
        let protocol = self.present.get(who).map_or(Protocol::Mew04, |one| one.protocol);
        let id = draft.id.unwrap_or_else(|| self.next_id());
        let ts = draft.ts.unwrap_or_else(|| toolpost::timestamp(self.now).into());
        Message {
            protocol: draft.protocol.unwrap_or(protocol),
            id,
            ts,
            from: Arc::clone(who),
            to: draft.to,
            kind: draft.kind,
            correlation: draft.correlation,
            context: draft.context,
            context_of: about,
            payload: draft.payload,
            extra: draft.extra,
        }
    }

    /// Names those in `to` without whom clients would not take it, or everybody would.
    fn address(&self, message: &mut Message, plan: &Plan) {
        match plan {
            Plan::Grant(granting) => message.to = vec![granting.recipient.clone()],
            Plan::Revoke(revoking) => message.to = vec![revoking.recipient.clone()],
            Plan::CloseStream(id) if message.correlation.is_empty() => {
                message.correlation.extend(self.opening_of(id));
            }
            _ => {}
        }
        // The answer to what was proposed is for the one who proposed it as well.
        let proposer = message.context_of.as_ref().and_then(|context| context.proposer.as_deref());
        if let Some(proposer) = proposer.filter(|_| message.kind.short() == "mcp/response")
            && !message.to.is_empty()
            && !message.to.iter().any(|to| &**to == proposer)
        {
            message.to.push(proposer.into());
        }
    }

    /// Changes what outlives the process, and says what is to be kept.
    fn keep(&mut self, plan: &Plan, message: &Message) -> (Option<String>, Option<Token>) {
        let mut token = None;
        match plan {
            Plan::Grant(granting) => self.grant(granting.clone(), &message.id, &message.from),
            Plan::Revoke(revoking) => self.revoke(revoking),
            Plan::Invite(inviting) => token = self.invite(inviting, &message.from),
            Plan::Kick(kicking) => self.kick(kicking, &message.from),
            _ => return (None, None),
        }
        (Some(self.standings.write(&message.id)), token)
    }

    fn follow(&mut self, plan: Plan, message: &Arc<Message>, token: Option<&Token>) {
        let payload = message.payload.as_ref().map(|payload| payload.get());
        match plan {
            Plan::Nothing => self.follow_kind(message, payload),
            Plan::Cancel(request) => {
                self.effects.push(Effect::Cancel { request });
            }
            Plan::Grant(granting) => self.welcome_again(&granting.recipient),
            Plan::Revoke(revoking) => {
                self.welcome_again(&revoking.recipient);
                self.end_streams_unless_allowed(&revoking.recipient);
            }
            Plan::Invite(inviting) => {
                self.tell_of_invitation(&inviting, (&message.from, &message.id), token);
            }
            Plan::Kick(kicking) => self.send_away(&kicking),
            Plan::OpenStream(requesting) => self.open_stream(requesting, message),
            Plan::CloseStream(id) => drop(self.close_stream(&id)),
            Plan::Hand(_) => {}
        }
    }

    pub(super) fn follow_kind(&mut self, message: &Arc<Message>, payload: Option<&str>) {
        match message.kind.short() {
            "mcp/request" => self.ask(message),
            "mcp/response" => {
                let Some(context) = &message.context_of else { return };
                let outcome = context.outcome.map_or("result", Outcome::as_str);
                let answer = Some((&*message.id, outcome));
                self.tell_proposer(context, "fulfilled", &message.from, answer);
            }
            "mcp/reject" => {
                let Some(context) = &message.context_of else { return };
                self.tell_proposer(context, "rejected", &message.from, None);
            }
            kind if kind.starts_with("participant/") => self.obey(kind, &message.to, payload),
            _ => {}
        }
    }
}

fn check_sender(who: &str, draft: &Draft) -> Result<(), Refusal> {
    match &draft.from {
        Some(from) if &**from != who => {
            let words = format!("you are `{who}`, and cannot speak as `{}`", short(from));
            Err(Refusal::new("auth_violation", words))
        }
        _ => Ok(()),
    }
}

/// Whether a participant may use the kind at all.
fn check_kind(kind: &Kind) -> Result<(), Refusal> {
    let base = kind.short();
    if base == "system" || base.starts_with("system/") || base.starts_with("system:") {
        let words = "`system/…` is what the gateway says, and no capability reaches it";
        return Err(Refusal::capability(words));
    }
    if GATEWAYS_OWN.contains(&base) || base.starts_with("stream/data/") {
        let words = format!("`{}` is what the gateway says", short(base));
        return Err(Refusal::capability(words));
    }
    // Clients have events of their own whose names are single words.
    if !base.contains('/') && !matches!(base, "chat" | "mcp") {
        let words =
            format!("`{}` is no kind; kinds look like `chat` or `mcp/request`", short(base));
        return Err(Refusal::invalid(words));
    }
    Ok(())
}

/// Whether the payload has what every client takes for granted.
fn check_shape(draft: &Draft) -> Result<(), Refusal> {
    #[derive(Deserialize)]
    struct Chat {
        text: String,
    }
    if draft.payload.as_ref().is_some_and(|payload| !payload.get().starts_with('{')) {
        return Err(Refusal::invalid("a payload is an object"));
    }
    match draft.kind.short() {
        "chat" => {
            let chat: Chat = read(draft, "`text`")?;
            match chat.text.is_empty() {
                true => Err(Refusal::invalid("the `text` of a chat is not empty")),
                false => Ok(()),
            }
        }
        "mcp/response" if draft.correlation.is_empty() => {
            let words = "a response names the request that it answers in `correlation_id`";
            Err(Refusal::invalid(words))
        }
        _ => Ok(()),
    }
}

/// Some clients write the name that their result has into the kind, which says nothing about the
/// request.
fn names_result(draft: &Draft) -> bool {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default)]
        result: Option<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        name: Option<String>,
    }
    let Some(context) = draft.kind.context() else { return false };
    let answer =
        draft.payload.as_ref().and_then(|it| serde_json::from_str::<Answer>(it.get()).ok());
    let name = answer.and_then(|answer| answer.result).and_then(|result| result.name);
    name.as_deref() == Some(context)
}

#[derive(Deserialize)]
struct Rpc<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
}

fn rpc(payload: Option<&RawValue>) -> Option<Rpc<'_>> {
    serde_json::from_str(payload?.get()).ok()
}

fn rpc_id(payload: Option<&RawValue>) -> Option<Box<RawValue>> {
    let id = rpc(payload)?.id?;
    (id.get() != "null" && id.get().len() <= 256).then(|| id.to_owned())
}

/// The oldest clients say `mcp`, and leave it to the payload what it is.
fn bare_kind(payload: Option<&RawValue>) -> &'static str {
    match rpc(payload) {
        Some(Rpc { method: Some(_), .. }) | None => "mcp/request",
        _ => "mcp/response",
    }
}
