//! From an answer to an envelope, or to the error that it is.

mod charset;
mod declared_response;
mod decode;
mod error_response;
mod media_kind;

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
pub(crate) use media_kind::{MediaKind, essence};

/// What a success becomes: the data with the schema of the status that was received.
pub(crate) fn success_output(
    plan: &OperationPlan,
    status: u16,
    headers: &HeaderMap,
    body: Vec<u8>,
    needs_parsed_output: bool,
) -> HandlerOutput {
    let meta = http_meta(status, headers);
    let body_is_empty = body.is_empty();
    let schema = response_schema(plan, status, &meta.content_type);
    let needs_parsed_output = needs_parsed_output && !schema.is_unknown();
    let reading = if needs_parsed_output { JsonMode::Parsed } else { JsonMode::Raw };
    let DecodedBody { payload, warning } = decode_body(body, &meta.content_type, reading);
    // A page to sign in at is the usual case.
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

/// The head of an answer. Values that are no text are shown as well as they can be.
pub(crate) fn http_meta(status: u16, headers: &HeaderMap) -> HttpMeta {
    let headers = headers.iter();
    HttpMeta::new(
        status,
        headers.map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes()))),
    )
}
