//! A call error as text for a model, and as JSON for a program.

use std::borrow::Cow;
use std::fmt::Write;

use serde_json::{Map, Value};

use crate::error::{CallError, ErrorCode};

/// Maximum number of issues in the text; the details contain all of them.
const MAX_ISSUES: usize = 50;

/// Returns the error details, with issue paths prefixed if the input is nested.
pub(super) fn error_details<'a>(error: &'a CallError, base_path: &str) -> Option<Cow<'a, Value>> {
    let details = error.details()?;
    if base_path.is_empty() || *error.code() != ErrorCode::ValidationError {
        return Some(Cow::Borrowed(details));
    }
    let mut details = details.clone();
    if let Some(issues) = issues_mut(&mut details) {
        for path in issues.iter_mut().filter_map(|issue| issue.get_mut("path")) {
            if let Value::String(path) = path {
                path.insert_str(0, base_path);
            }
        }
    }
    Some(Cow::Owned(details))
}

/// Returns `CODE: message`, then one line per issue, then any other details.
pub(super) fn message_text(error: &CallError, details: Option<&Value>) -> String {
    let mut text = format!("{}: {}", error.code(), error.message());
    let Some(details) = details else { return text };
    let issues = issues(details);
    for issue in issues.iter().flat_map(|issues| issues.iter()).take(MAX_ISSUES) {
        let member = |name: &str| issue.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = if member("path").is_empty() { "(root)" } else { member("path") };
        let _ = write!(text, "\n- {path}: {}", member("message"));
    }
    let beyond = issues.map_or(0, |issues| issues.len().saturating_sub(MAX_ISSUES));
    if beyond > 0 {
        let _ = write!(text, "\n- … and {beyond} more");
    }
    if issues.is_none() || details.as_object().is_some_and(|members| members.len() > 1) {
        let _ = write!(text, "\nDetails: {details}");
    }
    text
}

/// Returns the complete error as JSON.
pub(super) fn error_json(error: &CallError, details: Option<&Value>) -> Value {
    let mut members = error_members(error.code().as_str(), error.message(), details.cloned());
    members.insert("retryable".to_owned(), error.is_retryable().into());
    members.into()
}

/// Returns `{ok: false, error}` with the error codes of the `ok` dialect.
pub(super) fn ok_dialect_json(error: &CallError, details: Option<&Value>) -> String {
    let details = details.cloned();
    let error = match error.code() {
        ErrorCode::ValidationError => {
            error_members("INVALID_PARAMS", error.message(), Some(with_issues(details)))
        }
        ErrorCode::ExecutionError => error_members("HANDLER_ERROR", error.message(), details),
        code => error_members(code.as_str(), error.message(), details),
    };
    format!(r#"{{"ok":false,"error":{}}}"#, Value::Object(error))
}

fn error_members(code: &str, message: &str, details: Option<Value>) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("code".to_owned(), code.into());
    members.insert("message".to_owned(), message.into());
    if let Some(details) = details.filter(|details| !details.is_null()) {
        members.insert("details".to_owned(), details);
    }
    members
}

/// Converts details to an object with the list `issues`.
fn with_issues(details: Option<Value>) -> Value {
    let mut members = match details {
        Some(Value::Object(members)) => members,
        Some(Value::Array(issues)) => Map::from_iter([("issues".to_owned(), issues.into())]),
        Some(Value::Null) | None => Map::new(),
        Some(other) => Map::from_iter([("details".to_owned(), other)]),
    };
    if !members.get("issues").is_some_and(Value::is_array) {
        let list = members.get_mut("details").filter(|list| list.is_array()).map(Value::take);
        if list.is_some() {
            members.shift_remove("details");
        }
        members.insert("issues".to_owned(), list.unwrap_or_else(|| Value::Array(Vec::new())));
    }
    members.into()
}

/// Returns the issues of error details: the details, or their member `issues` or `details`.
pub(super) fn issues(details: &Value) -> Option<&Vec<Value>> {
    let list = match details {
        Value::Object(members) => members.get("issues").or_else(|| members.get("details"))?,
        other => other,
    };
    let is_issue = |issue: &Value| issue.get("path").is_some() && issue.get("message").is_some();
    list.as_array().filter(|list| !list.is_empty() && list.iter().all(is_issue))
}

fn issues_mut(details: &mut Value) -> Option<&mut Vec<Value>> {
    issues(details)?;
    match details {
        Value::Object(members) => {
            let name = if members.contains_key("issues") { "issues" } else { "details" };
            members.get_mut(name)?.as_array_mut()
        }
        other => other.as_array_mut(),
    }
}
