//! A service as a source of operations: loads its document, registers the operations and refreshes
//! them.

mod fingerprint;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use self::fingerprint::DocumentFingerprint;
use super::build::{BuiltOperations, OpenApiError, ServiceInfo, build_operations, build_service};
use super::handler::ServiceContext;
use super::import::OperationCounts;
use super::load::{DocumentLocation, LoadedDocument, load};
use super::request::PreparedRequest;
use super::schema::DocumentWarning;
use super::settings::OpenApiSettings;
use crate::circuit_breaker::BreakerState;
use crate::error::CallError;
use crate::operation::{Operation, OperationError, ResultPolicy};
use crate::registry::{Change, Registry};
use crate::spec::{OperationId, OperationSpec};

/// How often the document of a gateway is checked for changes, unless configured.
const GATEWAY_REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// Changes an operation before it is registered and sets its result policy. `None` omits the
/// operation.
pub type OperationTransform =
    Arc<dyn Fn(OperationSpec) -> Option<(OperationSpec, ResultPolicy)> + Send + Sync>;

/// Returns warnings for the names of all operations in a document, before any is changed or
/// omitted.
pub type ConfigLint = Arc<dyn Fn(&[&str]) -> Vec<String> + Send + Sync>;

/// Hooks of the application that starts a source.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SourceHooks {
    /// Changes or omits operations.
    pub transform: Option<OperationTransform>,
    /// Reports configuration for operations that do not exist.
    pub lint: Option<ConfigLint>,
}

impl std::fmt::Debug for SourceHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceHooks").finish_non_exhaustive()
    }
}

/// Status of a source.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum OpenApiStatus {
    /// The document is being loaded.
    Loading,
    /// The document is loaded. Whether the service is reachable is known only from calls.
    Ready(Arc<ServiceInfo>),
    /// The document cannot be loaded.
    Down {
        /// Why.
        reason: String,
        /// Delay before the next attempt.
        retry_in: Duration,
    },
}

/// The hosts of a service, for status checks. It can outlive its source.
#[derive(Debug, Clone)]
pub struct ServiceHosts(Arc<ServiceContext>);

impl ServiceHosts {
    /// Returns the state of the worst circuit breaker of a host.
    pub fn breaker_state(&self) -> BreakerState {
        self.0.client.breaker_state()
    }
}

/// A service whose operations are registered here. Dropping it removes the operations.
#[derive(Debug)]
pub struct OpenApiSource {
    status: watch::Receiver<OpenApiStatus>,
    hosts: ServiceHosts,
    /// Requests the operations from the supervisor, which no longer manages them afterwards.
    release: oneshot::Sender<oneshot::Sender<Vec<OperationId>>>,
    tasks: TaskTracker,
    stop: DropGuard,
}

impl OpenApiSource {
    /// Starts a source without waiting for its document. Its operations are registered in namespace
    /// `name` when the document is loaded. Must be called within a Tokio runtime.
    ///
    /// # Errors
    ///
    /// A configured header, the proxy or a certificate is invalid.
    pub fn start(
        registry: &Registry,
        name: &str,
        settings: OpenApiSettings,
        hooks: SourceHooks,
    ) -> Result<Self, OpenApiError> {
        let service = build_service(name, settings)?;
        registry.mark_pending(name, "its document is being loaded");
        Ok(Self::spawn(registry, service, hooks, None))
    }

    /// Replaces this source by a new one with the same name. The current operations stay registered
    /// until the new document is loaded or fails to load. Calls in flight are not affected.
    ///
    /// # Errors
    ///
    /// A header, the proxy or a certificate of the settings cannot be used. This source is returned
    /// unchanged in that case.
    pub fn replace_with(
        self,
        registry: &Registry,
        name: &str,
        settings: OpenApiSettings,
        hooks: SourceHooks,
    ) -> Result<Self, (Self, OpenApiError)> {
        match build_service(name, settings) {
            Ok(service) => Ok(Self::spawn(registry, service, hooks, Some(self))),
            Err(error) => Err((self, error)),
        }
    }

    fn spawn(
        registry: &Registry,
        service: ServiceContext,
        hooks: SourceHooks,
        predecessor: Option<Self>,
    ) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (status, watched) = watch::channel(OpenApiStatus::Loading);
        let (release, released) = oneshot::channel();
        let (registered, is_gateway) = Default::default();
        let (service, registry) = (Arc::new(service), registry.clone());
        let hosts = ServiceHosts(Arc::clone(&service));
        let supervisor =
            Supervisor { service, registry, hooks, status, registered, is_gateway, predecessor };
        tasks.spawn(supervisor.run(stop.clone(), released));
        tasks.close();
        Self { status: watched, hosts, release, tasks, stop: stop.drop_guard() }
    }

    /// Returns the status of the source and its changes.
    pub fn status(&self) -> watch::Receiver<OpenApiStatus> {
        self.status.clone()
    }

    /// Returns the hosts of the service, whose state is known from previous calls.
    pub fn hosts(&self) -> ServiceHosts {
        self.hosts.clone()
    }

    /// Waits until the operations are registered.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` with the reason if the document cannot be loaded, `TIMEOUT` if that takes
    /// longer than `timeout`.
    pub async fn ready(&self, timeout: Duration) -> Result<Arc<ServiceInfo>, CallError> {
        let mut status = self.status.clone();
        let final_status = status.wait_for(|status| !matches!(status, OpenApiStatus::Loading));
        match tokio::time::timeout(timeout, final_status).await {
            Ok(Ok(final_status)) => match &*final_status {
                OpenApiStatus::Ready(info) => Ok(Arc::clone(info)),
                OpenApiStatus::Down { reason, .. } => Err(CallError::unavailable(reason.clone())),
                OpenApiStatus::Loading => {
                    Err(CallError::unavailable("its document is being loaded"))
                }
            },
            Ok(Err(_)) => Err(CallError::unavailable("the source was stopped")),
            Err(_) => {
                Err(CallError::timeout(format!("the document was not loaded within {timeout:?}")))
            }
        }
    }

    /// Stops the source and waits until its tasks have ended.
    pub async fn close(self) {
        drop(self.stop);
        self.tasks.wait().await;
    }

    /// Stops the source and returns its operations, which stay registered. The caller becomes
    /// responsible for them. Calls in flight are not affected.
    pub async fn release_operations(self) -> Vec<OperationId> {
        let (successor, released_operations) = oneshot::channel();
        let _ = self.release.send(successor);
        let released_operations = released_operations.await.unwrap_or_default();
        self.tasks.wait().await;
        released_operations
    }
}

struct Supervisor {
    service: Arc<ServiceContext>,
    registry: Registry,
    hooks: SourceHooks,
    status: watch::Sender<OpenApiStatus>,
    /// Operations that this source has registered.
    registered: Vec<OperationId>,
    /// Whether the document describes a Toolpost gateway.
    is_gateway: bool,
    /// The replaced source, whose operations stay registered until this source has its own.
    predecessor: Option<OpenApiSource>,
}

impl Supervisor {
    async fn run(
        mut self,
        stop: CancellationToken,
        released: oneshot::Receiver<oneshot::Sender<Vec<OperationId>>>,
    ) {
        let successor = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            Ok(successor) = released => Some(successor),
            () = Box::pin(self.run_refresh_loop()) => None,
        };
        if let Some(successor) = successor {
            // The receiver is gone, so the operations are removed here.
            let Err(registered) = successor.send(std::mem::take(&mut self.registered)) else {
                return;
            };
            self.registered = registered;
        }
        let removed = std::mem::take(&mut self.registered).into_iter().map(Change::Unregister);
        self.registry.apply(removed).expect("removing cannot clash");
        self.registry.mark_ready(&self.service.name);
    }

    async fn run_refresh_loop(&mut self) {
        self.load_initial().await;
        let Some(interval) = refresh_interval(self.service.settings.refresh, self.is_gateway)
        else {
            return std::future::pending().await;
        };
        let mut fingerprint = self.fingerprint().await;
        loop {
            tokio::time::sleep(interval).await;
            let now = self.fingerprint().await;
            // A document without a fingerprint is loaded each time.
            if now.is_some() && now == fingerprint {
                continue;
            }
            match self.load_document().await {
                Ok(()) => fingerprint = now,
                Err(error) => {
                    let (source, error) = (&*self.service.name, error.to_string());
                    tracing::warn!(source, error, "document reload failed");
                }
            }
        }
    }

    async fn fingerprint(&self) -> Option<DocumentFingerprint> {
        let headers = self.document_headers().await.ok()?;
        DocumentFingerprint::read(
            self.service.client.http(),
            &self.service.settings.document,
            headers,
        )
        .await
    }

    /// Returns the credential headers for loading the document.
    async fn document_headers(&self) -> Result<HeaderMap, OpenApiError> {
        let ServiceContext { settings, credential_store, .. } = &*self.service;
        let DocumentLocation::Url(url) = &settings.document else { return Ok(HeaderMap::new()) };
        if !settings.document_requires_auth {
            return Ok(HeaderMap::new());
        }
        let wrong = |error: String| OpenApiError::Credentials(error);
        let credentials =
            credential_store.for_operation(&[]).map_err(|error| wrong(error.to_string()))?;
        let mut request = PreparedRequest::get(url.clone());
        credentials.apply(&mut request).await.map_err(|error| wrong(error.message().to_owned()))?;
        Ok(request.headers)
    }

    /// Loads the document, with retries until it succeeds.
    async fn load_initial(&mut self) {
        let (mut retry_in, max) = self.service.settings.reload_backoff;
        while let Err(error) = self.load_document().await {
            let reason = error.to_string();
            self.registry.mark_pending(&self.service.name, reason.clone());
            self.adopt_predecessor().await;
            let removed = std::mem::take(&mut self.registered).into_iter().map(Change::Unregister);
            self.registry.apply(removed).expect("removing cannot clash");
            let source = &*self.service.name;
            tracing::warn!(source, reason, ?retry_in, "document load failed");
            self.status.send_replace(OpenApiStatus::Down { reason, retry_in });
            tokio::time::sleep(jittered(retry_in)).await;
            retry_in = (retry_in * 2).min(max);
        }
    }

    /// Loads the document and registers its operations. Importing a large document blocks, so it
    /// runs on the blocking thread pool.
    async fn load_document(&mut self) -> Result<(), OpenApiError> {
        let settings = &self.service.settings;
        let mut load_settings = settings.load.clone();
        load_settings.client.get_or_insert_with(|| self.service.client.http().clone());
        load_settings.headers.extend(self.document_headers().await?);
        let LoadedDocument { documents, warnings } =
            load(settings.document.clone(), &load_settings).await?;
        let (service, hooks) = (Arc::clone(&self.service), self.hooks.clone());
        let building = tokio::task::spawn_blocking(move || {
            build_operations(&service, &Arc::new(documents), &hooks)
        });
        let Ok(registered) = building.await else {
            return Err(OpenApiError::Document("it cannot be imported".to_owned()));
        };
        let load_warnings = warnings.into_iter().map(|load_warnings| DocumentWarning {
            at: load_warnings.at,
            message: load_warnings.message,
        });
        let registered = registered?;
        self.adopt_predecessor().await;
        let info = self.register_operations(registered, load_warnings);
        self.registry.mark_ready(&self.service.name);
        let source = &*self.service.name;
        tracing::info!(source, counts = ?info.counts, "document loaded");
        self.status.send_replace(OpenApiStatus::Ready(Arc::new(info)));
        Ok(())
    }

    /// Takes over the registered operations of the predecessor, to replace them.
    async fn adopt_predecessor(&mut self) {
        let Some(predecessor) = self.predecessor.take() else { return };
        self.registered.extend(predecessor.release_operations().await);
    }

    /// Registers the operations and returns the summary.
    fn register_operations(
        &mut self,
        built: BuiltOperations,
        load_warnings: impl Iterator<Item = DocumentWarning>,
    ) -> ServiceInfo {
        let BuiltOperations { operations, mut info, is_gateway } = built;
        self.is_gateway = is_gateway;
        info.warnings.splice(0..0, load_warnings);
        let (mut registrable, taken) = self.partition_by_conflict(operations);
        info.warnings.extend(taken.iter().map(|operation| conflict_warning(operation.id())));
        // An operation with the same id may have been registered in the meantime.
        while let Err(OperationError::Duplicate(id)) =
            self.registry.apply(self.registry_changes(&registrable))
        {
            registrable.retain(|operation| *operation.id() != id);
            info.warnings.push(conflict_warning(&id));
        }
        let kinds = registrable.iter().map(|operation| operation.spec().kind);
        info.counts = OperationCounts::new(kinds, info.skipped.len(), info.warnings.len());
        self.registered = registrable.iter().map(|operation| operation.id().clone()).collect();
        info
    }

    /// Splits operations into those that can be registered and those whose id is taken.
    fn partition_by_conflict(
        &self,
        operations: Vec<Operation>,
    ) -> (Vec<Operation>, Vec<Operation>) {
        let catalog = self.registry.catalog();
        let before: HashSet<_> = self.registered.iter().collect();
        operations.into_iter().partition(|operation| {
            let id = operation.id();
            self.owns_namespace(id) || before.contains(id) || catalog.get(id.as_str()).is_none()
        })
    }

    /// Returns the changes that replace the registered operations by the new ones.
    fn registry_changes(&self, operations: &[Operation]) -> Vec<Change> {
        let current_ids: HashSet<_> = operations.iter().map(Operation::id).collect();
        let before: HashSet<_> = self.registered.iter().collect();
        let removed = self.registered.iter().filter(|id| !current_ids.contains(id)).cloned();
        let come = operations.iter().cloned().map(|operation| {
            match self.owns_namespace(operation.id()) || before.contains(operation.id()) {
                true => Change::Replace(operation),
                false => Change::Register(operation),
            }
        });
        removed.map(Change::Unregister).chain(come).collect()
    }

    /// Whether an id is in the namespace of the source. Ids in other namespaces are registered only
    /// if they are not taken.
    fn owns_namespace(&self, id: &OperationId) -> bool {
        id.namespace() == &*self.service.name
    }
}

fn conflict_warning(id: &OperationId) -> DocumentWarning {
    let message = format!("{id} is registered here already; what the document says is left out");
    DocumentWarning { at: String::new(), message }
}

/// Returns how often the document is checked for changes. The operations of a gateway change with
/// its sources, so its document is checked as often as the operation list of a hub.
fn refresh_interval(configured: Option<Duration>, is_gateway: bool) -> Option<Duration> {
    configured.or_else(|| is_gateway.then_some(GATEWAY_REFRESH_INTERVAL))
}

/// Adds up to 20% of jitter, so that sources do not retry at the same time.
fn jittered(delay: Duration) -> Duration {
    let jitter = getrandom::u32().map_or(0, |random| random % 20);
    delay + delay * jitter / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway_document_has_a_default_refresh_interval() {
        let hour = Some(Duration::from_secs(3_600));
        for (configured, is_gateway, expected) in [
            (None, false, None),
            (None, true, Some(GATEWAY_REFRESH_INTERVAL)),
            (hour, false, hour),
            (hour, true, hour),
        ] {
            assert_eq!(refresh_interval(configured, is_gateway), expected);
        }
    }
}
