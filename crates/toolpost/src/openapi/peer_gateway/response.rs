//! Decodes responses from another gateway.

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use crate::envelope::Envelope;
use crate::error::CallError;
use crate::json::error_message;
use crate::openapi::media_type::{content_type, essence};
use crate::openapi::response::SecretRedactor;
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::schema::{Issue, Normalized, Repair};

pub(super) const ENVELOPE: &str = "application/vnd.toolpost.envelope+json";
const PROBLEM_JSON: &str = "application/problem+json";

/// Whether a response is a problem document from the gateway and not from a proxy in between.
pub(in crate::openapi) fn is_problem(headers: &HeaderMap) -> bool {
    essence(content_type(headers)).eq_ignore_ascii_case(PROBLEM_JSON)
}

/// Decodes the outcome of a call.
pub(in crate::openapi) fn parse_outcome(
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Outcome, CallError> {
    let kind = essence(content_type(headers));
    if !kind.eq_ignore_ascii_case(ENVELOPE) {
        let message =
            format!("the other gateway responded with `{kind}`, which is not an envelope");
        return Err(CallError::execution(message));
    }
    decode_outcome(body).map_err(|error| {
        let reason = error_message(&error);
        CallError::execution(format!("the envelope of the other gateway cannot be read: {reason}"))
    })
}

/// Decodes an envelope with its repairs and warnings.
pub(super) fn decode_outcome(text: &[u8]) -> Result<Outcome, serde_json::Error> {
    #[derive(Deserialize)]
    struct OutcomeFindings {
        #[serde(default)]
        repairs: Vec<Repair>,
        #[serde(default)]
        warnings: Vec<Issue>,
    }
    let mut outcome = Outcome::new(serde_json::from_slice::<Envelope<Payload>>(text)?);
    let beside: OutcomeFindings = serde_json::from_slice(text)?;
    let mut findings = Normalized::default();
    (findings.repairs, findings.issues) = (beside.repairs, beside.warnings);
    outcome.add_findings(findings);
    Ok(outcome)
}

/// Returns the error in a problem response, if there is one.
pub(in crate::openapi) fn parse_error(
    headers: &HeaderMap,
    body: &[u8],
    redactor: &SecretRedactor,
) -> Option<CallError> {
    is_problem(headers).then(|| decode_problem(body, redactor)).flatten()
}

/// Decodes the error in a problem document. The other gateway decides about retries: unless the
/// error states that the operation may have run, it has not run.
pub(super) fn decode_problem(problem: &[u8], redactor: &SecretRedactor) -> Option<CallError> {
    #[derive(Deserialize)]
    struct ProblemBody {
        error: Value,
    }
    let problem: ProblemBody = serde_json::from_slice(problem).ok()?;
    let error: CallError = serde_json::from_value(redactor.redact_value(problem.error)).ok()?;
    Some(if error.may_have_run() { error } else { error.not_sent() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each row: a body, and whether it is a valid outcome.
    #[test]
    fn outcome_parses_envelope_with_repairs_and_warnings() {
        let local = json!({"source": "local", "operationId": "a.b", "timestamp": 1});
        let repair = json!({"path": "/a", "action": "stripped", "from": 1});
        for (body, fits) in [
            (json!({"data": null, "meta": local}), true),
            (json!({"data": {"a": 1}, "meta": local, "more": 1}), true),
            (
                json!({"data": 1, "meta": local, "repairs": [repair], "warnings": [{"path": "", "message": "m"}]}),
                true,
            ),
            (json!({"data": 1}), false),
            (json!({"meta": local}), true),
            (json!({"data": 1, "meta": {"source": "moon"}}), false),
            (json!({"data": 1, "meta": local, "repairs": 7}), false),
            (json!([]), false),
            (json!("data"), false),
        ] {
            let read = decode_outcome(body.to_string().as_bytes());
            assert_eq!(read.is_ok(), fits, "{body}");
            let Ok(outcome) = read else { continue };
            for (name, count) in
                [("repairs", outcome.repairs().len()), ("warnings", outcome.warnings().len())]
            {
                assert_eq!(count, body[name].as_array().map_or(0, Vec::len), "{body}");
            }
        }
    }

    #[test]
    fn numbers_keep_their_source_text() {
        let text = r#"{"data":[123456789012345678901234567890,1.10,-0.0,1e400],"meta":{"source":"local","operationId":"a.b","timestamp":1}}"#;
        let outcome = decode_outcome(text.as_bytes()).unwrap();
        let data = serde_json::to_string(&outcome.envelope.data).unwrap();
        assert_eq!(data, "[123456789012345678901234567890,1.10,-0.0,1e400]");
    }

    /// Each row: a problem, and the error that it contains.
    #[test]
    fn error_is_parsed_from_problem_json() {
        let error =
            json!({"code": "NO_FUNDS", "message": "m", "details": {"a": [1]}, "retryable": false});
        let busy = json!({"code": "OVERLOADED", "message": "m", "retryable": true});
        let nothing = SecretRedactor::default();
        for (problem, expected) in [
            (json!({"status": 502, "error": error}), Some(&error)),
            (json!({"error": busy}), Some(&busy)),
            (json!({"status": 404}), None),
            (json!({"error": null}), None),
            (json!({"error": {"code": 7, "message": "m"}}), None),
            (json!([]), None),
        ] {
            let read = decode_problem(problem.to_string().as_bytes(), &nothing);
            let read = read.map(|error| serde_json::to_value(error).unwrap());
            assert_eq!(read.as_ref(), expected, "{problem}");
        }
        assert!(decode_problem(b"<html>", &nothing).is_none());
    }
}
