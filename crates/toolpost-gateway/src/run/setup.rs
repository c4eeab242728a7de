//! What is put together before anything starts.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use toolpost::{Change, Pipeline, PipelineBuilder, Registry};

use super::reload::{Part, Reloaded, Reloader};
use super::{Origin, Running, operations, watch};
use crate::admin;
use crate::app::{Gateway, GatewaySettings, ListenError, check_address};
use crate::approval::{self, Approvals, Unattended};
use crate::auth::TokenHash;
use crate::config::Config;
use crate::journal::{self, Archive, Journal, JournalError, Mode};
use crate::limits::Limiter;
use crate::room::RoomStore;
use crate::source::{McpParts, Sources};
use crate::telemetry::Sight;

/// A gateway before it runs: what is configured, and what somebody adds to it.
#[must_use]
pub struct Setup {
    registry: Registry,
    config: Config,
    origin: Origin,
    settings: GatewaySettings,
    pipeline: PipelineBuilder,
    mcp: McpParts,
    operator: Option<TokenHash>,
    watch: Option<Duration>,
    parts: Vec<Arc<dyn Part>>,
    approvals: Approvals,
    sight: Sight,
    journal: Option<Journal>,
    rooms: Option<RoomStore>,
}

/// A journal is opened once: another place or another way of writing holds after the next start.
#[derive(Debug)]
struct Written;

impl Part for Written {
    fn change(&self, _: &Config, _: &Config, _: &mut Reloaded) {}

    fn restart_needed(&self, began: &Config, now: &Config) -> Vec<String> {
        let is_other = began.journal != now.journal;
        is_other.then(|| "[journal]".to_owned()).into_iter().collect()
    }
}

impl Setup {
    /// The operations of a registry and the sources of a configuration, with default settings.
    pub fn new(registry: Registry, config: Config) -> Self {
        let approvals = Approvals::new(config.approval.clone());
        let deciding = approval::operations(&approvals).into_iter().map(Change::Replace);
        registry.apply(deciding).expect("replacing cannot clash");
        Self {
            pipeline: Pipeline::builder(registry.clone()).approval(approvals.clone()),
            registry,
            config,
            origin: Origin::Nowhere,
            settings: GatewaySettings::default(),
            mcp: McpParts::default(),
            operator: None,
            watch: None,
            parts: vec![Arc::new(approvals.clone())],
            approvals,
            sight: Sight::default(),
            journal: None,
            rooms: None,
        }
    }

    /// Where the configuration is read again.
    pub fn origin(mut self, origin: Origin) -> Self {
        self.origin = origin;
        self
    }

    /// Looks at the files of the configuration so often, and reads them again when they have changed.
    pub fn watch(mut self, interval: Duration) -> Self {
        self.watch = Some(interval);
        self
    }

    /// The numbers that bound the gateway; those that the configuration sets are the configuration's.
    pub fn settings(mut self, settings: GatewaySettings) -> Self {
        self.settings = settings;
        self
    }

    /// Adds to the pipeline: who writes down what happens, who limits, who approves.
    pub fn pipeline(mut self, add: impl FnOnce(PipelineBuilder) -> PipelineBuilder) -> Self {
        self.pipeline = add(self.pipeline);
        self
    }

    /// Refuses calls that need approval, because nobody who could give it can reach this gateway.
    pub fn unattended(self) -> Self {
        let gate = Unattended::new(self.config.approval.clone());
        self.pipeline(|pipeline| pipeline.approval(gate))
    }

    /// Something that takes part in changes of the configuration.
    pub fn part(mut self, part: Arc<dyn Part>) -> Self {
        self.parts.push(part);
        self
    }

    /// Who watches the calls.
    pub fn sight(mut self, sight: Sight) -> Self {
        self.sight = sight;
        self
    }

    /// Writes calls down in this data folder, as the configuration says, and lets those who may read
    /// them again.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn journal(mut self, data: &Path) -> Result<Self, JournalError> {
        self.rooms = Some(RoomStore::open(data).map_err(|error| JournalError::of(data, error))?);
        let settings = &self.config.journal;
        let mut archive = Archive::new(data, settings);
        if settings.mode != Mode::Off {
            let journal = Journal::open(data, settings)?;
            archive = archive.with_live(&journal);
            self.pipeline = self.pipeline.audit(journal.sink(&self.registry));
            self.journal = Some(journal);
        } else {
            tracing::info!("the journal is off: no call is written down");
        }
        let own = journal::operations(&archive, &self.registry).into_iter().map(Change::Replace);
        self.registry.apply(own).expect("replacing cannot clash");
        Ok(self.part(Arc::new(Written)))
    }

    /// What MCP servers are given by this process.
    pub fn mcp(mut self, parts: McpParts) -> Self {
        self.mcp = parts;
        self
    }

    /// The token of the one who runs the gateway, whoever else is configured.
    pub fn operator(mut self, token: TokenHash) -> Self {
        self.operator = Some(token);
        self
    }

    /// Binds an address, if it is one that may be served, and starts everything but the doors.
    ///
    /// # Errors
    ///
    /// [`ListenError::NotLoopback`], or the system's refusal; then nothing was started.
    pub async fn bind(self, address: SocketAddr) -> Result<(Running, TcpListener), ListenError> {
        check_address(address, &authenticator(&self.config, self.operator))?;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ListenError::Bind { address, source })?;
        Ok((self.start(), listener))
    }

    /// Starts everything but the doors. Nothing waits for sources. Must be called in a runtime.
    pub fn start(self) -> Running {
        let mut settings = self.settings;
        let start_patience = settings.mcp.start_patience;
        settings.mcp = self.config.mcp.clone();
        settings.mcp.start_patience = start_patience;
        settings.http.cors.extend(self.config.cors.iter().cloned());
        self.config.limits.bound(&mut settings);
        let limiter = Arc::new(Limiter::new(self.config.limits.calls.clone()));
        let mut parts = self.parts;
        parts.push(Arc::clone(&limiter) as _);
        let authenticator = authenticator(&self.config, self.operator);
        let pipeline = self
            .pipeline
            .settings(self.config.limits.pipeline.clone())
            .limits(Arc::clone(&limiter) as _)
            .observer(self.sight.observer())
            .build();
        let gateway = Gateway::with(pipeline, settings)
            .with_authenticator(authenticator)
            .with_sight(self.sight, limiter)
            .with_journal(self.journal)
            .with_workspace(self.config.workspace.clone(), self.rooms);
        parts.push(Arc::new(gateway.0.workspace.clone()));
        self.approvals.join_rooms(&gateway);
        self.approvals.end_with(gateway.0.stopping.clone());
        let sources = Sources::start_with(&gateway, &self.config, &self.mcp);
        let reloader = Arc::new(Reloader::new(
            gateway.clone(),
            self.origin,
            self.operator,
            parts,
            self.config,
            sources,
        ));
        let own = operations::operations(&reloader).into_iter().map(Change::Replace);
        self.registry.apply(own).expect("replacing cannot clash");
        let watching = self.watch.map(|interval| {
            AbortOnDropHandle::new(tokio::spawn(watch::watch(Arc::downgrade(&reloader), interval)))
        });
        Running { gateway, reloader, _watching: watching }
    }
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// Knows whom the configuration knows, and the operator.
pub(super) fn authenticator(
    config: &Config,
    operator: Option<TokenHash>,
) -> crate::auth::Authenticator {
    let known = config.authenticator();
    match operator {
        Some(token) => known.also(token, admin::operator()),
        None => known,
    }
}
