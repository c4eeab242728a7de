//! Streamable HTTP transport: each message is a POST, and each response is JSON or an event stream.
//! `message_stream` is the transport of 2024-11-05.

mod auth;
mod message_stream;
mod notification_stream;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Url};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::auth::HttpAuth;
use super::dispatcher::{Dispatcher, ReplyFn};
use super::error::RequestError;
use super::header;
use super::pending::RequestResult;
use super::protocol_version::{ProtocolGeneration, ProtocolProfile};
use super::request::{CancelOnDrop, ClientRequest};
use super::rpc;
use super::settings::{HttpSettings, McpSettings};
use super::source::OAuthHooks;
use crate::http::{causes, describe_cause, retry_after, strip_html_tags};
use crate::loopback::LoopbackClient;
use crate::sse::SseDecoder;

const SESSION_ID_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID_HEADER: HeaderName = HeaderName::from_static("last-event-id");

const MISSING_RESPONSE: &str = "the server ended the response before the result";

/// Maximum number of bytes read from the body of an error response.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;
/// Maximum buffer capacity reserved for a body before it is read, in bytes.
const MAX_PREALLOCATION: u64 = 1024 * 1024;
/// How long to wait for the end of a stream after its response, to reuse the connection.
const STREAM_END_GRACE: Duration = Duration::from_millis(20);
/// Minimum delay before a stream is resumed, even if the server sets a shorter one.
const MIN_RESUME_DELAY: Duration = Duration::from_millis(100);
/// Maximum number of detached posts in flight; `DETACHED_POST_TIMEOUT` limits the duration of each.
const MAX_DETACHED_POSTS: usize = 16;
const DETACHED_POST_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of queued responses to server requests; further responses are dropped.
const MAX_QUEUED_RESPONSES: usize = 256;
/// Delay before a broken stream is resumed, unless the server sets one.
const DEFAULT_RESUME_DELAY: Duration = Duration::from_secs(1);

/// A connection to a server over streamable HTTP. Clones share the connection.
#[derive(Debug, Clone)]
pub(super) struct HttpTransport(Arc<HttpTransportInner>);

#[derive(Debug)]
struct HttpTransportInner {
    client: reqwest::Client,
    /// Client for a plain-HTTP server on a loopback address.
    loopback: Option<LoopbackClient>,
    url: Url,
    headers: HeaderMap,
    auth: HttpAuth,
    /// Session id assigned by a legacy server.
    session_id: OnceLock<HeaderValue>,
    /// The negotiated protocol version.
    protocol_version: OnceLock<HeaderValue>,
    /// URL for messages to a server of 2024-11-05, whose responses arrive on one event stream.
    message_url: OnceLock<Url>,
    dispatcher: Dispatcher,
    max_message_bytes: usize,
    closed: watch::Sender<Option<String>>,
    stop: CancellationToken,
    /// Canceled to stop listening for server notifications.
    stop_listening: CancellationToken,
    tasks: TaskTracker,
    /// Limits detached posts in flight.
    post_permits: Arc<Semaphore>,
    /// Limits queued responses to server requests.
    response_permits: Arc<Semaphore>,
}

impl HttpTransport {
    /// Creates a connection without sending a request.
    ///
    /// # Errors
    ///
    /// Returns an error if the HTTP client cannot be built or a configured header is invalid.
    pub(super) fn start(
        settings: &McpSettings,
        http: &HttpSettings,
        oauth: &OAuthHooks,
        dispatcher: Dispatcher,
        tasks: &TaskTracker,
    ) -> Result<Self, RequestError> {
        let [client, aside] = auth::build_clients(&http.url, &http.tls)
            .map_err(|error| RequestError::unreachable(error.to_string()))?;
        let stop = CancellationToken::new();
        Ok(Self(Arc::new(HttpTransportInner {
            client,
            loopback: LoopbackClient::for_server(&http.url, auth::CONNECT_TIMEOUT),
            url: http.url.clone(),
            headers: auth::configured_headers(http)?,
            auth: HttpAuth::new(aside, http, oauth),
            session_id: OnceLock::new(),
            protocol_version: OnceLock::new(),
            message_url: OnceLock::new(),
            dispatcher,
            max_message_bytes: settings.message_bytes,
            closed: watch::Sender::new(None),
            stop_listening: stop.child_token(),
            stop,
            tasks: tasks.clone(),
            post_permits: Arc::new(Semaphore::new(MAX_DETACHED_POSTS)),
            response_permits: Arc::new(Semaphore::new(MAX_QUEUED_RESPONSES)),
        })))
    }

    /// Sends a request and waits for its response. Dropping the future cancels the request: a
    /// legacy server receives `notifications/cancelled` (except for `initialize`), a later one sees
    /// its stream close.
    pub(super) async fn request(
        &self,
        protocol: &ProtocolProfile,
        request: &ClientRequest<'_>,
    ) -> RequestResult {
        let mut pending_request = self.0.dispatcher.pending.register(request)?;
        let text = request.encode(pending_request.id, protocol)?;
        let activity = pending_request.activity.clone();
        let id = pending_request.id;
        let is_armed =
            request.is_cancellable() && protocol.generation == ProtocolGeneration::Legacy;
        let mut cancel =
            CancelOnDrop { protocol, id, is_armed, send: |text| self.post_detached(text) };
        let result = tokio::select! {
            biased;
            exchanged = self.exchange(protocol, request, text, id) => match exchanged {
                // `exchange` delivers the response before it returns.
                Ok(()) => pending_request.response.try_recv().unwrap_or_else(|_| Err(missing_response())),
                Err(failure) => pending_request.response.try_recv().unwrap_or(Err(failure)),
            },
            reply = &mut pending_request.response => reply.unwrap_or_else(|_| Err(missing_response())),
            failure = activity.timed_out(request.timeouts) => return Err(failure),
        };
        cancel.is_armed = false;
        result
    }

    /// Sends one request and dispatches everything in its response.
    async fn exchange(
        &self,
        protocol: &ProtocolProfile,
        request: &ClientRequest<'_>,
        text: String,
        id: u64,
    ) -> Result<(), RequestError> {
        let headers = self.request_headers(protocol, request)?;
        let response = self.0.send(Method::POST, headers, Some(text)).await?;
        if self.0.message_url.get().is_some() {
            // The response arrives on the message stream.
            return std::future::pending().await;
        }
        if request.method == "initialize"
            && let Some(session) = response.headers().get(SESSION_ID_HEADER)
        {
            let _ = self.0.session_id.set(session.clone());
        }
        if is_event_stream(&response) {
            return self.read_response_stream(protocol, response, id).await;
        }
        let body = self.0.read_body(response).await?;
        self.handle_message(&body, Some(id))
    }

    /// Reads a response stream, and resumes it for a legacy server that sent event ids.
    async fn read_response_stream(
        &self,
        protocol: &ProtocolProfile,
        response: Response,
        id: u64,
    ) -> Result<(), RequestError> {
        let mut cursor = StreamCursor::default();
        let mut read = self.read_stream(response, &mut cursor, Some(id)).await;
        while self.0.dispatcher.pending.is_pending(id) {
            let is_resumable = protocol.generation == ProtocolGeneration::Legacy
                && !cursor.last_event_id.is_empty();
            let is_broken = read.as_ref().err().is_none_or(RequestError::is_disconnect);
            if !(is_resumable && is_broken) {
                return read.and(Err(missing_response()));
            }
            tokio::time::sleep(cursor.retry.unwrap_or(DEFAULT_RESUME_DELAY).max(MIN_RESUME_DELAY))
                .await;
            // The request was already sent, so any failure here is reported as such.
            let resumed = self.open_stream(protocol, &cursor).await;
            let response = resumed.map_err(|failure| {
                RequestError::disconnected(format!("{MISSING_RESPONSE}; {failure}"))
            })?;
            read = self.read_stream(response, &mut cursor, Some(id)).await;
        }
        Ok(())
    }

    /// Dispatches the messages of a stream until it ends, or shortly after the response to `id`.
    async fn read_stream(
        &self,
        mut response: Response,
        cursor: &mut StreamCursor,
        id: Option<u64>,
    ) -> Result<(), RequestError> {
        let mut decoder = SseDecoder::with_limit(self.0.max_message_bytes);
        loop {
            let is_answered = id.is_some_and(|id| !self.0.dispatcher.pending.is_pending(id));
            let next = response.chunk();
            let chunk = match is_answered {
                true => tokio::time::timeout(STREAM_END_GRACE, next).await.unwrap_or(Ok(None)),
                false => next.await,
            };
            let chunk = match chunk {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(()),
                Err(error) => return Err(RequestError::disconnected(root_cause(&error))),
            };
            let fed = decoder.feed(&chunk, |event| match &*event.event {
                "message" if !event.data.is_empty() => self.handle_event(&event.data, id),
                "endpoint" => cursor.send_endpoint(&event.data),
                _ => {}
            });
            cursor.advance(&decoder);
            if fed.is_err() {
                return Err(RequestError::too_large(
                    self.0.max_message_bytes + 1,
                    self.0.max_message_bytes,
                ));
            }
        }
    }

    fn source(&self) -> &str {
        self.0.dispatcher.message_handler.source()
    }

    fn handle_event(&self, text: &str, request_id: Option<u64>) {
        if let Err(failure) = self.handle_message(text, request_id) {
            tracing::warn!(source = self.source(), %failure, "invalid message in event stream");
        }
    }

    fn handle_message(&self, text: &str, request_id: Option<u64>) -> Result<(), RequestError> {
        let reply = || -> ReplyFn {
            let http = self.clone();
            Box::new(move |text| http.post_response(text))
        };
        self.0.dispatcher.dispatch(text, request_id, &reply).map_err(|error| {
            let snippet: String = text.chars().take(200).collect();
            RequestError::InvalidResponse(format!(
                "the server sent an invalid message: {error}: {snippet}"
            ))
        })
    }

    /// Posts a message in an async task without waiting. Drops it if too many are in flight.
    fn post_detached(&self, text: String) {
        let Ok(permit) = Arc::clone(&self.0.post_permits).try_acquire_owned() else {
            let source = self.source();
            return tracing::debug!(source, "too many posts in flight; message dropped");
        };
        let http = self.clone();
        self.0.tasks.spawn(async move { http.post_with_permit(text, permit).await });
    }

    /// Posts a response to a server request, after waiting for a post permit.
    fn post_response(&self, text: String) {
        let Ok(permit) = Arc::clone(&self.0.response_permits).try_acquire_owned() else {
            let source = self.source();
            return tracing::debug!(source, "too many queued responses; response dropped");
        };
        let http = self.clone();
        self.0.tasks.spawn(async move {
            let post_permit = Arc::clone(&http.0.post_permits).acquire_owned();
            if let Ok(Ok(post_permit)) =
                tokio::time::timeout(DETACHED_POST_TIMEOUT, post_permit).await
            {
                http.post_with_permit(text, post_permit).await;
            }
            drop(permit);
        });
    }

    async fn post_with_permit(&self, text: String, permit: OwnedSemaphorePermit) {
        let mut headers = self.0.common_headers();
        if let Some(version) = self.0.protocol_version.get() {
            headers.insert(PROTOCOL_VERSION_HEADER, version.clone());
        }
        let sending = self.0.send(Method::POST, headers, Some(text));
        if let Ok(Err(failure)) = tokio::time::timeout(DETACHED_POST_TIMEOUT, sending).await {
            tracing::debug!(source = self.source(), %failure, "failed to post message");
        }
        drop(permit);
    }

    /// Sends a notification.
    pub(super) async fn notify(
        &self,
        protocol: &ProtocolProfile,
        method: &str,
    ) -> Result<(), RequestError> {
        let text =
            rpc::encode_request(None, method, &[], protocol.default_meta()).unwrap_or_default();
        let mut headers = self.0.common_headers();
        insert_header(&mut headers, PROTOCOL_VERSION_HEADER, &protocol.version)?;
        if let Some(version) = headers.get(PROTOCOL_VERSION_HEADER) {
            let _ = self.0.protocol_version.set(version.clone());
        }
        self.0.send(Method::POST, headers, Some(text)).await.map(drop)
    }

    fn request_headers(
        &self,
        protocol: &ProtocolProfile,
        request: &ClientRequest<'_>,
    ) -> Result<HeaderMap, RequestError> {
        let mut headers = self.0.common_headers();
        // `initialize` negotiates the version.
        if request.method != "initialize" {
            insert_header(&mut headers, PROTOCOL_VERSION_HEADER, &protocol.version)?;
        }
        if protocol.generation == ProtocolGeneration::Modern {
            insert_header(&mut headers, HeaderName::from_static("mcp-method"), request.method)?;
            if let Some(subject) = request.subject {
                let subject = header::encode(subject);
                insert_header(&mut headers, HeaderName::from_static("mcp-name"), &subject)?;
            }
            for (name, value) in &request.headers {
                let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
                    RequestError::InvalidResponse(format!("`{name}` is not a valid header name"))
                })?;
                insert_header(&mut headers, name, value)?;
            }
        }
        Ok(headers)
    }

    /// Resolves with the reason when the connection is closed.
    pub(super) async fn closed(&self) -> String {
        let mut close_reason = self.0.closed.subscribe();
        let snippet =
            close_reason.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        snippet.unwrap_or_else(|| "the connection was closed".to_owned())
    }

    /// Marks the server as disconnected.
    pub(super) fn mark_disconnected(&self, reason: &str) {
        self.0.closed.send_if_modified(|close_reason| {
            let is_first = close_reason.is_none();
            close_reason.get_or_insert_with(|| reason.to_owned());
            is_first
        });
    }

    /// Stops listening for notifications; requests in flight continue.
    pub(super) fn drain(&self) {
        self.0.stop_listening.cancel();
    }

    /// Stops the connection: fails all pending requests and deletes the session in an async task.
    pub(super) fn stop(&self) {
        if self.0.stop.is_cancelled() {
            return;
        }
        self.0.stop.cancel();
        let reason = "the connection was closed";
        self.mark_disconnected(reason);
        self.0.dispatcher.pending.fail_all(&RequestError::disconnected(reason));
        // Deleting the session requires a runtime.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let http = self.clone();
        self.0.tasks.spawn(async move {
            if http.0.session_id.get().is_some() {
                let deleting = http.0.send(Method::DELETE, http.0.common_headers(), None);
                // Some servers reject DELETE, so the result is ignored.
                let _ = tokio::time::timeout(Duration::from_secs(2), deleting).await;
            }
            http.0.auth.close().await;
        });
    }
}

impl HttpTransportInner {
    fn common_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, accept);
        if let Some(session) = self.session_id.get() {
            headers.insert(SESSION_ID_HEADER, session.clone());
        }
        headers
    }

    /// Sends a request, authorizes if required, and turns an error status into an error.
    async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Option<String>,
    ) -> Result<Response, RequestError> {
        // The request may be sent several times.
        let body = body.map(Bytes::from);
        let url = self.message_url.get().filter(|_| method == Method::POST).unwrap_or(&self.url);
        let request = || {
            let mut request = reqwest::Request::new(method.clone(), url.clone());
            // Setting all headers at once avoids one lookup and insertion per header.
            *request.headers_mut() = headers.clone();
            *request.body_mut() = body.clone().map(reqwest::Body::from);
            RequestBuilder::from_parts(self.client.clone(), request)
        };
        let response = self.auth.send(request, self.loopback.as_ref()).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let rejected = read_error_response(status.as_u16(), response).await;
        let has_session = self.session_id.get().is_some() || self.message_url.get().is_some();
        let session_error = has_session.then(|| rejected.as_session_not_found()).flatten();
        Err(session_error.unwrap_or(rejected.error))
    }

    async fn read_body(&self, response: Response) -> Result<String, RequestError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or("no content type").to_owned();
        let status = response.status();
        let body = read_limited(response, self.max_message_bytes).await?;
        if body.is_empty() {
            return Err(RequestError::InvalidResponse(format!(
                "the server responded {status} with an empty body"
            )));
        }
        if !kind.contains("json") {
            let message = format!("the server responded with {kind} instead of JSON");
            return Err(RequestError::InvalidResponse(message));
        }
        String::from_utf8(body).map_err(|_| {
            RequestError::InvalidResponse("the response is not valid UTF-8".to_owned())
        })
    }
}

/// A response with an error status.
struct HttpErrorResponse {
    error: RequestError,
    /// Whether the body is the JSON-RPC response to the request itself.
    is_rpc_response: bool,
}

async fn read_error_response(status: u16, response: Response) -> HttpErrorResponse {
    let retry_after = retry_after(response.headers());
    let body = read_limited(response, MAX_ERROR_BODY_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body).into_owned();
    let (mut error, mut answers_request) = (None, false);
    let _ = rpc::parse(&text, &mut |message| {
        if let rpc::RpcMessage::Response { result: Err(snippet), id } = message {
            error = Some(Box::new(rpc::parse_error(snippet)));
            answers_request = id.and_then(rpc::parse_request_id).is_some();
        }
    });
    let mut excerpt: String = match text.trim_start().starts_with('<') {
        true => strip_html_tags(&text).chars().take(200).collect(),
        false => text.trim().chars().take(500).collect(),
    };
    if matches!(status, 404 | 405) && error.is_none() {
        excerpt.push_str("; is this the URL of an MCP endpoint, such as https://HOST/mcp?");
    }
    HttpErrorResponse {
        error: RequestError::HttpStatus { status, error, body: excerpt, retry_after },
        is_rpc_response: answers_request,
    }
}

impl HttpErrorResponse {
    /// Returns [`RequestError::SessionNotFound`] if the response means that the session is unknown.
    /// Many servers send 400 instead of 404, in which case it is not confirmed.
    fn as_session_not_found(&self) -> Option<RequestError> {
        let RequestError::HttpStatus { status, error, body: body_text, .. } = &self.error else {
            return None;
        };
        let snippet =
            error.as_deref().map_or(body_text, |error| &error.message).to_ascii_lowercase();
        let phrases = ["session id", "session not found", "valid session", "unknown session"];
        let mentions_session = phrases.iter().any(|phrase| snippet.contains(phrase));
        match status {
            404 if mentions_session || !self.is_rpc_response => {
                Some(RequestError::SessionNotFound { is_confirmed: true })
            }
            400 if mentions_session && !self.is_rpc_response => {
                Some(RequestError::SessionNotFound { is_confirmed: false })
            }
            _ => None,
        }
    }
}

/// Read position in an event stream, kept across reconnects.
#[derive(Debug, Default)]
struct StreamCursor {
    last_event_id: String,
    retry: Option<Duration>,
    /// Receives the first `endpoint` event of a message stream.
    endpoint: Option<oneshot::Sender<String>>,
}

impl StreamCursor {
    fn advance(&mut self, decoder: &SseDecoder) {
        if self.last_event_id != decoder.last_event_id() && !decoder.last_event_id().is_empty() {
            decoder.last_event_id().clone_into(&mut self.last_event_id);
        }
        self.retry = decoder.retry().or(self.retry);
    }

    fn send_endpoint(&mut self, address: &str) {
        self.endpoint.take().map(|endpoint| endpoint.send(address.to_owned()));
    }
}

fn missing_response() -> RequestError {
    RequestError::disconnected(MISSING_RESPONSE)
}

fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
}

fn insert_header(
    headers: &mut HeaderMap,
    name: HeaderName,
    value: &str,
) -> Result<(), RequestError> {
    let value = HeaderValue::from_str(value).map_err(|_| {
        RequestError::InvalidResponse(format!("invalid value for the header `{name}`"))
    })?;
    headers.insert(name, value);
    Ok(())
}

async fn read_limited(mut response: Response, max: usize) -> Result<Vec<u8>, RequestError> {
    // `Content-Length` is not trusted: only a limited capacity is reserved.
    let announced = response.content_length().map_or(0, |bytes| bytes.min(MAX_PREALLOCATION));
    let mut body = Vec::with_capacity(announced as usize);
    while let Some(chunk) =
        response.chunk().await.map_err(|error| RequestError::disconnected(root_cause(&error)))?
    {
        if body.len() + chunk.len() > max {
            return Err(RequestError::too_large(body.len() + chunk.len(), max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Returns the innermost message. The outer ones contain the URL, which may include a secret.
fn root_cause(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| "connection lost".to_owned(), describe_cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::rpc::RpcError;

    #[test]
    fn error_response_maps_to_session_not_found() {
        let rows = [
            (404, None, "not found", false, Some(true)),
            (404, Some("Session not found"), "", false, Some(true)),
            (404, Some("Session not found"), "", true, Some(true)),
            (404, Some("there is no such tool"), "", true, None),
            (400, Some("Bad Request: No valid session ID provided"), "", false, Some(false)),
            (400, None, "Invalid or missing session ID", false, Some(false)),
            (400, Some("payment done, but the browser session crashed"), "", true, None),
            (400, Some("payment done, but the browser session crashed"), "", false, None),
            (400, Some("which session id?"), "", true, None),
            (500, Some("Session not found"), "", false, None),
        ];
        for (status, message, body_text, answers_request, expected) in rows {
            let error = message.map(|message| Box::new(RpcError::new(-32000, message)));
            let body_text = body_text.to_owned();
            let failure =
                RequestError::HttpStatus { status, error, body: body_text, retry_after: None };
            let rejection = HttpErrorResponse { error: failure, is_rpc_response: answers_request };
            let forgotten = rejection.as_session_not_found().map(|failure| failure.was_not_sent());
            assert_eq!(forgotten, expected, "{status} {message:?} {answers_request}");
        }
    }

    #[test]
    fn strip_tags_keeps_visible_text() {
        let page = "<!DOCTYPE html>\n<html><body>\n<h1>Bad   gateway</h1></body></html>";
        assert_eq!(strip_html_tags(page), "Bad gateway");
        assert_eq!(strip_html_tags("<"), "");
    }
}
