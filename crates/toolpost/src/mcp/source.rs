//! A server as a source of operations: connected, listed, kept up to date, connected again.

mod leave;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::leave::Leave;
use super::desk::Desk;
use super::failure::Failure;
use super::follow;
use super::import;
use super::method::method_of;
use super::oauth::{Authorizer, CredentialStore};
use super::session::{Listed, Session};
use super::settings::McpSettings;
use super::speech::Era;
use crate::error::CallError;
use crate::operation::{Operation, ResultPolicy};
use crate::registry::{Change, Registry};
use crate::spec::{OperationId, OperationSpec};

/// How long a server must have been there for its next loss to count as the first.
const STABLE: Duration = Duration::from_secs(30);
/// The longest time between two readings of a list that changes all the time.
const SLOWEST: Duration = Duration::from_secs(30);
/// When a list that could not be read is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// Changes of a list come in bursts; so much is waited for the rest of one.
const BURST: Duration = Duration::from_millis(50);

/// What is made of an operation before it is registered, and how its results are treated; `None`
/// leaves it out.
pub type Adjust = Arc<dyn Fn(OperationSpec) -> Option<(OperationSpec, ResultPolicy)> + Send + Sync>;

/// What is odd about the names of everything that a server has, before any is changed or left out.
pub type Review = Arc<dyn Fn(&[&str]) -> Vec<String> + Send + Sync>;

/// What a source needs from the one who starts it.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SourceHooks {
    /// Changes or leaves out operations.
    pub adjust: Option<Adjust>,
    /// Says what is configured for operations that are not there.
    pub review: Option<Review>,
    /// Keeps what authorization servers gave; in memory, if absent.
    pub credentials: Option<Arc<dyn CredentialStore>>,
    /// Brings a person to an authorization server; without it nobody is asked.
    pub authorizer: Option<Arc<dyn Authorizer>>,
}

impl std::fmt::Debug for SourceHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceHooks").finish_non_exhaustive()
    }
}

/// How a source is doing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SourceStatus {
    /// It is being connected.
    Connecting,
    /// It is connected, and this is what it has.
    Ready(Arc<Found>),
    /// It is not there.
    Down {
        /// Why.
        reason: String,
        /// When it is connected again.
        again_in: Duration,
    },
}

/// What was found at a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// What the server calls itself.
    pub server: String,
    /// Its version.
    pub server_version: String,
    /// The protocol version that is spoken.
    pub protocol: String,
    /// What it tells models about itself.
    pub instructions: Option<String>,
    /// The tools as it listed them.
    pub tools: Vec<Value>,
    /// Whether it has resources.
    pub resources: bool,
    /// Whether it has prompts.
    pub prompts: bool,
    /// What was odd about its tools.
    pub warnings: Vec<String>,
}

/// A server whose tools are operations. Dropping it takes them away and ends the server.
#[derive(Debug)]
pub struct McpSource {
    status: watch::Receiver<SourceStatus>,
    /// Where other adjustments are left for the supervisor.
    desk: Arc<Desk>,
    /// Tells the supervisor to leave in good order.
    leave: oneshot::Sender<Leave>,
    tasks: TaskTracker,
    stop: DropGuard,
}

impl McpSource {
    /// Starts a source. Its operations appear in the registry in namespace `name` as soon as the
    /// server has listed them; nothing waits for that. Must be called in a runtime.
    pub fn start(
        registry: &Registry,
        name: &str,
        settings: McpSettings,
        hooks: SourceHooks,
    ) -> Self {
        registry.expect(name, "it is being connected");
        Self::spawn(registry, name, settings, hooks, None)
    }

    fn spawn(
        registry: &Registry,
        name: &str,
        settings: McpSettings,
        hooks: SourceHooks,
        predecessor: Option<leave::Predecessor>,
    ) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let desk = Arc::new(Desk::new(name, settings, hooks.adjust.clone()));
        let (leave, leaving) = oneshot::channel();
        let supervisor = Supervisor {
            desk: Arc::clone(&desk),
            registry: registry.clone(),
            hooks,
            tasks: tasks.clone(),
            era: None,
            is_known: false,
            offered: Vec::new(),
            predecessor,
            has_left: false,
        };
        tasks.spawn(supervisor.run(stop.clone(), leaving));
        tasks.close();
        Self { status: desk.status.subscribe(), desk, leave, tasks, stop: stop.drop_guard() }
    }

    /// Other adjustments from now on, and how long a call may go on without a sign of progress. The
    /// server, its session and the calls in flight are left alone.
    pub fn adjust(&self, adjust: Option<Adjust>, timeout: Duration) {
        self.desk.set_adjust(adjust, timeout);
    }

    /// How it is doing, now and whenever that changes.
    pub fn status(&self) -> watch::Receiver<SourceStatus> {
        self.status.clone()
    }

    /// Waits until the operations are there.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` with the reason when the server cannot be connected, `TIMEOUT` when it takes
    /// longer than `patience`.
    pub async fn ready(&self, patience: Duration) -> Result<Arc<Found>, CallError> {
        let mut status = self.status.clone();
        let settled = status.wait_for(|status| !matches!(status, SourceStatus::Connecting));
        match tokio::time::timeout(patience, settled).await {
            Ok(Ok(settled)) => match &*settled {
                SourceStatus::Ready(found) => Ok(Arc::clone(found)),
                SourceStatus::Down { reason, .. } => Err(CallError::unavailable(reason.clone())),
                SourceStatus::Connecting => Err(CallError::unavailable("it is being connected")),
            },
            Ok(Err(_)) => Err(CallError::unavailable("the source was stopped")),
            Err(_) => {
                Err(CallError::timeout(format!("the server did not answer within {patience:?}")))
            }
        }
    }

    /// Ends the source, and waits until nothing is left of it.
    pub async fn close(self) {
        drop(self.stop);
        self.tasks.wait().await;
    }
}

struct Supervisor {
    desk: Arc<Desk>,
    registry: Registry,
    hooks: SourceHooks,
    tasks: TaskTracker,
    /// What the server was found to speak.
    era: Option<Era>,
    /// Whether the server has ever said what it has.
    is_known: bool,
    /// What stands in the registry.
    offered: Vec<OperationId>,
    /// Whose operations stand there until this one has its own.
    predecessor: Option<leave::Predecessor>,
    /// Whether the namespace is somebody else's affair now.
    has_left: bool,
}

impl Supervisor {
    async fn run(mut self, stop: CancellationToken, leaving: oneshot::Receiver<Leave>) {
        let leave = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            Ok(leave) = leaving => Some(leave),
            () = Box::pin(self.keep_connected()) => None,
        };
        if let Some(leave) = leave {
            stop.run_until_cancelled(self.leave(leave)).await;
        }
        if let Some(session) = self.desk.close() {
            session.stop();
        }
        self.desk.watches.close(&CallError::unavailable("the source was closed"));
        let gone = std::mem::take(&mut self.offered).into_iter().map(Change::Unregister);
        self.registry.apply(gone).expect("removing cannot clash");
        if !self.has_left {
            self.registry.settle(&self.desk.name);
        }
        self.dismiss().await;
    }

    async fn keep_connected(&mut self) {
        let mut backoff = Backoff::new(self.desk.settings.restart);
        loop {
            self.desk.status.send_replace(SourceStatus::Connecting);
            let reason = match self.connect().await {
                Ok((session, listening)) => {
                    let since = Instant::now();
                    let reason = self.serve(&session, listening).await;
                    session.retire();
                    self.desk.take();
                    self.take_offline();
                    if since.elapsed() > STABLE {
                        backoff.reset();
                    }
                    reason
                }
                Err(failure) => failure.to_string(),
            };
            let again_in = backoff.next();
            tracing::warn!(source = %self.desk.name, reason, ?again_in, "the server is down");
            self.take_over(&reason).await;
            if !self.is_known {
                self.registry.expect(&self.desk.name, reason.clone());
            }
            self.desk.say_down(reason.clone(), again_in);
            self.rest(again_in, &reason).await;
        }
    }

    /// Connects, listens, lists, and puts what was listed into the registry.
    async fn connect(&mut self) -> Result<(Arc<Session>, BoxFuture<'static, ()>), Failure> {
        let desk = Arc::clone(&self.desk);
        let (hooks, tasks) = (&self.hooks, &self.tasks);
        let session = Box::pin(Session::connect(
            &desk.name,
            &desk.settings,
            &desk.watches,
            hooks,
            tasks,
            &mut self.era,
        ))
        .await?;
        let session = Arc::new(session);
        let listening = session.begin_listening().await;
        match session.list_tools().await {
            Ok(listed) => {
                self.install(&session, listed).await;
                Ok((session, listening))
            }
            Err(failure) => {
                session.stop();
                Err(failure)
            }
        }
    }

    /// Follows the changes of the list until the server is gone.
    async fn serve(
        &mut self,
        session: &Arc<Session>,
        mut listening: BoxFuture<'static, ()>,
    ) -> String {
        let (watches, settings) = (Arc::clone(&self.desk.watches), Arc::clone(&self.desk.settings));
        let keeping = self.tasks.spawn(follow::keep(watches, Arc::clone(session), settings));
        let _keeping = AbortOnDropHandle::new(keeping);
        let mut over = std::pin::pin!(session.over());
        loop {
            tokio::select! {
                reason = &mut over => return reason,
                () = &mut listening => {}
                parts = session.offer_changed() => {
                    self.renew(&parts);
                    // A server that never rests is heard all the more slowly.
                    tokio::select! {
                        reason = &mut over => return reason,
                        () = tokio::time::sleep(BURST * 5) => {}
                    }
                }
                () = self.desk.adjusted.notified() => self.adjust_again(session).await,
                () = session.tools_changed().notified() => {
                    let reading = Instant::now();
                    tokio::select! {
                        reason = &mut over => return reason,
                        () = self.read_again(session) => {}
                    }
                    // A server whose list never rests is read again all the more slowly.
                    tokio::select! {
                        reason = &mut over => return reason,
                        () = tokio::time::sleep((reading.elapsed() * 5).min(SLOWEST)) => {}
                    }
                }
            }
        }
    }

    async fn read_again(&mut self, session: &Arc<Session>) {
        tokio::time::sleep(BURST).await;
        match session.list_tools().await {
            Ok(listed) => self.install(session, listed).await,
            Err(failure) => {
                let (source, failure) = (&*self.desk.name, failure.to_string());
                tracing::warn!(source, failure, "the changed list was not read");
                tokio::time::sleep(AGAIN).await;
                session.tools_changed().notify_one();
            }
        }
    }

    /// Puts what was listed into the registry. Reading many schemas takes long, so it is done where
    /// nobody waits for it.
    async fn install(&mut self, session: &Arc<Session>, listed: Listed) {
        let before = match &*self.desk.status.borrow() {
            SourceStatus::Ready(found) => Some(Arc::clone(found)),
            _ => None,
        };
        if before.is_some_and(|found| found.tools == listed.tools) {
            return;
        }
        self.take_in(session, listed).await;
    }

    async fn take_in(&mut self, session: &Arc<Session>, listed: Listed) {
        let (desk, reading) = (Arc::clone(&self.desk), Arc::clone(session));
        let mut hooks = self.hooks.clone();
        hooks.adjust = self.desk.adjust();
        let importing = tokio::task::spawn_blocking(move || {
            (import::import(&desk, &reading, &listed, &hooks), listed)
        });
        let Ok((import, listed)) = importing.await else { return };
        for warning in &import.warnings {
            tracing::warn!(source = %self.desk.name, warning, "the tools of a source, or what is configured about them, are odd");
        }
        let peer = &session.peer;
        let found = Found {
            server: peer.name.clone(),
            server_version: peer.version.clone(),
            protocol: peer.speech.version.clone(),
            instructions: peer.instructions.clone(),
            tools: listed.tools,
            resources: peer.has("resources"),
            prompts: peer.has("prompts"),
            warnings: import.warnings,
        };
        self.desk.put(Arc::clone(session));
        let inherited = self.inherit().await;
        self.replace(import.operations, &inherited);
        if !std::mem::replace(&mut self.is_known, true) {
            self.registry.settle(&self.desk.name);
        }
        self.desk.status.send_replace(SourceStatus::Ready(Arc::new(found)));
    }

    /// Puts operations in the place of those of before; what is the same is not touched, unless
    /// another source had put it there.
    fn replace(&mut self, operations: Vec<Operation>, inherited: &[OperationId]) {
        let catalog = self.registry.catalog();
        let others: std::collections::HashSet<_> = inherited.iter().collect();
        let is_same = |before: &Operation, operation: &Operation| {
            !before.is_offline()
                && !others.contains(before.id())
                && before.spec() == operation.spec()
                && before.policy() == operation.policy()
        };
        let is_news = |operation: &Operation| {
            let before = catalog.get(operation.id().as_str());
            before.is_none_or(|before| !is_same(before, operation))
        };
        let ids: Vec<_> = operations.iter().map(|operation| operation.id().clone()).collect();
        let kept: std::collections::HashSet<_> = ids.iter().collect();
        let before = self.offered.iter().chain(inherited);
        let gone = before.filter(|id| !kept.contains(id)).cloned();
        let gone: Vec<_> = gone.map(Change::Unregister).collect();
        let news = operations.into_iter().filter(is_news).map(Change::Replace);
        let changes: Vec<_> = gone.into_iter().chain(news).collect();
        self.registry.apply(changes).expect("replacing and removing cannot clash");
        self.offered = ids;
    }

    /// Puts the operations behind some lists in their own place: whoever follows the catalog sees
    /// that there is something new behind them.
    fn renew(&self, parts: &[&str]) {
        let catalog = self.registry.catalog();
        let is_behind = |operation: &&Arc<Operation>| {
            let method = method_of(operation.spec());
            method.is_some_and(|method| parts.iter().any(|part| method.starts_with(part)))
        };
        let offered = self.offered.iter().filter_map(|id| catalog.get(id.as_str()));
        let changes: Vec<_> = offered
            .filter(is_behind)
            .map(|operation| Change::Replace(Operation::clone(operation)))
            .collect();
        self.registry.apply(changes).expect("replacing cannot clash");
    }

    fn take_offline(&self) {
        let catalog = self.registry.catalog();
        let offered = self.offered.iter().filter_map(|id| catalog.get(id.as_str()));
        let changes: Vec<_> = offered
            .map(|operation| Change::Replace(Operation::clone(operation).with_offline(true)))
            .collect();
        self.registry.apply(changes).expect("replacing cannot clash");
    }
}

/// The time between two attempts, longer each time up to a limit.
struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    fn new((first, most): (Duration, Duration)) -> Self {
        Self { first, most, next: first }
    }

    fn reset(&mut self) {
        self.next = self.first;
    }

    fn next(&mut self) -> Duration {
        let now = self.next.min(self.most);
        self.next = now * 2;
        // Sources that were lost together do not come back in step.
        let jitter = getrandom::u32().map_or(0, |random| random % 20);
        now + now * jitter / 100
    }
}
