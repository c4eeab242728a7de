//! HTTP/2 connections, with the limits of HTTP/1.1: a client that sends no request, an incomplete
//! head, or reads nothing of a response is disconnected.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, Request, header};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connection_state::ConnectionState;
use super::{
    ClientStream, ConnectionContext, MAX_HEAD_BYTES, RequestHandler, handle_request, timeout_stream,
};
use crate::endpoint::GatewaySettings;

/// Maximum number of concurrent requests of a connection.
const MAX_CONCURRENT_REQUESTS: u32 = 100;
/// Maximum number of bytes that a client may send before the gateway has read them.
const REQUEST_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Maximum number of bytes of a response that are buffered for a client that does not read.
const MAX_SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Interval between pings.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// How long a client may take to close a connection without requests.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Minimum interval between two checks whether the client is active.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Serves a connection until it ends.
pub(super) async fn serve(
    stream: ClientStream,
    context: ConnectionContext,
    handler: impl RequestHandler,
    settings: &GatewaySettings,
    stopping: &CancellationToken,
) {
    let state = context.state.clone();
    let connection = http2::Builder::new(StreamExecutor::default())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_CONCURRENT_REQUESTS)
        .max_header_list_size(u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX))
        .initial_stream_window_size(REQUEST_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(MAX_SEND_BUFFER_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(settings.write_timeout)
        .serve_connection(
            timeout_stream(stream, settings, &state),
            service_fn(move |mut request| {
                set_host_header(&mut request);
                handle_request(handler.clone(), context.clone(), request)
            }),
        );
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = client_timeout(&state, settings) => {
            if state.stall_time() > settings.write_timeout {
                return tracing::debug!("client stopped reading a response");
            }
            connection.as_mut().graceful_shutdown();
            return drop(tokio::time::timeout(CLOSE_TIMEOUT, connection).await);
        }
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let unused = async {
                tokio::time::sleep(CLOSE_TIMEOUT).await;
                while !state.try_close() {
                    tokio::time::sleep(CLOSE_TIMEOUT).await;
                }
            };
            tokio::select! {
                biased;
                ended = connection => ended,
                () = unused => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Waits until the client sends no request, or reads nothing of a response, for too long.
async fn client_timeout(state: &ConnectionState, settings: &GatewaySettings) {
    let GatewaySettings { header_timeout, write_timeout, .. } = settings;
    let interval = ((*header_timeout).min(*write_timeout) / 8).max(MIN_CHECK_INTERVAL);
    while state.idle_time() <= *header_timeout && state.stall_time() <= *write_timeout {
        tokio::time::sleep(interval).await;
    }
}

/// Sets `Host` to `:authority`, which takes precedence, so that the endpoints need only the header.
fn set_host_header(request: &mut Request<Incoming>) {
    let authority = request.uri().authority().map(|authority| authority.as_str());
    if let Some(Ok(host)) = authority.map(HeaderValue::from_str) {
        request.headers_mut().insert(header::HOST, host);
    }
}

/// Runs the requests of one connection as async tasks. They end with the connection.
#[derive(Debug, Clone, Default)]
struct StreamExecutor(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, request: F) {
        let mut tasks = self.0.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(request);
    }
}
