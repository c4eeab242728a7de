//! The HTTP server: accepts connections up to a limit and drains them on shutdown.

mod admission;
mod body_tracking;
mod connection_pool;
mod connection_state;
mod http2_connection;
mod timeout_stream;
mod tls;
mod unix_socket;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, Version, header};
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use toolpost::shares::{Holder, Shares};

use self::admission::ConnectionContext;
pub(crate) use self::admission::{Peer, connection_shares};
use self::body_tracking::{RequestBody, ResponseBody, UnreadBody};
use self::connection_pool::ConnectionPool;
use self::connection_state::{ConnectionState, RequestState};
use self::timeout_stream::TimeoutStream;
pub(crate) use self::timeout_stream::upgraded_stream;
pub(crate) use self::tls::{ServerTls, TlsCell, TlsError};
pub(crate) use self::unix_socket::{FromSameUser, UnixSocket};
use crate::endpoint::GatewaySettings;

/// Maximum size of the read buffer and therefore of a request head. 1,024 clients with an
/// incomplete head hold 64 MiB in total.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Interval between attempts to admit a pending connection while the pool is full, or to accept one
/// after a failure.
const POOL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A socket over TCP or in the file system.
type Socket = Either<TcpStream, UnixStream>;

/// A connection, plain or with TLS over TCP.
pub(crate) type ClientStream = Either<Socket, TlsStream<TcpStream>>;

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
    /// The certificate of connections over TCP; plain HTTP if absent.
    pub(crate) tls: Option<TlsCell>,
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
    let Server { settings, open_connections, .. } = server;
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
            accepted = accept(&listener, socket.as_ref()), if pending_stream.is_none() => match accepted {
                Ok(stream) => pending_stream = Some(stream),
                Err(error) => on_accept_error(&error, &mut pool).await,
            },
            () = tokio::time::sleep(POOL_POLL_INTERVAL), if pending_stream.is_some() => {}
        }
        open_connections.store(pool.len(), Ordering::Relaxed);
        let Some(stream) = pending_stream.take() else { continue };
        if pool.try_make_room() {
            let peer = Peer::of(&stream);
            pool.spawn(&peer.holder(), |state| {
                let active = server.active.clone();
                let context = ConnectionContext { peer, state, active, certificate: None };
                serve_connection(server, stream, context, handler.clone())
            });
            open_connections.store(pool.len(), Ordering::Relaxed);
        } else {
            pending_stream = Some(stream);
        }
    }
    pool.into_tasks()
}

async fn accept(listener: &TcpListener, socket: Option<&UnixSocket>) -> io::Result<Socket> {
    let over_socket = async {
        match socket {
            Some(socket) => socket.accept().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        stream = over_socket => stream.map(Either::Right),
        accepted = listener.accept() => accepted.map(|(stream, _)| Either::Left(stream)),
    }
}

/// Handles a failure to accept, which concerns one connection or is temporary. Without a free file
/// descriptor, the connection that has waited longest for a request is closed.
async fn on_accept_error(error: &io::Error, pool: &mut ConnectionPool) {
    let errno = rustix::io::Errno::from_io_error(error);
    let is_exhausted = matches!(errno, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE));
    if is_exhausted && pool.evict_idle() {
        return tracing::warn!(%error, "no free file descriptor; idle connection closed");
    }
    tracing::warn!(%error, "connection not accepted");
    tokio::time::sleep(POOL_POLL_INTERVAL).await;
}

/// Serves a connection until it ends. TLS and HTTP/2 are boxed, so that a plain connection takes no
/// memory for them.
fn serve_connection(
    server: &Server,
    stream: Socket,
    mut context: ConnectionContext,
    handler: impl RequestHandler,
) -> impl Future<Output = ()> + Send + 'static {
    let (settings, stopping) = (Arc::clone(&server.settings), server.stopping.clone());
    let tls = server.tls.as_ref().map(TlsCell::current);
    async move {
        match (stream, tls) {
            (Either::Left(stream), Some(tls)) => {
                let serving = async {
                    let accepted = tls.accept(stream, settings.header_timeout, &stopping).await;
                    let Some((stream, certificate)) = accepted else { return };
                    context.certificate = certificate;
                    let is_http2 = tls::is_http2(&stream);
                    let stream = Either::Right(stream);
                    match is_http2 {
                        true => {
                            let serving = http2_connection::serve(
                                stream, context, handler, &settings, &stopping,
                            );
                            serving.await;
                        }
                        false => serve_http1(stream, context, handler, &settings, &stopping).await,
                    }
                };
                serving.boxed().await;
            }
            (stream, _) => {
                serve_http1(Either::Left(stream), context, handler, &settings, &stopping).await;
            }
        }
    }
}

/// Prepares a stream for requests and responses.
fn timeout_stream(
    stream: ClientStream,
    settings: &GatewaySettings,
    state: &ConnectionState,
) -> TokioIo<TimeoutStream> {
    // Without `TCP_NODELAY`, small frames of a stream wait for delayed acknowledgments.
    if let Some(socket) = tcp_socket(&stream)
        && let Err(error) = socket.set_nodelay(true)
    {
        tracing::debug!(%error, "TCP_NODELAY not set");
    }
    TokioIo::new(TimeoutStream::new(stream, settings.write_timeout, state.clone()))
}

fn tcp_socket(stream: &ClientStream) -> Option<&TcpStream> {
    match stream {
        Either::Left(Either::Left(socket)) => Some(socket),
        Either::Left(Either::Right(_)) => None,
        Either::Right(stream) => Some(stream.get_ref().0),
    }
}

async fn serve_http1(
    stream: ClientStream,
    context: ConnectionContext,
    handler: impl RequestHandler,
    settings: &GatewaySettings,
    stopping: &CancellationToken,
) {
    let state = context.state.clone();
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_header_size(MAX_HEAD_BYTES)
        .serve_connection(
            timeout_stream(stream, settings, &state),
            service_fn(move |request| handle_request(handler.clone(), context.clone(), request)),
        )
        .with_upgrades();
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

/// Admits and handles one request, and tracks its state.
async fn handle_request<H: RequestHandler>(
    handler: H,
    context: ConnectionContext,
    mut request: Request<Incoming>,
) -> Result<Response<ResponseBody<Body>>, Infallible> {
    let is_http2 = request.version() == Version::HTTP_2;
    let Some(state) = context.state.begin_request(is_http2) else {
        return std::future::pending().await;
    };
    let state = Arc::new(state);
    if let Some(certificate) = &context.certificate {
        request.extensions_mut().insert(Arc::clone(certificate));
    }
    let holder = handler.holder(context.peer, &request).await;
    let mut response = match context.admit(&holder, handler.is_probe(&request)).await {
        Ok(permit) => {
            if context.peer == Peer::SameUser {
                request.extensions_mut().insert(FromSameUser);
            }
            // Small calls need no extension, which allocates.
            if !request.uri().path().starts_with("/api/") {
                request.extensions_mut().insert(holder);
            }
            let is_served_without_permit = permit.is_none();
            state.hold(permit);
            let mut response = handle_admitted(handler, request, &state).await;
            if is_served_without_permit {
                admission::close_after(&mut response);
            }
            response
        }
        Err(rejection) => rejection,
    };
    if is_http2 {
        // HTTP/2 has no such header.
        response.headers_mut().remove(header::CONNECTION);
        return Ok(response.map(|body| ResponseBody::http2(body, state)));
    }
    Ok(response.map(|body| ResponseBody::http1(body, state)))
}

/// Handles a request. If the rest of its body stays unread, the connection cannot be used for
/// another request.
async fn handle_admitted<H: RequestHandler>(
    handler: H,
    request: Request<Incoming>,
    state: &Arc<RequestState>,
) -> Response<Body> {
    // Reading the body would ask such a client to send it.
    let expects_continue = request.headers().contains_key(header::EXPECT);
    let is_http1 = request.version() != Version::HTTP_2;
    let unread = UnreadBody::default();
    let track_body = |body| Body::new(RequestBody::new(body, Arc::clone(state), unread.clone()));
    let mut response = handler.handle(request.map(track_body)).await;
    if is_http1 && !state.is_body_received() && (expects_continue || !unread.drain().await) {
        admission::close_after(&mut response);
    }
    response
}
