//! A scripted test service, its document, and a pipeline.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use toolpost::openapi::{DocumentLocation, OpenApiSettings, ServiceInfo, from_openapi};
use toolpost::{Authority, CallError, CallRequest, Envelope, Pipeline, Registry, Subscription};

/// A received request.
#[derive(Debug, Clone)]
pub(super) struct ReceivedRequest {
    pub(super) method: String,
    /// Path and query.
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    /// Number of requests received before this one.
    pub(super) number: usize,
}

impl ReceivedRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let info = self.headers.iter().find(|(known, _)| known == name);
        info.map(|(_, value)| value.as_str())
    }
}

/// Reply of the test service to a request.
pub(super) enum TestReply {
    Response(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// A chunked response.
    Stream(Vec<(&'static str, String)>, BoxStream<'static, Result<Bytes, std::io::Error>>),
    /// Closes the connection without a response.
    Close,
    /// Sends nothing until the client disconnects.
    Hang,
}

impl TestReply {
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::typed(status, "application/json", body.to_string())
    }

    pub(super) fn typed(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::Response(status, vec![("content-type", kind.to_owned())], body.into())
    }

    pub(super) fn redirect(status: u16, to: &str) -> Self {
        Self::Response(status, vec![("location", to.to_owned())], Vec::new())
    }

    pub(super) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Response(_, headers, _) = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }

    /// Sends events immediately. If `is_open_ended`, the stream stays open afterwards.
    pub(super) fn events(text: &str, is_open_ended: bool) -> Self {
        let text = Bytes::copy_from_slice(text.as_bytes());
        let chunks = futures::stream::iter([Ok(text)]);
        let kind = vec![("content-type", "text/event-stream".to_owned())];
        match is_open_ended {
            true => Self::Stream(kind, chunks.chain(futures::stream::pending()).boxed()),
            false => Self::Stream(kind, chunks.boxed()),
        }
    }
}

type ReplyFn = Arc<dyn Fn(&ReceivedRequest) -> TestReply + Send + Sync>;

/// A scripted service. Dropping it stops the server.
pub(super) struct TestService {
    pub(super) origin: String,
    pub(super) address: SocketAddr,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    /// Notified when a streaming or pending response is dropped.
    pub(super) client_disconnected: Arc<Notify>,
    task: JoinHandle<()>,
}

impl TestService {
    pub(super) async fn start(
        response: impl Fn(&ReceivedRequest) -> TestReply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, client_disconnected) =
            (Arc::<Mutex<Vec<ReceivedRequest>>>::default(), Arc::new(Notify::new()));
        let state = (
            Arc::new(response) as ReplyFn,
            Arc::clone(&requests),
            Arc::clone(&client_disconnected),
        );
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let state = state.clone();
                let service = service_fn(move |request| serve(state.clone(), request));
                let http = hyper::server::conn::http1::Builder::new();
                connections.spawn(http.serve_connection(TokioIo::new(stream), service).map(drop));
            }
        });
        Self { origin: format!("http://{address}"), address, requests, client_disconnected, task }
    }

    pub(super) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }

    pub(super) fn request_count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Waits until a client has disconnected.
    pub(super) async fn wait_for_disconnect(&self) {
        let client_disconnected =
            tokio::time::timeout(Duration::from_secs(20), self.client_disconnected.notified());
        client_disconnected.await.expect("the client disconnects");
    }
}

impl Drop for TestService {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Notifies when it is dropped.
struct DisconnectNotifier(Arc<Notify>);

impl Drop for DisconnectNotifier {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

type TestBody = BoxBody<Bytes, std::io::Error>;
type ServeState = (ReplyFn, Arc<Mutex<Vec<ReceivedRequest>>>, Arc<Notify>);

async fn serve(
    (reply, requests, client_disconnected): ServeState,
    request: Request<Incoming>,
) -> Result<Response<TestBody>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let headers = head.headers.iter();
    let headers = headers.map(|(name, value)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    let request = {
        let mut requests = requests.lock().unwrap();
        let number = requests.len();
        requests.push(ReceivedRequest {
            method: head.method.to_string(),
            path: head.uri.to_string(),
            headers: headers.collect(),
            body: String::from_utf8_lossy(&body).into_owned(),
            number,
        });
        requests.last().unwrap().clone()
    };
    let response = |status: u16, headers: Vec<(&'static str, String)>| {
        let response = Response::builder().status(status);
        headers.into_iter().fold(response, |response, (name, value)| response.header(name, value))
    };
    match reply(&request) {
        TestReply::Response(status, headers, body) => {
            let body = Full::new(Bytes::from(body)).map_err(|never: Infallible| match never {});
            Ok(response(status, headers).body(body.boxed()).unwrap())
        }
        TestReply::Stream(headers, chunks) => {
            let notifier = DisconnectNotifier(client_disconnected);
            let frames = chunks.map(move |chunk| {
                let _ = &notifier;
                chunk.map(Frame::data)
            });
            let body = BodyExt::boxed(StreamBody::new(SyncStream::new(frames)));
            Ok(response(200, headers).body(body).unwrap())
        }
        TestReply::Close => Err(std::io::Error::other("closed on purpose")),
        TestReply::Hang => {
            let _notifier = DisconnectNotifier(client_disconnected);
            std::future::pending().await
        }
    }
}

/// Makes a stream `Sync`. The lock is never contended.
struct SyncStream<S>(Mutex<std::pin::Pin<Box<S>>>);

impl<S> SyncStream<S> {
    fn new(stream: S) -> Self {
        Self(Mutex::new(Box::pin(stream)))
    }
}

impl<S: futures::Stream> futures::Stream for SyncStream<S> {
    type Item = S::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<S::Item>> {
        self.0.get_mut().unwrap().as_mut().poll_next(cx)
    }
}

/// A pipeline with the operations of a document.
pub(super) struct Fixture {
    pub(super) pipeline: Pipeline,
    pub(super) info: ServiceInfo,
}

/// Returns settings with short delays.
pub(super) fn settings() -> OpenApiSettings {
    let mut settings = OpenApiSettings::new(DocumentLocation::from_path_or_url("openapi.json"));
    settings.client.retry.base_delay = Duration::from_millis(5);
    settings.client.timeout = Duration::from_secs(20);
    settings
}

impl Fixture {
    /// Registers the operations of these paths at an origin, in namespace `x`.
    pub(super) fn new(origin: &str, paths: &Value, settings: OpenApiSettings) -> Self {
        let document = json!({
            "openapi": "3.1.0",
            "info": {"title": "A service", "version": "1"},
            "servers": [{"url": origin}],
            "paths": paths,
        });
        Self::from_document(&document, settings)
    }

    pub(super) fn from_document(document: &Value, settings: OpenApiSettings) -> Self {
        let registry = Registry::new();
        let info = from_openapi(&registry, "x", &document.to_string(), settings).unwrap();
        assert!(info.skipped.is_empty(), "{:?}", info.skipped);
        Self { pipeline: Pipeline::new(registry), info }
    }

    /// Registers the default operations, all at `/`: `read` (GET), `write` (POST), `put` (PUT) and
    /// `watch` (a stream).
    pub(super) fn with_default_paths(origin: &str, settings: OpenApiSettings) -> Self {
        Self::new(origin, &default_paths(), settings)
    }

    pub(super) fn subscribe(&self, name: &str) -> Subscription {
        let id = format!("x.{name}");
        let request = CallRequest::new(&id, json!({}));
        self.pipeline.start_subscription(request, Authority::untrusted(None))
    }

    pub(super) async fn call(
        &self,
        name: &str,
        input: Value,
    ) -> Result<Envelope<Value>, CallError> {
        self.pipeline.call_trusted(&format!("x.{name}"), input).await
    }
}

pub(super) fn default_paths() -> Value {
    let ok = json!({"200": {"description": "ok"}});
    let body = json!({"content": {"application/json": {"schema": {}}}});
    json!({
        "/": {
            "get": {"operationId": "read", "responses": ok},
            "post": {"operationId": "write", "requestBody": body, "responses": ok},
            "put": {"operationId": "put", "requestBody": body, "responses": ok},
        },
        "/watch": {
            "get": {"operationId": "watch", "responses": {
                "200": {"description": "ok", "content": {"text/event-stream": {}}},
            }},
            "post": {"operationId": "ask", "requestBody": body, "responses": {
                "200": {"description": "ok", "content": {"text/event-stream": {}}},
            }},
        },
    })
}

/// Asserts that a call failed with this code and a message that contains these fragments.
pub(super) fn assert_error<T>(
    result: Result<T, CallError>,
    code: &str,
    message: &[&str],
) -> CallError {
    let Err(error) = result else { panic!("expected an error with {code} {message:?}") };
    let text = error.to_string();
    assert_eq!(error.code().as_str(), code, "{text}");
    for fragment in message {
        assert!(text.contains(fragment), "{fragment:?} is not in: {text}");
    }
    error
}

/// Runs a future with a timeout of 20 seconds.
pub(super) fn within_timeout<'a, T>(
    future: impl Future<Output = T> + Send + 'a,
) -> BoxFuture<'a, T> {
    async move {
        let done = tokio::time::timeout(Duration::from_secs(20), future).await;
        done.expect("the call returns within the timeout")
    }
    .boxed()
}
