//! Subscriptions over HTTP: one server-sent event for each value.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures::{FutureExt, Stream, StreamExt};
use manila::{CallError, Operation, Outcome, Subscription};

use super::http::Form;
use super::problem::Problem;
use crate::app::Gateway;

type Item = Result<Outcome, CallError>;

/// Streams the values as they come. A subscription that is refused at once is a problem with a
/// proper status; one that fails later ends with an `error` event, and one that ends with
/// `complete`, because a stream that just stops looks like a lost connection.
pub(super) async fn respond(
    gateway: &Gateway,
    mut values: Subscription,
    operation: Option<Arc<Operation>>,
    form: Form,
) -> Result<Response, Problem> {
    // Refusals are decided without waiting, so one poll is enough to see them.
    let first = match values.next().now_or_never() {
        Some(Some(Err(error))) => {
            return Err(Problem::of(error, operation.as_deref().map(Operation::spec)));
        }
        Some(first) => Some(first),
        None => None,
    };
    let events = Events { gateway: gateway.clone(), values, operation, form, sent: 0, over: false };
    let body = Body::from_stream(events.into_stream(first));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

struct Events {
    gateway: Gateway,
    values: Subscription,
    operation: Option<Arc<Operation>>,
    form: Form,
    sent: u64,
    over: bool,
}

impl Events {
    fn into_stream(
        self,
        first: Option<Option<Item>>,
    ) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        futures::stream::unfold((self, first), async |(mut events, first)| {
            let event = match first {
                Some(value) => events.event(value),
                None if events.over => return None,
                None => events.next().await,
            };
            Some((Ok(Bytes::from(event)), (events, None)))
        })
    }

    async fn next(&mut self) -> Vec<u8> {
        tokio::select! {
            biased;
            () = self.gateway.0.stopping.cancelled() => {
                let stopping = CallError::unavailable("the gateway is stopping");
                self.event(Some(Err(stopping)))
            }
            value = self.values.next() => self.event(value),
            () = tokio::time::sleep(self.gateway.0.settings.heartbeat) => b": still here\n\n".to_vec(),
        }
    }

    fn event(&mut self, value: Option<Item>) -> Vec<u8> {
        match value {
            // As for a call: a tool's failure has no data form.
            Some(Ok(outcome)) if self.form == Form::Data && outcome.envelope.is_error() => {
                match outcome.envelope.into_result() {
                    Ok(_) => Vec::new(),
                    Err(error) => self.problem(error),
                }
            }
            Some(Ok(outcome)) => {
                self.sent += 1;
                let mut event = format!("id: {}\ndata: ", self.sent).into_bytes();
                self.write(&mut event, &outcome);
                event.extend_from_slice(b"\n\n");
                event
            }
            Some(Err(error)) => {
                self.over = true;
                self.problem(error)
            }
            None => {
                self.over = true;
                b"event: complete\ndata: {}\n\n".to_vec()
            }
        }
    }

    fn problem(&self, error: CallError) -> Vec<u8> {
        let problem = Problem::of(error, self.operation.as_deref().map(Operation::spec));
        [b"event: error\ndata: ", &*problem.to_json(), b"\n\n"].concat()
    }

    fn write(&self, event: &mut Vec<u8>, outcome: &Outcome) {
        let start = event.len();
        let written = match self.form {
            Form::Data => serde_json::to_writer(&mut *event, &outcome.envelope.data),
            Form::Envelope => serde_json::to_writer(&mut *event, outcome),
        };
        if let Err(error) = written {
            tracing::error!(%error, "an outcome has no JSON form");
        }
        // Raw JSON may hold line breaks between its tokens, and a line break would end the field.
        for byte in &mut event[start..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}
