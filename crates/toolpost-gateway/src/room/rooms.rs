//! The rooms by name. A room opens on first use and closes when it is idle.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use data_encoding::BASE32_NOPAD;
use parking_lot::{Mutex, RwLock};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolpost::json::error_message;
use toolpost::shares::{Holder, ShareLimits, SharePermit, Shares};
use toolpost::{Identity, Limit};

use super::actor::{COMMAND_QUEUE_CAPACITY, DeferredReply, RoomActor, RoomCommand};
use super::message::{McpTarget, RejectionCode, RoomMessage};
use super::room_name::RoomName;
use super::sender::{DisconnectCause, MessageSender};
use super::settings::{RoomSettings, RoomsSettings};
use super::state::{ConnectionId, ParticipantJoin, ProposalDecision, Room, RoomError, RoomInput};
use super::store::RoomStore;
use super::tool_caller::ToolCaller;
use crate::admin::OPERATOR;
use crate::auth::{AccessEnd, Authenticator, LOCAL, Token};
use crate::journal::Journal;

/// The rooms of a gateway. Clones share the same rooms.
#[derive(Debug, Clone)]
pub(crate) struct Rooms(pub(super) Arc<RoomsInner>);

#[derive(Debug)]
pub(super) struct RoomsInner {
    settings: RwLock<RoomsSettings>,
    open_rooms: Mutex<HashMap<RoomName, OpenRoom>>,
    /// Rooms that callers opened.
    shares: Shares,
    pub(super) store: Option<Arc<RoomStore>>,
    pub(super) journal: Option<Journal>,
    authenticator: Authenticator,
    /// Calls the operations of the gateway. Weak, since operations list the proposals of the rooms.
    pub(super) tool_caller: Weak<dyn ToolCaller>,
    pub(super) stopping: CancellationToken,
    tasks: TaskTracker,
    next_connection_id: AtomicU64,
    /// All connections with their identities.
    connections: Mutex<HashMap<ConnectionId, (Arc<Identity>, MessageSender)>>,
}

/// An open room. The lobby and configured rooms need no permit.
#[derive(Debug)]
struct OpenRoom {
    handle: RoomHandle,
    _permit: Option<SharePermit>,
}

/// A handle to an open room. The room is not closed as idle while a handle exists.
#[derive(Debug, Clone)]
pub(crate) struct RoomHandle {
    name: RoomName,
    commands: mpsc::Sender<RoomCommand>,
    /// Shared by the handles of the room; the table holds one of them.
    handle_count: Arc<()>,
}

/// A participant's connection to a room; dropping it leaves the room.
#[derive(Debug)]
pub(crate) struct RoomConnection {
    room: RoomHandle,
    connection: ConnectionId,
    rooms: Arc<RoomsInner>,
}

impl Rooms {
    pub(crate) fn new(
        settings: RoomsSettings,
        store: Option<RoomStore>,
        journal: Option<Journal>,
        authenticator: Authenticator,
        tool_caller: Weak<dyn ToolCaller>,
        stopping: CancellationToken,
    ) -> Self {
        let limits = ShareLimits::new(
            "open rooms",
            (Limit::Rooms, settings.max_rooms),
            (Limit::CallerRooms, settings.max_rooms_per_caller),
        );
        Self(Arc::new(RoomsInner {
            settings: RwLock::new(settings),
            open_rooms: Mutex::default(),
            shares: Shares::new(limits),
            store: store.map(Arc::new),
            journal,
            authenticator,
            tool_caller,
            stopping,
            tasks: TaskTracker::new(),
            next_connection_id: AtomicU64::new(1),
            connections: Mutex::default(),
        }))
    }

    /// Replaces the settings, including those of open rooms.
    pub(crate) fn configure(&self, settings: RoomsSettings) {
        *self.0.settings.write() = settings;
        for room in self.open_rooms() {
            let settings = RoomCommand::Apply(RoomInput::Settings(self.0.settings_of(&room.name)));
            self.0.send_or_spawn(room.commands.clone(), settings);
        }
    }

    /// Returns the room with this name and opens it for a caller if necessary.
    ///
    /// # Errors
    ///
    /// Too many rooms are open, or the gateway is stopping.
    pub(crate) fn get_or_open(
        &self,
        name: &RoomName,
        opener: &Holder,
    ) -> Result<RoomHandle, RoomError> {
        let mut rooms = self.0.open_rooms.lock();
        if let Some(open) = rooms.get(name) {
            return Ok(open.handle.clone());
        }
        let is_configured =
            **name == *super::LOBBY || self.0.settings.read().rooms.contains_key(name);
        let permit = (!is_configured).then(|| self.0.shares.try_acquire(opener, 1)).transpose();
        let permit =
            permit.map_err(|error| RejectionCode::LimitExceeded.error(error.to_string()))?;
        if self.0.stopping.is_cancelled() {
            return Err(RejectionCode::Unavailable.error("the gateway is stopping"));
        }
        let (commands, receiver) = mpsc::channel(COMMAND_QUEUE_CAPACITY);
        let name = name.clone();
        let handle = RoomHandle { name: name.clone(), commands, handle_count: Arc::default() };
        rooms.insert(name.clone(), OpenRoom { handle: handle.clone(), _permit: permit });
        let rooms = Arc::clone(&self.0);
        self.0.tasks.spawn(async move {
            match load_room(&rooms, &name).await {
                Ok(room) => RoomActor::new(name, room, rooms, receiver).run().await,
                Err(error) => {
                    tracing::error!(room = &*name, error, "room failed to open");
                    rooms.remove(&name);
                }
            }
        });
        Ok(handle)
    }

    /// Returns the room with this name if it is open or has a stored document. Used for invitation
    /// tokens, which are valid only in their room.
    pub(crate) async fn find_existing(
        &self,
        name: &RoomName,
        opener: &Holder,
    ) -> Option<RoomHandle> {
        if let Some(open) = self.0.open_rooms.lock().get(name) {
            return Some(open.handle.clone());
        }
        let (store, document) = (Arc::clone(self.0.store.as_ref()?), name.clone());
        let is_stored = tokio::task::spawn_blocking(move || store.contains(&document)).await;
        if is_stored.unwrap_or_default() { self.get_or_open(name, opener).ok() } else { None }
    }

    /// Returns the sorted names of the open and configured rooms, including the lobby.
    pub(crate) fn room_names(&self) -> BTreeSet<RoomName> {
        let mut names: BTreeSet<RoomName> = self.0.open_rooms.lock().keys().cloned().collect();
        names.extend(self.0.settings.read().rooms.keys().cloned());
        names.extend(RoomName::parse(super::LOBBY));
        names
    }

    pub(super) fn open_rooms(&self) -> Vec<RoomHandle> {
        self.0.open_rooms.lock().values().map(|open| open.handle.clone()).collect()
    }

    /// Closes the connections of matching identities and returns their number.
    pub(crate) fn disconnect_identities(
        &self,
        is_ended: &dyn Fn(&Identity) -> bool,
        access_end: AccessEnd,
    ) -> usize {
        let connections = self.0.connections.lock();
        let ended = connections.values().filter(|(identity, _)| is_ended(identity));
        let cause = DisconnectCause::AccessEnded(access_end);
        ended.inspect(|(_, sender)| sender.close(cause.clone())).count()
    }

    /// Joins a room on a new connection. The result is sent through `sender`.
    pub(crate) async fn join(
        &self,
        room: RoomHandle,
        mut join: ParticipantJoin,
        sender: MessageSender,
    ) -> RoomConnection {
        let connection = self.0.next_connection_id.fetch_add(1, Ordering::Relaxed);
        join.connection = connection;
        let entry = (Arc::clone(&join.identity), sender.clone());
        self.0.connections.lock().insert(connection, entry);
        let room_connection = RoomConnection { room, connection, rooms: Arc::clone(&self.0) };
        room_connection.room.send_command(RoomCommand::Join { join, sender }).await;
        room_connection
    }

    pub(crate) fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.spawn(connection);
    }

    pub(crate) fn message_limit(&self, room: &RoomName) -> usize {
        self.0.settings_of(room).max_message_bytes
    }

    pub(crate) fn largest_message_limit(&self) -> usize {
        let default_limit = RoomSettings::default().max_message_bytes;
        let settings = self.0.settings.read();
        settings.rooms.values().map(|room| room.max_message_bytes).fold(default_limit, usize::max)
    }

    pub(crate) fn admits(&self, room: &RoomName, identity: &Identity) -> bool {
        self.0.settings_of(room).admits(identity, &identity.id)
    }

    /// Closes all connections and waits for the async tasks of the rooms. Called after the gateway
    /// has begun to stop.
    pub(crate) async fn shutdown(&self) {
        // Includes connections that no room has admitted yet.
        for (_, sender) in self.0.connections.lock().values() {
            sender.close(DisconnectCause::GatewayStopping);
        }
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

impl RoomConnection {
    pub(crate) async fn send(&self, input: impl FnOnce(ConnectionId) -> RoomInput) {
        self.room.send_command(RoomCommand::Apply(input(self.connection))).await;
    }
}

impl Drop for RoomConnection {
    fn drop(&mut self) {
        self.rooms.connections.lock().remove(&self.connection);
        let leave = RoomCommand::Apply(RoomInput::Leave { connection: self.connection });
        self.rooms.send_or_spawn(self.room.commands.clone(), leave);
    }
}

impl RoomHandle {
    pub(crate) fn name(&self) -> &RoomName {
        &self.name
    }

    /// Runs a function on the room state. Returns `None` if the room is closing or cannot be
    /// opened.
    pub(crate) async fn inspect<T: Send + 'static>(
        &self,
        inspector: impl FnOnce(&Room) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, result) = oneshot::channel();
        let inspector = Box::new(move |room: &Room| -> DeferredReply {
            let result = inspector(room);
            Box::new(move || drop(sender.send(result)))
        });
        self.send_command(RoomCommand::Inspect(inspector)).await;
        result.await.ok()
    }

    pub(super) async fn decide_proposal(
        &self,
        decision: ProposalDecision,
    ) -> Result<(), RoomError> {
        let (reply, decided) = oneshot::channel();
        self.send_command(RoomCommand::Decide(decision, reply)).await;
        decided
            .await
            .unwrap_or_else(|_| Err(RejectionCode::Unavailable.error("the room is closed")))
    }

    async fn send_command(&self, command: RoomCommand) {
        // A closed room has also closed its connections, so the error is ignored.
        let _ = self.commands.send(command).await;
    }
}

impl RoomsInner {
    /// Sends a command without blocking. If the queue is full, an async task sends it.
    fn send_or_spawn(&self, commands: mpsc::Sender<RoomCommand>, command: RoomCommand) {
        if let Err(mpsc::error::TrySendError::Full(command)) = commands.try_send(command) {
            self.tasks.spawn(async move { drop(commands.send(command).await) });
        }
    }

    /// Returns the payload of a call, or of its result, with the values masked that the schema of the
    /// operation marks as secret; `None` if there are none.
    pub(super) fn mask_secrets(
        &self,
        target: &McpTarget,
        payload: &RawValue,
        is_result: bool,
    ) -> Option<Box<RawValue>> {
        let tool = target.name.as_deref().filter(|_| &*target.method == "tools/call")?;
        self.tool_caller.upgrade()?.mask_secrets(tool, payload, is_result)
    }

    fn settings_of(&self, name: &RoomName) -> RoomSettings {
        self.settings.read().rooms.get(name).cloned().unwrap_or_default()
    }

    /// Removes a failed room from the table; the next join reopens it.
    pub(super) fn remove(&self, name: &RoomName) {
        self.open_rooms.lock().remove(name);
    }

    /// Removes a room from the table unless it has other handles or queued commands. Returns
    /// whether it was removed.
    pub(super) fn remove_if_unused(
        &self,
        name: &RoomName,
        commands: &mpsc::Receiver<RoomCommand>,
    ) -> bool {
        let mut rooms = self.open_rooms.lock();
        let is_unused = rooms.get(name).is_none_or(|open| {
            Arc::strong_count(&open.handle.handle_count) == 1 && commands.is_empty()
        });
        if is_unused {
            rooms.remove(name);
        }
        is_unused
    }
}

async fn load_room(rooms: &Arc<RoomsInner>, name: &RoomName) -> Result<Room, String> {
    let (rooms, name) = (Arc::clone(rooms), name.clone());
    let opened = tokio::task::spawn_blocking(move || load_room_blocking(&rooms, &name)).await;
    opened.map_err(|error| error.to_string()).flatten()
}

fn load_room_blocking(rooms: &RoomsInner, name: &RoomName) -> Result<Room, String> {
    let settings = rooms.settings_of(name);
    let document = rooms.store.as_ref().map(|store| store.load(name)).transpose();
    let document = document.map_err(|error| error.to_string())?.flatten();
    let mut history = Vec::new();
    if let Some(journal) = &rooms.journal {
        let (max, bytes) = (settings.max_history_messages, settings.max_history_bytes);
        let stored =
            journal.recent_messages(name, max, bytes).map_err(|error| error.to_string())?;
        for entry in stored {
            match RoomMessage::from_stored(&entry.message) {
                Ok(message) => history.push((entry.time, message)),
                Err(error) => {
                    tracing::warn!(room = %name, seq = entry.seq, %error, "skipping unreadable stored message");
                }
            }
        }
    }
    let mut random = [0; 5];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    let prefix = format!("m-{}", BASE32_NOPAD.encode(&random).to_ascii_lowercase());
    let authenticator = rooms.authenticator.clone();
    let create_token = move |id: &str| {
        if authenticator.has_identity(id) || [LOCAL, OPERATOR].contains(&id) {
            let message = format!("`{id}` is an identity of this gateway, which cannot be invited");
            return Err(RejectionCode::AuthViolation.error(message));
        }
        let generated = Token::generate();
        generated.map_err(|_| {
            RejectionCode::Unavailable
                .error("cannot create a token: the system random number generator failed")
        })
    };
    let now = toolpost::epoch_ms();
    Room::new(settings, document.as_deref(), history, prefix, now, Box::new(create_token))
        .map_err(|error| format!("invalid stored room document: {}", error_message(&error)))
}
