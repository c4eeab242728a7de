//! A server as a source of operations: connected, listed, kept up to date, connected again.

mod handover;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::handover::ReleaseRequest;
use super::error::RequestError;
use super::import;
use super::method::method_of;
use super::oauth::{Authorizer, CredentialStore};
use super::protocol_version::ProtocolGeneration;
use super::session::{ClientSession, ToolList};
use super::settings::McpSettings;
use super::source_handle::SourceHandle;
use super::subscriptions;
use crate::error::CallError;
use crate::operation::{Operation, ResultPolicy};
use crate::registry::{Change, Registry};
use crate::spec::{OperationId, OperationSpec};

/// How long a server must have been there for its next loss to count as the first.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// The longest time between two readings of a list that changes all the time.
const MAX_RELOAD_INTERVAL: Duration = Duration::from_secs(30);
/// When a list that could not be read is tried again.
const RELOAD_RETRY_DELAY: Duration = Duration::from_secs(5);
/// Changes of a list come in bursts; so much is waited for the rest of one.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// What is made of an operation before it is registered, and how its results are treated; `None`
/// leaves it out.
pub type SpecTransform =
    Arc<dyn Fn(OperationSpec) -> Option<(OperationSpec, ResultPolicy)> + Send + Sync>;

/// What is odd about the names of everything that a server has, before any is changed or left out.
pub type ConfigLint = Arc<dyn Fn(&[&str]) -> Vec<String> + Send + Sync>;

/// What a source needs from the one who starts it.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SourceHooks {
    /// Changes or leaves out operations.
    pub transform: Option<SpecTransform>,
    /// Says what is configured for operations that are not there.
    pub lint: Option<ConfigLint>,
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
pub enum McpSourceStatus {
    /// It is being connected.
    Connecting,
    /// It is connected, and this is what it has.
    Ready(Arc<ServerInfo>),
    /// It is not there.
    Down {
        /// Why.
        reason: String,
        /// When it is connected again.
        retry_in: Duration,
    },
}

/// What was found at a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerInfo {
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
    status: watch::Receiver<McpSourceStatus>,
    /// Where other adjustments are left for the supervisor.
    handle: Arc<SourceHandle>,
    /// Tells the supervisor to leave in good order.
    release: oneshot::Sender<ReleaseRequest>,
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
        registry.mark_pending(name, "the server is connecting");
        Self::spawn(registry, name, settings, hooks, None)
    }

    fn spawn(
        registry: &Registry,
        name: &str,
        settings: McpSettings,
        hooks: SourceHooks,
        predecessor: Option<handover::Predecessor>,
    ) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let handle = Arc::new(SourceHandle::new(name, settings, hooks.transform.clone()));
        let (release, release_requested) = oneshot::channel();
        let supervisor = Supervisor {
            handle: Arc::clone(&handle),
            registry: registry.clone(),
            hooks,
            tasks: tasks.clone(),
            generation: None,
            has_listed: false,
            registered: Vec::new(),
            predecessor,
            is_released: false,
        };
        tasks.spawn(supervisor.run(stop.clone(), release_requested));
        tasks.close();
        Self { status: handle.status.subscribe(), handle, release, tasks, stop: stop.drop_guard() }
    }

    /// Other adjustments from now on, and how long a call may go on without a sign of progress. The
    /// server, its session and the calls in flight are left alone.
    pub fn set_transform(&self, transform: Option<SpecTransform>, timeout: Duration) {
        self.handle.set_transform(transform, timeout);
    }

    /// How it is doing, now and whenever that changes.
    pub fn status(&self) -> watch::Receiver<McpSourceStatus> {
        self.status.clone()
    }

    /// Waits until the operations are there.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` with the reason when the server cannot be connected, `TIMEOUT` when it takes
    /// longer than `limit`.
    pub async fn ready(&self, limit: Duration) -> Result<Arc<ServerInfo>, CallError> {
        let mut status = self.status.clone();
        let resolved = status.wait_for(|status| !matches!(status, McpSourceStatus::Connecting));
        match tokio::time::timeout(limit, resolved).await {
            Ok(Ok(resolved)) => match &*resolved {
                McpSourceStatus::Ready(found) => Ok(Arc::clone(found)),
                McpSourceStatus::Down { reason, .. } => Err(CallError::unavailable(reason.clone())),
                McpSourceStatus::Connecting => {
                    Err(CallError::unavailable("the server is connecting"))
                }
            },
            Ok(Err(_)) => Err(CallError::unavailable("the source was stopped")),
            Err(_) => {
                Err(CallError::timeout(format!("the server did not respond within {limit:?}")))
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
    handle: Arc<SourceHandle>,
    registry: Registry,
    hooks: SourceHooks,
    tasks: TaskTracker,
    /// What the server was found to speak.
    generation: Option<ProtocolGeneration>,
    /// Whether the server has ever said what it has.
    has_listed: bool,
    /// What stands in the registry.
    registered: Vec<OperationId>,
    /// Whose operations stand there until this one has its own.
    predecessor: Option<handover::Predecessor>,
    /// Whether the namespace is somebody else's affair now.
    is_released: bool,
}

impl Supervisor {
    async fn run(
        mut self,
        stop: CancellationToken,
        release_requested: oneshot::Receiver<ReleaseRequest>,
    ) {
        let release_request = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            Ok(release_request) = release_requested => Some(release_request),
            () = Box::pin(self.keep_connected()) => None,
        };
        if let Some(release_request) = release_request {
            stop.run_until_cancelled(self.release(release_request)).await;
        }
        if let Some(session) = self.handle.close() {
            session.stop();
        }
        self.handle.subscriptions.close(&CallError::unavailable("the source was closed"));
        let removals = std::mem::take(&mut self.registered).into_iter().map(Change::Unregister);
        self.registry.apply(removals).expect("removing cannot clash");
        if !self.is_released {
            self.registry.mark_ready(&self.handle.name);
        }
        self.close_predecessor().await;
    }

    async fn keep_connected(&mut self) {
        let mut backoff = Backoff::new(self.handle.settings.restart);
        loop {
            self.handle.status.send_replace(McpSourceStatus::Connecting);
            let reason = match self.connect().await {
                Ok((session, listening)) => {
                    let since = Instant::now();
                    let reason = self.run_session(&session, listening).await;
                    session.drain();
                    self.handle.take_session();
                    self.take_offline();
                    if since.elapsed() > STABLE_AFTER {
                        backoff.reset();
                    }
                    reason
                }
                Err(failure) => failure.to_string(),
            };
            let retry_in = backoff.next();
            tracing::warn!(source = %self.handle.name, reason, ?retry_in, "the server is down");
            self.unregister_predecessor(&reason).await;
            if !self.has_listed {
                self.registry.mark_pending(&self.handle.name, reason.clone());
            }
            self.handle.set_down(reason.clone(), retry_in);
            self.wait_retry(retry_in, &reason).await;
        }
    }

    /// Connects, listens, lists, and puts what was listed into the registry.
    async fn connect(
        &mut self,
    ) -> Result<(Arc<ClientSession>, BoxFuture<'static, ()>), RequestError> {
        let handle = Arc::clone(&self.handle);
        let (hooks, tasks) = (&self.hooks, &self.tasks);
        let session = Box::pin(ClientSession::connect(
            &handle.name,
            &handle.settings,
            &handle.subscriptions,
            hooks,
            tasks,
            &mut self.generation,
        ))
        .await?;
        let session = Arc::new(session);
        let listening = session.subscribe_list_changes().await;
        match session.list_tools().await {
            Ok(listed) => {
                self.register_tools_if_changed(&session, listed).await;
                Ok((session, listening))
            }
            Err(failure) => {
                session.stop();
                Err(failure)
            }
        }
    }

    /// Follows the changes of the list until the server is gone.
    async fn run_session(
        &mut self,
        session: &Arc<ClientSession>,
        mut listening: BoxFuture<'static, ()>,
    ) -> String {
        let (subscriptions, settings) =
            (Arc::clone(&self.handle.subscriptions), Arc::clone(&self.handle.settings));
        let maintaining =
            self.tasks.spawn(subscriptions::maintain(subscriptions, Arc::clone(session), settings));
        let _maintain_task = AbortOnDropHandle::new(maintaining);
        let mut closed = std::pin::pin!(session.closed());
        loop {
            tokio::select! {
                reason = &mut closed => return reason,
                () = &mut listening => {}
                parts = session.lists_changed() => {
                    self.republish(&parts);
                    // A server that never rests is heard all the more slowly.
                    tokio::select! {
                        reason = &mut closed => return reason,
                        () = tokio::time::sleep(DEBOUNCE * 5) => {}
                    }
                }
                () = self.handle.transform_changed.notified() => self.reapply_transform(session).await,
                () = session.tools_changed().notified() => {
                    let reading = Instant::now();
                    tokio::select! {
                        reason = &mut closed => return reason,
                        () = self.reload_tools(session) => {}
                    }
                    // A server whose list never rests is read again all the more slowly.
                    tokio::select! {
                        reason = &mut closed => return reason,
                        () = tokio::time::sleep((reading.elapsed() * 5).min(MAX_RELOAD_INTERVAL)) => {}
                    }
                }
            }
        }
    }

    async fn reload_tools(&mut self, session: &Arc<ClientSession>) {
        tokio::time::sleep(DEBOUNCE).await;
        match session.list_tools().await {
            Ok(listed) => self.register_tools_if_changed(session, listed).await,
            Err(failure) => {
                let (source, failure) = (&*self.handle.name, failure.to_string());
                tracing::warn!(source, failure, "failed to reload the tool list");
                tokio::time::sleep(RELOAD_RETRY_DELAY).await;
                session.tools_changed().notify_one();
            }
        }
    }

    /// Puts what was listed into the registry. Reading many schemas takes long, so it is done where
    /// nobody waits for it.
    async fn register_tools_if_changed(&mut self, session: &Arc<ClientSession>, listed: ToolList) {
        let before = match &*self.handle.status.borrow() {
            McpSourceStatus::Ready(found) => Some(Arc::clone(found)),
            _ => None,
        };
        if before.is_some_and(|found| found.tools == listed.tools) {
            return;
        }
        self.register_tools(session, listed).await;
    }

    async fn register_tools(&mut self, session: &Arc<ClientSession>, listed: ToolList) {
        let (handle, reading) = (Arc::clone(&self.handle), Arc::clone(session));
        let mut hooks = self.hooks.clone();
        hooks.transform = self.handle.transform();
        let importing = tokio::task::spawn_blocking(move || {
            (import::import(&handle, &reading, &listed, &hooks), listed)
        });
        let Ok((import, listed)) = importing.await else { return };
        for warning in &import.warnings {
            tracing::warn!(source = %self.handle.name, warning, "source import warning");
        }
        let server = &session.server;
        let found = ServerInfo {
            server: server.name.clone(),
            server_version: server.version.clone(),
            protocol: server.protocol.version.clone(),
            instructions: server.instructions.clone(),
            tools: listed.tools,
            resources: server.has_capability("resources"),
            prompts: server.has_capability("prompts"),
            warnings: import.warnings,
        };
        self.handle.set_session(Arc::clone(session));
        let taken_over = self.take_over_operations().await;
        self.replace_operations(import.operations, &taken_over);
        if !std::mem::replace(&mut self.has_listed, true) {
            self.registry.mark_ready(&self.handle.name);
        }
        self.handle.status.send_replace(McpSourceStatus::Ready(Arc::new(found)));
    }

    /// Puts operations in the place of those of before; what is the same is not touched, unless
    /// another source had put it there.
    fn replace_operations(&mut self, operations: Vec<Operation>, taken_over: &[OperationId]) {
        let catalog = self.registry.catalog();
        let others: std::collections::HashSet<_> = taken_over.iter().collect();
        let is_same = |before: &Operation, operation: &Operation| {
            !before.is_offline()
                && !others.contains(before.id())
                && before.spec() == operation.spec()
                && before.policy() == operation.policy()
        };
        let is_changed = |operation: &Operation| {
            let before = catalog.get(operation.id().as_str());
            before.is_none_or(|before| !is_same(before, operation))
        };
        let ids: Vec<_> = operations.iter().map(|operation| operation.id().clone()).collect();
        let current: std::collections::HashSet<_> = ids.iter().collect();
        let before = self.registered.iter().chain(taken_over);
        let removals = before.filter(|id| !current.contains(id)).cloned();
        let removals: Vec<_> = removals.map(Change::Unregister).collect();
        let replacements = operations.into_iter().filter(is_changed).map(Change::Replace);
        let changes: Vec<_> = removals.into_iter().chain(replacements).collect();
        self.registry.apply(changes).expect("replacing and removing cannot clash");
        self.registered = ids;
    }

    /// Puts the operations behind some lists in their own place: whoever follows the catalog sees
    /// that there is something new behind them.
    fn republish(&self, parts: &[&str]) {
        let catalog = self.registry.catalog();
        let is_affected = |operation: &&Arc<Operation>| {
            let method = method_of(operation.spec());
            method.is_some_and(|method| parts.iter().any(|part| method.starts_with(part)))
        };
        let registered = self.registered.iter().filter_map(|id| catalog.get(id.as_str()));
        let changes: Vec<_> = registered
            .filter(is_affected)
            .map(|operation| Change::Replace(Operation::clone(operation)))
            .collect();
        self.registry.apply(changes).expect("replacing cannot clash");
    }

    fn take_offline(&self) {
        let catalog = self.registry.catalog();
        let registered = self.registered.iter().filter_map(|id| catalog.get(id.as_str()));
        let changes: Vec<_> = registered
            .map(|operation| Change::Replace(Operation::clone(operation).with_offline(true)))
            .collect();
        self.registry.apply(changes).expect("replacing cannot clash");
    }
}

/// The time between two attempts, longer each time up to a limit.
struct Backoff {
    initial: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    fn new((initial, max): (Duration, Duration)) -> Self {
        Self { initial, max, next: initial }
    }

    fn reset(&mut self) {
        self.next = self.initial;
    }

    fn next(&mut self) -> Duration {
        let now = self.next.min(self.max);
        self.next = now * 2;
        // Sources that were lost together do not come back in step.
        let jitter = getrandom::u32().map_or(0, |random| random % 20);
        now + now * jitter / 100
    }
}
