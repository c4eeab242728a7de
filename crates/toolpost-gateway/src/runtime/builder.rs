//! Assembles a gateway.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use toolpost::hub::Hub;
use toolpost::{Change, Operation, Pipeline, PipelineBuilder, Registry, Toolpost};

use super::reload::{ActiveConfig, Reloader};
use super::status::Status;
use super::{
    Components, ConfigSource, DrainReport, Gateway, GatewayError, bind, config_watch, expiry,
    operations,
};
use crate::admin;
use crate::approval::{self, Approvals, RejectingGate};
use crate::auth::{Authenticator, TokenHash};
use crate::config::Config;
use crate::durable::DurableCalls;
use crate::endpoint::{GatewaySettings, HttpEndpoint, McpEndpoint, OriginGuard};
use crate::journal::{self, Journal, JournalMode, JournalReader};
use crate::limits::Limiter;
use crate::mcp_service::McpService;
use crate::room::{RoomStore, Rooms};
use crate::server::{Server, TlsCell, UnixSocket, connection_shares};
use crate::source::{McpEnv, SourceContext, Sources};
use crate::telemetry::Telemetry;

type PipelineHooks = Box<dyn FnOnce(PipelineBuilder) -> PipelineBuilder + Send>;

/// Builds a gateway. The order of calls does not matter.
#[must_use]
pub struct GatewayBuilder {
    toolpost: Toolpost,
    config: Option<Config>,
    config_source: ConfigSource,
    settings: GatewaySettings,
    hooks: Option<PipelineHooks>,
    is_unattended: bool,
    startup_wait: Option<Duration>,
    mcp_env: McpEnv,
    authenticator: Option<Authenticator>,
    operator: Option<TokenHash>,
    watch: Option<Duration>,
    telemetry: Telemetry,
    data: Option<PathBuf>,
    socket: Option<PathBuf>,
    listen: String,
}

impl Gateway {
    /// Returns a builder of a gateway that serves the operations of a [`Toolpost`] or of a
    /// [`Registry`]. By default, it has no authentication and serves only loopback addresses.
    pub fn builder(toolpost: impl Into<Toolpost>) -> GatewayBuilder {
        GatewayBuilder {
            toolpost: toolpost.into(),
            config: None,
            config_source: ConfigSource::Static,
            settings: GatewaySettings::default(),
            hooks: None,
            is_unattended: false,
            startup_wait: None,
            mcp_env: McpEnv::default(),
            authenticator: None,
            operator: None,
            watch: None,
            telemetry: Telemetry::default(),
            data: None,
            socket: None,
            listen: "127.0.0.1:7411".to_owned(),
        }
    }
}

impl GatewayBuilder {
    /// Sets the configuration: sources, identities, limits, rooms.
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
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

    /// Sets the gateway settings. A configuration overrides those that it defines.
    pub fn settings(mut self, settings: GatewaySettings) -> Self {
        self.settings = settings;
        self
    }

    /// Changes the settings and hooks of the pipeline, such as audit and limits.
    pub fn pipeline(
        mut self,
        hooks: impl FnOnce(PipelineBuilder) -> PipelineBuilder + Send + 'static,
    ) -> Self {
        self.hooks = Some(Box::new(hooks));
        self
    }

    /// Rejects calls that need approval, for a gateway that no approver can reach.
    pub fn unattended(mut self) -> Self {
        self.is_unattended = true;
        self
    }

    /// Sets the maximum time that a list or a search waits while sources are starting.
    pub fn startup_wait(mut self, wait: Duration) -> Self {
        self.startup_wait = Some(wait);
        self
    }

    /// Sets the accepted callers, in place of the configured identities.
    pub fn authenticator(mut self, authenticator: Authenticator) -> Self {
        self.authenticator = Some(authenticator);
        self
    }

    /// Sets the operator's token, in addition to the configured identities.
    pub fn operator(mut self, token: TokenHash) -> Self {
        self.operator = Some(token);
        self
    }

    /// Sets the telemetry that observes calls.
    pub fn telemetry(mut self, gateway_telemetry: Telemetry) -> Self {
        self.telemetry = gateway_telemetry;
        self
    }

    /// Records calls and rooms in this data folder and registers the journal operations.
    pub fn journal(mut self, data: impl AsRef<Path>) -> Self {
        self.data = Some(data.as_ref().to_owned());
        self
    }

    /// Also serves on a Unix socket, such as [`DataDir::socket_path`](crate::DataDir::socket_path),
    /// for other processes of this user. Hub connections over it need no token: their identity is
    /// [`LOCAL`](crate::auth::LOCAL), or the operator if the gateway requires tokens. A process that
    /// already listens on the socket keeps it.
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// Sets the environment of MCP sources.
    pub fn mcp_env(mut self, env: McpEnv) -> Self {
        self.mcp_env = env;
        self
    }

    /// Sets the address to listen on; `127.0.0.1:7411` by default.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = address.into();
        self
    }

    /// Builds the gateway, binds its address and serves until `shutdown` resolves, like
    /// [`Gateway::serve`].
    ///
    /// # Errors
    ///
    /// The address cannot be served, or the journal cannot be opened.
    pub async fn serve(
        self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<DrainReport, GatewayError> {
        let (gateway, listener) = self.bind().await?;
        gateway.serve(listener, shutdown).await
    }

    /// Binds the address, if it may be served, and builds the gateway.
    ///
    /// # Errors
    ///
    /// The address cannot be served, or the journal cannot be opened. Nothing is started then.
    pub async fn bind(self) -> Result<(Gateway, TcpListener), GatewayError> {
        let invalid = |error| GatewayError::Bind {
            address: self.listen.clone(),
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, error),
        };
        let address: SocketAddr = self.listen.parse().map_err(invalid)?;
        let listener = bind(address, &self.effective_authenticator()).await?;
        Ok((self.build()?, listener))
    }

    /// Builds the gateway and starts its sources, without waiting for them. Must be called within a
    /// Tokio runtime.
    ///
    /// # Errors
    ///
    /// The journal cannot be opened.
    pub fn build(self) -> Result<Gateway, GatewayError> {
        let (authenticator, settings) =
            (self.effective_authenticator(), Arc::new(self.effective_settings()));
        let has_config = self.config.is_some();
        let (toolpost, config) = (self.toolpost, self.config.unwrap_or_default());
        let registry = toolpost.registry().clone();
        let stopping = CancellationToken::new();
        let approvals = Approvals::new(config.approval.clone(), stopping.clone());
        let limiter = Arc::new(Limiter::new(config.limits.calls.clone()));
        let (mut journal, mut room_store) = (None, None);
        let mut pipeline = Pipeline::builder(registry.clone())
            .limits(Arc::clone(&limiter) as _)
            .observer(self.telemetry.observer());
        let mut pipeline_settings = match has_config {
            true => config.limits.pipeline.clone(),
            false => toolpost.pipeline().settings().clone(),
        };
        pipeline_settings.startup_wait =
            self.startup_wait.unwrap_or(pipeline_settings.startup_wait);
        pipeline = pipeline.settings(pipeline_settings);
        if let Some(data) = &self.data {
            room_store = Some(
                RoomStore::open(data).map_err(|error| journal::JournalError::new(data, error))?,
            );
            let mut reader = JournalReader::new(data, &config.journal);
            if config.journal.mode == JournalMode::Off {
                tracing::info!("journal disabled; calls are not recorded");
            } else {
                let opened = Journal::open(data, &config.journal)?;
                reader = reader.with_live(&opened);
                pipeline = pipeline.audit(opened.sink(&registry));
                journal = Some(opened);
            }
            register(&registry, journal::operations(&reader, &registry));
        }
        let durable = match (&self.data, &journal) {
            (Some(data), Some(journal)) => {
                DurableCalls::open(data, journal, config.idempotency.clone())?
            }
            _ => DurableCalls::in_memory(config.idempotency.clone()),
        };
        pipeline = pipeline.idempotency(durable.clone());
        pipeline = match self.is_unattended {
            true => pipeline.approval(RejectingGate::new(config.approval.clone())),
            false => pipeline.approval(approvals.clone()),
        };
        if let Some(hooks) = self.hooks {
            pipeline = hooks(pipeline);
        }
        let pipeline = pipeline.build();
        let hub = Hub::new(pipeline.clone(), settings.hub.clone());
        let guard = OriginGuard::new(authenticator.clone(), &settings.http.cors_origins);
        let http = HttpEndpoint::new(
            pipeline.clone(),
            authenticator.clone(),
            guard,
            Arc::clone(&settings),
            stopping.clone(),
        );
        let service = McpService::new(
            pipeline.clone(),
            authenticator.clone(),
            stopping.clone(),
            settings.mcp.clone(),
        );
        let tool_caller: Weak<McpService> = Arc::downgrade(&service);
        let rooms = Rooms::new(
            config.rooms.clone(),
            room_store,
            journal.clone(),
            authenticator.clone(),
            tool_caller,
            stopping.clone(),
        );
        register(&registry, approval::operations(&approvals, Arc::new(rooms.clone())));
        let mcp = Arc::new(McpEndpoint::new(
            service,
            authenticator.clone(),
            Arc::clone(&settings),
            stopping.clone(),
        ));
        let server = Server {
            settings: Arc::clone(&settings),
            tls: config.tls.clone().map(TlsCell::new),
            open_connections: Arc::default(),
            active: connection_shares(&settings, "requests"),
            stopping: stopping.clone(),
        };
        let source_context = SourceContext {
            registry: registry.clone(),
            hub: hub.clone(),
            authenticator: authenticator.clone(),
            websocket: settings.websocket,
            limiter: Arc::clone(&limiter),
            statuses: Arc::default(),
        };
        let status = Arc::new(Status {
            sources: source_context.clone(),
            mcp: Arc::clone(&mcp),
            telemetry: self.telemetry.clone(),
            open_connections: Arc::clone(&server.open_connections),
            startup_guards: 0.into(),
            is_not_ready: false.into(),
            stopping: stopping.clone(),
            journal: journal.clone(),
        });
        let sources = Sources::start(source_context, &config, &self.mcp_env);
        let components = Components {
            websockets: connection_shares(&settings, "WebSockets"),
            settings,
            pipeline,
            authenticator,
            approvals,
            durable,
            limiter,
            telemetry: self.telemetry,
            journal,
            hub,
            http,
            mcp,
            rooms,
            status,
            server,
            config_source: self.config_source.clone(),
            pending_handshakes: TaskTracker::new(),
            stopping,
        };
        let file = self.config_source.file();
        let reloader = Arc::new(Reloader {
            components: components.clone(),
            config_source: self.config_source,
            operator: self.operator,
            has_fixed_authenticator: self.authenticator.is_some(),
            initial: config.clone(),
            active: Mutex::new(ActiveConfig::new(config, file, sources)),
            generation: watch::Sender::new(0),
        });
        register(&registry, operations::operations(&reloader));
        let watch_task = self.watch.map(|interval| {
            let watching = config_watch::watch(Arc::downgrade(&reloader), interval);
            Arc::new(AbortOnDropHandle::new(tokio::spawn(watching)))
        });
        let expiring = expiry::disconnect_expired(components.clone());
        let expiry_task = Arc::new(AbortOnDropHandle::new(tokio::spawn(expiring)));
        let socket = self.socket.as_deref().and_then(bind_socket);
        Ok(Gateway {
            components,
            reloader,
            socket: Arc::new(parking_lot::Mutex::new(socket)),
            _toolpost: Arc::new(toolpost),
            _watch_task: watch_task,
            _expiry_task: expiry_task,
        })
    }

    fn effective_authenticator(&self) -> Authenticator {
        let configured =
            || authenticator(self.config.as_ref().unwrap_or(&Config::default()), self.operator);
        self.authenticator.clone().unwrap_or_else(configured)
    }

    /// Returns the settings with those of the configuration.
    fn effective_settings(&self) -> GatewaySettings {
        let mut settings = self.settings.clone();
        if let Some(config) = &self.config {
            settings.mcp = config.mcp_settings();
            settings.http.cors_origins.extend(config.cors.iter().cloned());
            config.limits.apply_to(&mut settings);
        }
        settings.max_connections = settings.max_connections.min(max_connections());
        settings
    }
}

/// Returns how many connections, and as many WebSockets, the limit of open files allows. A quarter is
/// reserved for servers, files and outgoing connections.
fn max_connections() -> usize {
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let descriptors = descriptors.and_then(|limit| usize::try_from(limit).ok());
    descriptors.map_or(usize::MAX, |limit| limit / 8 * 3)
}

/// Creates the Unix socket. The gateway also runs without it.
fn bind_socket(path: &Path) -> Option<UnixSocket> {
    match UnixSocket::bind(path) {
        Ok(Some(socket)) => return Some(socket),
        Ok(None) => {
            tracing::warn!(path = %path.display(), "another gateway serves the data folder; commands use that one");
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "Unix socket not created; commands need --url and --token");
        }
    }
    None
}

toolpost::debug_fields!(builder: GatewayBuilder, listen = builder.listen);

fn register(registry: &Registry, operations: impl IntoIterator<Item = Operation>) {
    let changes = operations.into_iter().map(Change::Replace);
    registry.apply(changes).expect("replacing cannot conflict");
}

/// Creates an authenticator with the configured identities and the operator.
pub(super) fn authenticator(config: &Config, operator: Option<TokenHash>) -> Authenticator {
    let known = config.authenticator();
    match operator {
        Some(token) => known.with_token(token, admin::operator()),
        None => known,
    }
}
