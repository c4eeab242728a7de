//! A room without I/O: something comes in, and what is to be done comes out.
//!
//! | file | holds |
//! |---|---|
//! | `input`, `effect` | what comes in, and what is to be done about it |
//! | `say` | the life of a message, on one screen |
//! | `operations` | the operations of the registry as a participant |
//! | `arrive` | joining and leaving |
//! | `asked` | what each request asked, so that its answers explain themselves |
//! | `proposal` | what waits for somebody who may |
//! | `standing` | what somebody may beyond his token: grants, invitations; it outlives the process |
//! | `grant`, `member` | the messages that change it |
//! | `control` | pausing others, and what a paused one may still say |
//! | `stream` | who may write where |
//! | `history`, `rate` | what is kept for later, and how much is too much |
//! | `shown` | capabilities as each family reads them |
//! | `system` | what the gateway itself says |
//!
//! Time is an argument, ids are counted behind a prefix that somebody else drew.

mod arrive;
mod asked;
mod control;
mod effect;
mod grant;
mod history;
mod input;
mod member;
mod operations;
mod proposal;
mod rate;
mod refusal;
mod say;
mod shown;
mod standing;
mod stream;
mod system;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use toolpost::Identity;

use super::capability::{Capabilities, Capability};
use super::message::{Message, Protocol};
use super::settings::RoomSettings;

use asked::Requests;
use control::Pause;
use history::{History, Ids};
use proposal::Proposals;
use rate::Rate;
use standing::Standings;
use stream::Streams;

pub(crate) use effect::{Call, Closing, Effect, Frame, Recipient, Recipients};
pub(crate) use input::{Arrival, Decision, Input, Verdict};
pub(crate) use member::check_name;
pub(crate) use proposal::Waiting;
pub(crate) use refusal::Refusal;
pub(crate) use shown::shown_to_mcpx;

/// A connection, by a number that no other one ever had.
pub(crate) type ConnectionId = u64;

/// The participant that the operations of the registry are.
pub(crate) const TOOLPOST: &str = "toolpost";

/// Who the gateway is when it speaks for itself.
pub(crate) const GATEWAY: &str = "system:gateway";

/// Names that nobody else has.
pub(crate) const RESERVED: [&str; 4] = [TOOLPOST, GATEWAY, "gateway", "system"];

/// A room.
#[derive(Debug)]
pub(crate) struct Room {
    settings: RoomSettings,
    /// What those may do whose identity says nothing about it.
    usual: Capabilities,
    present: BTreeMap<Arc<str>, Participant>,
    connections: HashMap<ConnectionId, Arc<str>>,
    /// Everybody who is there; made again when that changes.
    everyone: Recipients,
    standings: Standings,
    requests: Requests,
    proposals: Proposals,
    streams: Streams,
    history: History,
    ids: Ids,
    /// In milliseconds since 1970.
    now: i64,
    effects: Vec<Effect>,
    /// As whom somebody calls who decides from outside, while he does.
    deciding: Option<Arc<Identity>>,
    /// What the process before this one was asked and has not answered.
    unanswered: Vec<Box<str>>,
    /// Who comes with a token of the gateway, and needs none of this room.
    known: Known,
    /// What those had used up who have left, so that coming again gives nothing back.
    left: BTreeMap<Arc<str>, Spent>,
    prefix: Box<str>,
    counted: u64,
}

/// Whether somebody is known by his name; nobody is where nobody says so.
#[derive(Default)]
struct Known(Option<Box<Knows>>);

type Knows = dyn Fn(&str) -> bool + Send + Sync;

impl Known {
    fn has(&self, id: &str) -> bool {
        self.0.as_ref().is_some_and(|known| known(id))
    }
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Known")
    }
}

/// What belongs to a name and not to a connection.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    rate: Rate,
    frames: Rate,
    /// What is refused counts apart: one who is asked much answers much that nobody waits for.
    refusals: Rate,
    paused: Option<Pause>,
}

/// Somebody who is there.
#[derive(Debug)]
struct Participant {
    connection: ConnectionId,
    protocol: Protocol,
    /// What his token says that he may.
    own: Capabilities,
    /// Whether it says nothing about that, so that he may what everybody may here.
    is_usual: bool,
    /// What he may, grants and revocations included.
    may: Capabilities,
    /// As whom he calls operations.
    identity: Arc<Identity>,
    spent: Spent,
    /// Told to shut down; says nothing more before he comes again.
    is_shut_down: bool,
}

impl Room {
    /// A room as it was left: what is kept of it, and the messages that were kept, oldest first. The
    /// prefix is what the ids of the gateway's own messages begin with. Each message has the time when it
    /// was written down.
    pub(crate) fn new(
        settings: RoomSettings,
        kept: Option<&str>,
        history: Vec<(i64, Message)>,
        prefix: impl Into<Box<str>>,
        now: i64,
    ) -> Result<Self, serde_json::Error> {
        let mut room = Self {
            usual: compiled(&settings.capabilities),
            present: BTreeMap::new(),
            connections: HashMap::new(),
            everyone: Arc::new([]),
            standings: kept.map(Standings::read).transpose()?.unwrap_or_default(),
            requests: Requests::default(),
            proposals: Proposals::default(),
            streams: Streams::default(),
            history: History::default(),
            ids: Ids::default(),
            now,
            effects: Vec::new(),
            deciding: None,
            known: Known::default(),
            unanswered: Vec::new(),
            left: BTreeMap::new(),
            prefix: prefix.into(),
            counted: 0,
            settings,
        };
        room.remember(history);
        Ok(room)
    }

    /// The same room, which knows who has a token of the gateway.
    #[must_use]
    pub(crate) fn knowing(self, known: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { known: Known(Some(Box::new(known))), ..self }
    }

    /// Takes what comes in, and says what is to be done, in this order.
    pub(crate) fn apply(&mut self, now: i64, input: Input) -> Vec<Effect> {
        self.now = now;
        self.answer_for_those_who_ended();
        self.pass_time();
        match input {
            Input::Arrive(arrival) => self.arrive(arrival),
            Input::Leave { connection } => self.leave(connection),
            Input::Say { connection, draft } => self.hear(connection, draft),
            Input::Frame { connection, frame } => self.frame(connection, frame),
            Input::Answered { request, payload } => self.answered(&request, payload),
            Input::Noted { request, payload } => self.noted(&request, payload),
            Input::Decide(decision) => self.decide(decision),
            Input::Settings(settings) => self.configure(settings),
            Input::Time => {}
        }
        std::mem::take(&mut self.effects)
    }

    /// What is over because its time has come.
    fn pass_time(&mut self) {
        self.expire_proposals();
        let now = self.now;
        for participant in self.present.values_mut() {
            participant.spent.paused.take_if(|pause| pause.is_over(now));
        }
    }

    /// Who is there, for those who ask.
    pub(crate) fn participants(&self) -> Vec<(Arc<str>, Capabilities)> {
        self.present.iter().map(|(id, one)| (Arc::clone(id), one.may.clone())).collect()
    }

    /// Whether something waits for somebody, so that the room has to stay.
    pub(crate) fn is_waiting(&self) -> bool {
        self.proposals.any_open()
    }

    /// Whether somebody of this name comes with a token of this room.
    pub(crate) fn has_token(&self, id: &str) -> bool {
        let invitation = self.standings.get(id).and_then(|it| it.invitation.as_ref());
        invitation.is_some_and(|it| it.token_hash.is_some())
    }

    /// Refuses what somebody says because nothing can be written down.
    pub(crate) fn refuse_unwritten(&mut self, now: i64, input: Input) -> Vec<Effect> {
        let Input::Say { connection, draft } = input else { return Vec::new() };
        self.now = now;
        let (id, kind) = match draft {
            Ok(draft) => (draft.id.clone(), draft.kind.full().to_owned()),
            Err(_) => (None, String::new()),
        };
        let Some(who) = self.connections.get(&connection).cloned() else { return Vec::new() };
        let words = "the journal cannot be written, and nothing is handed on that is not in it";
        self.refuse(&who, id, &kind, Refusal::new("unavailable", words));
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    /// Whether somebody has been here, is, or may come by an invitation.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.present.contains_key(id) || self.standings.get(id).is_some() || self.history.has(id)
    }

    /// Who comes with a token that only this room knows.
    pub(crate) fn invited(&self, token_hash: &str) -> Option<Arc<str>> {
        self.standings.invited(token_hash)
    }

    /// Messages that were kept, newest first, before the one that is named by its id or its time.
    pub(crate) fn page(&self, limit: usize, before: Option<&str>) -> Vec<Arc<Message>> {
        self.history.page(limit, before)
    }

    /// The proposals that wait for somebody.
    pub(crate) fn open_proposals(&self) -> Vec<Waiting> {
        self.proposals.open()
    }

    /// Lets other settings hold, also for those who are here.
    fn configure(&mut self, settings: RoomSettings) {
        self.usual = compiled(&settings.capabilities);
        self.settings = settings;
        self.history.bound(self.settings.history, self.settings.history_bytes);
        let present: Vec<Arc<str>> = self.present.keys().cloned().collect();
        for id in present {
            if let Err(refusal) = self.check_member(&id) {
                self.let_go(&id, Closing::Refused(refusal.message));
            } else if self.present[&id].is_usual {
                let own = self.usual_of(&id);
                if let Some(participant) = self.present.get_mut(&id) {
                    participant.own = own;
                }
                self.judge_again(&id);
            }
        }
    }

    /// Takes up what was said before, as far as it still matters.
    fn remember(&mut self, messages: Vec<(i64, Message)>) {
        let unseen = self.standings.position_after(&messages);
        let now = self.now;
        for (at, (time, message)) in messages.into_iter().enumerate() {
            if at >= unseen {
                self.reconsider(&message);
            }
            // What was proposed then waits from then on.
            self.now = time;
            self.remember_orders(&message);
            self.observe(&message, None);
            self.ids.add(&message.id, &message.from, 0);
            self.history.add(Arc::new(message), &self.settings);
        }
        self.now = now;
        self.unanswered = self.requests.unanswered(TOOLPOST);
    }

    /// What follows from an accepted message for those that come later.
    fn observe(&mut self, message: &Message, rpc_id: Option<Box<serde_json::value::RawValue>>) {
        match message.kind.short() {
            "mcp/request" => {
                self.proposals.fulfilled_by_request(message);
                self.requests.add(message, &self.proposals, rpc_id, self.now);
            }
            "mcp/proposal" => {
                let expires = self.now + millis(self.settings.proposal_expires);
                self.proposals.add(message, self.now, expires);
            }
            "mcp/response" => {
                self.requests.answered(message);
                self.proposals.answered(message);
            }
            "mcp/reject" => self.proposals.rejected(message),
            "mcp/withdraw" => self.proposals.withdrawn(message),
            _ => {}
        }
    }

    /// An id that nobody else has given.
    fn next_id(&mut self) -> Box<str> {
        loop {
            self.counted += 1;
            let id: Box<str> = format!("{}-{}", self.prefix, self.counted).into();
            if !self.ids.has(&id) {
                return id;
            }
        }
    }

    /// Makes the list of those who are there again.
    fn count_everyone(&mut self) {
        self.everyone = self.present.values().map(Participant::recipient).collect();
    }

    fn may(&self, id: &str, own: &Capabilities) -> Capabilities {
        self.standings.effective(id, own)
    }
}

impl Participant {
    fn recipient(&self) -> Recipient {
        Recipient { connection: self.connection, protocol: self.protocol }
    }

    fn alone(&self) -> Recipients {
        Arc::new([self.recipient()])
    }
}

/// Those of the configuration were checked when it was read.
fn compiled(texts: &[String]) -> Capabilities {
    Capabilities::new(texts.iter().filter_map(|text| Capability::parse(text).ok()))
}

fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests;
