//! The HTTP server: accepts connections up to a limit and drains them on shutdown.

mod admission;
mod body_tracking;
mod connection_pool;
mod connection_state;
mod timeout_stream;
mod unix_socket;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use toolpost::shares::{Holder, Shares};

use self::admission::ConnectionContext;
pub(crate) use self::admission::{Peer, connection_shares};
use self::body_tracking::TrackedBody;
use self::connection_pool::ConnectionPool;
use self::timeout_stream::TimeoutStream;
pub(crate) use self::timeout_stream::upgraded_stream;
pub(crate) use self::unix_socket::{FromSameUser, UnixSocket};
use crate::endpoint::GatewaySettings;

/// Maximum size of the read buffer and therefore of a request head. 1,024 clients with an
/// incomplete head hold 64 MiB in total.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Interval between attempts to admit a pending connection while the pool is full.
const POOL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A connection over TCP or over the Unix socket.
pub(crate) type ClientStream = Either<TcpStream, UnixStream>;

/// Handles the requests of all connections. Clones share state.
pub(crate) trait RequestHandler: Clone + Send + Sync + 'static {
    /// Returns whose share of the connections a request uses.
    fn holder<B: Sync>(
        &self,
        peer: Peer,
        request: &Request<B>,
    ) -> impl Future<Output = Holder> + Send;

    /// Whether a request is answered even if no connection is left.
    fn is_probe<B>(&self, request: &Request<B>) -> bool;

    fn handle(self, request: Request<Body>) -> impl Future<Output = Response<Body>> + Send;
}

/// A server: its settings and its state.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) settings: Arc<GatewaySettings>,
    /// Number of open connections.
    pub(crate) open_connections: Arc<AtomicUsize>,
    /// Requests that are being served. Each uses one connection.
    pub(crate) active: Shares,
    /// Canceled when connections end after their current request.
    pub(crate) stopping: CancellationToken,
}

/// Serves connections until `shutdown` resolves. Returns the tasks of the open ones.
pub(crate) async fn serve(
    server: &Server,
    handler: impl RequestHandler,
    listener: TcpListener,
    socket: Option<UnixSocket>,
    mut shutdown: BoxFuture<'_, ()>,
) -> JoinSet<()> {
    let Server { settings, open_connections, stopping, .. } = server;
    // Accepted connections inherit the buffer size of the listener.
    if let Err(error) = SockRef::from(&listener).set_send_buffer_size(settings.send_buffer_bytes) {
        tracing::debug!(%error, "send buffer size not set");
    }
    // At most `max_connections` are served for callers without reserved capacity, so that others
    // can be evicted.
    let mut pool =
        ConnectionPool::new(settings.max_connections.saturating_add(settings.reserved_connections));
    // An accepted connection that is not admitted yet. Accepting more would only use up file
    // descriptors, so further connections stay in the kernel's queue.
    let mut pending_stream = None;
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = pool.join_next() => {}
            stream = accept(&listener, socket.as_ref()), if pending_stream.is_none() => pending_stream = Some(stream),
            () = tokio::time::sleep(POOL_POLL_INTERVAL), if pending_stream.is_some() => {}
        }
        open_connections.store(pool.len(), Ordering::Relaxed);
        let Some(stream) = pending_stream.take() else { continue };
        if pool.try_make_room() {
            let peer = Peer::of(&stream);
            pool.spawn(&peer.holder(), |state| {
                let connection = ConnectionContext { peer, state, active: server.active.clone() };
                serve_connection(stream, connection, handler.clone(), settings, stopping.clone())
            });
        } else {
            pending_stream = Some(stream);
        }
    }
    pool.into_tasks()
}

async fn accept(listener: &TcpListener, socket: Option<&UnixSocket>) -> ClientStream {
    let over_socket = async {
        match socket {
            Some(socket) => socket.accept().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        stream = over_socket => Either::Right(stream),
        stream = accept_tcp(listener) => Either::Left(stream),
    }
}

/// Accepts a connection. Errors concern one connection or are temporary.
async fn accept_tcp(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn serve_connection(
    stream: ClientStream,
    context: ConnectionContext,
    handler: impl RequestHandler,
    settings: &GatewaySettings,
    stopping: CancellationToken,
) -> impl Future<Output = ()> + Send + 'static {
    // Without `TCP_NODELAY`, small frames of a stream wait for delayed acknowledgments.
    if let Either::Left(stream) = &stream
        && let Err(error) = stream.set_nodelay(true)
    {
        tracing::debug!(%error, "TCP_NODELAY not set");
    }
    let state = context.state.clone();
    let wire = TimeoutStream::new(stream, settings.write_timeout, state.clone());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_header_size(MAX_HEAD_BYTES)
        .serve_connection(
            TokioIo::new(wire),
            service_fn(move |request| handle_request(handler.clone(), context.clone(), request)),
        )
        .with_upgrades();
    async move {
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            biased;
            ended = &mut connection => ended,
            () = stopping.cancelled() => {
                // An incomplete request head is not awaited.
                if state.try_close() {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
    }
}

/// Handles one request and tracks the connection state.
async fn handle_request<H: RequestHandler>(
    handler: H,
    connection: ConnectionContext,
    mut request: Request<Incoming>,
) -> Result<Response<TrackedBody<Body>>, Infallible> {
    let state = connection.state.clone();
    if !state.on_head_received() {
        return std::future::pending().await;
    }
    let holder = handler.holder(connection.peer, &request).await;
    let (response, permit) = match connection.admit(&holder, handler.is_probe(&request)).await {
        Ok(permit) => {
            if connection.peer == Peer::SameUser {
                request.extensions_mut().insert(FromSameUser);
            }
            // Small calls need no extension, which allocates.
            if !request.uri().path().starts_with("/api/") {
                request.extensions_mut().insert(holder);
            }
            let is_served_without_permit = permit.is_none();
            let request = request.map(|body| Body::new(TrackedBody::request(body, state.clone())));
            let mut response = handler.handle(request).await;
            if is_served_without_permit {
                admission::close_after(&mut response);
            }
            (response, permit)
        }
        Err(rejection) => (rejection, None),
    };
    Ok(response.map(|body| TrackedBody::response(body, state, permit)))
}
