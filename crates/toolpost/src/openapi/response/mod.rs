//! Converts responses to envelopes or errors.

mod charset;
mod declared_response;
mod decode;
mod error_response;

use reqwest::header::HeaderMap;

use super::plan::OperationPlan;
use crate::envelope::{Envelope, HttpMeta};
use crate::handler::HandlerOutput;
use crate::outcome::Outcome;
use crate::schema::{Issue, Normalized};

use declared_response::is_undeclared;
pub(crate) use declared_response::response_schema;
use decode::{DecodedBody, decode_body};
pub(crate) use decode::{JsonMode, parse_json};
pub(crate) use error_response::{SecretRedactor, response_error};

/// Converts a success response to an output, with the schema that is declared for its status.
pub(crate) fn success_output(
    plan: &OperationPlan,
    status: u16,
    headers: &HeaderMap,
    body: Vec<u8>,
    json_mode: JsonMode,
) -> HandlerOutput {
    let meta = http_meta(status, headers);
    let body_is_empty = body.is_empty();
    let schema = response_schema(plan, status, &meta.content_type);
    let json_mode = json_mode.for_schema(&schema);
    let DecodedBody { payload, warning } = decode_body(body, &meta.content_type, json_mode);
    // An undeclared content type is typically a login page.
    let undeclared = || {
        let is_undeclared_type = !body_is_empty && is_undeclared(plan, status, &meta.content_type);
        let reason = "which the document does not declare";
        is_undeclared_type
            .then(|| format!("the service responded with `{}`, {reason}", meta.content_type))
    };
    let warning = warning.or_else(undeclared);
    let envelope = Envelope::http(payload, meta);
    let Some(warning) = warning else { return HandlerOutput::WithSchema(envelope, schema) };
    tracing::warn!(status, warning, "response does not match its content type");
    let mut outcome = Outcome::new(envelope);
    let mut findings = Normalized::default();
    findings.issues.push(Issue::new("", warning));
    outcome.add_findings(findings);
    HandlerOutput::Forwarded(outcome)
}

/// Returns the status and headers of a response, decoded lossily.
pub(crate) fn http_meta(status: u16, headers: &HeaderMap) -> HttpMeta {
    let headers = headers.iter();
    HttpMeta::new(
        status,
        headers.map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes()))),
    )
}
