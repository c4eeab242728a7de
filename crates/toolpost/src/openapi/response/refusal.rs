//! From an answer that is no success to an error.

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};

use super::data::{Reading, data};
use super::{declared, meta};
use crate::error::{CallError, ErrorCode};
use crate::openapi::plan::Plan;
use crate::openapi::request::Prepared;

/// How much of what a service says goes into a message.
const WORDS: usize = 300;
/// Shorter texts stand in too many places to be secrets there.
const LEAST_SECRET: usize = 4;

/// The credentials of a request, which are not told to whoever reads its error, even if the service
/// tells them.
#[derive(Clone, Default)]
pub(crate) struct Redacted(Vec<String>);

/// The error that an answer is.
pub(crate) fn refusal(
    plan: &Plan,
    status: u16,
    headers: &HeaderMap,
    body: Vec<u8>,
    redacted: &Redacted,
) -> CallError {
    let meta = meta(status, headers);
    let body = data(body, &meta.content_type, Reading::Value).payload;
    let body = redacted.without(body.into_value().unwrap_or_default());
    let said = words(&body).map(|words| format!(": {}", shortened(&words))).unwrap_or_default();
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let reason = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
    let code = declared::response(plan, status).and_then(|response| response.code.clone());
    let code = code.map_or(ErrorCode::ExecutionError, ErrorCode::Domain);
    let mut details = Map::new();
    details.insert("statusCode".to_owned(), status.into());
    details.insert("headers".to_owned(), redacted.without(json!(meta.headers)));
    if !meta.set_cookie.is_empty() {
        details.insert("setCookie".to_owned(), redacted.without(json!(meta.set_cookie)));
    }
    details.insert("body".to_owned(), body);
    let error = CallError::new(code, format!("HTTP {status}{reason}{said}")).with_details(details);
    match status {
        429 | 502 | 503 | 504 => error.transient(),
        _ => error,
    }
}

/// What a service says for people, in the places where services say it.
fn words(body: &Value) -> Option<String> {
    match body {
        Value::String(text) if text.trim_start().starts_with('<') => Some(without_tags(text)),
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => items.first().and_then(words),
        Value::Object(members) => {
            let places = [
                "message",
                "msg",
                "detail",
                "error_description",
                "error",
                "title",
                "errors",
                "reason",
            ];
            let said = places.iter().find_map(|place| members.get(*place).and_then(words));
            said.map(|said| format!("{}{said}", location(members)))
        }
        _ => None,
    }
    .filter(|words| !words.trim().is_empty())
}

/// Where something is wrong, as FastAPI says it: `body.name: `.
fn location(members: &Map<String, Value>) -> String {
    let Some(steps) = members.get("loc").and_then(Value::as_array) else { return String::new() };
    let text = |step: &Value| step.as_str().map_or_else(|| step.to_string(), str::to_owned);
    let steps: Vec<String> = steps.iter().map(text).collect();
    if steps.is_empty() { String::new() } else { format!("{}: ", steps.join(".")) }
}

/// The words of a page for people.
fn without_tags(page: &str) -> String {
    let pieces = page.split('<').map(|piece| piece.split_once('>').map_or("", |(_, text)| text));
    pieces.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

fn shortened(words: &str) -> String {
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(WORDS) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

impl Redacted {
    /// What is secret about a request.
    pub(crate) fn of(request: &Prepared) -> Self {
        let sensitive = request
            .headers
            .iter()
            .filter(|(name, value)| value.is_sensitive() || request.secret_headers.contains(name));
        let mut secrets = Vec::new();
        for (_, value) in sensitive {
            let Ok(text) = value.to_str() else { continue };
            // Behind the name of a scheme, or of a cookie.
            secrets.extend(text.split([' ', ';', '=']).map(str::to_owned));
            secrets.push(text.to_owned());
        }
        for (name, value) in request.url.query_pairs() {
            if request.secret_parameters.iter().any(|secret| *secret == name) {
                secrets.push(value.into_owned());
            }
        }
        let is_word =
            |text: &str| ["Bearer", "Basic"].iter().any(|word| word.eq_ignore_ascii_case(text));
        secrets.retain(|secret| secret.len() >= LEAST_SECRET && !is_word(secret));
        // The longest first, so that nothing is left of it after a part of it is gone.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    pub(crate) fn without(&self, value: Value) -> Value {
        if self.0.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.without(item)).collect(),
            Value::Object(members) => {
                let members = members.into_iter();
                Value::Object(
                    members.map(|(key, value)| (self.text(key), self.without(value))).collect(),
                )
            }
            other => other,
        }
    }

    fn text(&self, mut text: String) -> String {
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
    fn services_say_what_is_wrong_in_many_places() {
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
            (json!("plain\n words"), "plain words"),
            (json!("<html><title>502</title> <h1>Bad  gateway</h1>"), "502 Bad gateway"),
            (json!(null), ""),
            (json!(long), &*format!("{}…", "x".repeat(WORDS))),
        ];
        for (body, expected) in rows {
            let said = words(&body).map(|words| shortened(&words)).unwrap_or_default();
            assert_eq!(said, expected, "{body}");
        }
    }
}
