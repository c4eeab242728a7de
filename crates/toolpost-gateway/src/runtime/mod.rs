//! A gateway: its components, its configuration and sources, and how they are reloaded.

mod builder;
mod config_source;
mod config_watch;
mod drain;
mod expiry;
mod operations;
mod reload;
mod router;
mod status;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use toolpost::hub::Hub;
use toolpost::shares::Shares;
use toolpost::{Identity, Pipeline, Toolpost};

use crate::approval::Approvals;
use crate::auth::{AccessEnd, Authenticator};
use crate::config::Config;
use crate::durable::DurableCalls;
use crate::endpoint::{self, GatewaySettings, HttpEndpoint, McpEndpoint, OriginGuard};
use crate::journal::{Journal, JournalError};
use crate::limits::Limiter;
use crate::mcp_service::McpView;
use crate::room::Rooms;
use crate::server::{self, Server, UnixSocket};
use crate::source::{McpEnv, SourceState, SourceStatus, Sources};
use crate::telemetry::Telemetry;
use reload::{ReloadTrigger, Reloader};
use router::Endpoints;
use status::Status;

pub use builder::GatewayBuilder;
pub use config_source::ConfigSource;
pub use drain::DrainReport;
pub use reload::{ReloadError, ReloadReport};
pub use status::StartupGuard;

/// Maximum time to wait for sources at startup. The gateway is ready after that.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Poll interval while waiting for the sources to start.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Minimum time for servers to stop, even if calls used up the drain timeout.
const MIN_CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

enum NeverReturns {}

/// A gateway: endpoints in front of a pipeline, with configured sources. Clones share all state;
/// dropping the last one stops the sources.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use toolpost_gateway::{Gateway, builtin};
///
/// let shutdown = async { /* for example, a signal */ };
/// let gateway = Gateway::builder(builtin::registry()).listen("127.0.0.1:0");
/// let drained = gateway.serve(shutdown).await?;
/// assert!(drained.in_time);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Gateway {
    components: Components,
    reloader: Arc<Reloader>,
    /// Taken when the gateway is served.
    socket: Arc<Mutex<Option<UnixSocket>>>,
    /// Keeps the sources of the program connected until dropped.
    _toolpost: Arc<Toolpost>,
    /// Polls the files of the configuration until dropped.
    _watch_task: Option<Arc<AbortOnDropHandle<()>>>,
    /// Closes the connections of expired JWTs until dropped.
    _expiry_task: Arc<AbortOnDropHandle<()>>,
}

/// The components of a gateway. Clones share them.
#[derive(Debug, Clone)]
struct Components {
    settings: Arc<GatewaySettings>,
    pipeline: Pipeline,
    authenticator: Authenticator,
    approvals: Approvals,
    durable: DurableCalls,
    limiter: Arc<Limiter>,
    telemetry: Telemetry,
    journal: Option<Journal>,
    hub: Hub,
    http: Arc<HttpEndpoint>,
    mcp: Arc<McpEndpoint>,
    rooms: Rooms,
    status: Arc<Status>,
    server: Server,
    /// The open WebSockets of the hub and of rooms.
    websockets: Shares,
    config_source: ConfigSource,
    /// Async tasks of peers that have not authenticated yet. They end when shutdown begins.
    pending_handshakes: TaskTracker,
    /// Canceled when the gateway starts to stop. Ends streams, but not calls.
    stopping: CancellationToken,
}

impl Components {
    fn origin_guard(&self) -> OriginGuard {
        OriginGuard::new(self.authenticator.clone(), &self.settings.http.cors_origins)
    }

    /// Closes the hub connections, streams, room connections and, unless only a token has expired,
    /// MCP sessions of the identities for which `is_ended` returns true. Returns their number. Calls
    /// in flight run to completion.
    fn disconnect_identities(
        &self,
        is_ended: &dyn Fn(&Identity) -> bool,
        access_end: AccessEnd,
    ) -> usize {
        self.hub.disconnect_identities(is_ended, access_end.reason())
            + self.mcp.disconnect_identities(is_ended, access_end)
            + self.http.disconnect_identities(is_ended, access_end)
            + self.rooms.disconnect_identities(is_ended, access_end)
    }
}

/// Error of a gateway that cannot be built or cannot listen on an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The address is not loopback and there is no authentication.
    #[error(
        "cannot listen on {0} without authentication; use a loopback address such as 127.0.0.1, or \
         create a token with `toolpost token new`"
    )]
    NotLoopback(SocketAddr),
    /// The listener does not report its local address.
    #[error("the listener has no address: {0}")]
    NoAddress(#[source] std::io::Error),
    /// Binding the address failed.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The requested address.
        address: String,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl Gateway {
    /// Returns the pipeline that handles the calls of all endpoints.
    pub fn pipeline(&self) -> &Pipeline {
        &self.components.pipeline
    }

    /// Returns the hub, which serves the call protocol.
    pub fn hub(&self) -> &Hub {
        &self.components.hub
    }

    /// Returns the authenticator.
    pub fn authenticator(&self) -> &Authenticator {
        &self.components.authenticator
    }

    /// Returns the active configuration.
    pub async fn config(&self) -> Config {
        self.reloader.config().await
    }

    /// Returns the status of each source.
    pub async fn sources(&self) -> Vec<SourceStatus> {
        self.reloader.source_statuses().await
    }

    /// Starts the sources of another configuration, which reloads do not change.
    pub fn start_sources(&self, config: &Config) -> Sources {
        let context = self.components.status.sources.clone();
        Sources::start(context, config, &McpEnv::default())
    }

    /// Reads the configuration again and applies it. Unchanged parts are not interrupted.
    ///
    /// # Errors
    ///
    /// The configuration was rejected; the previous one stays active.
    pub async fn reload(&self) -> Result<ReloadReport, ReloadError> {
        self.reloader.reload(ReloadTrigger::Request).await
    }

    /// Applies a configuration.
    ///
    /// # Errors
    ///
    /// The configuration is rejected; the previous one stays active.
    pub async fn apply_config(&self, config: Config) -> Result<ReloadReport, ReloadError> {
        self.reloader.apply_config(config).await
    }

    /// Reports `starting` at `/ready` until the guard is dropped. Requests are served.
    pub fn begin_startup(&self) -> StartupGuard {
        StartupGuard::new(&self.components.status)
    }

    /// Reports `stopping` at `/ready`, so that load balancers stop sending new calls. The gateway
    /// serves requests until it is stopped.
    pub fn set_not_ready(&self) {
        self.components.status.is_not_ready.store(true, Ordering::Relaxed);
    }

    /// Returns a router with all endpoints, to be mounted in another server, also below a path
    /// prefix. That server is responsible for binding and shutdown. Without authentication, `Host`
    /// and `Origin` must be loopback names.
    pub fn router(&self) -> Router {
        router::router(&self.components)
    }

    /// Binds an address. Without authentication, only loopback addresses are allowed.
    ///
    /// # Errors
    ///
    /// Returns [`GatewayError::NotLoopback`] for a disallowed address and [`GatewayError::Bind`] if
    /// binding fails.
    pub async fn bind(&self, address: SocketAddr) -> Result<TcpListener, GatewayError> {
        bind(address, &self.components.authenticator).await
    }

    /// Serves until `shutdown` resolves, then drains: it accepts no new connections, ends streams,
    /// gives calls in flight [`GatewaySettings::drain_timeout`] to finish, aborts the rest, and
    /// stops the sources.
    ///
    /// # Errors
    ///
    /// Returns [`GatewayError::NotLoopback`] if there is no authentication and the listener is not
    /// bound to loopback, and [`GatewayError::NoAddress`] if the listener does not report its
    /// address.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<DrainReport, GatewayError> {
        let address = listener.local_addr().map_err(GatewayError::NoAddress)?;
        check_address(address, &self.components.authenticator)?;
        Ok(self.serve_boxed(listener, shutdown.boxed()).await)
    }

    /// Serves connections. The future is boxed so that it is compiled in this crate: generic code is
    /// compiled in the crate that uses it, which may be optimized for size.
    fn serve_boxed<'a>(
        &'a self,
        listener: TcpListener,
        shutdown: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, DrainReport> {
        let components = &self.components;
        async move {
            let endpoints = Endpoints::new(components);
            // `/ready` reports startup from before the first request.
            let starting = self.begin_startup();
            let socket = self.socket.lock().take();
            let serving = server::serve(&components.server, endpoints, listener, socket, shutdown);
            let connections = tokio::select! {
                connections = serving => connections,
                never = self.supervise(starting) => match never {},
            };
            let drain_timeout = components.settings.drain_timeout;
            let shutdown_started = Instant::now();
            let drained = drain::drain(components, connections, drain_timeout).await;
            let remaining = drain_timeout.saturating_sub(shutdown_started.elapsed());
            if !self.close(remaining.max(MIN_CLOSE_TIMEOUT)).await {
                tracing::warn!("a server did not stop in time; its watcher process terminates it");
            }
            drained
        }
        .boxed()
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
                self.components.stopping.cancel();
                serving.await
            }
        };
        let remaining = deadline.saturating_duration_since(Instant::now());
        drain::drain(&self.components, JoinSet::new(), remaining).await
    }

    /// Serves one MCP client. The future is boxed as in `serve_boxed`.
    fn serve_mcp_boxed<'a>(
        &'a self,
        reader: Box<dyn AsyncRead + Unpin + Send + 'a>,
        writer: Box<dyn AsyncWrite + Unpin + Send>,
        identity: Arc<Identity>,
        view: McpView,
    ) -> BoxFuture<'a, Instant> {
        endpoint::serve_streams(&self.components.mcp, reader, writer, identity, view).boxed()
    }

    /// Reports at `/ready` that the gateway is starting until its sources have started. After that,
    /// and after each configuration change, logs approval patterns that match no operation.
    async fn supervise(&self, starting: StartupGuard) -> NeverReturns {
        let mut changes = self.reloader.subscribe();
        self.wait_for_sources().await;
        drop(starting);
        loop {
            for problem in self.reloader.unmatched_approval_patterns().await {
                tracing::warn!(problem, "approval pattern matches no operation");
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            self.wait_for_sources().await;
        }
    }

    /// Waits until no source is starting, the timeout passes or the gateway stops.
    async fn wait_for_sources(&self) {
        let startup_finished = async {
            let is_starting = |source: &SourceStatus| source.state == SourceState::Starting;
            while self.sources().await.iter().any(is_starting) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::select! {
            () = startup_finished => {}
            () = tokio::time::sleep(STARTUP_TIMEOUT) => {}
            () = self.components.stopping.cancelled() => {}
        }
    }

    /// Stops the sources and returns whether they stopped in time. Drain calls first. The journal
    /// is written completely and the remaining spans are sent before this returns.
    pub async fn close(&self, timeout: Duration) -> bool {
        let in_time = self.reloader.close(timeout).await;
        let (durable, journal) = (self.components.durable.clone(), self.components.journal.clone());
        // Closing waits for threads, which would block the runtime.
        let closing = tokio::task::spawn_blocking(move || {
            durable.close();
            if let Some(journal) = journal {
                journal.close();
            }
        });
        let _ = closing.await;
        // Last, so that the spans of the last calls are sent.
        self.components.telemetry.close(MIN_CLOSE_TIMEOUT).await;
        in_time
    }
}

/// Checks that an address may be served: it is loopback, or authentication is enabled.
///
/// # Errors
///
/// Returns [`GatewayError::NotLoopback`] otherwise.
pub fn check_address(
    address: SocketAddr,
    authenticator: &Authenticator,
) -> Result<(), GatewayError> {
    if address.ip().is_loopback() || !authenticator.allows_anonymous() {
        return Ok(());
    }
    Err(GatewayError::NotLoopback(address))
}

async fn bind(
    address: SocketAddr,
    authenticator: &Authenticator,
) -> Result<TcpListener, GatewayError> {
    check_address(address, authenticator)?;
    let failed = |source| GatewayError::Bind { address: address.to_string(), source };
    TcpListener::bind(address).await.map_err(failed)
}
