//! A room without I/O: something comes in, and what is to be done comes out.
//!
//! | file | holds |
//! |---|---|
//! | `input`, `effect` | what comes in, and what is to be done about it |
//! | `handle_message` | what happens to a message, in order |
//! | `registry_participant` | the operations of the registry as a participant |
//! | `join` | joining and leaving |
//! | `pending_requests` | method and name of each request, so that responses are self-contained |
//! | `proposal` | proposals and their state |
//! | `grants` | grants, revocations and invitations, which survive a restart |
//! | `handle_grant`, `membership` | the messages that change them |
//! | `control` | pausing participants, and what a paused one can still send |
//! | `stream` | streams and their write access |
//! | `history`, `rate_bucket` | stored messages, and the rate limit |
//! | `capability_format` | capabilities in the notation of each protocol family |
//! | `system_messages` | messages of the gateway itself |
//!
//! Time is an argument, ids are counted behind a prefix that somebody else drew.

mod capability_format;
mod control;
mod effect;
mod error;
mod grants;
mod handle_grant;
mod handle_message;
mod history;
mod input;
mod join;
mod membership;
mod pending_requests;
mod proposal;
mod rate_bucket;
mod registry_participant;
mod stream;
mod system_messages;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use toolpost::Identity;

use super::capability::{Capabilities, Capability};
use super::message::{Protocol, RoomMessage};
use super::settings::RoomSettings;

use control::Pause;
use grants::RoomGrants;
use history::{History, MessageIds};
use pending_requests::PendingRequests;
use proposal::Proposals;
use rate_bucket::RateBucket;
use stream::Streams;

pub(crate) use capability_format::format_for_mcpx;
pub(crate) use effect::{
    DisconnectCause, Effect, Recipient, Recipients, RegistryCall, StreamFrame,
};
pub(crate) use error::RoomError;
pub(crate) use input::{ParticipantJoin, ProposalAction, ProposalDecision, RoomInput};
pub(crate) use membership::check_participant_name;
pub(crate) use proposal::OpenProposal;

/// A connection, by a number that no other one ever had.
pub(crate) type ConnectionId = u64;

/// The participant that the operations of the registry are.
pub(crate) const REGISTRY_PARTICIPANT: &str = "toolpost";

/// Who the gateway is when it speaks for itself.
pub(crate) const GATEWAY_PARTICIPANT: &str = "system:gateway";

/// Names that nobody else has.
pub(crate) const RESERVED_PARTICIPANTS: [&str; 4] =
    [REGISTRY_PARTICIPANT, GATEWAY_PARTICIPANT, "gateway", "system"];

/// A room.
#[derive(Debug)]
pub(crate) struct Room {
    settings: RoomSettings,
    /// What those may do whose identity says nothing about it.
    default_capabilities: Capabilities,
    participants: BTreeMap<Arc<str>, Participant>,
    connections: HashMap<ConnectionId, Arc<str>>,
    /// Everybody who is there; made again when that changes.
    all_recipients: Recipients,
    grants: RoomGrants,
    requests: PendingRequests,
    proposals: Proposals,
    streams: Streams,
    history: History,
    message_ids: MessageIds,
    /// In milliseconds since 1970.
    now: i64,
    effects: Vec<Effect>,
    /// As whom somebody calls who decides from outside, while he does.
    deciding_identity: Option<Arc<Identity>>,
    /// What the process before this one was asked and has not answered.
    orphaned_requests: Vec<Box<str>>,
    /// Who comes with a token of the gateway, and needs none of this room.
    identity_lookup: IdentityLookup,
    /// What those had used up who have left, so that coming again gives nothing back.
    departed: BTreeMap<Arc<str>, ParticipantUsage>,
    id_prefix: Box<str>,
    id_counter: u64,
}

/// Whether somebody is known by his name; nobody is where nobody says so.
#[derive(Default)]
struct IdentityLookup(Option<Box<IdentityPredicate>>);

type IdentityPredicate = dyn Fn(&str) -> bool + Send + Sync;

impl IdentityLookup {
    fn contains(&self, id: &str) -> bool {
        self.0.as_ref().is_some_and(|known| known(id))
    }
}

impl std::fmt::Debug for IdentityLookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdentityLookup")
    }
}

/// What belongs to a name and not to a connection.
#[derive(Debug, Clone, Copy, Default)]
struct ParticipantUsage {
    messages: RateBucket,
    frames: RateBucket,
    /// What is refused counts apart: one who is asked much answers much that nobody waits for.
    rejections: RateBucket,
    pause: Option<Pause>,
}

/// Somebody who is there.
#[derive(Debug)]
struct Participant {
    connection: ConnectionId,
    protocol: Protocol,
    /// What his token says that he may.
    token_capabilities: Capabilities,
    /// Whether it says nothing about that, so that he may what everybody may here.
    uses_defaults: bool,
    /// What he may, grants and revocations included.
    capabilities: Capabilities,
    /// As whom he calls operations.
    identity: Arc<Identity>,
    usage: ParticipantUsage,
    /// Told to shut down; says nothing more before he comes again.
    is_shut_down: bool,
}

impl Room {
    /// Restores a room from its stored document and its messages with their journal times, oldest first.
    /// Ids of the gateway's own messages begin with the prefix.
    pub(crate) fn new(
        settings: RoomSettings,
        document: Option<&str>,
        history: Vec<(i64, RoomMessage)>,
        prefix: impl Into<Box<str>>,
        now: i64,
    ) -> Result<Self, serde_json::Error> {
        let mut room = Self {
            default_capabilities: compile_capabilities(&settings.capabilities),
            participants: BTreeMap::new(),
            connections: HashMap::new(),
            all_recipients: Arc::new([]),
            grants: document.map(RoomGrants::from_json).transpose()?.unwrap_or_default(),
            requests: PendingRequests::default(),
            proposals: Proposals::default(),
            streams: Streams::default(),
            history: History::default(),
            message_ids: MessageIds::default(),
            now,
            effects: Vec::new(),
            deciding_identity: None,
            identity_lookup: IdentityLookup::default(),
            orphaned_requests: Vec::new(),
            departed: BTreeMap::new(),
            id_prefix: prefix.into(),
            id_counter: 0,
            settings,
        };
        room.replay_history(history);
        Ok(room)
    }

    /// The same room, which knows who has a token of the gateway.
    #[must_use]
    pub(crate) fn with_identity_lookup(
        self,
        known: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { identity_lookup: IdentityLookup(Some(Box::new(known))), ..self }
    }

    /// Takes what comes in, and says what is to be done, in this order.
    pub(crate) fn apply(&mut self, now: i64, input: RoomInput) -> Vec<Effect> {
        self.now = now;
        self.fail_orphaned_requests();
        self.expire_due();
        match input {
            RoomInput::Join(arrival) => self.join(arrival),
            RoomInput::Leave { connection } => self.leave(connection),
            RoomInput::Message { connection, draft } => self.receive(connection, draft),
            RoomInput::Frame { connection, frame } => self.handle_frame(connection, frame),
            RoomInput::CallResponse { request, payload } => {
                self.handle_call_response(&request, payload);
            }
            RoomInput::CallNotification { request, payload } => {
                self.handle_call_notification(&request, payload);
            }
            RoomInput::Decide(decision) => self.handle_decision(decision),
            RoomInput::Settings(settings) => self.configure(settings),
            RoomInput::Tick => {}
        }
        std::mem::take(&mut self.effects)
    }

    /// What is over because its time has come.
    fn expire_due(&mut self) {
        self.expire_proposals();
        let now = self.now;
        for participant in self.participants.values_mut() {
            participant.usage.pause.take_if(|pause| pause.is_expired(now));
        }
    }

    /// Who is there, for those who ask.
    pub(crate) fn participants(&self) -> Vec<(Arc<str>, Capabilities)> {
        self.participants
            .iter()
            .map(|(id, one)| (Arc::clone(id), one.capabilities.clone()))
            .collect()
    }

    /// Whether something waits for somebody, so that the room has to stay.
    pub(crate) fn has_open_proposals(&self) -> bool {
        self.proposals.has_open()
    }

    /// Whether somebody of this name comes with a token of this room.
    pub(crate) fn has_invitation_token(&self, id: &str) -> bool {
        let invitation = self.grants.get(id).and_then(|record| record.invitation.as_ref());
        invitation.is_some_and(|record| record.token_hash.is_some())
    }

    /// Refuses what somebody says because nothing can be written down.
    pub(crate) fn reject_journal_unavailable(&mut self, now: i64, input: RoomInput) -> Vec<Effect> {
        let RoomInput::Message { connection, draft } = input else { return Vec::new() };
        self.now = now;
        let (id, kind) = match draft {
            Ok(draft) => (draft.id.clone(), draft.kind.full().to_owned()),
            Err(_) => (None, String::new()),
        };
        let Some(sender) = self.connections.get(&connection).cloned() else { return Vec::new() };
        let detail = "the journal cannot be written, so no message is delivered";
        self.reject(&sender, id, &kind, RoomError::new("unavailable", detail));
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.participants.is_empty()
    }

    /// Whether somebody has been here, is, or may come by an invitation.
    pub(crate) fn is_known_participant(&self, id: &str) -> bool {
        self.participants.contains_key(id)
            || self.grants.get(id).is_some()
            || self.history.has_sender(id)
    }

    /// Who comes with a token that only this room knows.
    pub(crate) fn invited_participant(&self, token_hash: &str) -> Option<Arc<str>> {
        self.grants.invited_participant(token_hash)
    }

    /// Stored messages, newest first, before the message with this id or time.
    pub(crate) fn history_page(&self, limit: usize, before: Option<&str>) -> Vec<Arc<RoomMessage>> {
        self.history.page(limit, before)
    }

    /// The proposals that wait for somebody.
    pub(crate) fn open_proposals(&self) -> Vec<OpenProposal> {
        self.proposals.open_proposals()
    }

    /// Lets other settings hold, also for those who are here.
    fn configure(&mut self, settings: RoomSettings) {
        self.default_capabilities = compile_capabilities(&settings.capabilities);
        self.settings = settings;
        self.history.truncate(self.settings.max_history_messages, self.settings.max_history_bytes);
        let present: Vec<Arc<str>> = self.participants.keys().cloned().collect();
        for id in present {
            if let Err(rejection) = self.check_membership(&id) {
                self.disconnect(&id, DisconnectCause::Rejected(rejection.message));
            } else if self.participants[&id].uses_defaults {
                let own = self.default_capabilities_for(&id);
                if let Some(participant) = self.participants.get_mut(&id) {
                    participant.token_capabilities = own;
                }
                self.refresh_capabilities(&id);
            }
        }
    }

    /// Takes up what was said before, as far as it still matters.
    fn replay_history(&mut self, messages: Vec<(i64, RoomMessage)>) {
        let first_unapplied = self.grants.first_unapplied(&messages);
        let now = self.now;
        for (at, (time, message)) in messages.into_iter().enumerate() {
            if at >= first_unapplied {
                self.replay_unapplied(&message);
            }
            // What was proposed then waits from then on.
            self.now = time;
            self.replay_control(&message);
            self.track_message(&message, None);
            self.message_ids.add(&message.id, &message.from, 0);
            self.history.add(Arc::new(message), &self.settings);
        }
        self.now = now;
        self.orphaned_requests = self.requests.without_response_from(REGISTRY_PARTICIPANT);
    }

    /// What follows from an accepted message for those that come later.
    fn track_message(
        &mut self,
        message: &RoomMessage,
        rpc_id: Option<Box<serde_json::value::RawValue>>,
    ) {
        match message.kind.short() {
            "mcp/request" => {
                self.proposals.record_fulfillment(message);
                self.requests.add(message, &self.proposals, rpc_id, self.now);
            }
            "mcp/proposal" => {
                let expires = self.now + millis(self.settings.proposal_expires);
                self.proposals.add(message, self.now, expires);
            }
            "mcp/response" => {
                self.requests.record_response(message);
                self.proposals.record_response(message);
            }
            "mcp/reject" => self.proposals.record_rejection(message),
            "mcp/withdraw" => self.proposals.record_withdrawal(message),
            _ => {}
        }
    }

    /// An id that nobody else has given.
    fn next_message_id(&mut self) -> Box<str> {
        loop {
            self.id_counter += 1;
            let id: Box<str> = format!("{}-{}", self.id_prefix, self.id_counter).into();
            if !self.message_ids.contains(&id) {
                return id;
            }
        }
    }

    /// Makes the list of those who are there again.
    fn rebuild_recipients(&mut self) {
        self.all_recipients = self.participants.values().map(Participant::recipient).collect();
    }

    fn effective_capabilities(&self, id: &str, own: &Capabilities) -> Capabilities {
        self.grants.effective_capabilities(id, own)
    }
}

impl Participant {
    fn recipient(&self) -> Recipient {
        Recipient { connection: self.connection, protocol: self.protocol }
    }

    fn as_recipients(&self) -> Recipients {
        Arc::new([self.recipient()])
    }
}

/// Those of the configuration were checked when it was read.
fn compile_capabilities(texts: &[String]) -> Capabilities {
    Capabilities::new(texts.iter().filter_map(|text| Capability::parse(text).ok()))
}

fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests;
