//! The composition on one screen: registry → pipeline → doors → connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use manila::hub::{Hub, HubSettings};
use manila::link::WsSettings;
use manila::{Identity, Pipeline, Registry};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Authenticator;
use crate::door::{
    self, Documents, Doors, HttpDoorSettings, McpDoor, McpDoorSettings, McpView, Streams,
};
use crate::server::{self, Drained};

/// A gateway in front of a registry. Cloning it shares everything.
#[derive(Debug, Clone)]
pub struct Gateway(pub(crate) Arc<Parts>);

#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) pipeline: Pipeline,
    /// The peers that talk the call protocol, and what they offer.
    pub(crate) hub: Hub,
    /// Who callers are; every door asks it first.
    pub(crate) authenticator: Authenticator,
    pub(crate) settings: GatewaySettings,
    /// What the door for MCP clients keeps between requests.
    pub(crate) mcp: Arc<McpDoor>,
    /// The subscriptions over HTTP, and those whose clients may return.
    pub(crate) streams: Arc<Streams>,
    /// The HTTP API in writing.
    pub(crate) documents: Arc<Documents>,
    /// Set when the gateway begins to stop; streams end by it, calls do not.
    pub(crate) stopping: CancellationToken,
    /// Owns the peers whose name is not known yet; they end when the gateway begins to stop.
    pub(crate) arriving: TaskTracker,
}

/// The numbers that bound a gateway.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GatewaySettings {
    /// The largest request body in bytes; larger ones are refused with 413.
    pub body_bytes: usize,
    /// How many connections may be open. When all are taken, a newcomer gets the place of the client
    /// that has owed a request for the longest time, and waits where every client is being served.
    /// WebSockets are counted apart, and there may be as many of them.
    pub connections: usize,
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// How long a client may take to send the body of a request.
    pub body_timeout: Duration,
    /// How long a client may take nothing of an answer or a stream that is there for it.
    pub write_timeout: Duration,
    /// How many bytes the system keeps of what a client does not read. Left to itself it would keep
    /// megabytes, and would take a client that reads slowly for one that does not read: it reports
    /// room only when a third of its buffer is free.
    pub send_buffer: usize,
    /// How often a silent stream sends a comment, so that nobody in between hangs up.
    pub heartbeat: Duration,
    /// How long calls in flight may go on after the gateway was asked to stop.
    pub drain: Duration,
    /// How long a peer may take to say who it is.
    pub introduction: Duration,
    /// What bounds the hub and its connections.
    pub hub: HubSettings,
    /// What bounds a WebSocket.
    pub websocket: WsSettings,
    /// What holds for the HTTP API.
    pub http: HttpDoorSettings,
    /// What holds for MCP clients.
    pub mcp: McpDoorSettings,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            body_bytes: 4 * 1024 * 1024,
            connections: 1_024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            send_buffer: 256 * 1024,
            heartbeat: Duration::from_secs(15),
            drain: Duration::from_secs(10),
            introduction: Duration::from_secs(5),
            hub: HubSettings::default(),
            websocket: WsSettings::default(),
            http: HttpDoorSettings::default(),
            mcp: McpDoorSettings::default(),
        }
    }
}

/// Why a gateway does not listen somewhere.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Nobody is asked who they are, so only this machine may call.
    #[error(
        "refusing to listen on {0}: there is no authentication, so only a loopback address such \
         as 127.0.0.1 is allowed; `manila token new` makes a token, and then others may come"
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
        Self::with(Pipeline::new(registry), GatewaySettings::default())
    }

    /// A gateway in front of a pipeline that somebody else has set up, open to this machine.
    pub fn with(pipeline: Pipeline, settings: GatewaySettings) -> Self {
        Self(Arc::new(Parts {
            hub: Hub::new(pipeline.clone(), settings.hub.clone()),
            pipeline,
            authenticator: Authenticator::open(),
            mcp: Arc::new(McpDoor::new(&settings.mcp)),
            streams: Arc::new(Streams::new(&settings.http)),
            documents: Arc::default(),
            settings,
            stopping: CancellationToken::new(),
            arriving: TaskTracker::new(),
        }))
    }

    /// The same gateway, with somebody who knows its callers.
    #[must_use]
    pub fn with_authenticator(self, authenticator: Authenticator) -> Self {
        Self(Arc::new(Parts { authenticator, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The pipeline behind the doors.
    pub fn pipeline(&self) -> &Pipeline {
        &self.0.pipeline
    }

    /// The hub behind the door of the call protocol.
    pub fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// Who callers are.
    pub fn authenticator(&self) -> &Authenticator {
        &self.0.authenticator
    }

    /// Ends what is open in the name of an identity: peers of the hub, sessions and streams. Says how
    /// many these were. What it has called runs to its end.
    pub fn dismiss(&self, identity: &str) -> usize {
        let Parts { hub, mcp, streams, .. } = &*self.0;
        hub.dismiss(identity) + mcp.dismiss(identity) + streams.dismiss(identity)
    }

    /// The doors, to be mounted in another server. Whoever mounts them binds, and stops. Without
    /// authentication they answer only to loopback names in `Host` and `Origin`.
    pub fn router(&self) -> Router {
        door::router(self.clone())
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
    /// flight have [`GatewaySettings::drain`] to finish, and what is left is aborted.
    ///
    /// # Errors
    ///
    /// [`ListenError::NotLoopback`] without authentication, whoever bound the listener.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<Drained, ListenError> {
        self.check_address(listener.local_addr().map_err(ListenError::NoAddress)?)?;
        Ok(server::serve(&self.0, Doors::new(self.clone()), listener, shutdown).await)
    }

    /// Serves one MCP client on a pair of streams, such as standard input and output, until it leaves
    /// or `shutdown` resolves. What it had asked for may end within [`GatewaySettings::drain`].
    pub async fn serve_mcp(
        &self,
        reader: impl AsyncRead + Unpin + Send,
        writer: impl AsyncWrite + Unpin + Send + 'static,
        identity: Arc<Identity>,
        view: McpView,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Drained {
        let serving = door::serve_streams(self, reader, writer, identity, view);
        tokio::pin!(serving);
        let deadline = tokio::select! {
            deadline = &mut serving => deadline,
            () = shutdown => {
                self.0.stopping.cancel();
                serving.await
            }
        };
        let left = deadline.saturating_duration_since(Instant::now());
        server::drain(&self.0, JoinSet::new(), left).await
    }

    fn check_address(&self, address: SocketAddr) -> Result<(), ListenError> {
        check_address(address, &self.0.authenticator)
    }
}

/// Whether others than this machine may call there, and are asked who they are.
pub(crate) fn check_address(
    address: SocketAddr,
    authenticator: &Authenticator,
) -> Result<(), ListenError> {
    if address.ip().is_loopback() || !authenticator.is_open() {
        return Ok(());
    }
    Err(ListenError::NotLoopback(address))
}
