//! Sources of operations and the supervisor that runs them.
//!
//! A [`Source`] is an MCP server, an HTTP service or another hub. [`RunningSource`] owns one: it
//! connects, registers the operations, reconnects with backoff, can replace another source without
//! a gap, and unregisters the operations when it is dropped.

mod supervisor;

use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::clock::epoch_ms;
use crate::error::CallError;
use crate::operation::{ResultPolicy, SourceKind};
use crate::registry::Registry;
use crate::spec::{OperationId, OperationSpec};

pub use supervisor::SourceContext;

use supervisor::{Predecessor, ReleaseRequest, Supervisor};

/// How long [`RunningSource::set_hooks`] waits until the hooks are applied.
const HOOKS_TIMEOUT: Duration = Duration::from_secs(2);

/// A source of operations. A [`RunningSource`] runs it.
pub trait Source: Send + 'static {
    /// Returns the name, which is also the namespace of the operations.
    fn name(&self) -> &str;

    /// Returns the kind of the source.
    fn kind(&self) -> SourceKind;

    /// Returns the initial and the maximum delay between connection attempts.
    fn backoff(&self) -> (Duration, Duration);

    /// Connects, publishes the operations and keeps them up to date. Returns the reason when the
    /// connection is lost or cannot be established. Dropping the future disconnects.
    fn run(&mut self, context: &mut SourceContext) -> impl Future<Output = String> + Send;

    /// Waits for calls in flight after the operations were released.
    fn drain(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Closes the connection permanently.
    fn close(&mut self) {}
}

/// Transforms an operation before it is registered and sets its result policy; `None` omits the
/// operation.
pub type SpecTransform =
    Arc<dyn Fn(OperationSpec) -> Option<(OperationSpec, ResultPolicy)> + Send + Sync>;

/// Returns warnings about the configuration, given the names of all operations of a source before
/// any is transformed or omitted.
pub type ConfigLint = Arc<dyn Fn(&[&str]) -> Vec<String> + Send + Sync>;

/// Hooks of a source, provided by the program that starts it.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SourceHooks {
    /// Changes or omits operations before they are registered.
    pub transform: Option<SpecTransform>,
    /// Reports configuration for operations that do not exist.
    pub lint: Option<ConfigLint>,
    /// Overrides the source's maximum time for a call without progress.
    pub timeout: Option<Duration>,
}

impl SourceHooks {
    /// Applies the transform, if there is one.
    pub fn transform(&self, spec: OperationSpec) -> Option<(OperationSpec, ResultPolicy)> {
        match &self.transform {
            Some(transform) => transform(spec),
            None => Some((spec, ResultPolicy::default())),
        }
    }
}

debug_fields!(_hooks: SourceHooks);

/// The current hooks of a source.
#[derive(Debug)]
pub(crate) struct CurrentHooks {
    hooks: ArcSwap<SourceHooks>,
    changed: Notify,
}

impl CurrentHooks {
    pub(crate) fn get(&self) -> Arc<SourceHooks> {
        self.hooks.load_full()
    }
}

/// Status of a source.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SourceStatus {
    /// The source is connecting.
    Starting,
    /// The operations are registered.
    Ready(Arc<SourceInfo>),
    /// The source is not connected.
    Down {
        /// Why the source is down.
        reason: String,
        /// Delay before the next connection attempt.
        retry_in: Duration,
    },
    /// The source cannot be started with its configuration. Holds the reason.
    Disabled(String),
}

/// When a source entered its current state, and its most recent error. Times are in milliseconds
/// since the Unix epoch.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SourceHistory {
    /// Start of the current state.
    pub since: i64,
    /// The most recent error and its time, even if the source is ready now.
    pub last_error: Option<(String, i64)>,
}

/// Observes the status of a source. It can outlive the source.
#[derive(Debug, Clone)]
pub struct SourceMonitor(Arc<SharedStatus>);

#[derive(Debug)]
pub(crate) struct SharedStatus {
    current: watch::Sender<SourceStatus>,
    history: Mutex<SourceHistory>,
}

impl SourceMonitor {
    fn new(status: SourceStatus) -> Self {
        let history = SourceHistory { since: epoch_ms(), last_error: None };
        let (current, history) = (watch::Sender::new(status), Mutex::new(history));
        Self(Arc::new(SharedStatus { current, history }))
    }

    fn set(&self, status: SourceStatus) {
        let now = epoch_ms();
        let mut history = self.0.history.lock();
        if let SourceStatus::Down { reason, .. } = &status {
            history.last_error = Some((reason.clone(), now));
        }
        if discriminant(&status) != discriminant(&*self.0.current.borrow()) {
            history.since = now;
        }
        self.0.current.send_replace(status);
    }

    /// Returns a receiver for the current status and its changes.
    pub fn status(&self) -> watch::Receiver<SourceStatus> {
        self.0.current.subscribe()
    }

    /// Returns the history of the source.
    pub fn history(&self) -> SourceHistory {
        self.0.history.lock().clone()
    }
}

/// Information about a connected source. Fields that a kind of source does not provide are empty.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SourceInfo {
    /// Name or title that the server or service reports.
    pub title: String,
    /// Version of the server or service.
    pub version: String,
    /// Negotiated MCP version.
    pub protocol: String,
    /// Instructions for models.
    pub instructions: Option<String>,
    /// The tools as an MCP server lists them.
    pub tools: Vec<Value>,
    /// Whether the server supports resources.
    pub resources: bool,
    /// Whether the server supports prompts.
    pub prompts: bool,
    /// Number of registered operations.
    pub operations: usize,
    /// Problems that do not prevent the import.
    pub warnings: Vec<String>,
}

/// A source and its supervisor. Dropping it unregisters the operations and closes the source.
#[derive(Debug)]
pub struct RunningSource {
    name: Arc<str>,
    monitor: SourceMonitor,
    hooks: Arc<CurrentHooks>,
    /// Requests the supervisor to release the operations.
    release: oneshot::Sender<ReleaseRequest>,
    tasks: TaskTracker,
    stop: DropGuard,
}

impl RunningSource {
    /// Starts a source without waiting for it. Its operations are registered when it is connected.
    /// Must be called within a Tokio runtime.
    pub fn start(registry: &Registry, source: impl Source, hooks: SourceHooks) -> Self {
        registry.mark_starting(source.name());
        Self::spawn(registry, source, hooks, None)
    }

    /// Creates a source that cannot be started, so that calls to it fail with the reason.
    pub fn disabled(registry: &Registry, name: &str, reason: &str) -> Self {
        registry.mark_disabled(name, reason);
        Self {
            name: name.into(),
            monitor: SourceMonitor::new(SourceStatus::Disabled(reason.to_owned())),
            hooks: CurrentHooks::new(SourceHooks::default()),
            release: oneshot::channel().0,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new().drop_guard(),
        }
    }

    fn spawn(
        registry: &Registry,
        source: impl Source,
        hooks: SourceHooks,
        predecessor: Option<Predecessor>,
    ) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (release, release_requested) = oneshot::channel();
        let (hooks, monitor) =
            (CurrentHooks::new(hooks), SourceMonitor::new(SourceStatus::Starting));
        let name: Arc<str> = source.name().into();
        let context = SourceContext::new(
            (source.kind(), Arc::clone(&name)),
            registry,
            (Arc::clone(&hooks), monitor.clone()),
            tasks.clone(),
            predecessor,
        );
        tasks.spawn(Supervisor { source, context }.run(stop.clone(), release_requested));
        tasks.close();
        Self { name, monitor, hooks, release, tasks, stop: stop.drop_guard() }
    }

    /// Starts a source that replaces this one under the same name. The operations of this source
    /// stay registered until the new source publishes its own or is down. Calls in flight then have
    /// `drain_timeout` to complete before this source is closed.
    pub fn replace_with(
        self,
        registry: &Registry,
        source: impl Source,
        hooks: SourceHooks,
        drain_timeout: Duration,
    ) -> Self {
        if let SourceStatus::Disabled(_) = *self.status().borrow() {
            return Self::start(registry, source, hooks);
        }
        let predecessor = Predecessor { source: self, drain_timeout };
        Self::spawn(registry, source, hooks, Some(predecessor))
    }

    /// Releases the operations: they stay registered, and the caller becomes responsible for them.
    /// The returned future waits up to `drain_timeout` for calls in flight and closes the source.
    /// Dropping the future closes the source immediately.
    pub async fn release_operations(
        self,
        drain_timeout: Duration,
    ) -> (Vec<OperationId>, impl Future<Output = ()> + Send + 'static) {
        let (recipient, operations) = oneshot::channel();
        let Self { release, tasks, stop, .. } = self;
        let _ = release.send(ReleaseRequest { recipient, drain_timeout });
        let operations = operations.await.unwrap_or_default();
        let draining = async move {
            tasks.close();
            tasks.wait().await;
            drop(stop);
        };
        (operations, draining)
    }

    /// Replaces the hooks without affecting the connection or calls in flight. If the source is
    /// ready, waits for a bounded time until it has applied the hooks to its operations.
    pub async fn set_hooks(&self, hooks: SourceHooks) {
        let mut status = self.status();
        let is_ready = matches!(*status.borrow_and_update(), SourceStatus::Ready(_));
        self.hooks.hooks.store(Arc::new(hooks));
        self.hooks.changed.notify_one();
        if is_ready {
            let _ = tokio::time::timeout(HOOKS_TIMEOUT, status.changed()).await;
        }
    }

    /// Returns the name of the source.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a receiver for the current status and its changes.
    pub fn status(&self) -> watch::Receiver<SourceStatus> {
        self.monitor.status()
    }

    /// Returns an observer of the status.
    pub fn monitor(&self) -> SourceMonitor {
        self.monitor.clone()
    }

    /// Waits until the operations are registered.
    ///
    /// # Errors
    ///
    /// Returns `UNAVAILABLE` with the reason if the source is down, and `TIMEOUT` if it takes
    /// longer than `limit`.
    pub async fn ready(&self, limit: Duration) -> Result<Arc<SourceInfo>, CallError> {
        let mut status = self.status();
        let resolved = status.wait_for(|status| !matches!(status, SourceStatus::Starting));
        let Ok(resolved) = tokio::time::timeout(limit, resolved).await else {
            return Err(CallError::timeout(format!("the source is not ready after {limit:?}")));
        };
        match resolved.as_deref() {
            Ok(SourceStatus::Ready(info)) => Ok(Arc::clone(info)),
            Ok(SourceStatus::Down { reason, .. } | SourceStatus::Disabled(reason)) => {
                Err(CallError::unavailable(reason.clone()))
            }
            _ => Err(CallError::unavailable("the source was closed")),
        }
    }

    /// Closes the source and waits until it is closed.
    pub async fn close(self) {
        drop(self.stop);
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl CurrentHooks {
    fn new(hooks: SourceHooks) -> Arc<Self> {
        Arc::new(Self { hooks: ArcSwap::from_pointee(hooks), changed: Notify::new() })
    }
}
