//! What a caller can do about an error: a sentence, and the tool to call next.

use serde_json::Value;

use super::error_text::issues;
use crate::error::CallError;
use crate::schema::MISSING_PROPERTY;
use crate::tool_envelope::{ErrorCategory, ErrorPayload};
use crate::view::name::tool_name;
use crate::view::tool::Tool;

/// Maximum number of properties named in a suggestion.
const MAX_NAMED: usize = 5;

/// Returns how to fix the error, in one sentence.
pub(super) fn suggested_action(
    error: &CallError,
    payload: &ErrorPayload,
    details: Option<&Value>,
) -> Option<String> {
    if let Some(delay) = error.retry_after() {
        let seconds = delay.as_secs_f64().ceil().max(1.0);
        return Some(format!("Call again in {seconds} s."));
    }
    if let Some(nearest) = error.suggestion() {
        return Some(format!("Call `{nearest}` instead."));
    }
    match payload.category {
        ErrorCategory::Validation => Some(correction(details)),
        _ if is_approval_expired(error) => Some("Call again to request approval.".to_owned()),
        _ if payload.recoverable => Some("Call again.".to_owned()),
        _ => None,
    }
}

/// Returns the name of the tool to call next: the most similar one, or the same one if its call was
/// not approved in time.
pub(super) fn next_tool(error: &CallError, tool: &Tool) -> Option<String> {
    if is_approval_expired(error) {
        return Some(tool.name().to_owned());
    }
    error.suggestion()?.parse().ok().map(|id| tool_name(&id))
}

fn is_approval_expired(error: &CallError) -> bool {
    let status = error.details().and_then(|details| details.pointer("/approval/status"));
    status.is_some_and(|status| status == "expired")
}

/// Returns which properties of the input to add and to correct.
fn correction(details: Option<&Value>) -> String {
    let issues = details.and_then(issues).into_iter().flatten();
    let (mut missing, mut wrong) = (Vec::new(), Vec::new());
    for issue in issues {
        let member = |name: &str| issue.get(name).and_then(Value::as_str).unwrap_or_default();
        match (member("path"), member("message")) {
            ("", _) => {}
            (path, MISSING_PROPERTY) => missing.push(path),
            (path, _) => wrong.push(path),
        }
    }
    match (missing.is_empty(), wrong.is_empty()) {
        (true, true) => "Correct the input and call again.".to_owned(),
        (false, true) => format!("Add {} and call again.", list(&missing)),
        (true, false) => format!("Correct {} and call again.", list(&wrong)),
        (false, false) => {
            format!("Add {}, correct {} and call again.", list(&missing), list(&wrong))
        }
    }
}

fn list(paths: &[&str]) -> String {
    let named: Vec<_> = paths.iter().take(MAX_NAMED).map(|path| format!("`{path}`")).collect();
    let rest = paths.len().saturating_sub(MAX_NAMED);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}
