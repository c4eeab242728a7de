//! A service as a source of operations: its document read, kept up to date, read again.

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
use crate::error::CallError;
use crate::operation::{Operation, OperationError, ResultPolicy};
use crate::registry::{Change, Registry};
use crate::spec::{OperationId, OperationSpec};

/// How often the document of a gateway is looked at, unless it is configured.
const GATEWAY_REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// What is made of an operation before it is registered, and how its results are treated; `None`
/// leaves it out.
pub type OperationTransform =
    Arc<dyn Fn(OperationSpec) -> Option<(OperationSpec, ResultPolicy)> + Send + Sync>;

/// Warnings about the names of all operations of a document, before any is changed or left out.
pub type ConfigLint = Arc<dyn Fn(&[&str]) -> Vec<String> + Send + Sync>;

/// What a source needs from the one who starts it.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SourceHooks {
    /// Changes or leaves out operations.
    pub transform: Option<OperationTransform>,
    /// Says what is configured for operations that are not there.
    pub lint: Option<ConfigLint>,
}

impl std::fmt::Debug for SourceHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceHooks").finish_non_exhaustive()
    }
}

/// How a source is doing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum OpenApiStatus {
    /// Its document is being read.
    Loading,
    /// Its document was read, and this is what it has. Whether the service is there is seen by
    /// calling it.
    Ready(Arc<ServiceInfo>),
    /// Its document cannot be read.
    Down {
        /// Why.
        reason: String,
        /// When it is tried again.
        retry_in: Duration,
    },
}

/// The hosts of a service, for those who want to know how they are. It outlives its source.
#[derive(Debug, Clone)]
pub struct ServiceHosts(Arc<ServiceContext>);

impl ServiceHosts {
    /// Whether one of them failed again and again, and is left alone or just being tried again.
    pub fn has_open_breaker(&self) -> bool {
        self.0.client.has_open_breaker()
    }
}

/// A service whose operations are operations here. Dropping it takes them away.
#[derive(Debug)]
pub struct OpenApiSource {
    status: watch::Receiver<OpenApiStatus>,
    hosts: ServiceHosts,
    /// Asks the supervisor for its operations, which are somebody else's from then on.
    release: oneshot::Sender<oneshot::Sender<Vec<OperationId>>>,
    tasks: TaskTracker,
    stop: DropGuard,
}

impl OpenApiSource {
    /// Starts a source. Its operations appear in the registry in namespace `name` as soon as its
    /// document was read; nothing waits for that. Must be called in a runtime.
    ///
    /// # Errors
    ///
    /// A header, the proxy or a certificate of the settings cannot be used.
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

    /// Starts a source in the place of another of the same name. The operations of that one stay until
    /// the document was read, or could not be. Calls in flight are not disturbed.
    ///
    /// # Errors
    ///
    /// A header, the proxy or a certificate of the settings cannot be used; then the other one goes on.
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

    /// How it is doing, now and whenever that changes.
    pub fn status(&self) -> watch::Receiver<OpenApiStatus> {
        self.status.clone()
    }

    /// How its hosts are doing, as far as calls have shown it.
    pub fn hosts(&self) -> ServiceHosts {
        self.hosts.clone()
    }

    /// Waits until the operations are there.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` with the reason when the document cannot be read, `TIMEOUT` when it takes longer
    /// than `patience`.
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

    /// Ends the source, and waits until nothing is left of it.
    pub async fn close(self) {
        drop(self.stop);
        self.tasks.wait().await;
    }

    /// Gives the operations away and ends the source: they stay in the registry, and whoever takes them
    /// answers for them. Calls in flight are not disturbed.
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
    /// What stands in the registry.
    registered: Vec<OperationId>,
    /// Whether the document is that of a gateway.
    is_gateway: bool,
    /// Whose operations stand there until this one has its own.
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
            // Whoever does not take them any more has been stopped, and nobody answers for them.
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
            // A place that says nothing about its age is read each time.
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

    /// What is shown where the document is.
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

    /// Reads the document until that succeeds.
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

    /// Reads the document and puts what it says into the registry. Reading a large one takes long, so
    /// it is done where nobody waits for it.
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

    /// Takes over the operations of the predecessor, to replace them.
    async fn adopt_predecessor(&mut self) {
        let Some(predecessor) = self.predecessor.take() else { return };
        self.registered.extend(predecessor.release_operations().await);
    }

    /// Puts what was read into the registry, and says what became of it.
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
        // Somebody may have come in between.
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

    /// Those that can be registered, and those whose ids are somebody else's.
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

    /// These operations in the place of those of before.
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

    /// The source owns its namespace; ids in other namespaces are used only if nothing else has them.
    fn owns_namespace(&self, id: &OperationId) -> bool {
        id.namespace() == &*self.service.name
    }
}

fn conflict_warning(id: &OperationId) -> DocumentWarning {
    let message = format!("{id} is registered here already; what the document says is left out");
    DocumentWarning { at: String::new(), message }
}

/// How often is looked whether a document has changed. The operations of a gateway come and go with its
/// sources, so its document is looked at as often as the list of a hub.
fn refresh_interval(configured: Option<Duration>, is_gateway: bool) -> Option<Duration> {
    configured.or_else(|| is_gateway.then_some(GATEWAY_REFRESH_INTERVAL))
}

/// Sources that failed together do not come back in step.
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
