//! Connections: accepted up to a bound, each owned here, all of them drained in the end.

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

/// The most that is kept of what a client sends before it is understood, and so the largest head of
/// a request: 1,024 clients who send half a head hold 64 MiB together.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// How soon to look for a seat again while all of them are in use.
const POOL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Boxed, and so compiled here: what is generic is compiled where it is used, and the program that
/// serves may have been asked to be small rather than fast.
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
    // Connections inherit it from their listener.
    if let Err(error) =
        SockRef::from(&listener).set_send_buffer_size(gateway.settings.send_buffer_bytes)
    {
        tracing::debug!(%error, "send buffer size not set");
    }
    let (mut pool, mut rejector) =
        (ConnectionPool::new(gateway.settings.max_connections), ConnectionRejector::default());
    // Who was accepted and has no seat yet. Looking out for more would only fill the table of
    // descriptors, so the others wait in the system's queue.
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

/// A failed accept is about one connection, or about descriptors that will come back.
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
    // Without it the small frames of a stream wait for an acknowledgement that is itself delayed.
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
                // Nobody waits for the rest of a head.
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

/// One request: from its head to the last byte of its answer, the seat knows whose turn it is.
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
