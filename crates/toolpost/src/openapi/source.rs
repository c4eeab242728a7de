//! A service as a source of operations: its document read, kept up to date, read again.

mod stamp;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use self::stamp::Stamp;
use super::handler::Service;
use super::import::Counts;
use super::load::{Loaded, Location, load};
use super::offer::{Found, Offer, OpenApiError, offer, service};
use super::request::Prepared;
use super::schema::Warning;
use super::settings::OpenApiSettings;
use crate::error::CallError;
use crate::operation::{Operation, OperationError, ResultPolicy};
use crate::registry::{Change, Registry};
use crate::spec::{OperationId, OperationSpec};

/// How often the document of a gateway is looked at, unless it is configured.
const RENEWAL: Duration = Duration::from_secs(30);

/// What is made of an operation before it is registered, and how its results are treated; `None`
/// leaves it out.
pub type Adjust = Arc<dyn Fn(OperationSpec) -> Option<(OperationSpec, ResultPolicy)> + Send + Sync>;

/// What is odd about the names of all operations of a document, before any is changed or left out.
pub type Review = Arc<dyn Fn(&[&str]) -> Vec<String> + Send + Sync>;

/// What a source needs from the one who starts it.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SourceHooks {
    /// Changes or leaves out operations.
    pub adjust: Option<Adjust>,
    /// Says what is configured for operations that are not there.
    pub review: Option<Review>,
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
    /// Its document is being read.
    Reading,
    /// Its document was read, and this is what it has. Whether the service is there is seen by
    /// calling it.
    Ready(Arc<Found>),
    /// Its document cannot be read.
    Down {
        /// Why.
        reason: String,
        /// When it is tried again.
        again_in: Duration,
    },
}

/// The hosts of a service, for those who want to know how they are. It outlives its source.
#[derive(Debug, Clone)]
pub struct ServiceHosts(Arc<Service>);

impl ServiceHosts {
    /// Whether one of them failed again and again, and is left alone or just being tried again.
    pub fn is_any_left_alone(&self) -> bool {
        self.0.client.leaves_alone()
    }
}

/// A service whose operations are operations here. Dropping it takes them away.
#[derive(Debug)]
pub struct OpenApiSource {
    status: watch::Receiver<SourceStatus>,
    hosts: ServiceHosts,
    /// Asks the supervisor for its operations, which are somebody else's from then on.
    leave: oneshot::Sender<oneshot::Sender<Vec<OperationId>>>,
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
        let service = service(name, settings)?;
        registry.expect(name, "its document is being read");
        Ok(Self::spawn(registry, service, hooks, None))
    }

    /// Starts a source in the place of another of the same name. The operations of that one stay until
    /// the document was read, or could not be. Calls in flight are not disturbed.
    ///
    /// # Errors
    ///
    /// A header, the proxy or a certificate of the settings cannot be used; then the other one goes on.
    pub fn succeed(
        self,
        registry: &Registry,
        name: &str,
        settings: OpenApiSettings,
        hooks: SourceHooks,
    ) -> Result<Self, (Self, OpenApiError)> {
        match service(name, settings) {
            Ok(service) => Ok(Self::spawn(registry, service, hooks, Some(self))),
            Err(error) => Err((self, error)),
        }
    }

    fn spawn(
        registry: &Registry,
        service: Service,
        hooks: SourceHooks,
        predecessor: Option<Self>,
    ) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (status, watched) = watch::channel(SourceStatus::Reading);
        let (leave, leaving) = oneshot::channel();
        let (offered, is_gateway) = Default::default();
        let (service, registry) = (Arc::new(service), registry.clone());
        let hosts = ServiceHosts(Arc::clone(&service));
        let supervisor =
            Supervisor { service, registry, hooks, status, offered, is_gateway, predecessor };
        tasks.spawn(supervisor.run(stop.clone(), leaving));
        tasks.close();
        Self { status: watched, hosts, leave, tasks, stop: stop.drop_guard() }
    }

    /// How it is doing, now and whenever that changes.
    pub fn status(&self) -> watch::Receiver<SourceStatus> {
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
    pub async fn ready(&self, patience: Duration) -> Result<Arc<Found>, CallError> {
        let mut status = self.status.clone();
        let settled = status.wait_for(|status| !matches!(status, SourceStatus::Reading));
        match tokio::time::timeout(patience, settled).await {
            Ok(Ok(settled)) => match &*settled {
                SourceStatus::Ready(found) => Ok(Arc::clone(found)),
                SourceStatus::Down { reason, .. } => Err(CallError::unavailable(reason.clone())),
                SourceStatus::Reading => Err(CallError::unavailable("its document is being read")),
            },
            Ok(Err(_)) => Err(CallError::unavailable("the source was stopped")),
            Err(_) => {
                Err(CallError::timeout(format!("the document was not read within {patience:?}")))
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
    pub async fn hand_over(self) -> Vec<OperationId> {
        let (heir, inherited) = oneshot::channel();
        let _ = self.leave.send(heir);
        let inherited = inherited.await.unwrap_or_default();
        self.tasks.wait().await;
        inherited
    }
}

struct Supervisor {
    service: Arc<Service>,
    registry: Registry,
    hooks: SourceHooks,
    status: watch::Sender<SourceStatus>,
    /// What stands in the registry.
    offered: Vec<OperationId>,
    /// Whether the document is that of a gateway.
    is_gateway: bool,
    /// Whose operations stand there until this one has its own.
    predecessor: Option<OpenApiSource>,
}

impl Supervisor {
    async fn run(
        mut self,
        stop: CancellationToken,
        leaving: oneshot::Receiver<oneshot::Sender<Vec<OperationId>>>,
    ) {
        let heir = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            Ok(heir) = leaving => Some(heir),
            () = Box::pin(self.keep()) => None,
        };
        if let Some(heir) = heir {
            // Whoever does not take them any more has been stopped, and nobody answers for them.
            let Err(offered) = heir.send(std::mem::take(&mut self.offered)) else { return };
            self.offered = offered;
        }
        let gone = std::mem::take(&mut self.offered).into_iter().map(Change::Unregister);
        self.registry.apply(gone).expect("removing cannot clash");
        self.registry.settle(&self.service.name);
    }

    async fn keep(&mut self) {
        self.read_first().await;
        let Some(interval) = interval(self.service.settings.refresh, self.is_gateway) else {
            return std::future::pending().await;
        };
        let mut stamp = self.stamp().await;
        loop {
            tokio::time::sleep(interval).await;
            let now = self.stamp().await;
            // A place that says nothing about its age is read each time.
            if now.is_some() && now == stamp {
                continue;
            }
            match self.read().await {
                Ok(()) => stamp = now,
                Err(error) => {
                    let (source, error) = (&*self.service.name, error.to_string());
                    tracing::warn!(source, error, "the changed document was not read");
                }
            }
        }
    }

    async fn stamp(&self) -> Option<Stamp> {
        let shown = self.shown().await.ok()?;
        Stamp::of(self.service.client.http(), &self.service.settings.document, shown).await
    }

    /// What is shown where the document is.
    async fn shown(&self) -> Result<HeaderMap, OpenApiError> {
        let Service { settings, keyring, .. } = &*self.service;
        let Location::Url(url) = &settings.document else { return Ok(HeaderMap::new()) };
        if !settings.is_private {
            return Ok(HeaderMap::new());
        }
        let wrong = |error: String| OpenApiError::Credentials(error);
        let keys = keyring.keys(&[]).map_err(|error| wrong(error.to_string()))?;
        let mut request = Prepared::to_read(url.clone());
        keys.show(&mut request).await.map_err(|error| wrong(error.message().to_owned()))?;
        Ok(request.headers)
    }

    /// Reads the document until that succeeds.
    async fn read_first(&mut self) {
        let (mut again_in, most) = self.service.settings.restart;
        while let Err(error) = self.read().await {
            let reason = error.to_string();
            self.registry.expect(&self.service.name, reason.clone());
            self.inherit().await;
            let gone = std::mem::take(&mut self.offered).into_iter().map(Change::Unregister);
            self.registry.apply(gone).expect("removing cannot clash");
            let source = &*self.service.name;
            tracing::warn!(source, reason, ?again_in, "the document was not read");
            self.status.send_replace(SourceStatus::Down { reason, again_in });
            tokio::time::sleep(jittered(again_in)).await;
            again_in = (again_in * 2).min(most);
        }
    }

    /// Reads the document and puts what it says into the registry. Reading a large one takes long, so
    /// it is done where nobody waits for it.
    async fn read(&mut self) -> Result<(), OpenApiError> {
        let settings = &self.service.settings;
        let mut loading = settings.load.clone();
        loading.client.get_or_insert_with(|| self.service.client.http().clone());
        loading.headers.extend(self.shown().await?);
        let Loaded { library, warnings } = load(settings.document.clone(), &loading).await?;
        let (service, hooks) = (Arc::clone(&self.service), self.hooks.clone());
        let offering =
            tokio::task::spawn_blocking(move || offer(&service, &Arc::new(library), &hooks));
        let Ok(offered) = offering.await else {
            return Err(OpenApiError::Document("it cannot be imported".to_owned()));
        };
        let odd = warnings.into_iter().map(|odd| Warning { at: odd.at, message: odd.message });
        let offered = offered?;
        self.inherit().await;
        let found = self.take_on(offered, odd);
        self.registry.settle(&self.service.name);
        let source = &*self.service.name;
        tracing::info!(source, counts = ?found.counts, "the document was read");
        self.status.send_replace(SourceStatus::Ready(Arc::new(found)));
        Ok(())
    }

    /// What the source before this one offered is this one's to replace.
    async fn inherit(&mut self) {
        let Some(predecessor) = self.predecessor.take() else { return };
        self.offered.extend(predecessor.hand_over().await);
    }

    /// Puts what was read into the registry, and says what became of it.
    fn take_on(&mut self, offer: Offer, odd: impl Iterator<Item = Warning>) -> Found {
        let Offer { operations, mut found, is_gateway } = offer;
        self.is_gateway = is_gateway;
        found.warnings.splice(0..0, odd);
        let (mut free, taken) = self.divide(operations);
        found.warnings.extend(taken.iter().map(|operation| already_here(operation.id())));
        // Somebody may have come in between.
        while let Err(OperationError::Duplicate(id)) = self.registry.apply(self.changes(&free)) {
            free.retain(|operation| *operation.id() != id);
            found.warnings.push(already_here(&id));
        }
        let kinds = free.iter().map(|operation| operation.spec().kind);
        found.counts = Counts::new(kinds, found.skipped.len(), found.warnings.len());
        self.offered = free.iter().map(|operation| operation.id().clone()).collect();
        found
    }

    /// Those that can be registered, and those whose ids are somebody else's.
    fn divide(&self, operations: Vec<Operation>) -> (Vec<Operation>, Vec<Operation>) {
        let catalog = self.registry.catalog();
        let before: HashSet<_> = self.offered.iter().collect();
        operations.into_iter().partition(|operation| {
            let id = operation.id();
            self.is_own(id) || before.contains(id) || catalog.get(id.as_str()).is_none()
        })
    }

    /// These operations in the place of those of before.
    fn changes(&self, operations: &[Operation]) -> Vec<Change> {
        let kept: HashSet<_> = operations.iter().map(Operation::id).collect();
        let before: HashSet<_> = self.offered.iter().collect();
        let gone = self.offered.iter().filter(|id| !kept.contains(id)).cloned();
        let come = operations.iter().cloned().map(|operation| {
            match self.is_own(operation.id()) || before.contains(operation.id()) {
                true => Change::Replace(operation),
                false => Change::Register(operation),
            }
        });
        gone.map(Change::Unregister).chain(come).collect()
    }

    /// The namespace of the source is its own; others are only taken where they are free.
    fn is_own(&self, id: &OperationId) -> bool {
        id.namespace() == &*self.service.name
    }
}

fn already_here(id: &OperationId) -> Warning {
    let message = format!("{id} is registered here already; what the document says is left out");
    Warning { at: String::new(), message }
}

/// How often is looked whether a document has changed. The operations of a gateway come and go with its
/// sources, so its document is looked at as often as the list of a hub.
fn interval(configured: Option<Duration>, is_gateway: bool) -> Option<Duration> {
    configured.or_else(|| is_gateway.then_some(RENEWAL))
}

/// Sources that failed together do not come back in step.
fn jittered(pause: Duration) -> Duration {
    let jitter = getrandom::u32().map_or(0, |random| random % 20);
    pause + pause * jitter / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_a_gateway_is_looked_at_again() {
        let hour = Some(Duration::from_secs(3_600));
        for (configured, is_gateway, expected) in [
            (None, false, None),
            (None, true, Some(RENEWAL)),
            (hour, false, hour),
            (hour, true, hour),
        ] {
            assert_eq!(interval(configured, is_gateway), expected);
        }
    }
}
