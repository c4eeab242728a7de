//! Subscriptions: answers that go on, value by value.

mod records;
mod values;

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::Value;

use self::values::{Next, Values};
use super::client::{Answer, Body};
use super::handler::Route;
use super::native::Event;
use super::plan::Language;
use super::response::{self, Media, Reading, Redacted};
use crate::envelope::{Envelope, HttpMeta, SseMeta};
use crate::error::{CallError, HandlerError};
use crate::handler::{CallContext, LogLine, Output};
use crate::payload::Payload;
use crate::schema::Schema;

const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// How long is waited before a stream is asked for again, unless the service says.
const RESUME: Duration = Duration::from_secs(1);
/// The least and the most that is waited, whatever the service says.
const LEAST_RESUME: Duration = Duration::from_millis(100);
const MOST_RESUME: Duration = Duration::from_secs(60);
/// How often in a row a stream is asked for again without getting it.
const MOST_FAILURES: u32 = 10;

/// The values of a subscription.
///
/// # Cancellation
///
/// The connection is closed as soon as the call is canceled or the stream is dropped.
pub(super) fn subscribe(
    route: Arc<Route>,
    context: CallContext,
    input: Payload,
) -> BoxStream<'static, Result<Output, HandlerError>> {
    let place = Place { retry: first_pause(&route), ..Place::default() };
    let following = Following { route, context, input, place, phase: Phase::Asked };
    Box::pin(futures::stream::unfold(following, async |mut following| {
        let value = following.next().await?;
        Some((value.map_err(HandlerError::from), following))
    }))
}

/// A subscription in progress.
struct Following {
    route: Arc<Route>,
    context: CallContext,
    /// Kept, since the stream may be asked for again.
    input: Payload,
    place: Place,
    phase: Phase,
}

enum Phase {
    Asked,
    Flowing(Box<Flow>),
    Over,
}

/// An answer that goes on.
struct Flow {
    values: Values,
    meta: HttpMeta,
    schema: Schema,
    is_events: bool,
    /// What nobody may read in it.
    redacted: Redacted,
}

/// What a text of a stream is.
enum Said {
    Value(Output),
    /// Something beside the values.
    Nothing,
    /// The last word.
    Over(Option<CallError>),
}

/// How far the stream was read, over all its connections.
#[derive(Default)]
struct Place {
    last_event: String,
    retry: Option<Duration>,
    failures: u32,
}

impl Following {
    async fn next(&mut self) -> Option<Result<Output, CallError>> {
        let context = self.context.clone();
        let value = tokio::select! {
            biased;
            () = context.cancelled() => None,
            value = self.step() => value,
        };
        if !matches!(value, Some(Ok(_))) {
            self.phase = Phase::Over;
        }
        value
    }

    async fn step(&mut self) -> Option<Result<Output, CallError>> {
        loop {
            let flow = match &mut self.phase {
                Phase::Flowing(flow) => flow,
                Phase::Over => return None,
                Phase::Asked => match self.open().await {
                    Ok(opened) => match self.begin(opened) {
                        Some(only) => return Some(only),
                        None => continue,
                    },
                    Err(error) => return Some(Err(error)),
                },
            };
            let idle_timeout = self.route.service.settings.client.idle_timeout;
            let next = within(idle_timeout, flow.values.next()).await;
            self.place.advance(&flow.values);
            let ended = match next {
                Next::Value(text, sse) => match self.said(text, sse) {
                    Said::Value(output) => return Some(Ok(output)),
                    Said::Nothing => continue,
                    Said::Over(error) => return error.map(Err),
                },
                Next::Malformed(words) => {
                    self.warn(&words);
                    continue;
                }
                Next::End => None,
                Next::Broken(words) => {
                    Some(CallError::unavailable(format!("the stream broke off: {words}")))
                }
            };
            match self.reconnect(ended).await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    async fn open(&mut self) -> Result<(Answer, Redacted), CallError> {
        let last_event = HeaderValue::from_bytes(self.place.last_event.as_bytes());
        let last_event = last_event.ok().filter(|id| !id.is_empty());
        let header = last_event.map(|id| (LAST_EVENT, id));
        self.route.open(&self.context, self.input.clone(), header).await
    }

    /// Takes up what was opened. What is no stream is the only value.
    fn begin(
        &mut self,
        (answer, redacted): (Answer, Redacted),
    ) -> Option<Result<Output, CallError>> {
        let response = match answer.body {
            Body::Flowing(response) => response,
            Body::Whole(body) => {
                self.phase = Phase::Over;
                return Some(self.route.output(answer.status, &answer.headers, body));
            }
        };
        let meta = response::meta(answer.status, &answer.headers);
        let media = Media::of(&meta.content_type);
        let most = self.route.service.settings.client.response_bytes;
        self.phase = Phase::Flowing(Box::new(Flow {
            values: Values::of(response, media, most),
            schema: response::schema(&self.route.plan, answer.status, &meta.content_type),
            meta,
            is_events: media == Media::Events,
            redacted,
        }));
        None
    }

    fn said(&mut self, text: String, sse: Option<SseMeta>) -> Said {
        match self.route.plan.language {
            Language::Http => self.output(text, sse).map_or(Said::Nothing, Said::Value),
            Language::Toolpost => self.relayed(&text, sse.as_ref()),
        }
    }

    /// What an event of another gateway is. That a stream goes on as another one is only for those who
    /// asked for it: its values are not the rest of those before.
    fn relayed(&mut self, text: &str, sse: Option<&SseMeta>) -> Said {
        let Phase::Flowing(flow) = &self.phase else { return Said::Nothing };
        let kind = sse.map_or("message", |sse| &sse.event_type);
        let words = match Event::read(kind, text, &flow.redacted) {
            Event::Value(outcome) => {
                self.place.failures = 0;
                return Said::Value(Output::Relayed(*outcome));
            }
            Event::Failed(error) => return Said::Over(Some(error)),
            Event::Complete => return Said::Over(None),
            Event::Gap(None) if !self.route.service.settings.client.reconnect => {
                let words = "the stream broke off, and the other gateway has not kept the rest";
                return Said::Over(Some(CallError::unavailable(words)));
            }
            Event::Gap(None) => "the stream broke off, and begins again from the start".to_owned(),
            Event::Gap(Some(lost)) => format!("{lost} events of the stream are lost"),
            Event::Odd(words) => words,
        };
        self.warn(&words);
        Said::Nothing
    }

    /// The value that a text is. Only what has to be JSON can be malformed.
    fn output(&mut self, text: String, sse: Option<SseMeta>) -> Option<Output> {
        let Phase::Flowing(flow) = &self.phase else { return None };
        let is_looked_at = self.route.is_looked_at && !flow.schema.is_unknown();
        let reading = if is_looked_at { Reading::Value } else { Reading::Raw };
        let data = match response::parsed(&text, reading) {
            Ok(payload) => payload,
            Err(_) if flow.is_events => Value::String(text).into(),
            Err(error) => {
                self.warn(&format!("a value of the stream is no JSON: {error}"));
                return None;
            }
        };
        self.place.failures = 0;
        let mut meta = flow.meta.clone();
        meta.sse = sse.map(|mut sse| {
            // The last id stays the last one over all connections.
            if sse.last_event_id.is_empty() {
                self.place.last_event.clone_into(&mut sse.last_event_id);
            }
            sse
        });
        Some(Output::Shaped(Envelope::http(data, meta), flow.schema.clone()))
    }

    /// Asks for the rest of a stream that ended, and says whether there may be one.
    async fn reconnect(&mut self, ended: Option<CallError>) -> Result<bool, CallError> {
        if !self.may_resume() {
            return ended.map_or(Ok(false), Err);
        }
        loop {
            self.phase = Phase::Over;
            tokio::time::sleep(self.place.pause()).await;
            self.place.failures += 1;
            match self.open().await {
                // That is how a service says that there is no more.
                Ok((Answer { status: 204, .. }, _)) => return Ok(false),
                Ok(opened) => {
                    return match self.begin(opened) {
                        None => Ok(true),
                        Some(_) => Err(CallError::execution(
                            "the service answered with something else when it was asked for the rest of the stream",
                        )),
                    };
                }
                Err(error) if self.place.failures >= MOST_FAILURES || !is_passing(&error) => {
                    return Err(error);
                }
                Err(error) => {
                    self.warn(&format!("the rest of the stream is not there yet: {error}"));
                }
            }
        }
    }

    /// Whether the rest of a stream can be had. Another gateway keeps it for a while; from a service it
    /// is only asked for where that is configured.
    fn may_resume(&self) -> bool {
        let is_wanted = self.route.service.settings.client.reconnect && self.route.is_repeatable;
        match self.route.plan.language {
            Language::Http => is_wanted,
            Language::Toolpost => is_wanted || !self.place.last_event.is_empty(),
        }
    }

    /// Says what is odd to the log and to whoever watches the call.
    fn warn(&self, words: &str) {
        let (operation, request_id) = (self.context.operation(), self.context.request_id());
        tracing::warn!(operation, %request_id, words, "a stream is odd");
        self.context.log(LogLine::new("warning", words));
    }
}

impl Place {
    fn advance(&mut self, values: &Values) {
        let (last_event, retry) = values.place();
        if !last_event.is_empty() && self.last_event != last_event {
            last_event.clone_into(&mut self.last_event);
        }
        self.retry = retry.or(self.retry);
    }

    /// How long to wait: what the service says, and longer each time it cannot be had.
    fn pause(&self) -> Duration {
        let first = self.retry.unwrap_or(RESUME).clamp(LEAST_RESUME, MOST_RESUME);
        (first * (1 << self.failures.min(10))).min(MOST_RESUME)
    }
}

/// How long is waited before a stream is taken up, until the service says it: another gateway waits for
/// its clients, but not for long.
fn first_pause(route: &Route) -> Option<Duration> {
    (route.plan.language == Language::Toolpost).then_some(LEAST_RESUME)
}

/// Whether what went wrong may go right a moment later.
fn is_passing(error: &CallError) -> bool {
    use crate::error::ErrorCode::{Timeout, Unavailable};
    let status = error.details().and_then(|details| details.get("statusCode"));
    let status = status.and_then(Value::as_u64);
    matches!(error.code(), Timeout | Unavailable)
        || matches!(status, Some(429 | 502 | 503 | 504))
        || error.is_retryable()
}

async fn within(limit: Option<Duration>, next: impl Future<Output = Next>) -> Next {
    let Some(limit) = limit else { return next.await };
    match tokio::time::timeout(limit, next).await {
        Ok(next) => next,
        Err(_) => Next::Broken(format!("it was silent for {limit:.1?}")),
    }
}
