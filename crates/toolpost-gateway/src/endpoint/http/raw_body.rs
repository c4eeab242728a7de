//! Responses of HTTP services in their own media type, if the client prefers it to JSON.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use data_encoding::BASE64;
use serde_json::Value;
use toolpost::{Meta, OperationSpec, Outcome};

use crate::endpoint::accept::{self, ResponseForm};

/// Whether the data of an operation can be bytes or text, as far as the output schema shows.
pub(super) fn is_possible(spec: &OperationSpec) -> bool {
    if spec.output_schema.is_unknown() {
        return true;
    }
    let schema = spec.output_schema.json();
    let is_raw = |schema: &Value| {
        schema.pointer("/properties/$binary").is_some()
            || schema.get("type").is_some_and(|name| name == "string")
    };
    let choices = schema.get("anyOf").and_then(Value::as_array);
    is_raw(&schema) || choices.is_some_and(|choices| choices.iter().any(is_raw))
}

/// Returns the body that the HTTP service sent, if the client prefers its media type to JSON.
pub(super) fn response(
    outcome: &Outcome,
    form: ResponseForm,
    headers: &HeaderMap,
) -> Option<Response> {
    let Meta::Http(meta) = &outcome.envelope.meta else { return None };
    let media_type = meta.content_type.split(';').next().unwrap_or_default().trim();
    let media_type = media_type.to_ascii_lowercase();
    let is_json = media_type.is_empty() || media_type.ends_with("json");
    if form != ResponseForm::Data || is_json || !accept::prefers(headers, &media_type) {
        return None;
    }
    let (bytes, content_type) = match outcome.envelope.binary() {
        Some((_, encoded)) => (BASE64.decode(encoded.as_bytes()).ok()?, meta.content_type.clone()),
        None => {
            let data = &outcome.envelope.data;
            let text: String = match (data.as_value(), data.as_raw()) {
                (Some(value), _) => value.as_str()?.to_owned(),
                (None, raw) => serde_json::from_str(raw?.get()).ok()?,
            };
            (text.into_bytes(), format!("{media_type}; charset=utf-8"))
        }
    };
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(&content_type).ok()?);
    // A browser must not run scripts of the service on the origin of the gateway.
    let sandbox = HeaderValue::from_static("default-src 'none'; sandbox");
    headers.insert(header::CONTENT_SECURITY_POLICY, sandbox);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Some(response)
}
