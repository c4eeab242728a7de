//! Converts error responses to errors.

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};

use super::decode::{JsonMode, decode_body};
use super::{declared_response, http_meta};
use crate::error::{CallError, ErrorCode};
use crate::handler::CallContext;
use crate::http::{retry_after, strip_html_tags};
use crate::openapi::plan::OperationPlan;
use crate::openapi::request::PreparedRequest;

/// Maximum length of service text in an error message, in characters.
const MAX_MESSAGE_LENGTH: usize = 300;
/// Minimum length of a redacted secret. Shorter strings occur in too many other places.
const MIN_SECRET_LENGTH: usize = 4;

/// Removes the credentials of a request from errors, in case the service echoes them.
#[derive(Clone, Default)]
pub(crate) struct SecretRedactor(Vec<String>);

/// Converts an error response to an error.
pub(crate) fn response_error(
    plan: &OperationPlan,
    status: u16,
    headers: &HeaderMap,
    body: Vec<u8>,
    redactor: &SecretRedactor,
) -> CallError {
    let meta = http_meta(status, headers);
    let body = decode_body(body, &meta.content_type, JsonMode::Parsed).payload;
    let body = redactor.redact_value(body.into_value().unwrap_or_default());
    let detail = error_message(&body)
        .map(|message| format!(": {}", truncate_message(&message)))
        .unwrap_or_default();
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let reason = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
    let code =
        declared_response::find_response(plan, status).and_then(|response| response.code.clone());
    let code = code.map_or(ErrorCode::ExecutionError, ErrorCode::Domain);
    let mut details = Map::new();
    details.insert("statusCode".to_owned(), status.into());
    details.insert("headers".to_owned(), redactor.redact_value(json!(meta.headers)));
    if !meta.set_cookie.is_empty() {
        details.insert("setCookie".to_owned(), redactor.redact_value(json!(meta.set_cookie)));
    }
    details.insert("body".to_owned(), body);
    let mut error =
        CallError::new(code, format!("HTTP {status}{reason}{detail}")).with_details(details);
    if let Some(delay) = retry_after(headers) {
        error = error.with_retry_after(delay);
    }
    match status {
        429 | 502 | 503 | 504 => error.transient(),
        _ => error,
    }
}

/// Extracts the error message from the usual members of an error body.
fn error_message(body: &Value) -> Option<String> {
    match body {
        Value::String(text) if text.trim_start().starts_with('<') => Some(strip_html_tags(text)),
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => items.first().and_then(error_message),
        Value::Object(members) => {
            let keys = [
                "message",
                "msg",
                "detail",
                "error_description",
                "error",
                "title",
                "errors",
                "reason",
            ];
            let message = keys.iter().find_map(|key| members.get(*key).and_then(error_message));
            message.map(|message| format!("{}{message}", field_path(members)))
        }
        _ => None,
    }
    .filter(|extracted| !extracted.trim().is_empty())
}

/// Formats the field path of a FastAPI error: `body.name: `.
fn field_path(members: &Map<String, Value>) -> String {
    let Some(steps) = members.get("loc").and_then(Value::as_array) else { return String::new() };
    let text = |step: &Value| step.as_str().map_or_else(|| step.to_string(), str::to_owned);
    let steps: Vec<String> = steps.iter().map(text).collect();
    if steps.is_empty() { String::new() } else { format!("{}: ", steps.join(".")) }
}

fn truncate_message(message: &str) -> String {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match message.char_indices().nth(MAX_MESSAGE_LENGTH) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message,
    }
}

impl SecretRedactor {
    /// Collects the secrets of a request.
    pub(crate) fn from_request(request: &PreparedRequest) -> Self {
        let sensitive = request
            .headers
            .iter()
            .filter(|(name, value)| value.is_sensitive() || request.secret_headers.contains(name));
        let mut secrets = Vec::new();
        for (_, value) in sensitive {
            let Ok(text) = value.to_str() else { continue };
            // The secret may follow the name of an authorization scheme or of a cookie.
            secrets.extend(text.split([' ', ';', '=']).map(str::to_owned));
            secrets.push(text.to_owned());
        }
        for (name, value) in request.url.query_pairs() {
            if request.secret_parameters.iter().any(|secret| *secret == name) {
                secrets.push(value.into_owned());
            }
        }
        let is_word =
            |text: &str| ["Bearer", "Basic"].iter().any(|scheme| scheme.eq_ignore_ascii_case(text));
        secrets.retain(|secret| secret.len() >= MIN_SECRET_LENGTH && !is_word(secret));
        // Longer secrets are replaced first, because they may contain shorter ones.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// Registers the secrets of the request as secrets of the call, because the service may repeat
    /// them in a response that is not an error.
    pub(crate) fn add_to(&self, context: &CallContext) {
        if !self.0.is_empty() {
            context.add_secrets(|known| self.0.iter().for_each(|secret| known.add_text(secret)));
        }
    }

    pub(crate) fn redact_value(&self, value: Value) -> Value {
        if self.0.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.redact_text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.redact_value(item)).collect(),
            Value::Object(members) => {
                let members = members.into_iter();
                Value::Object(
                    members
                        .map(|(key, value)| (self.redact_text(key), self.redact_value(value)))
                        .collect(),
                )
            }
            other => other,
        }
    }

    fn redact_text(&self, mut text: String) -> String {
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), "…");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_message_is_found_in_common_body_shapes() {
        let long = "x".repeat(400);
        let rows = [
            (json!({"message": "no such pet", "error": "Not Found"}), "no such pet"),
            (json!({"error": {"code": 7, "message": "quota"}}), "quota"),
            (json!({"error": "invalid_grant", "error_description": "expired"}), "expired"),
            (
                json!({"type": "about:blank", "title": "Forbidden", "detail": "not yours"}),
                "not yours",
            ),
            (json!({"title": "Forbidden", "status": 403}), "Forbidden"),
            (json!({"errors": [{"detail": "too short"}, {"detail": "x"}]}), "too short"),
            (json!({"errors": ["a", "b"]}), "a"),
            (
                json!({"detail": [{"loc": ["body"], "message": "field required"}]}),
                "body: field required",
            ),
            (
                json!({"detail": [{"loc": ["body", "pets", 0, "name"], "msg": "Field required", "type": "missing"}]}),
                "body.pets.0.name: Field required",
            ),
            (json!({"detail": [{"loc": [], "msg": "Field required"}]}), "Field required"),
            (json!({"detail": [{"loc": 7, "msg": "Field required"}]}), "Field required"),
            (json!({"message": "", "title": "Gone"}), "Gone"),
            (json!({"message": 7}), ""),
            (json!("plain\n text"), "plain text"),
            (json!("<html><title>502</title> <h1>Bad  gateway</h1>"), "502 Bad gateway"),
            (json!(null), ""),
            (json!(long), &*format!("{}…", "x".repeat(MAX_MESSAGE_LENGTH))),
        ];
        for (body, expected) in rows {
            let message =
                error_message(&body).map(|text| truncate_message(&text)).unwrap_or_default();
            assert_eq!(message, expected, "{body}");
        }
    }
}
