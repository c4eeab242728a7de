//! An MCP server as a source of operations: connects, lists, reloads and reconnects.

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

/// Minimum duration of a connection that resets the reconnect delay.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// Maximum delay between two reloads of a list that changes constantly.
const MAX_RELOAD_INTERVAL: Duration = Duration::from_secs(30);
/// Delay before a failed reload is retried.
const RELOAD_RETRY_DELAY: Duration = Duration::from_secs(5);
/// How long to wait for further changes of a list, which arrive in bursts.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// Transforms an operation before it is registered and sets its result policy; `None` omits the
/// operation.
pub type SpecTransform =
    Arc<dyn Fn(OperationSpec) -> Option<(OperationSpec, ResultPolicy)> + Send + Sync>;

/// Returns warnings about the configuration, given the names of all operations of a server before
/// any is transformed or omitted.
pub type ConfigLint = Arc<dyn Fn(&[&str]) -> Vec<String> + Send + Sync>;

/// Hooks of a source, provided by the program that starts it.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SourceHooks {
    /// Changes or removes operations before they are registered.
    pub transform: Option<SpecTransform>,
    /// Reports configuration of operations that do not exist.
    pub lint: Option<ConfigLint>,
    /// Stores OAuth credentials; in memory if absent.
    pub credentials: Option<Arc<dyn CredentialStore>>,
    /// Runs user authorization; if absent, only stored tokens are used.
    pub authorizer: Option<Arc<dyn Authorizer>>,
}

impl std::fmt::Debug for SourceHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceHooks").finish_non_exhaustive()
    }
}

/// Connection status of a source.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum McpSourceStatus {
    /// The source is connecting.
    Connecting,
    /// The source is connected.
    Ready(Arc<ServerInfo>),
    /// The source is not connected.
    Down {
        /// Why.
        reason: String,
        /// Delay before the next connection attempt.
        retry_in: Duration,
    },
}

/// Information about a connected server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Name that the server reports.
    pub server: String,
    /// Its version.
    pub server_version: String,
    /// Negotiated protocol version.
    pub protocol: String,
    /// Instructions for models.
    pub instructions: Option<String>,
    /// The tools as the server lists them.
    pub tools: Vec<Value>,
    /// Whether the server supports resources.
    pub resources: bool,
    /// Whether the server supports prompts.
    pub prompts: bool,
    /// Warnings about its tools.
    pub warnings: Vec<String>,
}

/// An MCP server whose tools are operations. Dropping it unregisters them and stops the server.
#[derive(Debug)]
pub struct McpSource {
    status: watch::Receiver<McpSourceStatus>,
    /// Passes a new transform to the supervisor.
    handle: Arc<SourceHandle>,
    /// Requests the supervisor to release the operations.
    release: oneshot::Sender<ReleaseRequest>,
    tasks: TaskTracker,
    stop: DropGuard,
}

impl McpSource {
    /// Starts a source without waiting for the server. Its operations are registered in the
    /// namespace `name` when the server has listed them. Must be called within a Tokio runtime.
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

    /// Sets the transform, and the time a call may take without progress. The server, its session
    /// and the calls in flight are not affected.
    pub fn set_transform(&self, transform: Option<SpecTransform>, timeout: Duration) {
        self.handle.set_transform(transform, timeout);
    }

    /// Returns a receiver for the current status and its changes.
    pub fn status(&self) -> watch::Receiver<McpSourceStatus> {
        self.status.clone()
    }

    /// Waits until the operations are registered.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` with the reason if the connection fails, `TIMEOUT` if it takes longer than
    /// `limit`.
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

    /// Stops the source and waits until it has ended.
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
    /// Protocol generation of the server, once known.
    generation: Option<ProtocolGeneration>,
    /// Whether the tools were listed, so that the namespace is not pending.
    has_listed: bool,
    /// Ids of the registered operations.
    registered: Vec<OperationId>,
    /// The source that is being replaced; its operations stay registered until this one has its
    /// own.
    predecessor: Option<handover::Predecessor>,
    /// Whether the namespace was released to another source.
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

    /// Connects, subscribes to list changes, and lists and registers the tools.
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

    /// Handles list changes until the server disconnects; returns the reason.
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
                    // The delay limits the rate of republishing.
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
                    // Limits the reload rate of a list that changes constantly.
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

    /// Registers the listed tools if they changed. Parsing many schemas takes long, so it runs on a
    /// blocking thread.
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

    /// Replaces the registered operations. Unchanged ones are not touched, unless they were offline
    /// or taken over from another source.
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

    /// Registers the operations behind changed lists again, so that catalog watchers notice the
    /// change.
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

/// Exponential backoff with an upper limit.
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
        // Jitter, so that sources that disconnected together do not reconnect in step.
        let jitter = getrandom::u32().map_or(0, |random| random % 20);
        now + now * jitter / 100
    }
}
