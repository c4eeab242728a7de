//! Reads and parses request bodies and the trace context.

use std::error::Error;
use std::pin::pin;
use std::task::Poll;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value};
use toolpost::{Operation, Payload, PayloadError, TRACE_PARENT, TRACE_STATE, trace_metadata};

use super::problem::ProblemDetails;
use super::settings::GatewaySettings;

/// Reads the body as an input. It is parsed only if there is an input schema.
pub(super) async fn read_input(
    headers: &HeaderMap,
    body: Body,
    operation: &Operation,
    settings: &GatewaySettings,
) -> Result<Payload, ProblemDetails> {
    check_content_type(headers)?;
    check_encoding(headers)?;
    let bytes = read_bytes(body, settings).await?;
    if bytes.is_empty() {
        return Ok(Payload::empty_object());
    }
    let read = if operation.spec().input_schema.is_unknown() {
        Payload::from_untrusted_text(&bytes)
    } else {
        check_memory(&bytes, settings)?;
        Payload::from_untrusted(&bytes)
    };
    read.map_err(|error| invalid_json(&error))
}

/// Rejects a body of many small values, which would need much more memory than its text.
fn check_memory(body: &Bytes, settings: &GatewaySettings) -> Result<(), ProblemDetails> {
    let max = settings.max_input_memory;
    let needed = toolpost::json::parsed_bytes(body);
    if needed <= max {
        return Ok(());
    }
    let message = format!(
        "the body needs {needed} bytes of memory when parsed; the limit is {max} \
         (limits.caller_input_bytes)"
    );
    Err(ProblemDetails::new(StatusCode::PAYLOAD_TOO_LARGE, message))
}

fn invalid_json(error: &PayloadError) -> ProblemDetails {
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    let detail = match cause.strip_prefix("recursion limit exceeded") {
        Some(position) => format!("nested 128 levels or deeper{position}"),
        None => cause,
    };
    let message = format!("the body is not JSON: {detail}");
    ProblemDetails::new(StatusCode::BAD_REQUEST, message)
}

/// Reads the whole body, within the size limit and the body timeout.
pub(super) async fn read_bytes(
    body: Body,
    settings: &GatewaySettings,
) -> Result<Bytes, ProblemDetails> {
    let too_large = || {
        let message = format!("the body exceeds the limit of {} bytes", settings.max_body_bytes);
        Err(ProblemDetails::new(StatusCode::PAYLOAD_TOO_LARGE, message))
    };
    // Reject by the declared length before reading the body.
    if usize::try_from(body.size_hint().lower()).is_ok_and(|bytes| bytes > settings.max_body_bytes)
    {
        return too_large();
    }
    let mut body = pin!(collect_body(Limited::new(body, settings.max_body_bytes)));
    // Most bodies are already buffered and need no timer.
    let read = match futures::poll!(body.as_mut()) {
        Poll::Ready(read) => Ok(read),
        Poll::Pending => tokio::time::timeout(settings.body_timeout, body).await,
    };
    match read {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if error.is::<LengthLimitError>() => too_large(),
        Ok(Err(error)) => {
            let message = format!("the body could not be read: {error}");
            Err(ProblemDetails::new(StatusCode::BAD_REQUEST, message))
        }
        Err(_) => {
            Err(ProblemDetails::new(StatusCode::REQUEST_TIMEOUT, "timed out reading the body"))
        }
    }
}

/// Collects a body. A body in a single frame, the common case, is not copied.
async fn collect_body(mut body: Limited<Body>) -> Result<Bytes, BoxError> {
    let first = loop {
        let Some(frame) = body.frame().await else { return Ok(Bytes::new()) };
        if let Ok(data) = frame?.into_data() {
            break data;
        }
    };
    if body.is_end_stream() {
        return Ok(first);
    }
    let mut all = Vec::from(first);
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            all.extend_from_slice(&data);
        }
    }
    Ok(all.into())
}

/// Checks that the content type is JSON or absent. HTML forms are rejected.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), ProblemDetails> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    if value == "application/json" {
        return Ok(());
    }
    let text = value.to_str().unwrap_or_default();
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    let is_json = media_type.eq_ignore_ascii_case("application/json")
        || media_type.to_ascii_lowercase().ends_with("+json");
    let is_utf8 = parts.filter_map(|part| part.split_once('=')).all(|(name, value)| {
        !name.eq_ignore_ascii_case("charset")
            || value.trim_matches('"').eq_ignore_ascii_case("utf-8")
    });
    let message = match (is_json, is_utf8) {
        (true, true) => return Ok(()),
        (true, false) => format!("the body must be in UTF-8, not `{text}`"),
        (false, _) => format!("the body must be application/json, not `{media_type}`"),
    };
    Err(ProblemDetails::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)
        .with_header(header::ACCEPT, "application/json"))
}

/// Returns the trace context of the headers, if there is one.
pub(super) fn trace_context(headers: &HeaderMap) -> Option<Map<String, Value>> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    trace_metadata(text(TRACE_PARENT), text(TRACE_STATE))
}

/// Rejects encoded bodies, because the size of a compressed body is unbounded after decompression.
fn check_encoding(headers: &HeaderMap) -> Result<(), ProblemDetails> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if codings.all(is_plain) {
        return Ok(());
    }
    let message = "Content-Encoding is not supported";
    Err(ProblemDetails::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)
        .with_header(header::ACCEPT_ENCODING, "identity"))
}
