//! The composition on one screen: registry → pipeline → endpoints → connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
use toolpost::{Identity, Pipeline, Registry};

use crate::auth::Authenticator;
use crate::endpoint::{
    self, AnonymousRejections, Endpoints, HttpEndpointSettings, McpEndpoint, McpEndpointSettings,
    McpView, OpenApiDocuments, StreamRegistry,
};
use crate::journal::Journal;
use crate::limits::Limiter;
use crate::room::{RoomStore, Rooms, RoomsSettings};
use crate::server::{self, DrainReport};
use crate::source::{SourceState, SourceStatuses};
use crate::telemetry::{Exposition, GatewayGauges, SourceHealth, Telemetry};

/// A gateway in front of a registry. Cloning it shares everything.
#[derive(Debug, Clone)]
pub struct Gateway(pub(crate) Arc<GatewayState>);

#[derive(Debug, Clone)]
pub(crate) struct GatewayState {
    pub(crate) pipeline: Pipeline,
    /// The peers that talk the call protocol, and what they offer.
    pub(crate) hub: Hub,
    /// Who callers are; every endpoint asks it first.
    pub(crate) authenticator: Authenticator,
    pub(crate) settings: GatewaySettings,
    /// What the endpoint for MCP clients keeps between requests.
    pub(crate) mcp: Arc<McpEndpoint>,
    /// The subscriptions over HTTP, and those whose clients may return.
    pub(crate) sse_streams: Arc<StreamRegistry>,
    /// The HTTP API in writing.
    pub(crate) openapi_documents: Arc<OpenApiDocuments>,
    /// What bounds callers and sources, where something does.
    pub(crate) limiter: Option<Arc<Limiter>>,
    /// Who watches the calls.
    pub(crate) telemetry: Telemetry,
    /// The sources of the configuration, for those who ask how they are.
    pub(crate) source_statuses: Arc<SourceStatuses>,
    /// Whether new calls are wanted.
    pub(crate) readiness: Arc<Readiness>,
    /// How many connections are open.
    pub(crate) open_connections: Arc<AtomicUsize>,
    /// Where calls are written down, for those who ask how it is.
    pub(crate) journal: Option<Journal>,
    /// How many were refused of whom nobody knows who they are.
    pub(crate) anonymous_rejections: Arc<AnonymousRejections>,
    /// The rooms.
    pub(crate) rooms: Rooms,
    /// Set when the gateway begins to stop; streams end by it, calls do not.
    pub(crate) stopping: CancellationToken,
    /// Owns the peers whose name is not known yet; they end when the gateway begins to stop.
    pub(crate) pending_handshakes: TaskTracker,
}

/// The numbers that bound a gateway.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GatewaySettings {
    /// The largest request body in bytes; larger ones are refused with 413.
    pub max_body_bytes: usize,
    /// How many connections may be open. When all are taken, a newcomer gets the place of the client
    /// that has owed a request for the longest time. Where every client is being served it waits for a
    /// moment, and is then told to come again (503).
    /// WebSockets are counted apart, and there may be as many of them.
    pub max_connections: usize,
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// How long a client may take to send the body of a request.
    pub body_timeout: Duration,
    /// How long a client may take nothing of an answer or a stream that is there for it.
    pub write_timeout: Duration,
    /// How many bytes the system keeps of what a client does not read. Left to itself it would keep
    /// megabytes, and would take a client that reads slowly for one that does not read: it reports
    /// room only when a third of its buffer is free.
    pub send_buffer_bytes: usize,
    /// How often a silent stream sends a comment, so that nobody in between hangs up.
    pub heartbeat_interval: Duration,
    /// How long calls in flight may go on after the gateway was asked to stop.
    pub drain_timeout: Duration,
    /// How long a peer may take to say who it is.
    pub auth_timeout: Duration,
    /// What bounds the hub and its connections.
    pub hub: HubSettings,
    /// What bounds a WebSocket.
    pub websocket: WsSettings,
    /// What holds for the HTTP API.
    pub http: HttpEndpointSettings,
    /// What holds for MCP clients.
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

/// Whether new calls are wanted.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// How many want the start to be awaited.
    startup_guards: AtomicUsize,
    stopping: AtomicBool,
}

/// Whoever holds it waits for the gateway to have started.
#[derive(Debug)]
#[must_use = "startup ends when the guard is dropped"]
pub struct StartupGuard(Arc<Readiness>);

impl Drop for StartupGuard {
    fn drop(&mut self) {
        self.0.startup_guards.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a gateway does not listen somewhere.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Nobody is asked who they are, so only this machine may call.
    #[error(
        "refusing to listen on {0}: there is no authentication, so only a loopback address such \
         as 127.0.0.1 is allowed; `toolpost token new` creates a token and enables authentication"
    )]
    NotLoopback(SocketAddr),
    /// The listener does not say where it listens.
    #[error("the listener has no address: {0}")]
    NoAddress(#[source] std::io::Error),
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Which address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Gateway {
    /// A gateway with the default settings, open to this machine.
    pub fn new(registry: Registry) -> Self {
        Self::from_pipeline(Pipeline::new(registry), GatewaySettings::default())
    }

    /// A gateway in front of a pipeline that somebody else has set up, open to this machine.
    pub fn from_pipeline(pipeline: Pipeline, settings: GatewaySettings) -> Self {
        let stopping = CancellationToken::new();
        let rooms = Rooms::new(RoomsSettings::default(), None, None, stopping.clone());
        Self(Arc::new(GatewayState {
            hub: Hub::new(pipeline.clone(), settings.hub.clone()),
            pipeline,
            authenticator: Authenticator::allow_anonymous(),
            mcp: Arc::new(McpEndpoint::new(&settings.mcp)),
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

    /// The same gateway, with somebody who knows its callers.
    #[must_use]
    pub fn with_authenticator(self, authenticator: Authenticator) -> Self {
        Self(Arc::new(GatewayState { authenticator, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The same gateway, whose pipeline asks this limiter and tells this watcher; it shows what they
    /// know.
    #[must_use]
    pub fn with_telemetry(self, new_telemetry: Telemetry, limiter: Arc<Limiter>) -> Self {
        let limiter = Some(limiter);
        Self(Arc::new(GatewayState {
            telemetry: new_telemetry,
            limiter,
            ..Arc::unwrap_or_clone(self.0)
        }))
    }

    /// Says at `/ready` that the gateway starts, until what is given back is dropped. It answers
    /// meanwhile.
    pub fn begin_startup(&self) -> StartupGuard {
        self.0.readiness.startup_guards.fetch_add(1, Ordering::Relaxed);
        StartupGuard(Arc::clone(&self.0.readiness))
    }

    /// Says at `/ready` that the gateway stops soon, so that nobody sends new calls. It answers
    /// until it is stopped.
    pub fn set_not_ready(&self) {
        self.0.readiness.stopping.store(true, Ordering::Relaxed);
    }

    /// The same gateway, which tells how its journal is.
    #[must_use]
    pub fn with_journal(self, journal: Option<Journal>) -> Self {
        Self(Arc::new(GatewayState { journal, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The same gateway, with rooms that are kept in this store and written down in its journal.
    #[must_use]
    pub(crate) fn with_rooms(self, settings: RoomsSettings, store: Option<RoomStore>) -> Self {
        let (journal, stopping) = (self.0.journal.clone(), self.0.stopping.clone());
        let rooms = Rooms::new(settings, store, journal, stopping);
        Self(Arc::new(GatewayState { rooms, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The pipeline behind the endpoints.
    pub fn pipeline(&self) -> &Pipeline {
        &self.0.pipeline
    }

    /// The hub behind the endpoint of the call protocol.
    pub fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// Who callers are.
    pub fn authenticator(&self) -> &Authenticator {
        &self.0.authenticator
    }

    /// Ends what is open in the name of those who are not who they were any more, by their ids: peers of
    /// the hub, sessions and streams. Says how many these were. What they have called runs to its end.
    pub fn disconnect_identities(&self, is_revoked: &dyn Fn(&str) -> bool) -> usize {
        let GatewayState { hub, mcp, sse_streams: streams, rooms, .. } = &*self.0;
        hub.disconnect_identities(is_revoked)
            + mcp.disconnect_identities(is_revoked)
            + streams.disconnect_identities(is_revoked)
            + rooms.disconnect_identities(is_revoked)
    }

    /// The endpoints, to be mounted in another server. Whoever mounts them binds, and stops. Without
    /// authentication they answer only to loopback names in `Host` and `Origin`.
    pub fn router(&self) -> Router {
        endpoint::router(self.clone())
    }

    /// Binds an address, if it is one that may be served: any with authentication, else loopback.
    ///
    /// # Errors
    ///
    /// [`ListenError::NotLoopback`], or the system's refusal.
    pub async fn bind(&self, address: SocketAddr) -> Result<TcpListener, ListenError> {
        self.check_address(address)?;
        TcpListener::bind(address).await.map_err(|source| ListenError::Bind { address, source })
    }

    /// Serves until `shutdown` resolves, then drains: no new connections, streams end, calls in
    /// flight have [`GatewaySettings::drain_timeout`] to finish, and what is left is aborted.
    ///
    /// # Errors
    ///
    /// [`ListenError::NotLoopback`] without authentication, whoever bound the listener.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<DrainReport, ListenError> {
        self.check_address(listener.local_addr().map_err(ListenError::NoAddress)?)?;
        Ok(server::serve(&self.0, Endpoints::new(self.clone()), listener, shutdown.boxed()).await)
    }

    /// Serves one MCP client on a pair of streams, such as standard input and output, until it leaves
    /// or `shutdown` resolves. What it had asked for may end within [`GatewaySettings::drain_timeout`].
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

    /// Boxed, as connections are, and for the same reason.
    fn serve_mcp_boxed<'a>(
        &'a self,
        reader: Box<dyn AsyncRead + Unpin + Send + 'a>,
        writer: Box<dyn AsyncWrite + Unpin + Send>,
        identity: Arc<Identity>,
        view: McpView,
    ) -> BoxFuture<'a, Instant> {
        endpoint::serve_streams(self, reader, writer, identity, view).boxed()
    }

    fn check_address(&self, address: SocketAddr) -> Result<(), ListenError> {
        check_address(address, &self.0.authenticator)
    }
}

/// Whether an address may be served: only this machine can call there, or callers are asked who they are.
///
/// # Errors
///
/// [`ListenError::NotLoopback`].
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
    /// What `/ready` says; only `ready` is good news.
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

    /// Every source that is known, and how it is. Those of the configuration say it themselves; of
    /// others, which come as they like, the catalog knows whether anything of them can be called.
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

    /// The sources that no configuration names.
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
            let is_breaker_open = breaker.is_some_and(crate::limits::BreakerState::is_tripped);
            let health = SourceHealth {
                is_up: !operation.is_offline(),
                is_breaker_tripped: is_breaker_open,
            };
            sources.insert(name.to_owned(), health);
        }
        sources
    }

    /// What Prometheus is told.
    pub(crate) fn render_metrics(&self) -> String {
        let mut page = Exposition::default();
        self.telemetry.write(&mut page);
        let gates = self.limiter.as_ref().map(|limiter| limiter.sources()).unwrap_or_default();
        let queues = gates.iter().map(|(name, gate)| (name.to_string(), gate.queued()));
        page.write_gauges(&GatewayGauges {
            connections: vec![
                ("http", self.open_connections.load(Ordering::Relaxed)),
                ("hub", self.hub.stats().connections),
                ("mcp", self.mcp.session_count()),
            ],
            sources: self.source_statuses().into_iter().collect(),
            queues: queues.collect(),
            is_ready: self.readiness() == "ready",
        });
        page.into_string()
    }
}
