//! Builds requests to another gateway.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::error::CallError;
use crate::handler::CallContext;
use crate::openapi::request::{PreparedRequest, RequestTemplate};
use crate::payload::Payload;
use crate::trace;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_TIMEOUT: HeaderName = HeaderName::from_static("request-timeout");
/// Maximum length of a request id that the other gateway accepts.
const MAX_REQUEST_ID_LENGTH: usize = 128;

/// Accepted response types of a call that is not a stream.
const ACCEPT_ENVELOPE: &str = "application/vnd.toolpost.envelope+json, application/problem+json";
const ACCEPT_EVENT_STREAM: &str =
    "text/event-stream, application/vnd.toolpost.envelope+json, application/problem+json";

/// Builds the request for an input, which is sent unchanged as the body. `timeout` limits the time
/// until the response; a stream has no timeout unless the caller sets one.
pub(in crate::openapi) fn build_request(
    template: &RequestTemplate,
    context: &CallContext,
    input: &Payload,
    timeout: Option<Duration>,
    is_stream: bool,
) -> Result<PreparedRequest, CallError> {
    let body = serde_json::to_vec(input)
        .map_err(|error| CallError::validation(error.to_string(), &[]).not_sent())?;
    let mut request = template.fill(&Value::Null)?;
    request.body = Some(Bytes::from(body));
    let headers = &mut request.headers;
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static(if is_stream { ACCEPT_EVENT_STREAM } else { ACCEPT_ENVELOPE }),
    );
    if let Some(seconds) = timeout.and_then(timeout_value) {
        headers.insert(REQUEST_TIMEOUT, seconds);
    }
    let id = Some(context.request_id().to_string()).filter(|id| id.len() <= MAX_REQUEST_ID_LENGTH);
    if let Some(id) = id.and_then(|id| HeaderValue::from_maybe_shared(Bytes::from(id)).ok()) {
        headers.insert(REQUEST_ID, id);
    }
    set_trace_headers(headers, context);
    Ok(request)
}

/// Adds the trace headers of the call, unless the request has them already.
pub(in crate::openapi) fn set_trace_headers(headers: &mut HeaderMap, context: &CallContext) {
    for (name, text) in trace::trace_members(context.metadata()) {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.entry(HeaderName::from_static(name)).or_insert(value);
        }
    }
}

/// Formats a timeout in seconds with three decimals. The minimum is one millisecond.
fn timeout_value(timeout: Duration) -> Option<HeaderValue> {
    let milliseconds = timeout.as_millis().max(1);
    let text = format!("{}.{:03}", milliseconds / 1_000, milliseconds % 1_000);
    HeaderValue::from_maybe_shared(Bytes::from(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::super::response::ENVELOPE;
    use super::*;

    #[test]
    fn request_timeout_is_sent_in_seconds() {
        for (timeout, expected) in [
            (Duration::ZERO, "0.001"),
            (Duration::from_micros(10), "0.001"),
            (Duration::from_millis(250), "0.250"),
            (Duration::from_millis(61_005), "61.005"),
            (Duration::from_secs(3_600), "3600.000"),
        ] {
            assert_eq!(timeout_value(timeout).unwrap(), expected, "{timeout:?}");
        }
    }

    #[test]
    fn accept_header_contains_the_envelope_type() {
        assert!(
            [ACCEPT_ENVELOPE, ACCEPT_EVENT_STREAM].iter().all(|accept| accept.contains(ENVELOPE))
        );
    }
}
