//! Assembles a gateway: registry → pipeline → endpoints → connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolpost::hub::{Hub, HubSettings, RESERVED_NAMES};
use toolpost::transport::WsSettings;
use toolpost::{Endpoint, Identity, Pipeline, Registry};

use crate::auth::Authenticator;
use crate::endpoint::{
    self, AnonymousRejections, Endpoints, HttpEndpointSettings, McpEndpoint, OpenApiDocuments,
    StreamRegistry,
};
use crate::journal::Journal;
use crate::limits::Limiter;
use crate::mcp_service::{McpEndpointSettings, McpService, McpView};
use crate::room::{RoomStore, Rooms, RoomsSettings};
use crate::server::{self, DrainReport};
use crate::source::{SourceState, SourceStatuses};
use crate::telemetry::{Exposition, GatewayGauges, SourceHealth, Telemetry};

/// A gateway that serves the operations of a registry. Clones share all state.
#[derive(Debug, Clone)]
pub struct Gateway(pub(crate) Arc<GatewayState>);

#[derive(Debug, Clone)]
pub(crate) struct GatewayState {
    pub(crate) pipeline: Pipeline,
    /// The hub: peers connected over the call protocol and the operations they register.
    pub(crate) hub: Hub,
    /// Authenticates callers.
    pub(crate) authenticator: Authenticator,
    pub(crate) settings: GatewaySettings,
    /// State of the MCP endpoint that outlives a request.
    pub(crate) mcp: Arc<McpEndpoint>,
    /// HTTP subscriptions, both active and detached (resumable).
    pub(crate) sse_streams: Arc<StreamRegistry>,
    /// Cached OpenAPI documents of the HTTP API.
    pub(crate) openapi_documents: Arc<OpenApiDocuments>,
    /// Limits on callers and sources, if configured.
    pub(crate) limiter: Option<Arc<Limiter>>,
    /// Metrics and traces of calls.
    pub(crate) telemetry: Telemetry,
    /// Status of the configured sources.
    pub(crate) source_statuses: Arc<SourceStatuses>,
    /// Readiness state reported by `/ready`.
    pub(crate) readiness: Arc<Readiness>,
    /// Number of open connections.
    pub(crate) open_connections: Arc<AtomicUsize>,
    /// The audit journal, if one is configured.
    pub(crate) journal: Option<Journal>,
    /// Number of rejected anonymous requests in the current second.
    pub(crate) anonymous_rejections: Arc<AnonymousRejections>,
    /// The rooms.
    pub(crate) rooms: Rooms,
    /// Canceled when the gateway starts to stop. Ends streams, but not calls.
    pub(crate) stopping: CancellationToken,
    /// Tasks of peers that have not authenticated yet. They end when shutdown begins.
    pub(crate) pending_handshakes: TaskTracker,
}

/// Limits and settings of a gateway.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GatewaySettings {
    /// Maximum request body size in bytes. Larger bodies are rejected with 413.
    pub max_body_bytes: usize,
    /// Maximum number of open connections. At the limit, a new connection evicts the connection
    /// that has waited longest for a request. If every connection is being served, the new
    /// connection waits briefly and is then rejected with 503.
    ///
    /// WebSockets are counted separately, with the same limit.
    pub max_connections: usize,
    /// Maximum time for receiving a request head.
    pub header_timeout: Duration,
    /// Maximum time for receiving a request body.
    pub body_timeout: Duration,
    /// Maximum time that a client may read nothing of a pending response or stream.
    pub write_timeout: Duration,
    /// Size of the socket send buffer in bytes, which bounds the unread data that the kernel holds
    /// per client. The system default can grow to megabytes. A large buffer also makes a slow
    /// reader look stalled, because the socket becomes writable only when a third of the buffer is
    /// free.
    pub send_buffer_bytes: usize,
    /// Interval between keep-alive comments on an idle stream. They prevent intermediaries from
    /// closing it.
    pub heartbeat_interval: Duration,
    /// Maximum time for calls in flight to finish after shutdown begins.
    pub drain_timeout: Duration,
    /// Maximum time for a peer to authenticate.
    pub auth_timeout: Duration,
    /// Limits of the hub and its connections.
    pub hub: HubSettings,
    /// Limits of a WebSocket connection.
    pub websocket: WsSettings,
    /// Settings of the HTTP API.
    pub http: HttpEndpointSettings,
    /// Settings of the MCP endpoint.
    pub mcp: McpEndpointSettings,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            max_body_bytes: 4 * 1024 * 1024,
            max_connections: 1_024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            send_buffer_bytes: 256 * 1024,
            heartbeat_interval: Duration::from_secs(15),
            drain_timeout: Duration::from_secs(10),
            auth_timeout: Duration::from_secs(5),
            hub: HubSettings::default(),
            websocket: WsSettings::default(),
            http: HttpEndpointSettings::default(),
            mcp: McpEndpointSettings::default(),
        }
    }
}

/// Readiness of the gateway for new calls.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// Number of live [`StartupGuard`]s.
    startup_guards: AtomicUsize,
    stopping: AtomicBool,
}

/// Keeps the gateway in the `starting` state until dropped.
#[derive(Debug)]
#[must_use = "startup ends when the guard is dropped"]
pub struct StartupGuard(Arc<Readiness>);

impl Drop for StartupGuard {
    fn drop(&mut self) {
        self.0.startup_guards.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Error of a gateway that cannot listen on an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is not loopback and there is no authentication.
    #[error(
        "refusing to listen on {0}: there is no authentication, so only a loopback address such \
         as 127.0.0.1 is allowed; `toolpost token new` creates a token and enables authentication"
    )]
    NotLoopback(SocketAddr),
    /// The listener does not report its local address.
    #[error("the listener has no address: {0}")]
    NoAddress(#[source] std::io::Error),
    /// Binding the address failed.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The I/O error.
        source: std::io::Error,
    },
}

impl Gateway {
    /// Creates a gateway with default settings and without authentication, which serves only
    /// loopback addresses.
    pub fn new(registry: Registry) -> Self {
        Self::from_pipeline(Pipeline::new(registry), GatewaySettings::default())
    }

    /// Creates a gateway for an existing pipeline. Without an authenticator, it serves only
    /// loopback.
    pub fn from_pipeline(pipeline: Pipeline, settings: GatewaySettings) -> Self {
        Self::new_stopped_by(CancellationToken::new(), pipeline, settings)
    }

    pub(crate) fn new_stopped_by(
        stopping: CancellationToken,
        pipeline: Pipeline,
        settings: GatewaySettings,
    ) -> Self {
        let authenticator = Authenticator::allow_anonymous();
        let (mcp, rooms) = services(
            &pipeline,
            &authenticator,
            &settings,
            &stopping,
            (RoomsSettings::default(), None, None),
        );
        Self(Arc::new(GatewayState {
            hub: Hub::new(pipeline.clone(), settings.hub.clone()),
            pipeline,
            authenticator,
            mcp,
            sse_streams: Arc::new(StreamRegistry::new(&settings.http)),
            openapi_documents: Arc::default(),
            limiter: None,
            telemetry: Telemetry::default(),
            source_statuses: Arc::default(),
            readiness: Arc::default(),
            open_connections: Arc::default(),
            journal: None,
            anonymous_rejections: Arc::default(),
            settings,
            rooms,
            stopping,
            pending_handshakes: TaskTracker::new(),
        }))
    }

    /// Sets the authenticator.
    #[must_use]
    pub fn with_authenticator(self, authenticator: Authenticator) -> Self {
        let state = Arc::unwrap_or_clone(self.0);
        let (mcp, rooms) = services(
            &state.pipeline,
            &authenticator,
            &state.settings,
            &state.stopping,
            (RoomsSettings::default(), None, state.journal.clone()),
        );
        Self(Arc::new(GatewayState { authenticator, mcp, rooms, ..state }))
    }

    /// Sets the telemetry and the limiter that the gateway reports. They must be the ones that the
    /// pipeline uses.
    #[must_use]
    pub fn with_telemetry(self, new_telemetry: Telemetry, limiter: Arc<Limiter>) -> Self {
        let limiter = Some(limiter);
        Self(Arc::new(GatewayState {
            telemetry: new_telemetry,
            limiter,
            ..Arc::unwrap_or_clone(self.0)
        }))
    }

    /// Reports `starting` at `/ready` until the returned guard is dropped. The gateway serves
    /// requests meanwhile.
    pub fn begin_startup(&self) -> StartupGuard {
        self.0.readiness.startup_guards.fetch_add(1, Ordering::Relaxed);
        StartupGuard(Arc::clone(&self.0.readiness))
    }

    /// Reports `stopping` at `/ready`, so that load balancers stop sending new calls. The gateway
    /// serves requests until it is stopped.
    pub fn set_not_ready(&self) {
        self.0.readiness.stopping.store(true, Ordering::Relaxed);
    }

    /// Sets the journal whose health the gateway reports.
    #[must_use]
    pub fn with_journal(self, journal: Option<Journal>) -> Self {
        Self(Arc::new(GatewayState { journal, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Enables rooms that persist in `store` and are recorded in the gateway's journal.
    #[must_use]
    pub(crate) fn with_rooms(self, settings: RoomsSettings, store: Option<RoomStore>) -> Self {
        let state = Arc::unwrap_or_clone(self.0);
        let (mcp, rooms) = services(
            &state.pipeline,
            &state.authenticator,
            &state.settings,
            &state.stopping,
            (settings, store, state.journal.clone()),
        );
        Self(Arc::new(GatewayState { mcp, rooms, ..state }))
    }

    /// Returns the pipeline that handles the calls of all endpoints.
    pub fn pipeline(&self) -> &Pipeline {
        &self.0.pipeline
    }

    /// Returns the hub, which serves the call protocol.
    pub fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// Returns the authenticator.
    pub fn authenticator(&self) -> &Authenticator {
        &self.0.authenticator
    }

    /// Closes the hub connections, MCP sessions, streams and room connections of revoked
    /// identities, and returns their number. Calls in flight run to completion.
    pub fn disconnect_identities(&self, is_revoked: &dyn Fn(&str) -> bool) -> usize {
        let GatewayState { hub, mcp, sse_streams: streams, rooms, .. } = &*self.0;
        hub.disconnect_identities(is_revoked)
            + mcp.disconnect_identities(is_revoked)
            + streams.disconnect_identities(is_revoked)
            + rooms.disconnect_identities(is_revoked)
    }

    /// Returns a router with all endpoints, to be mounted in another server. That server is
    /// responsible for binding and shutdown. Without authentication, `Host` and `Origin` must be
    /// loopback names.
    pub fn router(&self) -> Router {
        endpoint::router(self.clone())
    }

    /// Binds an address. Without authentication, only loopback addresses are allowed.
    ///
    /// # Errors
    ///
    /// Returns [`ListenError::NotLoopback`] for a disallowed address and [`ListenError::Bind`] if
    /// binding fails.
    pub async fn bind(&self, address: SocketAddr) -> Result<TcpListener, ListenError> {
        self.check_address(address)?;
        TcpListener::bind(address).await.map_err(|source| ListenError::Bind { address, source })
    }

    /// Serves until `shutdown` resolves, then drains: it accepts no new connections, ends streams,
    /// gives calls in flight [`GatewaySettings::drain_timeout`] to finish, and aborts the rest.
    ///
    /// # Errors
    ///
    /// Returns [`ListenError::NotLoopback`] if there is no authentication and the listener is not
    /// bound to loopback, and [`ListenError::NoAddress`] if the listener does not report its
    /// address.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<DrainReport, ListenError> {
        self.check_address(listener.local_addr().map_err(ListenError::NoAddress)?)?;
        Ok(server::serve(&self.0, Endpoints::new(self.clone()), listener, shutdown.boxed()).await)
    }

    /// Serves one MCP client on a pair of streams, such as standard input and output, until it
    /// disconnects or `shutdown` resolves. Requests in flight have
    /// [`GatewaySettings::drain_timeout`] to finish.
    pub async fn serve_mcp(
        &self,
        reader: impl AsyncRead + Unpin + Send,
        writer: impl AsyncWrite + Unpin + Send + 'static,
        identity: Arc<Identity>,
        view: McpView,
        shutdown: impl Future<Output = ()> + Send,
    ) -> DrainReport {
        let (reader, writer) = (Box::new(reader), Box::new(writer));
        let mut serving = self.serve_mcp_boxed(reader, writer, identity, view);
        let deadline = tokio::select! {
            deadline = &mut serving => deadline,
            () = shutdown => {
                self.0.stopping.cancel();
                serving.await
            }
        };
        let remaining = deadline.saturating_duration_since(Instant::now());
        server::drain(&self.0, JoinSet::new(), remaining).await
    }

    /// Serves one MCP client. The future is boxed so that it is compiled in this crate, as in
    /// `server::serve`.
    fn serve_mcp_boxed<'a>(
        &'a self,
        reader: Box<dyn AsyncRead + Unpin + Send + 'a>,
        writer: Box<dyn AsyncWrite + Unpin + Send>,
        identity: Arc<Identity>,
        view: McpView,
    ) -> BoxFuture<'a, Instant> {
        endpoint::serve_streams(&self.0.mcp, reader, writer, identity, view).boxed()
    }

    fn check_address(&self, address: SocketAddr) -> Result<(), ListenError> {
        check_address(address, &self.0.authenticator)
    }
}

/// Creates the MCP endpoint and the rooms, which share the MCP service.
fn services(
    pipeline: &Pipeline,
    authenticator: &Authenticator,
    settings: &GatewaySettings,
    stopping: &CancellationToken,
    (rooms, store, journal): (RoomsSettings, Option<RoomStore>, Option<Journal>),
) -> (Arc<McpEndpoint>, Rooms) {
    let service = McpService::new(
        pipeline.clone(),
        authenticator.clone(),
        stopping.clone(),
        settings.mcp.clone(),
    );
    let caller: Weak<McpService> = Arc::downgrade(&service);
    let rooms = Rooms::new(rooms, store, journal, authenticator.clone(), caller, stopping.clone());
    let mcp = McpEndpoint::new(service, authenticator.clone(), settings.clone(), stopping.clone());
    (Arc::new(mcp), rooms)
}

/// Checks that an address may be served: it is loopback, or authentication is enabled.
///
/// # Errors
///
/// Returns [`ListenError::NotLoopback`] otherwise.
pub fn check_address(
    address: SocketAddr,
    authenticator: &Authenticator,
) -> Result<(), ListenError> {
    if address.ip().is_loopback() || !authenticator.allows_anonymous() {
        return Ok(());
    }
    Err(ListenError::NotLoopback(address))
}

impl GatewayState {
    /// Returns the readiness state: `ready`, `starting` or `stopping`.
    pub(crate) fn readiness(&self) -> &'static str {
        let Readiness { startup_guards: starting, stopping } = &*self.readiness;
        if stopping.load(Ordering::Relaxed) || self.stopping.is_cancelled() {
            "stopping"
        } else if starting.load(Ordering::Relaxed) > 0 {
            "starting"
        } else {
            "ready"
        }
    }

    /// Returns the health of every source. Configured sources report their own status. Any other
    /// source is up if at least one of its operations in the catalog is online.
    pub(crate) fn source_statuses(&self) -> BTreeMap<String, SourceHealth> {
        let configured = self.source_statuses.all().into_iter();
        let mut sources: BTreeMap<_, _> = configured
            .map(|(name, status_source)| {
                let status = status_source.status(self, &name);
                let is_up = status.state == SourceState::Ready;
                (name, SourceHealth { is_up, is_breaker_tripped: status.breaker.is_tripped() })
            })
            .collect();
        for (name, health) in self.unconfigured_sources(&sources) {
            sources.entry(name).or_insert(health);
        }
        sources
    }

    /// Returns the health of sources that are not in the configuration.
    fn unconfigured_sources(
        &self,
        configured: &BTreeMap<String, SourceHealth>,
    ) -> BTreeMap<String, SourceHealth> {
        let mut sources = BTreeMap::<String, SourceHealth>::new();
        let catalog = self.pipeline.registry().catalog();
        for operation in catalog.list() {
            let name = operation.id().namespace();
            if RESERVED_NAMES.contains(&name) || configured.contains_key(name) {
                continue;
            }
            if let Some(known) = sources.get_mut(name) {
                known.is_up |= !operation.is_offline();
                continue;
            }
            let breaker = self.limiter.as_ref().map(|it| it.breaker_state(name));
            let is_breaker_open = breaker.is_some_and(toolpost::BreakerState::is_tripped);
            let health = SourceHealth {
                is_up: !operation.is_offline(),
                is_breaker_tripped: is_breaker_open,
            };
            sources.insert(name.to_owned(), health);
        }
        sources
    }

    /// Renders the Prometheus metrics.
    pub(crate) fn render_metrics(&self) -> String {
        let mut page = Exposition::default();
        self.telemetry.write(&mut page);
        let gates = self.limiter.as_ref().map(|limiter| limiter.sources()).unwrap_or_default();
        let queues = gates.iter().map(|(name, gate)| (name.to_string(), gate.queued()));
        page.write_gauges(&GatewayGauges {
            connections: vec![
                (Endpoint::Http, self.open_connections.load(Ordering::Relaxed)),
                (Endpoint::Hub, self.hub.stats().connections),
                (Endpoint::Mcp, self.mcp.session_count()),
            ],
            sources: self.source_statuses().into_iter().collect(),
            queues: queues.collect(),
            is_ready: self.readiness() == "ready",
        });
        page.into_string()
    }
}
