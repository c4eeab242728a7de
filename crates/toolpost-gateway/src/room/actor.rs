//! The async task of a room. It applies inputs one at a time and performs the resulting effects in
//! order. A message is journaled before it is delivered, and every participant receives messages in
//! the same order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use toolpost::json_rpc::{RawMessage, RpcId};
use toolpost::transport::Utf8Bytes;
use toolpost::{Approval, Identity, epoch_ms};

use super::message::{BaseKind, Protocol, RoomMessage};
use super::room_name::RoomName;
use super::rooms::RoomsInner;
use super::sender::{DisconnectCause, MessageSender};
use super::state::{
    ConnectionId, Effect, ParticipantJoin, ProposalDecision, REGISTRY_PARTICIPANT, Recipients,
    Room, RoomError, RoomInput, StreamFrame, is_for_registry,
};
use super::tool_caller::{ToolRequest, ToolResponse};
use crate::approval::can_approve;
use crate::journal::{Journal, RoomMessageRecord, RoomRejectionRecord};

/// Maximum number of queued commands of a room.
pub(super) const COMMAND_QUEUE_CAPACITY: usize = 1_024;
/// Maximum number of queued effects and replies before the room stops receiving commands.
const MAX_QUEUED_WORK: usize = 4_096;
/// Maximum number of concurrent registry calls of one room.
const MAX_CONCURRENT_CALLS: usize = 256;
/// Interval between `RoomInput::Tick` inputs of a room.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a room waits for running calls when the gateway stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an empty room stays open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) enum RoomCommand {
    Join {
        join: ParticipantJoin,
        sender: MessageSender,
    },
    Apply(RoomInput),
    Decide(ProposalDecision, oneshot::Sender<Result<(), RoomError>>),
    /// Read the room state. The reply is sent after all earlier work is complete.
    Inspect(Box<dyn FnOnce(&Room) -> DeferredReply + Send>),
}

pub(super) type DeferredReply = Box<dyn FnOnce() + Send>;

/// A room with its command queue, connections and running calls.
pub(super) struct RoomActor {
    name: RoomName,
    room: Room,
    rooms: Arc<RoomsInner>,
    commands: mpsc::Receiver<RoomCommand>,
    senders: HashMap<ConnectionId, MessageSender, foldhash::fast::RandomState>,
    work_queue: VecDeque<QueuedWork>,
    calls: JoinSet<(Box<str>, Option<ToolResponse>)>,
    cancellations: HashMap<Box<str>, CancellationToken>,
    notifications: (mpsc::Sender<RoomInput>, mpsc::Receiver<RoomInput>),
    empty_since: Option<Instant>,
    write_failed: bool,
}

/// A queued effect or reply, and the write that must complete before it.
struct QueuedWork {
    work: ActorWork,
    write: Option<PendingWrite>,
}

enum ActorWork {
    Effect(Effect),
    Reply(DeferredReply),
}

type PendingWrite = BoxFuture<'static, Result<(), String>>;

impl RoomActor {
    pub(super) fn new(
        name: RoomName,
        room: Room,
        rooms: Arc<RoomsInner>,
        commands: mpsc::Receiver<RoomCommand>,
    ) -> Self {
        Self {
            name,
            room,
            rooms,
            commands,
            senders: HashMap::default(),
            work_queue: VecDeque::new(),
            calls: JoinSet::new(),
            cancellations: HashMap::new(),
            notifications: mpsc::channel(COMMAND_QUEUE_CAPACITY),
            empty_since: None,
            write_failed: false,
        }
    }

    /// Runs until the room is no longer used or the gateway stops.
    pub(super) async fn run(mut self) {
        let stopping = self.rooms.stopping.clone();
        let mut tick = tokio::time::interval(TICK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let has_queue_capacity = self.work_queue.len() < MAX_QUEUED_WORK;
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                ready = wait_for_front(&mut self.work_queue) => self.advance_queue(ready),
                Some(response) = self.calls.join_next() => self.finish_call(response.ok()),
                Some(notification) = self.notifications.1.recv() => self.apply(notification),
                command = self.commands.recv(), if has_queue_capacity => match command {
                    Some(command) => self.handle_command(command),
                    None => break,
                },
                _ = tick.tick() => {
                    self.apply(RoomInput::Tick);
                    if self.try_retire() {
                        break;
                    }
                }
            }
            if self.write_failed {
                return self.close_after_write_failure();
            }
        }
        self.shutdown().await;
    }

    fn handle_command(&mut self, command: RoomCommand) {
        match command {
            RoomCommand::Join { join, sender } => {
                self.senders.insert(join.connection, sender);
                self.apply(RoomInput::Join(join));
            }
            RoomCommand::Apply(RoomInput::Leave { connection }) => {
                self.senders.remove(&connection);
                self.apply(RoomInput::Leave { connection });
            }
            RoomCommand::Apply(input @ RoomInput::Message { .. }) if !self.can_write() => {
                let effects = self.room.reject_journal_unavailable(epoch_ms(), input);
                self.enqueue_effects(effects);
            }
            RoomCommand::Apply(input) => self.apply(input),
            RoomCommand::Decide(decision, reply) => {
                let (decided, effects) = self.room.decide(epoch_ms(), decision);
                // The caller may have stopped waiting.
                let _ = reply.send(decided);
                self.enqueue_effects(effects);
            }
            RoomCommand::Inspect(look) => {
                let work = ActorWork::Reply(look(&self.room));
                self.work_queue.push_back(QueuedWork { work, write: None });
                self.run_ready_work();
            }
        }
    }

    fn can_write(&self) -> bool {
        self.rooms.journal.as_ref().is_none_or(|journal| !journal.is_failing())
    }

    fn apply(&mut self, input: RoomInput) {
        let effects = self.room.apply(epoch_ms(), input);
        self.enqueue_effects(effects);
    }

    fn enqueue_effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match self.start_write(&effect) {
                Ok(write) => {
                    let work = ActorWork::Effect(effect);
                    self.work_queue.push_back(QueuedWork { work, write });
                }
                Err(error) => self.fail(error),
            }
        }
        self.run_ready_work();
    }

    fn run_ready_work(&mut self) {
        while let Some(ready) = self.work_queue.pop_front_if(|queued| queued.write.is_none()) {
            self.run_work(ready.work);
        }
    }

    /// Marks the room as failed because an accepted message could not be persisted. Nothing that
    /// depends on the message is delivered; the room closes and is reopened from the stored state.
    fn fail(&mut self, error: &str) {
        if !self.write_failed {
            tracing::error!(room = &*self.name, error, "message not persisted; closing the room");
        }
        self.write_failed = true;
    }

    /// Starts the writes that precede an effect: to the journal, then to the store.
    fn start_write(&self, effect: &Effect) -> Result<Option<PendingWrite>, &'static str> {
        let journal = self.rooms.journal.as_ref();
        let (message, sender, allowed_by, snapshot) = match effect {
            Effect::Deliver { message, sender, allowed_by, snapshot, .. } => {
                (message, sender, allowed_by, snapshot)
            }
            Effect::RecordRejection { sender, id, kind, error, reason } => {
                if let Some(journal) = journal {
                    journal.record_rejection(&RoomRejectionRecord {
                        room: &self.name,
                        identity: sender,
                        attempted_kind: kind,
                        error: error.as_str(),
                        reason,
                        id: id.as_deref(),
                    });
                }
                return Ok(None);
            }
            _ => return Ok(None),
        };
        let record = |journal: &Journal| {
            let allowed_by = allowed_by.as_ref().map(ToString::to_string);
            let receipt = journal.record_message(&RoomMessageRecord {
                room: &self.name,
                identity: sender,
                id: &message.id,
                message: &self.encode_for_journal(message),
                allowed_by: allowed_by.as_deref(),
            });
            receipt.ok_or("the journal queue is full")
        };
        let receipt = journal.map(record).transpose()?;
        let save = snapshot.clone().zip(self.rooms.store.clone());
        if receipt.is_none() && save.is_none() {
            return Ok(None);
        }
        let name = self.name.clone();
        let write = async move {
            if let Some(receipt) = receipt {
                receipt.await.map_err(|error| error.to_string())?;
            }
            let Some((document, store)) = save else { return Ok(()) };
            let saved = tokio::task::spawn_blocking(move || store.save(&name, &document)).await;
            saved.map_err(Into::into).flatten().map_err(|error: std::io::Error| error.to_string())
        };
        Ok(Some(write.boxed()))
    }

    /// Encodes a message for the journal. Values that the schema of an operation marks as secret
    /// are masked.
    fn encode_for_journal(&self, message: &RoomMessage) -> String {
        let involves_registry =
            &*message.from == REGISTRY_PARTICIPANT || is_for_registry(&message.to);
        let payload = message.payload.as_ref().filter(|_| involves_registry);
        let is_result = message.kind.base() == Some(BaseKind::McpResponse);
        let masked = message.kind.target().zip(payload);
        let masked =
            masked.and_then(|(of, payload)| self.rooms.mask_secrets(of, payload, is_result));
        match masked {
            None => message.to_stored(),
            masked => RoomMessage { payload: masked, ..message.clone() }.to_stored(),
        }
    }

    fn advance_queue(&mut self, written: Result<(), String>) {
        let Some(queued) = self.work_queue.pop_front() else { return };
        match written {
            Ok(()) => self.run_work(queued.work),
            Err(error) => self.fail(&error),
        }
    }

    fn run_work(&mut self, work: ActorWork) {
        let effect = match work {
            ActorWork::Reply(send_reply) => return send_reply(),
            ActorWork::Effect(effect) => effect,
        };
        match effect {
            Effect::Deliver { message, to, .. } | Effect::Send { message, to } => {
                self.send_message(&message, &to);
            }
            Effect::Frame { frame, to } => self.send_frame(&frame, &to),
            Effect::RecordRejection { .. } => {}
            Effect::Call { message, identity, consents_to } => {
                self.spawn_call(&message, identity, consents_to);
            }
            Effect::Cancel { request } => {
                if let Some(cancellation) = self.cancellations.get(&request) {
                    cancellation.cancel();
                }
            }
            Effect::Close { connection, cause } => {
                if let Some(sender) = self.senders.remove(&connection) {
                    sender.close(cause);
                }
            }
        }
    }

    fn send_message(&self, message: &RoomMessage, to: &Recipients) {
        let mut encoded = [const { None::<Utf8Bytes> }; Protocol::ALL.len()];
        for recipient in to.iter() {
            let Some(sender) = self.senders.get(&recipient.connection) else { continue };
            let text = encoded[recipient.protocol as usize]
                .get_or_insert_with(|| message.encode(recipient.protocol).into());
            sender.send(text.clone());
        }
    }

    fn send_frame(&self, frame: &StreamFrame, to: &Recipients) {
        let text = Utf8Bytes::from(&*frame.text);
        for recipient in to.iter() {
            if let Some(sender) = self.senders.get(&recipient.connection) {
                sender.send(text.clone());
            }
        }
    }

    fn spawn_call(
        &mut self,
        message: &RoomMessage,
        identity: Arc<Identity>,
        consents_to: Option<Box<str>>,
    ) {
        let Some(tool_caller) = self.rooms.tool_caller.upgrade() else { return };
        let request = message.id.clone();
        let payload = message.payload.as_ref().and_then(|payload| RawMessage::parse(payload.get()));
        let approver = identity.key().to_string();
        let approval = consents_to
            .filter(|_| can_approve(&identity))
            .map(|proposal| Approval { id: format!("{}/{proposal}", self.name), approver });
        let cancellation = CancellationToken::new();
        let tool_request = ToolRequest {
            identity,
            id: RpcId::from(&*request),
            method: message.kind.method().unwrap_or_default().into(),
            params: payload.and_then(|payload| payload.params.map(ToOwned::to_owned)),
            idempotency_key: message.payload.as_deref().and_then(payload_idempotency_key),
            is_addressed: !message.to.is_empty(),
            has_capacity: self.calls.len() < MAX_CONCURRENT_CALLS,
            approval,
            cancellation: cancellation.clone(),
        };
        self.cancellations.insert(request.clone(), cancellation);
        let (sender, id) = (self.notifications.0.clone(), request.clone());
        // Notifications are dropped when the queue is full.
        let notify = move |payload| {
            let _ = sender.try_send(RoomInput::CallNotification { request: id.clone(), payload });
        };
        let calling = tool_caller.call(tool_request, Box::new(notify));
        self.calls.spawn(async move { (request, calling.await) });
    }

    fn finish_call(&mut self, response: Option<(Box<str>, Option<ToolResponse>)>) {
        let Some((request, result)) = response else { return };
        // Notifications are delivered before the response.
        while let Ok(notification) = self.notifications.1.try_recv() {
            self.apply(notification);
        }
        self.cancellations.remove(&request);
        if let Some(result) = result {
            self.apply(RoomInput::CallResponse { request, result });
        }
    }

    /// Removes the room from the table if it has been idle for [`IDLE_TIMEOUT`] and has no other
    /// handle. Returns whether it was removed.
    fn try_retire(&mut self) -> bool {
        let is_busy =
            !self.calls.is_empty() || !self.work_queue.is_empty() || self.room.has_open_proposals();
        // Without a journal, the state exists only in memory.
        if is_busy || !self.room.is_empty() || self.rooms.journal.is_none() {
            self.empty_since = None;
            return false;
        }
        let since = *self.empty_since.get_or_insert_with(Instant::now);
        since.elapsed() >= IDLE_TIMEOUT && self.rooms.remove_if_unused(&self.name, &self.commands)
    }

    /// Closes every connection. Clients reconnect to the stored state.
    fn close_after_write_failure(self) {
        self.rooms.remove(&self.name);
        for sender in self.senders.values() {
            sender.close(DisconnectCause::JournalUnavailable);
        }
    }

    /// Waits for running calls, performs the queued work and closes the connections.
    async fn shutdown(mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            self.handle_command(command);
        }
        let response = async {
            while let Some(response) = self.calls.join_next().await {
                self.finish_call(response.ok());
            }
        };
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, response).await;
        while !self.work_queue.is_empty() && !self.write_failed {
            let ready = wait_for_front(&mut self.work_queue).await;
            self.advance_queue(ready);
        }
        for sender in self.senders.values() {
            sender.close(DisconnectCause::GatewayStopping);
        }
    }
}

/// Waits for the write at the front of the queue. The work stays in the queue.
async fn wait_for_front(work_queue: &mut VecDeque<QueuedWork>) -> Result<(), String> {
    let Some(first) = work_queue.front_mut() else { return std::future::pending().await };
    match &mut first.write {
        None => Ok(()),
        Some(write) => write.await,
    }
}

/// Returns the idempotency key in the `_meta` of a payload.
fn payload_idempotency_key(payload: &RawValue) -> Option<Arc<str>> {
    #[derive(Deserialize)]
    struct KeyedPayload {
        #[serde(rename = "_meta")]
        meta: PayloadMeta,
    }
    #[derive(Deserialize)]
    struct PayloadMeta {
        #[serde(rename = "toolpost/idempotencyKey")]
        idempotency_key: Arc<str>,
    }
    let keyed: KeyedPayload = serde_json::from_str(payload.get()).ok()?;
    Some(keyed.meta.idempotency_key)
}
