//! Connections to a server on this machine.
//!
//! A client for the whole world gives every connection a task, follows redirects, looks for proxies
//! and keeps time; a request crosses all of that twice. Here a connection is polled by the one who
//! waits for its answer, and by nobody else. What is not plain goes the usual way.

use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use reqwest::header::{HOST, HeaderValue, USER_AGENT};
use tokio::net::TcpStream;
use url::{Host, Url};

/// How long a connection may be idle before it is not trusted any more.
const IDLE: Duration = Duration::from_secs(30);
/// How many idle connections are kept.
const MOST_IDLE: usize = 128;

/// The way to one server.
#[derive(Debug, Clone)]
pub(crate) struct Direct(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Host and port.
    address: String,
    host: HeaderValue,
    connect_timeout: Duration,
    idle: Arc<Idle>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirectError {
    /// The request is none that can be sent.
    #[error("{0}")]
    Unsendable(String),
    /// There is no connection.
    #[error("{0}")]
    Unreachable(String),
    /// The connection broke.
    #[error("{words}")]
    Lost {
        words: String,
        /// Whether the request may have reached the server.
        sent: bool,
    },
}

#[derive(Debug, Default)]
struct Idle(Mutex<Vec<(Instant, Line)>>);

/// A connection, and the end of it that takes requests.
#[derive(Debug)]
struct Line {
    sender: SendRequest<reqwest::Body>,
    connection: Pin<Box<Connection<TokioIo<TcpStream>, reqwest::Body>>>,
    has_ended: bool,
}

impl Direct {
    /// The way to a server, if it is on this machine and reached without TLS.
    pub(crate) fn to(server: &Url, connect_timeout: Duration) -> Option<Self> {
        let (host, port) = (server.host_str()?, server.port_or_known_default()?);
        let is_plain = server.scheme() == "http" && is_here(server);
        let name = server.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let host_header = HeaderValue::from_str(&name).ok()?;
        let address = format!("{host}:{port}");
        let idle = Arc::default();
        let inner = || Inner { address, host: host_header, connect_timeout, idle };
        is_plain.then(|| Self(Arc::new(inner())))
    }

    /// Sends a request. One that finds a connection which the server has closed is sent on another,
    /// as long as nothing of it has left.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or the connection broke.
    pub(crate) async fn send(
        &self,
        mut request: Request<reqwest::Body>,
    ) -> Result<Response<Flowing>, DirectError> {
        self.0.prepare(&mut request)?;
        loop {
            let (mut line, is_used) = match self.0.idle.take() {
                Some(line) => (line, true),
                None => (self.0.connect().await?, false),
            };
            let mut failed = match line.exchange(request).await {
                Ok(response) => return Ok(self.0.flowing(response, line)),
                Err(failed) => failed,
            };
            match failed.take_message() {
                Some(unsent) if is_used => request = unsent,
                unsent => return Err(broken(failed.error(), unsent.is_none())),
            }
        }
    }
}

impl Inner {
    /// A server is asked for a path; the host stands in a header.
    fn prepare(&self, request: &mut Request<reqwest::Body>) -> Result<(), DirectError> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let path = path.parse::<Uri>();
        *request.uri_mut() = path.map_err(|error| DirectError::Unsendable(error.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        let agent = HeaderValue::from_static(concat!("toolpost/", env!("CARGO_PKG_VERSION")));
        headers.entry(USER_AGENT).or_insert(agent);
        Ok(())
    }

    async fn connect(&self) -> Result<Line, DirectError> {
        let unreachable = |error: &dyn Error| DirectError::Unreachable(error.to_string());
        let connecting = TcpStream::connect(&self.address);
        let stream = match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(connected) => connected.map_err(|error| unreachable(&error))?,
            Err(_) => return Err(DirectError::Unreachable("it took too long".to_owned())),
        };
        stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| unreachable(&error))?;
        Ok(Line { sender, connection: Box::pin(connection), has_ended: false })
    }

    fn flowing(&self, response: Response<Incoming>, line: Line) -> Response<Flowing> {
        let (parts, body) = response.into_parts();
        let mut flowing =
            Flowing { body, line: Mutex::new(Some(line)), idle: Arc::clone(&self.idle) };
        flowing.rest_if_over();
        Response::from_parts(parts, flowing)
    }
}

/// Whether a server is on this machine.
pub(crate) fn is_here(server: &Url) -> bool {
    match server.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl Idle {
    /// A connection that is still there, the one that was used last.
    fn take(&self) -> Option<Line> {
        let mut idle = self.lock();
        while let Some((since, mut line)) = idle.pop() {
            if since.elapsed() > IDLE {
                // The others are older still.
                idle.clear();
                return None;
            }
            line.advance(&mut Context::from_waker(Waker::noop()));
            if !line.has_ended && line.sender.is_ready() {
                return Some(line);
            }
        }
        None
    }

    fn put(&self, line: Line) {
        let mut idle = self.lock();
        if idle.len() < MOST_IDLE {
            idle.push((Instant::now(), line));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, Line)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Failed = TrySendError<Request<reqwest::Body>>;

impl Line {
    /// Moves what is in the connection.
    fn advance(&mut self, cx: &mut Context<'_>) {
        if !self.has_ended {
            self.has_ended = self.connection.as_mut().poll(cx).is_ready();
        }
    }

    /// One request, up to the head of its answer.
    async fn exchange(
        &mut self,
        request: Request<reqwest::Body>,
    ) -> Result<Response<Incoming>, Failed> {
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

/// The body of an answer, with the connection that it comes from. Dropping it closes the connection,
/// which is how a server learns that nobody waits any more.
#[derive(Debug)]
pub(crate) struct Flowing {
    body: Incoming,
    /// Gone when the body is complete. Nobody locks it; it makes a body that may be shared.
    line: Mutex<Option<Line>>,
    idle: Arc<Idle>,
}

impl Flowing {
    fn line(&mut self) -> &mut Option<Line> {
        self.line.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the connection back once nothing more comes from it.
    fn rest_if_over(&mut self) {
        if !self.body.is_end_stream() {
            return;
        }
        let Some(mut line) = self.line().take() else { return };
        line.advance(&mut Context::from_waker(Waker::noop()));
        if !line.has_ended && line.sender.is_ready() {
            self.idle.put(line);
        }
    }
}

impl Body for Flowing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_pending() {
            if let Some(line) = self.line() {
                line.advance(cx);
            }
            polled = Pin::new(&mut self.body).poll_frame(cx);
        }
        if polled.is_ready() {
            self.rest_if_over();
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

fn broken(error: &hyper::Error, sent: bool) -> DirectError {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    let words = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
    DirectError::Lost { words, sent }
}
