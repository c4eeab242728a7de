//! From an answer to an envelope, or to the error that it is.

mod charset;
mod data;
mod declared;
mod media;
mod refusal;

use reqwest::header::HeaderMap;

use super::plan::Plan;
use crate::envelope::{Envelope, HttpMeta};
use crate::handler::Output;
use crate::outcome::Outcome;
use crate::schema::{Issue, Normalized};

use data::{Data, data};
pub(crate) use data::{Reading, parsed};
use declared::is_undeclared;
pub(crate) use declared::schema;
pub(crate) use media::{Media, essence};
pub(crate) use refusal::{Redacted, refusal};

/// What a success becomes: the data with the schema of the status that was received.
pub(crate) fn output(
    plan: &Plan,
    status: u16,
    headers: &HeaderMap,
    body: Vec<u8>,
    is_looked_at: bool,
) -> Output {
    let meta = meta(status, headers);
    let body_is_empty = body.is_empty();
    let schema = schema(plan, status, &meta.content_type);
    let is_looked_at = is_looked_at && !schema.is_unknown();
    let reading = if is_looked_at { Reading::Value } else { Reading::Raw };
    let Data { payload, oddity } = data(body, &meta.content_type, reading);
    // A page to sign in at is the usual case.
    let undeclared = || {
        let is_odd = !body_is_empty && is_undeclared(plan, status, &meta.content_type);
        let words = "which the document does not declare";
        is_odd.then(|| format!("the service answered with `{}`, {words}", meta.content_type))
    };
    let oddity = oddity.or_else(undeclared);
    let envelope = Envelope::http(payload, meta);
    let Some(oddity) = oddity else { return Output::Shaped(envelope, schema) };
    tracing::warn!(status, oddity, "an answer is not what it says it is");
    let mut outcome = Outcome::new(envelope);
    let mut findings = Normalized::default();
    findings.issues.push(Issue::new("", oddity));
    outcome.note(findings);
    Output::Relayed(outcome)
}

/// The head of an answer. Values that are no text are shown as well as they can be.
pub(crate) fn meta(status: u16, headers: &HeaderMap) -> HttpMeta {
    let headers = headers.iter();
    HttpMeta::new(
        status,
        headers.map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes()))),
    )
}
