//! HTTP/1.1 client for servers on the loopback interface.
//!
//! A general-purpose client spawns an async task per connection and handles redirects, proxies and
//! timeouts, which adds cost to every request. In this client, the future that waits for the
//! response also polls the connection. It supports only plain HTTP to a loopback address.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use reqwest::header::{HOST, HeaderValue, USER_AGENT};
use tokio::net::TcpStream;
use url::Url;

use crate::http::describe_cause;
use crate::tls::is_loopback;

/// Maximum idle time before a connection is discarded.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of idle connections.
const MAX_IDLE: usize = 128;

/// HTTP client for a server on the loopback interface.
#[derive(Debug, Clone)]
pub(crate) struct LoopbackClient(Arc<LoopbackInner>);

#[derive(Debug)]
struct LoopbackInner {
    /// Host and port of the server.
    address: String,
    host: HeaderValue,
    connect_timeout: Duration,
    idle: Arc<IdlePool>,
}

/// Why a request received no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoopbackError {
    /// The request is invalid and cannot be sent.
    #[error("{0}")]
    InvalidRequest(String),
    /// The connection could not be established.
    #[error("{0}")]
    Unreachable(String),
    /// The connection was lost.
    #[error("{reason}")]
    Disconnected {
        reason: String,
        /// Whether the request may have reached the server.
        sent: bool,
    },
}

#[derive(Debug, Default)]
struct IdlePool(Mutex<Vec<(Instant, PooledConnection)>>);

/// A connection and the handle that sends requests on it.
#[derive(Debug)]
struct PooledConnection {
    sender: SendRequest<reqwest::Body>,
    connection: Pin<Box<Connection<TokioIo<TcpStream>, reqwest::Body>>>,
    has_ended: bool,
}

impl LoopbackClient {
    /// Creates a client if the server is on the loopback interface and uses plain HTTP.
    pub(crate) fn for_server(server: &Url, connect_timeout: Duration) -> Option<Self> {
        let (host, port) = (server.host_str()?, server.port_or_known_default()?);
        let is_plain = server.scheme() == "http" && is_loopback(server);
        let name = server.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let host_header = HeaderValue::from_str(&name).ok()?;
        let address = format!("{host}:{port}");
        let idle = Arc::default();
        let inner = || LoopbackInner { address, host: host_header, connect_timeout, idle };
        is_plain.then(|| Self(Arc::new(inner())))
    }

    /// Sends a request. If a pooled connection turns out to be closed and the request was not sent,
    /// it is retried on another connection.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached or the connection is lost.
    pub(crate) async fn send(
        &self,
        mut request: Request<reqwest::Body>,
    ) -> Result<Response<StreamingBody>, LoopbackError> {
        self.0.prepare(&mut request)?;
        loop {
            let (mut connection, is_used) = match self.0.idle.acquire() {
                Some(connection) => (connection, true),
                None => (self.0.connect().await?, false),
            };
            let mut failed = match connection.send_request(request).await {
                Ok(response) => return Ok(self.0.streaming_response(response, connection)),
                Err(failed) => failed,
            };
            match failed.take_message() {
                Some(unsent) if is_used => request = unsent,
                unsent => return Err(disconnected(failed.error(), unsent.is_none())),
            }
        }
    }
}

impl LoopbackInner {
    /// Converts the URI to origin form and sets the `Host` and `User-Agent` headers.
    fn prepare(&self, request: &mut Request<reqwest::Body>) -> Result<(), LoopbackError> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let path = path.parse::<Uri>();
        *request.uri_mut() =
            path.map_err(|error| LoopbackError::InvalidRequest(error.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        let agent = HeaderValue::from_static(concat!("toolpost/", env!("CARGO_PKG_VERSION")));
        headers.entry(USER_AGENT).or_insert(agent);
        Ok(())
    }

    async fn connect(&self) -> Result<PooledConnection, LoopbackError> {
        let unreachable = |error: &dyn Error| LoopbackError::Unreachable(error.to_string());
        let connecting = TcpStream::connect(&self.address);
        let stream = match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(connected) => connected.map_err(|error| unreachable(&error))?,
            Err(_) => return Err(LoopbackError::Unreachable("connect timeout".to_owned())),
        };
        stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
        let handshake_result = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake_result.map_err(|error| unreachable(&error))?;
        Ok(PooledConnection { sender, connection: Box::pin(connection), has_ended: false })
    }

    fn streaming_response(
        &self,
        response: Response<Incoming>,
        connection: PooledConnection,
    ) -> Response<StreamingBody> {
        let (parts, body) = response.into_parts();
        let mut body = StreamingBody {
            body,
            connection: Mutex::new(Some(connection)),
            idle: Arc::clone(&self.idle),
        };
        body.release_if_complete();
        Response::from_parts(parts, body)
    }
}

impl IdlePool {
    /// Takes the most recently used connection that is still open.
    fn acquire(&self) -> Option<PooledConnection> {
        let mut idle = self.lock();
        while let Some((since, mut connection)) = idle.pop() {
            if since.elapsed() > IDLE_TIMEOUT {
                // The remaining connections have been idle even longer.
                idle.clear();
                return None;
            }
            connection.poll_connection(&mut Context::from_waker(Waker::noop()));
            if !connection.has_ended && connection.sender.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    fn release(&self, connection: PooledConnection) {
        let mut idle = self.lock();
        if idle.len() < MAX_IDLE {
            idle.push((Instant::now(), connection));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, PooledConnection)>> {
        self.0.lock()
    }
}

type SendFailure = TrySendError<Request<reqwest::Body>>;

impl PooledConnection {
    /// Polls the connection to drive its I/O.
    fn poll_connection(&mut self, cx: &mut Context<'_>) {
        if !self.has_ended {
            self.has_ended = self.connection.as_mut().poll(cx).is_ready();
        }
    }

    /// Sends one request and waits for the response head.
    async fn send_request(
        &mut self,
        request: Request<reqwest::Body>,
    ) -> Result<Response<Incoming>, SendFailure> {
        let mut sending = std::pin::pin!(self.sender.try_send_request(request));
        let (connection, has_ended) = (&mut self.connection, &mut self.has_ended);
        std::future::poll_fn(move |cx| {
            if !*has_ended {
                *has_ended = connection.as_mut().poll(cx).is_ready();
            }
            sending.as_mut().poll(cx)
        })
        .await
    }
}

/// A response body together with its connection. Dropping it before the end closes the connection,
/// which cancels the request on the server.
#[derive(Debug)]
pub(crate) struct StreamingBody {
    body: Incoming,
    /// `None` once the body is complete. Never locked: the mutex only makes the body `Sync`.
    connection: Mutex<Option<PooledConnection>>,
    idle: Arc<IdlePool>,
}

impl StreamingBody {
    fn connection_mut(&mut self) -> &mut Option<PooledConnection> {
        self.connection.get_mut()
    }

    /// Returns the connection to the pool once the body is complete.
    fn release_if_complete(&mut self) {
        if !self.body.is_end_stream() {
            return;
        }
        let Some(mut connection) = self.connection_mut().take() else { return };
        connection.poll_connection(&mut Context::from_waker(Waker::noop()));
        if !connection.has_ended && connection.sender.is_ready() {
            self.idle.release(connection);
        }
    }
}

impl Body for StreamingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_pending() {
            if let Some(connection) = self.connection_mut() {
                connection.poll_connection(cx);
            }
            polled = Pin::new(&mut self.body).poll_frame(cx);
        }
        if polled.is_ready() {
            self.release_if_complete();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn disconnected(error: &hyper::Error, sent: bool) -> LoopbackError {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    let reason = causes.last().map_or_else(|| error.to_string(), describe_cause);
    LoopbackError::Disconnected { reason, sent }
}
