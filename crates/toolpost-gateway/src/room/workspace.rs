//! The rooms by name: opened when somebody comes, closed when nobody is there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use data_encoding::BASE32_NOPAD;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolpost::Identity;

use super::keep::RoomStore;
use super::message::Message;
use super::outlet::{Goodbye, Outlet};
use super::settings::{RoomSettings, WorkspaceSettings};
use super::state::{Arrival, ConnectionId, Decision, Input, Refusal, Room};
use super::task::{Ask, INBOX, Task, Tell};
use crate::app::Gateway;
use crate::config::Config;
use crate::journal::Journal;
use crate::run::{Part, Reloaded};

/// The name of a room.
pub(crate) type Name = Arc<str>;

/// The longest name of a room.
const LONGEST: usize = 128;

/// The rooms of a gateway. Cloning it shares them.
#[derive(Debug, Clone)]
pub(crate) struct Workspace(Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    settings: RwLock<WorkspaceSettings>,
    rooms: Mutex<HashMap<Name, Entry>>,
    pub(super) store: Option<Arc<RoomStore>>,
    pub(super) journal: Option<Journal>,
    pub(super) stopping: CancellationToken,
    /// Owns the tasks of the rooms.
    tasks: TaskTracker,
    connections: AtomicU64,
    /// Everybody who is connected, by the number of his connection.
    seated: Mutex<HashMap<ConnectionId, Seat>>,
}

#[derive(Debug, Clone)]
struct Entry {
    inbox: mpsc::Sender<Ask>,
    /// How many hold a handle: the table itself, and whoever is about to say something.
    held: Arc<()>,
}

/// Somebody who is connected, and as whom.
#[derive(Debug)]
struct Seat {
    identity: String,
    outlet: Outlet,
}

/// A room that is open as long as this is there.
#[derive(Debug, Clone)]
pub(crate) struct RoomHandle {
    name: Name,
    inbox: mpsc::Sender<Ask>,
    _held: Arc<()>,
}

/// A place in a room, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    room: RoomHandle,
    connection: ConnectionId,
    workspace: Arc<Inner>,
}

impl Workspace {
    pub(crate) fn new(
        settings: WorkspaceSettings,
        store: Option<RoomStore>,
        journal: Option<Journal>,
        stopping: CancellationToken,
    ) -> Self {
        Self(Arc::new(Inner {
            settings: RwLock::new(settings),
            rooms: Mutex::default(),
            store: store.map(Arc::new),
            journal,
            stopping,
            tasks: TaskTracker::new(),
            connections: AtomicU64::new(1),
            seated: Mutex::default(),
        }))
    }

    /// Other settings hold from now on, also in rooms that are open.
    pub(crate) fn configure(&self, settings: WorkspaceSettings) {
        *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
        let open: Vec<(Name, Entry)> =
            self.0.rooms().iter().map(|(name, entry)| (Arc::clone(name), entry.clone())).collect();
        for (name, entry) in open {
            let settings = Ask::Take(Input::Settings(self.0.settings_of(&name)));
            self.0.tell(entry.inbox, settings);
        }
    }

    /// The room of this name, opened if it is not yet.
    ///
    /// # Errors
    ///
    /// It is no name, or too many rooms are open.
    pub(crate) fn room(&self, gateway: &Gateway, name: &str) -> Result<RoomHandle, Refusal> {
        check_name(name)?;
        let mut rooms = self.0.rooms();
        if let Some((name, entry)) = rooms.get_key_value(name) {
            return Ok(entry.handle(name));
        }
        let most = self.0.settings().most_rooms;
        if rooms.len() >= most {
            let words = format!("{most} rooms are open, which is the limit");
            return Err(Refusal::new("limit_exceeded", words));
        }
        if self.0.stopping.is_cancelled() {
            return Err(Refusal::new("unavailable", "the gateway is stopping"));
        }
        let (inbox, asked) = mpsc::channel(INBOX);
        let name: Name = name.into();
        let entry = Entry { inbox, held: Arc::default() };
        rooms.insert(Arc::clone(&name), entry.clone());
        let handle = entry.handle(&name);
        let parts = Arc::downgrade(&gateway.0);
        let workspace = Arc::clone(&self.0);
        let authenticator = gateway.authenticator().clone();
        self.0.tasks.spawn(async move {
            let opened = open(&workspace, &name).await;
            match opened.map(|room| room.knowing(move |id| authenticator.knows(id))) {
                Ok(room) => Task::new(name, room, workspace, asked, parts).run().await,
                Err(error) => {
                    tracing::error!(room = &*name, error, "a room cannot be opened");
                    workspace.rooms().remove(&name);
                }
            }
        });
        Ok(handle)
    }

    /// The room of this name if it is open, or something is kept of it: whoever has no token of this
    /// gateway may have one of a room.
    pub(crate) async fn known_room(&self, gateway: &Gateway, name: &str) -> Option<RoomHandle> {
        if let Some((name, entry)) = self.0.rooms().get_key_value(name) {
            return Some(entry.handle(name));
        }
        let (store, kept) = (Arc::clone(self.0.store.as_ref()?), name.to_owned());
        let has_kept = tokio::task::spawn_blocking(move || store.has(&kept)).await;
        if has_kept.unwrap_or_default() { self.room(gateway, name).ok() } else { None }
    }

    /// The rooms that are open or named, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.rooms().keys().map(|name| name.to_string()).collect();
        names.extend(self.0.settings().rooms.keys().cloned());
        names.push(super::LOBBY.to_owned());
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Those that are open.
    pub(crate) fn open(&self) -> Vec<RoomHandle> {
        self.0.rooms().iter().map(|(name, entry)| entry.handle(name)).collect()
    }

    /// How many are connected, in all rooms and on their way to one.
    pub(crate) fn connected(&self) -> usize {
        self.0.tasks.len().saturating_sub(self.0.rooms().len())
    }

    /// Ends what is open in the name of some identities, and says how many connections these were.
    pub(crate) fn dismiss(&self, is_over: &dyn Fn(&str) -> bool) -> usize {
        let seated = self.0.seated();
        let over: Vec<&Seat> = seated.values().filter(|seat| is_over(&seat.identity)).collect();
        for seat in &over {
            seat.outlet.close(Goodbye::new(
                4401,
                "you are not known here any more, or as somebody else; come again",
            ));
        }
        over.len()
    }

    /// Lets somebody in. He hears what comes of it by his outlet.
    pub(crate) async fn enter(
        &self,
        room: RoomHandle,
        newcomer: Newcomer,
        outlet: Outlet,
    ) -> Place {
        let connection = self.0.connections.fetch_add(1, Ordering::Relaxed);
        let seat = Seat { identity: newcomer.identity.id.clone(), outlet: outlet.clone() };
        self.0.seated().insert(connection, seat);
        let place = Place { room, connection, workspace: Arc::clone(&self.0) };
        let Newcomer { id, own, protocol, history, identity } = newcomer;
        let arrival = Arrival { connection, id, own, identity, protocol, history };
        place.room.ask(Ask::Arrive { arrival, outlet }).await;
        place
    }

    /// Owns the connection of a participant.
    pub(crate) fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.spawn(connection);
    }

    /// The largest message of a room, in bytes.
    pub(crate) fn message_bytes(&self, room: &str) -> usize {
        self.0.settings_of(room).message_bytes
    }

    /// The largest message of any room.
    pub(crate) fn largest_message(&self) -> usize {
        let usual = RoomSettings::default().message_bytes;
        let named = self.0.settings().rooms;
        named.values().map(|room| room.message_bytes).chain([usual]).max().unwrap_or(usual)
    }

    /// Whether a room lets somebody in, as far as its settings say.
    pub(crate) fn admits(&self, room: &str, id: &str) -> bool {
        let members = self.0.settings_of(room).members;
        let is_member = members.is_none_or(|members| members.iter().any(|member| member == id));
        is_member || id == crate::admin::OPERATOR
    }

    /// Waits for the rooms to end, after the gateway has begun to stop.
    pub(crate) async fn closed(&self) {
        // Also those whom no room has taken in yet.
        for seat in self.0.seated().values() {
            seat.outlet.close(Goodbye::new(1001, "the gateway is stopping"));
        }
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

/// Somebody who comes into a room.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) id: Arc<str>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) own: Option<super::capability::Capabilities>,
    pub(crate) protocol: super::message::Protocol,
    pub(crate) history: Option<usize>,
}

impl Place {
    /// Says something to the room, in the name of this connection.
    pub(crate) async fn say(&self, input: impl FnOnce(ConnectionId) -> Input) {
        self.room.ask(Ask::Take(input(self.connection))).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.workspace.seated().remove(&self.connection);
        let leave = Ask::Take(Input::Leave { connection: self.connection });
        self.workspace.tell(self.room.inbox.clone(), leave);
    }
}

impl RoomHandle {
    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    /// Looks at the room; nothing if it ends in this moment or cannot be opened.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Room) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, seen) = oneshot::channel();
        let look = Box::new(move |room: &Room| -> Tell {
            let seen = look(room);
            Box::new(move || drop(sender.send(seen)))
        });
        self.ask(Ask::Look(look)).await;
        seen.await.ok()
    }

    /// Decides about a proposal in the name of somebody.
    pub(crate) async fn decide(
        &self,
        identity: Arc<Identity>,
        own: Option<super::capability::Capabilities>,
        proposal: &str,
        verdict: super::state::Verdict,
    ) -> Result<(), Refusal> {
        let (answer, decided) = oneshot::channel();
        let by = Arc::from(identity.id.as_str());
        let proposal = proposal.into();
        let decision = Decision { proposal, by, own, identity, verdict, answer };
        self.ask(Ask::Take(Input::Decide(decision))).await;
        let closed = || Refusal::new("unavailable", "the room is closed");
        decided.await.unwrap_or_else(|_| Err(closed()))
    }

    async fn ask(&self, ask: Ask) {
        // A room that has ended has closed its connections too.
        let _ = self.inbox.send(ask).await;
    }
}

impl Entry {
    fn handle(&self, name: &Name) -> RoomHandle {
        let (inbox, held) = (self.inbox.clone(), Arc::clone(&self.held));
        RoomHandle { name: Arc::clone(name), inbox, _held: held }
    }
}

impl Inner {
    /// Tells a room something that it must hear, also if it has much to do.
    fn tell(&self, inbox: mpsc::Sender<Ask>, ask: Ask) {
        if let Err(mpsc::error::TrySendError::Full(ask)) = inbox.try_send(ask) {
            self.tasks.spawn(async move { drop(inbox.send(ask).await) });
        }
    }

    fn rooms(&self) -> MutexGuard<'_, HashMap<Name, Entry>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seated(&self) -> MutexGuard<'_, HashMap<ConnectionId, Seat>> {
        self.seated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settings(&self) -> WorkspaceSettings {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn settings_of(&self, name: &str) -> RoomSettings {
        self.settings().rooms.remove(name).unwrap_or_default()
    }

    /// Takes a room out of the table that cannot go on; the next one who comes opens it again.
    pub(super) fn abandon(&self, name: &Name) {
        self.rooms().remove(name);
    }

    /// Takes a room out of the table, unless somebody is about to come in.
    pub(super) fn forget(&self, name: &Name, inbox: &mpsc::Receiver<Ask>) -> bool {
        let mut rooms = self.rooms();
        let is_unused = |entry: &Entry| Arc::strong_count(&entry.held) == 1 && inbox.is_empty();
        let is_over = rooms.get(name).is_none_or(is_unused);
        if is_over {
            rooms.remove(name);
        }
        is_over
    }
}

/// A room as it was left.
async fn open(workspace: &Arc<Inner>, name: &Name) -> Result<Room, String> {
    let (workspace, name) = (Arc::clone(workspace), Arc::clone(name));
    let opened = tokio::task::spawn_blocking(move || read(&workspace, &name)).await;
    opened.map_err(|error| error.to_string()).flatten()
}

fn read(workspace: &Inner, name: &str) -> Result<Room, String> {
    let settings = workspace.settings_of(name);
    let kept = workspace.store.as_ref().map(|store| store.load(name)).transpose();
    let kept = kept.map_err(|error| error.to_string())?.flatten();
    let mut history = Vec::new();
    if let Some(journal) = &workspace.journal {
        let (most, bytes) = (settings.history, settings.history_bytes);
        let stored = journal.messages(name, most, bytes).map_err(|error| error.to_string())?;
        for entry in stored {
            match Message::from_stored(&entry.message) {
                Ok(message) => history.push((entry.time, message)),
                Err(error) => {
                    tracing::warn!(room = name, seq = entry.seq, %error, "a message is left out");
                }
            }
        }
    }
    let mut random = [0; 5];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    let prefix = format!("m-{}", BASE32_NOPAD.encode(&random).to_ascii_lowercase());
    Room::new(settings, kept.as_deref(), history, prefix, toolpost::epoch_ms())
        .map_err(|error| format!("what is kept of the room cannot be read: {error}"))
}

fn check_name(name: &str) -> Result<(), Refusal> {
    let is_name = !name.is_empty()
        && name.len() <= LONGEST
        && !name.contains(['/', '\\'])
        && !name.contains(char::is_control);
    if is_name {
        return Ok(());
    }
    let words =
        format!("the name of a room has 1 to {LONGEST} bytes and no slashes or control characters");
    Err(Refusal::new("invalid_message", words))
}

/// Rooms that are open take other settings over at once; those that are taken away stay open as any
/// other room does.
impl Part for Workspace {
    fn change(&self, before: &Config, now: &Config, report: &mut Reloaded) {
        if before.workspace != now.workspace {
            self.configure(now.workspace.clone());
            report.notes.push("[room] holds for messages from now on".to_owned());
        }
    }
}
