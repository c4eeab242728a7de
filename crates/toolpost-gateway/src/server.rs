//! The HTTP server: accepts connections up to a limit, owns their tasks and drains them on
//! shutdown.

mod body_tracking;
mod connection_pool;
mod connection_state;
mod drain;
mod reject;
mod timeout_stream;

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use self::body_tracking::{TrackedRequestBody, TrackedResponseBody};
use self::connection_pool::ConnectionPool;
use self::connection_state::ConnectionState;
pub use self::drain::DrainReport;
pub(crate) use self::drain::drain;
use self::reject::ConnectionRejector;
pub(crate) use self::timeout_stream::TimeoutStream;
use crate::app::{GatewaySettings, GatewayState};
use crate::endpoint::Endpoints;

/// Maximum size of the read buffer and therefore of a request head. 1,024 clients with an
/// incomplete head hold 64 MiB in total.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Interval between attempts to admit a pending connection while the pool is full.
const POOL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Accepts and serves connections. It is boxed so that it is compiled in this crate: generic code
/// is compiled in the crate that uses it, which may be optimized for size.
pub(crate) fn serve<'a>(
    gateway: &'a GatewayState,
    endpoints: Endpoints,
    listener: TcpListener,
    shutdown: BoxFuture<'a, ()>,
) -> BoxFuture<'a, DrainReport> {
    accept_all(gateway, endpoints, listener, shutdown).boxed()
}

async fn accept_all(
    gateway: &GatewayState,
    endpoints: Endpoints,
    listener: TcpListener,
    mut shutdown: BoxFuture<'_, ()>,
) -> DrainReport {
    // Accepted connections inherit the buffer size of the listener.
    if let Err(error) =
        SockRef::from(&listener).set_send_buffer_size(gateway.settings.send_buffer_bytes)
    {
        tracing::debug!(%error, "send buffer size not set");
    }
    let (mut pool, mut rejector) =
        (ConnectionPool::new(gateway.settings.max_connections), ConnectionRejector::default());
    // An accepted connection that is not admitted yet. Accepting more would only use up file
    // descriptors, so further connections stay in the kernel's queue.
    let mut pending_stream = None;
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = pool.join_next() => {}
            stream = accept(&listener), if pending_stream.is_none() => pending_stream = Some(stream),
            () = tokio::time::sleep(POOL_POLL_INTERVAL), if pending_stream.is_some() => {}
        }
        gateway.open_connections.store(pool.len(), Ordering::Relaxed);
        let Some(stream) = pending_stream.take() else { continue };
        if pool.try_make_room() {
            rejector.observe_free();
            pool.spawn(|state| {
                serve_connection(
                    stream,
                    state,
                    endpoints.clone(),
                    &gateway.settings,
                    gateway.stopping.clone(),
                )
            });
        } else if rejector.observe_full() {
            rejector.reject(stream);
        } else {
            pending_stream = Some(stream);
        }
    }
    drop(listener);
    drain(gateway, pool.into_tasks(), gateway.settings.drain_timeout).await
}

/// Accepts a connection. An error concerns one connection or a temporary lack of file descriptors,
/// so it is retried.
async fn accept(listener: &TcpListener) -> TcpStream {
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
    stream: TcpStream,
    state: ConnectionState,
    endpoints: Endpoints,
    settings: &GatewaySettings,
    stopping: CancellationToken,
) -> impl Future<Output = ()> + Send + 'static {
    // Without `TCP_NODELAY`, small frames of a stream wait for delayed acknowledgments.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY not set");
    }
    let wire = TimeoutStream::new(stream, settings.write_timeout, state.clone());
    let request_state = state.clone();
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_header_size(MAX_HEAD_BYTES)
        .serve_connection(
            TokioIo::new(wire),
            service_fn(move |request| handle_request(&endpoints, &request_state, request)),
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

/// Handles one request and tracks the connection state from its head to the last byte of the
/// response.
fn handle_request(
    endpoints: &Endpoints,
    state: &ConnectionState,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<TrackedResponseBody>, Infallible>> + Send + use<> {
    let state = state.clone();
    let track_body = |body| Body::new(TrackedRequestBody::new(body, state.clone()));
    let response_future =
        state.on_head_received().then(|| endpoints.handle(request.map(track_body)));
    async move {
        match response_future {
            Some(response) => Ok(response.await.map(|body| TrackedResponseBody::new(body, state))),
            None => std::future::pending().await,
        }
    }
}
