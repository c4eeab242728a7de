//! What is not written down: what a schema calls secret, and headers that carry credentials.

use manila::{CallError, Envelope, ErrorCode, MASKED, Meta, Operation, Payload, Secrets};
use serde_json::{Map, Value, json};

/// Headers that are credentials, or hand some out.
const HEADERS: [&str; 10] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "set-cookie",
    "setcookie",
    "www-authenticate",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-token",
    "x-csrf-token",
];

/// The input as it may be written, where it is not as it came.
pub(super) fn input(operation: Option<&Operation>, input: &Payload) -> Option<Value> {
    let secrets = operation?.spec().input_schema.secrets();
    if secrets.is_empty() {
        return None;
    }
    let mut value = tree(input);
    secrets.mask(&mut value).then_some(value)
}

/// The envelope as it may be written, where it is not as it is sent.
pub(super) fn output(operation: Option<&Operation>, envelope: &Envelope<Payload>) -> Option<Value> {
    let secrets = operation.map(|operation| operation.spec().output_schema.secrets());
    let secrets = secrets.filter(|secrets| !secrets.is_empty());
    let is_plain = match &envelope.meta {
        Meta::Http(meta) => {
            meta.set_cookie.is_empty() && !meta.headers.keys().any(|name| is_credential(name))
        }
        _ => true,
    };
    if secrets.is_none() && is_plain {
        return None;
    }
    let mut data = tree(&envelope.data);
    let mut meta = serde_json::to_value(&envelope.meta).unwrap_or_default();
    let found = secrets.is_some_and(|secrets| secrets.mask(&mut data));
    mask_headers(&mut meta);
    if found && let Some(secrets) = secrets {
        mask_copies(secrets, &mut meta);
    }
    Some(json!({"data": data, "meta": meta}))
}

/// What an MCP server says twice is secret twice; its text may quote it in any form.
fn mask_copies(secrets: &Secrets, meta: &mut Value) {
    if let Some(structured) = meta.get_mut("structuredContent") {
        secrets.mask(structured);
    }
    if let Some(content) = meta.get_mut("content") {
        *content = MASKED.into();
    }
}

/// The details of an error as they may be written. What does not fit is told by its place alone
/// where a part of the input is secret, because the words quote it.
pub(super) fn details(operation: Option<&Operation>, error: &CallError) -> Option<Value> {
    let mut details = error.details()?.clone();
    let spec = operation.map(Operation::spec);
    let has_secrets = spec.is_some_and(|spec| {
        !spec.input_schema.secrets().is_empty() || !spec.output_schema.secrets().is_empty()
    });
    match &mut details {
        Value::Array(issues) if has_secrets && *error.code() == ErrorCode::ValidationError => {
            for issue in issues {
                issue["message"] = MASKED.into();
            }
        }
        Value::Object(members) => {
            for (_, body) in members.iter_mut().filter(|(name, _)| has_secrets && *name == "body") {
                *body = MASKED.into();
            }
            mask_headers(&mut details);
        }
        _ => {}
    }
    Some(details)
}

fn mask_headers(holder: &mut Value) {
    let Some(members) = holder.as_object_mut() else { return };
    mask_members(members);
    if let Some(Value::Object(headers)) = members.get_mut("headers") {
        mask_members(headers);
    }
}

fn mask_members(members: &mut Map<String, Value>) {
    for (_, value) in members.iter_mut().filter(|(name, _)| is_credential(name)) {
        *value = MASKED.into();
    }
}

fn is_credential(name: &str) -> bool {
    HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn tree(payload: &Payload) -> Value {
    match payload.as_value() {
        Some(value) => value.clone(),
        None => payload.clone().into_value().unwrap_or_else(|_| MASKED.into()),
    }
}

#[cfg(test)]
mod tests {
    use manila::{HttpMeta, Kind, LocalMeta, McpMeta, OperationSpec, Schema};

    use super::*;

    fn operation() -> Operation {
        let mut spec = OperationSpec::new(&"t.op".parse().unwrap(), Kind::Query);
        let secret = json!({"properties": {"pin": {"format": "password"}}});
        spec.input_schema = Schema::new(secret.clone()).unwrap();
        spec.output_schema = Schema::new(secret).unwrap();
        Operation::from_spec(spec).build().unwrap()
    }

    #[test]
    fn inputs_are_masked_where_there_is_a_secret() {
        let operation = operation();
        for (text, expected) in [
            (r#"{"pin": "1", "a": 2}"#, Some(json!({"pin": "***", "a": 2}))),
            (r#"{"a": 2}"#, None),
            ("[]", None),
        ] {
            let payload = Payload::from_json(text.to_owned()).unwrap();
            assert_eq!(input(Some(&operation), &payload), expected, "{text}");
            assert_eq!(input(None, &payload), None);
        }
    }

    #[test]
    fn outputs_are_masked_in_every_place_that_repeats_them() {
        let operation = operation();
        let data = || Payload::from(json!({"pin": "1"}));
        let http = HttpMeta::new(200, [("X-Api-Key", "a"), ("etag", "b"), ("Set-Cookie", "c")]);
        let mut mcp = McpMeta::default();
        mcp.structured_content = Some(json!({"pin": "1"}));
        for (meta, place, expected) in [
            (Meta::Local(LocalMeta::new("t.op", 1)), "/data/pin", "***"),
            (Meta::Http(Box::new(http.clone())), "/meta/headers/x-api-key", "***"),
            (Meta::Http(Box::new(http.clone())), "/meta/headers/etag", "b"),
            (Meta::Http(Box::new(http)), "/meta/setCookie", "***"),
            (Meta::Mcp(Box::new(mcp.clone())), "/meta/structuredContent/pin", "***"),
            (Meta::Mcp(Box::new(mcp)), "/meta/content", "***"),
        ] {
            let mut envelope = Envelope::local(data(), "t.op");
            envelope.meta = meta;
            let masked = output(Some(&operation), &envelope).unwrap();
            assert_eq!(masked.pointer(place), Some(&json!(expected)), "{masked}");
        }
    }
}
