//! Assembles a gateway before it starts.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use toolpost::{Change, Pipeline, PipelineBuilder, Registry};

use super::reload::{ActiveConfig, Reloader};
use super::{ConfigSource, GatewayHandle, config_watch, operations};
use crate::admin;
use crate::app::{Gateway, GatewaySettings, ListenError, check_address};
use crate::approval::{self, Approvals, ProposalQueue, RejectingGate};
use crate::auth::{Authenticator, TokenHash};
use crate::config::Config;
use crate::journal::{self, Journal, JournalError, JournalMode, JournalReader};
use crate::limits::Limiter;
use crate::room::RoomStore;
use crate::source::{McpEnv, Sources};
use crate::telemetry::Telemetry;

/// Builds a gateway from its configuration and additional parts.
#[must_use]
pub struct GatewayBuilder {
    registry: Registry,
    config: Config,
    config_source: ConfigSource,
    settings: GatewaySettings,
    pipeline: PipelineBuilder,
    mcp_env: McpEnv,
    operator: Option<TokenHash>,
    watch: Option<Duration>,
    authenticator: Option<Authenticator>,
    approvals: Approvals,
    stopping: CancellationToken,
    telemetry: Telemetry,
    journal: Option<Journal>,
    rooms: Option<RoomStore>,
}

impl GatewayBuilder {
    /// Creates a builder from the operations of a registry and a configuration, with default
    /// settings.
    pub fn new(registry: Registry, config: Config) -> Self {
        let stopping = CancellationToken::new();
        let approvals = Approvals::new(config.approval.clone(), stopping.clone());
        Self {
            pipeline: Pipeline::builder(registry.clone()).approval(approvals.clone()),
            registry,
            config,
            config_source: ConfigSource::Static,
            settings: GatewaySettings::default(),
            mcp_env: McpEnv::default(),
            operator: None,
            watch: None,
            authenticator: None,
            approvals,
            stopping,
            telemetry: Telemetry::default(),
            journal: None,
            rooms: None,
        }
    }

    /// Sets where a reload reads the configuration from.
    pub fn config_source(mut self, source: ConfigSource) -> Self {
        self.config_source = source;
        self
    }

    /// Polls the files of the configuration at this interval and reloads when they change.
    pub fn watch(mut self, interval: Duration) -> Self {
        self.watch = Some(interval);
        self
    }

    /// Sets the gateway settings. The configuration overrides those that it defines.
    pub fn settings(mut self, settings: GatewaySettings) -> Self {
        self.settings = settings;
        self
    }

    /// Adds hooks to the pipeline, such as audit, limits and approval.
    pub fn pipeline(mut self, add: impl FnOnce(PipelineBuilder) -> PipelineBuilder) -> Self {
        self.pipeline = add(self.pipeline);
        self
    }

    /// Rejects calls that need approval, for a gateway that no approver can reach.
    pub fn unattended(self) -> Self {
        let gate = RejectingGate::new(self.config.approval.clone());
        self.pipeline(|pipeline| pipeline.approval(gate))
    }

    /// Sets the accepted callers, in place of the configured identities.
    pub fn authenticator(mut self, authenticator: Authenticator) -> Self {
        self.authenticator = Some(authenticator);
        self
    }

    /// Sets the telemetry that observes calls.
    pub fn telemetry(mut self, gateway_telemetry: Telemetry) -> Self {
        self.telemetry = gateway_telemetry;
        self
    }

    /// Records calls in this data directory as configured, and registers the operations that read
    /// the journal.
    ///
    /// # Errors
    ///
    /// The directory is not writable.
    pub fn journal(mut self, data: &Path) -> Result<Self, JournalError> {
        self.rooms = Some(RoomStore::open(data).map_err(|error| JournalError::new(data, error))?);
        let settings = &self.config.journal;
        let mut reader = JournalReader::new(data, settings);
        if settings.mode != JournalMode::Off {
            let journal = Journal::open(data, settings)?;
            reader = reader.with_live(&journal);
            self.pipeline = self.pipeline.audit(journal.sink(&self.registry));
            self.journal = Some(journal);
        } else {
            tracing::info!("journal disabled; calls are not recorded");
        }
        let own = journal::operations(&reader, &self.registry).into_iter().map(Change::Replace);
        self.registry.apply(own).expect("replacing cannot clash");
        Ok(self)
    }

    /// Sets what this process provides to MCP sources.
    pub fn mcp_env(mut self, env: McpEnv) -> Self {
        self.mcp_env = env;
        self
    }

    /// Sets the operator's token, in addition to the configured identities.
    pub fn operator(mut self, token: TokenHash) -> Self {
        self.operator = Some(token);
        self
    }

    /// Binds the address, if it may be served, and starts everything except the endpoints.
    ///
    /// # Errors
    ///
    /// [`ListenError::NotLoopback`], or an I/O error; nothing is started then.
    pub async fn bind(
        self,
        address: SocketAddr,
    ) -> Result<(GatewayHandle, TcpListener), ListenError> {
        check_address(address, &self.effective_authenticator())?;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ListenError::Bind { address, source })?;
        Ok((self.start(), listener))
    }

    fn effective_authenticator(&self) -> Authenticator {
        let configured = || authenticator(&self.config, self.operator);
        self.authenticator.clone().unwrap_or_else(configured)
    }

    /// Starts everything except the endpoints, without waiting for sources. Must be called within a
    /// Tokio runtime.
    pub fn start(self) -> GatewayHandle {
        let authenticator = self.effective_authenticator();
        let mut settings = self.settings;
        let startup_timeout = settings.mcp.startup_source_timeout;
        settings.mcp = self.config.mcp.clone();
        settings.mcp.startup_source_timeout = startup_timeout;
        settings.http.cors_origins.extend(self.config.cors.iter().cloned());
        self.config.limits.apply_to(&mut settings);
        let limiter = Arc::new(Limiter::new(self.config.limits.calls.clone()));
        let pipeline = self
            .pipeline
            .settings(self.config.limits.pipeline.clone())
            .limits(Arc::clone(&limiter) as _)
            .observer(self.telemetry.observer())
            .build();
        let gateway = Gateway::new_stopped_by(self.stopping, pipeline, settings)
            .with_authenticator(authenticator)
            .with_telemetry(self.telemetry, Arc::clone(&limiter))
            .with_journal(self.journal)
            .with_rooms(self.config.rooms.clone(), self.rooms);
        let rooms: Arc<dyn ProposalQueue> = Arc::new(gateway.0.rooms.clone());
        let deciding = approval::operations(&self.approvals, Some(rooms)).into_iter();
        self.registry.apply(deciding.map(Change::Replace)).expect("replacing cannot clash");
        let sources = Sources::start_with_env(&gateway, &self.config, &self.mcp_env);
        let file = self.config_source.file();
        let reloader = Arc::new(Reloader {
            gateway: gateway.clone(),
            config_source: self.config_source,
            operator: self.operator,
            has_fixed_authenticator: self.authenticator.is_some(),
            approvals: self.approvals,
            limiter,
            initial: self.config.clone(),
            active: Mutex::new(ActiveConfig::new(self.config, file, sources)),
            generation: watch::Sender::new(0),
        });
        let own = operations::operations(&reloader).into_iter().map(Change::Replace);
        self.registry.apply(own).expect("replacing cannot clash");
        let watching = self.watch.map(|interval| {
            AbortOnDropHandle::new(tokio::spawn(config_watch::watch(
                Arc::downgrade(&reloader),
                interval,
            )))
        });
        GatewayHandle { gateway, reloader, _watch_task: watching }
    }
}

impl std::fmt::Debug for GatewayBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayBuilder")
            .field("config_source", &self.config_source)
            .finish_non_exhaustive()
    }
}

/// Creates an authenticator with the configured identities and the operator.
pub(super) fn authenticator(config: &Config, operator: Option<TokenHash>) -> Authenticator {
    let known = config.authenticator();
    match operator {
        Some(token) => known.with_token(token, admin::operator()),
        None => known,
    }
}
