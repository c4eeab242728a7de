//! Status of a gateway: readiness, health of sources, metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio_util::sync::CancellationToken;
use toolpost::Endpoint;
use toolpost::hub::RESERVED_NAMES;

use crate::endpoint::{GatewayStatus, McpEndpoint, Readiness};
use crate::journal::Journal;
use crate::source::{SourceContext, SourceState};
use crate::telemetry::{Exposition, GatewayGauges, SourceHealth, Telemetry};

/// The status of a gateway, for `/health`, `/ready` and `/metrics`.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) sources: SourceContext,
    pub(super) mcp: Arc<McpEndpoint>,
    pub(super) telemetry: Telemetry,
    pub(super) open_connections: Arc<AtomicUsize>,
    /// Number of live [`StartupGuard`]s.
    pub(super) startup_guards: AtomicUsize,
    pub(super) is_not_ready: AtomicBool,
    pub(super) stopping: CancellationToken,
    pub(super) journal: Option<Journal>,
}

/// Keeps the gateway in the `starting` state until dropped.
#[derive(Debug)]
#[must_use = "startup ends when the guard is dropped"]
pub struct StartupGuard(Arc<Status>);

impl StartupGuard {
    pub(super) fn new(status: &Arc<Status>) -> Self {
        status.startup_guards.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(status))
    }
}

impl Drop for StartupGuard {
    fn drop(&mut self) {
        self.0.startup_guards.fetch_sub(1, Ordering::Relaxed);
    }
}

impl GatewayStatus for Status {
    fn readiness(&self) -> Readiness {
        if self.is_not_ready.load(Ordering::Relaxed) || self.stopping.is_cancelled() {
            Readiness::Stopping
        } else if self.startup_guards.load(Ordering::Relaxed) > 0 {
            Readiness::Starting
        } else if self.journal.as_ref().is_some_and(Journal::rejects_calls) {
            Readiness::Failing
        } else {
            Readiness::Ready
        }
    }

    /// Configured sources report their own status. Any other source is up if at least one of its
    /// operations in the catalog is online.
    fn sources(&self) -> BTreeMap<String, SourceHealth> {
        let configured = self.sources.statuses.all().into_iter();
        let mut sources: BTreeMap<_, _> = configured
            .map(|(name, tracker)| {
                let status = tracker.status(&self.sources, &name);
                let is_up = status.state == SourceState::Ready;
                (name, SourceHealth { is_up, is_breaker_tripped: status.breaker.is_tripped() })
            })
            .collect();
        let mut others = BTreeMap::<&str, bool>::new();
        let catalog = self.sources.registry.catalog();
        for operation in catalog.list() {
            let name = operation.id().namespace();
            if !RESERVED_NAMES.contains(&name) && !sources.contains_key(name) {
                *others.entry(name).or_default() |= !operation.is_offline();
            }
        }
        sources.extend(others.into_iter().map(|(name, is_up)| {
            let is_breaker_tripped = self.sources.limiter.breaker_state(name).is_tripped();
            (name.to_owned(), SourceHealth { is_up, is_breaker_tripped })
        }));
        sources
    }

    fn metrics(&self) -> String {
        let mut page = Exposition::default();
        self.telemetry.write(&mut page);
        let gates = self.sources.limiter.sources();
        let queues = gates.iter().map(|(name, gate)| (name.to_string(), gate.queued()));
        page.write_gauges(&GatewayGauges {
            connections: vec![
                (Endpoint::Http, self.open_connections.load(Ordering::Relaxed)),
                (Endpoint::Hub, self.sources.hub.stats().connections),
                (Endpoint::Mcp, self.mcp.session_count()),
            ],
            sources: self.sources().into_iter().collect(),
            queues: queues.collect(),
            is_ready: self.readiness() == Readiness::Ready,
        });
        page.into_string()
    }
}
