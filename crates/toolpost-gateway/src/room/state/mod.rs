//! A room without I/O: inputs in, effects out.
//!
//! | file | contains |
//! |---|---|
//! | `input`, `effect` | inputs and effects |
//! | `handle_message` | processing of a message, step by step |
//! | `parse_message` | its full kind, addressees and context |
//! | `registry_participant` | the operations of the registry as a participant |
//! | `join` | joining and leaving |
//! | `pending_requests` | method and name of each request, which make responses self-contained |
//! | `proposal` | proposals and their state |
//! | `grants` | grants, revocations and invitations, which survive a restart |
//! | `handle_grant`, `membership` | the messages that change them |
//! | `short_kinds` | the deprecation of kinds without METHOD and CONTEXT |
//! | `control` | pausing participants, and what a paused one can still send |
//! | `stream` | streams and their write access |
//! | `history` | stored messages |
//! | `capability_format` | capabilities in the notation of each protocol family |
//! | `system_messages` | messages of the gateway itself |
//!
//! The caller passes the time, a random prefix and a function that creates tokens. Message ids are the
//! prefix and a counter.

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
mod parse_message;
mod pending_requests;
mod proposal;
mod registry_participant;
mod short_kinds;
mod stream;
mod system_messages;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use toolpost::json_rpc::RpcId;
use toolpost::{Identity, IdentityKey};

use super::capability::Capabilities;
use super::message::{BaseKind, MessageKind, Protocol, RejectionCode, RoomMessage};
use super::sender::DisconnectCause;
use super::settings::RoomSettings;
use crate::auth::Token;
use crate::kind_filter::KindFilter;
use crate::limits::TokenBucket;

use grants::RoomGrants;
use history::{History, MessageIds};
use pending_requests::PendingRequests;
use proposal::Proposals;
use stream::Streams;

pub(crate) use capability_format::format_for_mcpx;
pub(crate) use effect::{Effect, Recipient, Recipients, StreamFrame};
pub(crate) use error::RoomError;
pub(crate) use input::{ParticipantJoin, ProposalDecision, RoomInput};
pub(crate) use membership::check_participant_name;
pub(crate) use proposal::Proposal;
pub(crate) use registry_participant::is_for_registry;

/// A connection number, which is never reused.
pub(crate) type ConnectionId = u64;

/// Participant name of the registry's operations.
pub(crate) const REGISTRY_PARTICIPANT: &str = "toolpost";

/// Sender id of the gateway's own messages.
pub(crate) const GATEWAY_PARTICIPANT: &str = "system:gateway";

/// Participant names reserved for the gateway.
pub(crate) const RESERVED_PARTICIPANTS: [&str; 4] =
    [REGISTRY_PARTICIPANT, GATEWAY_PARTICIPANT, "gateway", "system"];

pub(crate) struct Room {
    settings: RoomSettings,
    /// Capabilities of participants whose identity defines none.
    default_capabilities: Capabilities,
    participants: BTreeMap<Arc<str>, Participant>,
    connections: HashMap<ConnectionId, Arc<str>>,
    /// Present participants that receive every kind; rebuilt on every change.
    unfiltered_recipients: Recipients,
    /// Present participants that receive only some kinds.
    filtered_recipients: Vec<(KindFilter, Recipient)>,
    grants: RoomGrants,
    requests: PendingRequests,
    proposals: Proposals,
    streams: Streams,
    history: History,
    message_ids: MessageIds,
    /// Current time in milliseconds since the Unix epoch.
    now: i64,
    effects: Vec<Effect>,
    /// Identity of the decider while a decision from outside the room is applied.
    deciding_identity: Option<Arc<Identity>>,
    /// Registry requests that a previous process left without a response.
    orphaned_requests: Vec<Box<str>>,
    create_token: CreateToken,
    /// Usage of departed participants, so that rejoining does not reset the limits.
    departed: BTreeMap<Arc<str>, ParticipantUsage>,
    id_prefix: Box<str>,
    id_counter: u64,
}

/// Creates the room token of an invited participant. Fails for the name of a configured identity,
/// which has its own token.
pub(crate) type CreateToken = Box<dyn Fn(&str) -> Result<Token, RoomError> + Send + Sync>;

/// A limit per minute, with a burst of half the limit: the time at which its bucket is full again.
#[derive(Debug, Clone, Copy, Default)]
struct RateLimit(u64);

impl RateLimit {
    /// Takes one token. `now` is in milliseconds.
    fn acquire(&mut self, now: i64, per_minute: u32) -> Result<(), RoomError> {
        let bucket = TokenBucket::per_minute(per_minute, per_minute / 2);
        let taken = bucket.take(self.0, u64::try_from(now).unwrap_or_default() * 1_000_000);
        self.0 = taken.map_err(|wait| {
            let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX) + 1;
            let detail = format!("limit of {per_minute} per minute exceeded; retry in {wait} ms");
            RejectionCode::RateLimited.error(detail).with_detail("retry_after_ms", wait)
        })?;
        Ok(())
    }
}

/// Rate limits, pause and notices of a participant, which persist across connections.
#[derive(Debug, Clone, Copy, Default)]
struct ParticipantUsage {
    messages: RateLimit,
    frames: RateLimit,
    /// Rejections have their own limit: a participant that receives many requests can send many
    /// responses that are rejected.
    rejections: RateLimit,
    /// End of the pause in milliseconds since the Unix epoch.
    paused_until: Option<i64>,
    /// Whether the participant got the notice about short kinds.
    has_short_kind_notice: bool,
}

#[derive(Debug)]
struct Participant {
    connection: ConnectionId,
    protocol: Protocol,
    /// Capabilities of its token, or the defaults.
    token_capabilities: Capabilities,
    /// Whether the token defines no capabilities, so that the room defaults apply.
    uses_defaults: bool,
    /// Effective capabilities, including grants and revocations.
    capabilities: Capabilities,
    identity: Arc<Identity>,
    /// The kinds that it receives, besides messages of the gateway to itself; all if absent.
    kinds: Option<KindFilter>,
    usage: ParticipantUsage,
    /// Whether the participant was shut down. It must rejoin to send again.
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
        create_token: CreateToken,
    ) -> Result<Self, serde_json::Error> {
        let mut room = Self {
            default_capabilities: Capabilities::parse_all(&settings.capabilities),
            participants: BTreeMap::new(),
            connections: HashMap::new(),
            unfiltered_recipients: Arc::new([]),
            filtered_recipients: Vec::new(),
            grants: document
                .map(serde_json::from_str::<RoomGrants>)
                .transpose()?
                .unwrap_or_default(),
            requests: PendingRequests::default(),
            proposals: Proposals::default(),
            streams: Streams::default(),
            history: History::default(),
            message_ids: MessageIds::default(),
            now,
            effects: Vec::new(),
            deciding_identity: None,
            create_token,
            orphaned_requests: Vec::new(),
            departed: BTreeMap::new(),
            id_prefix: prefix.into(),
            id_counter: 0,
            settings,
        };
        room.replay_history(history);
        Ok(room)
    }

    pub(crate) fn apply(&mut self, now: i64, input: RoomInput) -> Vec<Effect> {
        self.begin(now);
        match input {
            RoomInput::Join(arrival) => self.join(arrival),
            RoomInput::Leave { connection } => self.leave(connection),
            RoomInput::Message { connection, draft } => self.receive(connection, draft),
            RoomInput::Frame { connection, frame } => self.handle_frame(connection, frame),
            RoomInput::CallResponse { request, result } => {
                self.send_response(&request, REGISTRY_PARTICIPANT, &result);
            }
            RoomInput::CallNotification { request, payload } => {
                self.handle_call_notification(&request, payload);
            }
            RoomInput::Settings(settings) => self.configure(settings),
            RoomInput::Tick => {}
        }
        std::mem::take(&mut self.effects)
    }

    /// Advances the time: fails orphaned requests, and expires proposals and pauses.
    fn begin(&mut self, now: i64) {
        self.now = now;
        self.fail_orphaned_requests();
        self.expire_proposals();
        for participant in self.participants.values_mut() {
            participant.usage.paused_until.take_if(|until| *until <= now);
        }
    }

    pub(crate) fn participants(&self) -> Vec<(Arc<str>, Capabilities)> {
        self.participants
            .iter()
            .map(|(id, one)| (Arc::clone(id), one.capabilities.clone()))
            .collect()
    }

    /// Whether proposals are open, which keeps the room open.
    pub(crate) fn has_open_proposals(&self) -> bool {
        self.proposals.has_open()
    }

    pub(crate) fn reject_journal_unavailable(&mut self, now: i64, input: RoomInput) -> Vec<Effect> {
        let RoomInput::Message { connection, draft } = input else { return Vec::new() };
        self.now = now;
        let (id, kind) = match draft {
            Ok(draft) => (draft.id.clone(), draft.kind.full().to_owned()),
            Err(_) => (None, String::new()),
        };
        let Some(sender) = self.connections.get(&connection).cloned() else { return Vec::new() };
        let detail = "the journal cannot be written, so no message is delivered";
        self.reject(&sender, id, &kind, RejectionCode::Unavailable.error(detail));
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.participants.is_empty()
    }

    /// Whether a participant is present, has a grant record, or has a message in the history.
    pub(crate) fn is_known_participant(&self, id: &str) -> bool {
        self.participants.contains_key(id)
            || self.grants.get(id).is_some()
            || self.history.has_sender(id)
    }

    /// Returns the name and the inviters of the guest with this token.
    pub(crate) fn guest(&self, token_hash: &str) -> Option<(&str, &[IdentityKey<'static>])> {
        self.grants.guest(token_hash)
    }

    /// Returns up to `limit` stored messages of these kinds, newest first, before the message with
    /// this id or time.
    pub(crate) fn history_page(
        &self,
        limit: usize,
        before: Option<&str>,
        kinds: Option<&KindFilter>,
    ) -> Vec<Arc<RoomMessage>> {
        self.history.page(limit, before, kinds)
    }

    pub(crate) fn open_proposals(&self) -> Vec<(Box<str>, Proposal)> {
        self.proposals.open_proposals()
    }

    fn configure(&mut self, settings: RoomSettings) {
        self.default_capabilities = Capabilities::parse_all(&settings.capabilities);
        self.settings = settings;
        self.history.truncate(self.settings.max_history_messages, self.settings.max_history_bytes);
        let present: Vec<Arc<str>> = self.participants.keys().cloned().collect();
        for id in present {
            let identity = &self.participants[&id].identity;
            if let Err(rejection) = self.check_membership(&id, identity) {
                self.disconnect(&id, DisconnectCause::Rejected(rejection));
            } else if self.participants[&id].uses_defaults {
                let own = self.default_capabilities_for(&id);
                if let Some(participant) = self.participants.get_mut(&id) {
                    participant.token_capabilities = own;
                }
                self.refresh_capabilities(&id);
            }
        }
    }

    fn replay_history(&mut self, messages: Vec<(i64, RoomMessage)>) {
        let first_unapplied = self.grants.first_unapplied(&messages);
        let now = self.now;
        for (at, (time, message)) in messages.into_iter().enumerate() {
            if at >= first_unapplied {
                self.replay_unapplied(&message);
            }
            // Proposals expire relative to the time at which they were sent.
            self.now = time;
            self.replay_control(&message);
            self.track_message(&message, None);
            self.message_ids.add(&message.id, &message.from, 0);
            self.history.add(Arc::new(message), &self.settings);
        }
        self.now = now;
        self.orphaned_requests = self.requests.without_response_from(REGISTRY_PARTICIPANT);
    }

    fn track_message(&mut self, message: &RoomMessage, rpc_id: Option<RpcId>) {
        self.proposals.record(message);
        match message.kind.base() {
            Some(BaseKind::McpRequest) => {
                self.requests.add(message, &self.proposals, rpc_id, self.now);
            }
            Some(BaseKind::McpProposal) => {
                let expires = self.now + millis(self.settings.proposal_expires);
                let inviters = self.inviters_of(&message.from);
                self.proposals.add(message, inviters, self.now, expires);
            }
            Some(BaseKind::McpResponse) => self.requests.record_response(message),
            _ => {}
        }
    }

    fn next_message_id(&mut self) -> Box<str> {
        loop {
            self.id_counter += 1;
            let id: Box<str> = format!("{}-{}", self.id_prefix, self.id_counter).into();
            if !self.message_ids.contains(&id) {
                return id;
            }
        }
    }

    fn rebuild_recipients(&mut self) {
        let present = || self.participants.values();
        let filtered = present().filter_map(|one| Some((one.kinds.clone()?, one.recipient())));
        self.filtered_recipients = filtered.collect();
        let unfiltered = present().filter(|one| one.kinds.is_none());
        self.unfiltered_recipients = unfiltered.map(Participant::recipient).collect();
    }

    /// Returns the participants that receive messages of a kind.
    fn recipients_of(&self, kind: &MessageKind) -> Recipients {
        if self.filtered_recipients.is_empty() {
            return Arc::clone(&self.unfiltered_recipients);
        }
        let matching = self.filtered_recipients.iter();
        let matching = matching.filter(|(kinds, _)| kinds.matches(kind.full()));
        let matching = matching.map(|(_, recipient)| recipient);
        self.unfiltered_recipients.iter().chain(matching).copied().collect()
    }
}

impl Participant {
    fn recipient(&self) -> Recipient {
        Recipient { connection: self.connection, protocol: self.protocol }
    }
}

fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests;
