//! Subscriptions: streaming responses.

mod record_stream;
mod value_stream;

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::Value;

use self::value_stream::{NextValue, ValueStream};
use super::client::{HttpResponse, ResponseBody};
use super::handler::OperationRoute;
use super::media_type::MediaKind;
use super::peer_gateway::PeerEvent;
use super::plan::ServiceProtocol;
use super::response::{self, SecretRedactor};
use crate::envelope::{Envelope, HttpMeta, SseMeta};
use crate::error::{CallError, HandlerError};
use crate::handler::{CallContext, HandlerOutput, LogMessage};
use crate::payload::Payload;
use crate::schema::Schema;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Delay before a stream is resumed, unless the service sets one.
const DEFAULT_RESUME_DELAY: Duration = Duration::from_secs(1);
/// Minimum and maximum delay, regardless of what the service requests.
const MIN_RESUME_DELAY: Duration = Duration::from_millis(100);
const MAX_RESUME_DELAY: Duration = Duration::from_secs(60);
/// Maximum number of consecutive failed attempts to resume a stream.
const MAX_RESUME_FAILURES: u32 = 10;

/// Returns the values of a subscription.
///
/// # Cancellation
///
/// The connection is closed as soon as the call is canceled or the stream is dropped.
pub(super) fn subscribe(
    route: Arc<OperationRoute>,
    context: CallContext,
    input: Payload,
) -> BoxStream<'static, Result<HandlerOutput, HandlerError>> {
    let is_gateway = route.plan.protocol == ServiceProtocol::Toolpost;
    let retry = is_gateway.then_some(MIN_RESUME_DELAY);
    let position = StreamPosition { retry, ..StreamPosition::default() };
    let following =
        StreamSubscription { route, context, input, position, phase: StreamPhase::Connecting };
    Box::pin(futures::stream::unfold(following, async |mut following| {
        let value = following.next().await?;
        Some((value.map_err(HandlerError::from), following))
    }))
}

/// A subscription in progress.
struct StreamSubscription {
    route: Arc<OperationRoute>,
    context: CallContext,
    /// Kept for resuming the stream.
    input: Payload,
    position: StreamPosition,
    phase: StreamPhase,
}

enum StreamPhase {
    Connecting,
    Open(Box<OpenStream>),
    Closed,
}

/// An open streaming response.
struct OpenStream {
    values: ValueStream,
    meta: HttpMeta,
    schema: Schema,
    is_event_stream: bool,
    /// Removes credentials from the errors of the stream.
    redactor: SecretRedactor,
}

/// Result of handling one text of a stream.
enum StreamItem {
    Value(HandlerOutput),
    /// An item without a value.
    Skip,
    /// The end of the stream.
    End(Option<CallError>),
}

/// Read position of a stream across its connections.
#[derive(Default)]
struct StreamPosition {
    last_event_id: String,
    retry: Option<Duration>,
    failures: u32,
}

impl StreamSubscription {
    async fn next(&mut self) -> Option<Result<HandlerOutput, CallError>> {
        let context = self.context.clone();
        let value = tokio::select! {
            biased;
            () = context.canceled() => None,
            value = self.next_item() => value,
        };
        if !matches!(value, Some(Ok(_))) {
            self.phase = StreamPhase::Closed;
        }
        value
    }

    async fn next_item(&mut self) -> Option<Result<HandlerOutput, CallError>> {
        loop {
            let open_stream = match &mut self.phase {
                StreamPhase::Open(open_stream) => open_stream,
                StreamPhase::Closed => return None,
                StreamPhase::Connecting => match self.open().await {
                    Ok(opened) => match self.start(opened) {
                        Some(only) => return Some(only),
                        None => continue,
                    },
                    Err(error) => return Some(Err(error)),
                },
            };
            let idle_timeout = self.route.service.settings.client.idle_timeout;
            let next = with_idle_timeout(idle_timeout, open_stream.values.next()).await;
            self.position.advance(&open_stream.values);
            let ended = match next {
                NextValue::Value(text, sse) => match self.handle_text(text, sse) {
                    StreamItem::Value(output) => return Some(Ok(output)),
                    StreamItem::Skip => continue,
                    StreamItem::End(error) => return error.map(Err),
                },
                NextValue::Malformed(detail) => {
                    self.warn(&detail);
                    continue;
                }
                NextValue::End => None,
                NextValue::ConnectionLost(detail) => {
                    Some(CallError::unavailable(format!("the stream disconnected: {detail}")))
                }
            };
            match self.reconnect(ended).await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    async fn open(&mut self) -> Result<(HttpResponse, SecretRedactor), CallError> {
        let last_event_id = HeaderValue::from_bytes(self.position.last_event_id.as_bytes());
        let last_event_id = last_event_id.ok().filter(|id| !id.is_empty());
        let header = last_event_id.map(|id| (LAST_EVENT_ID, id));
        self.route.open(&self.context, self.input.clone(), header).await
    }

    /// Starts reading a response. A response that is not a stream is returned as the only value.
    fn start(
        &mut self,
        (http_response, redactor): (HttpResponse, SecretRedactor),
    ) -> Option<Result<HandlerOutput, CallError>> {
        let response = match http_response.body {
            ResponseBody::Streaming(response) => response,
            ResponseBody::Complete(body) => {
                self.phase = StreamPhase::Closed;
                return Some(self.route.output(http_response.status, &http_response.headers, body));
            }
        };
        let meta = response::http_meta(http_response.status, &http_response.headers);
        let media = MediaKind::from_content_type(&meta.content_type);
        let max_bytes = self.route.service.settings.client.response_bytes;
        self.phase = StreamPhase::Open(Box::new(OpenStream {
            values: ValueStream::from_response(response, media, max_bytes),
            schema: response::response_schema(
                &self.route.plan,
                http_response.status,
                &meta.content_type,
            ),
            meta,
            is_event_stream: media == MediaKind::EventStream,
            redactor,
        }));
        None
    }

    fn handle_text(&mut self, text: String, sse: Option<SseMeta>) -> StreamItem {
        match self.route.plan.protocol {
            ServiceProtocol::Http => {
                self.parse_value(text, sse).map_or(StreamItem::Skip, StreamItem::Value)
            }
            ServiceProtocol::Toolpost => self.handle_peer_event(&text, sse.as_ref()),
        }
    }

    /// Handles an event from another gateway. A restarted stream does not continue the previous
    /// values, so it is an error unless `reconnect` is enabled.
    fn handle_peer_event(&mut self, text: &str, sse: Option<&SseMeta>) -> StreamItem {
        let StreamPhase::Open(open_stream) = &self.phase else { return StreamItem::Skip };
        let kind = sse.map_or("message", |sse| &sse.event_type);
        let detail = match PeerEvent::parse(kind, text, &open_stream.redactor) {
            PeerEvent::Value(outcome) => {
                self.position.failures = 0;
                return StreamItem::Value(HandlerOutput::Forwarded(*outcome));
            }
            PeerEvent::Failed(error) => return StreamItem::End(Some(error)),
            PeerEvent::Complete => return StreamItem::End(None),
            PeerEvent::Gap(None) if !self.route.service.settings.client.reconnect => {
                let detail = "the stream disconnected, and the other gateway no longer has the missed events";
                return StreamItem::End(Some(CallError::unavailable(detail)));
            }
            PeerEvent::Gap(None) => {
                "the stream disconnected and restarts from the beginning".to_owned()
            }
            PeerEvent::Gap(Some(lost)) => format!("{lost} events of the stream are lost"),
            PeerEvent::Invalid(detail) => detail,
        };
        self.warn(&detail);
        StreamItem::Skip
    }

    /// Converts text to a value. In an event stream, text that is not JSON becomes a string.
    fn parse_value(&mut self, text: String, sse: Option<SseMeta>) -> Option<HandlerOutput> {
        let StreamPhase::Open(open_stream) = &self.phase else { return None };
        let json_mode = self.route.json_mode.for_schema(&open_stream.schema);
        let data = match response::parse_json(&text, json_mode) {
            Ok(payload) => payload,
            Err(_) if open_stream.is_event_stream => Value::String(text).into(),
            Err(error) => {
                self.warn(&format!("a value of the stream is not valid JSON: {error}"));
                return None;
            }
        };
        self.position.failures = 0;
        let mut meta = open_stream.meta.clone();
        meta.sse = sse.map(|mut sse| {
            // The last event id is kept across connections.
            if sse.last_event_id.is_empty() {
                self.position.last_event_id.clone_into(&mut sse.last_event_id);
            }
            sse
        });
        Some(HandlerOutput::WithSchema(Envelope::http(data, meta), open_stream.schema.clone()))
    }

    /// Resumes a stream that ended. Returns whether the stream continues.
    async fn reconnect(&mut self, ended: Option<CallError>) -> Result<bool, CallError> {
        if !self.can_resume() {
            return ended.map_or(Ok(false), Err);
        }
        loop {
            self.phase = StreamPhase::Closed;
            tokio::time::sleep(self.position.resume_delay()).await;
            self.position.failures += 1;
            match self.open().await {
                // Status 204 means that the stream is complete.
                Ok((HttpResponse { status: 204, .. }, _)) => return Ok(false),
                Ok(opened) => {
                    return match self.start(opened) {
                        None => Ok(true),
                        Some(_) => Err(CallError::execution(
                            "the service did not return an event stream when resuming",
                        )),
                    };
                }
                Err(error)
                    if self.position.failures >= MAX_RESUME_FAILURES || !is_transient(&error) =>
                {
                    return Err(error);
                }
                Err(error) => {
                    self.warn(&format!("resuming the stream failed: {error}"));
                }
            }
        }
    }

    /// Whether the stream can be resumed. Gateways buffer recent events for this; streams of other
    /// services are resumed only if `reconnect` is enabled.
    fn can_resume(&self) -> bool {
        let is_enabled = self.route.service.settings.client.reconnect && self.route.is_idempotent;
        match self.route.plan.protocol {
            ServiceProtocol::Http => is_enabled,
            ServiceProtocol::Toolpost => is_enabled || !self.position.last_event_id.is_empty(),
        }
    }

    /// Sends a warning to the log and to the observer of the call.
    fn warn(&self, detail: &str) {
        let (operation, request_id) = (self.context.operation(), self.context.request_id());
        tracing::warn!(operation, %request_id, detail, "stream warning");
        self.context.log(LogMessage::new("warning", detail));
    }
}

impl StreamPosition {
    fn advance(&mut self, values: &ValueStream) {
        let (last_event_id, retry) = values.resume_point();
        if !last_event_id.is_empty() && self.last_event_id != last_event_id {
            last_event_id.clone_into(&mut self.last_event_id);
        }
        self.retry = retry.or(self.retry);
    }

    /// Returns the delay before the next attempt, which doubles with each failure.
    fn resume_delay(&self) -> Duration {
        let first =
            self.retry.unwrap_or(DEFAULT_RESUME_DELAY).clamp(MIN_RESUME_DELAY, MAX_RESUME_DELAY);
        (first * (1 << self.failures.min(10))).min(MAX_RESUME_DELAY)
    }
}

/// Whether a later attempt may succeed.
fn is_transient(error: &CallError) -> bool {
    use crate::error::ErrorCode::{Timeout, Unavailable};
    let status = error.details().and_then(|details| details.get("statusCode"));
    let status = status.and_then(Value::as_u64);
    matches!(error.code(), Timeout | Unavailable)
        || matches!(status, Some(429 | 502 | 503 | 504))
        || error.is_retryable()
}

async fn with_idle_timeout(
    limit: Option<Duration>,
    next: impl Future<Output = NextValue>,
) -> NextValue {
    let Some(limit) = limit else { return next.await };
    match tokio::time::timeout(limit, next).await {
        Ok(next) => next,
        Err(_) => NextValue::ConnectionLost(format!("no data for {limit:.1?}")),
    }
}
