//! Masking: secrets by schema and headers with credentials are not recorded.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use toolpost::{CallError, CallView, Catalog, Envelope, MASKED, Meta, Operation, Payload, Secrets};

/// Headers that contain credentials or issue them.
const CREDENTIAL_HEADERS: [&str; 10] = [
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

/// Returns the masked input, or `None` if nothing is masked. The input of an unknown operation is
/// masked completely, because its secrets are unknown. So is an input that cannot be parsed.
pub(super) fn input(
    catalog: impl FnOnce() -> Arc<Catalog>,
    operation: Option<&Operation>,
    input: &Payload,
) -> Option<Value> {
    let Some(operation) = operation else { return Some(MASKED.into()) };
    let is_relay = operation.spec().forwards;
    let secrets = operation.spec().input_schema.secrets();
    if secrets.is_empty() && !is_relay {
        return None;
    }
    let Ok(mut value) = input.clone().into_value() else { return Some(MASKED.into()) };
    let is_masked = match is_relay {
        true => mask_forwarded_input(&catalog(), &mut value),
        false => secrets.mask(&mut value),
    };
    is_masked.then_some(value)
}

/// Masks the input that `hub.call` forwards by the schema of the target operation. Recurses if the
/// target is `hub.call` again.
fn mask_forwarded_input(catalog: &Catalog, value: &mut Value) -> bool {
    let Value::Object(called) = value else {
        *value = MASKED.into();
        return true;
    };
    let target = called.get("id").and_then(Value::as_str);
    let target = target.and_then(|id| catalog.get(id)).cloned();
    let mut is_masked = false;
    for (name, member) in called {
        is_masked |= match (name.as_str(), &target) {
            ("id", _) if member.is_string() => false,
            ("input", Some(target)) if target.spec().forwards => {
                mask_forwarded_input(catalog, member)
            }
            ("input", Some(target)) => target.spec().input_schema.secrets().mask(member),
            _ => {
                *member = MASKED.into();
                true
            }
        };
    }
    is_masked
}

/// Returns the payload of a room message with its secrets masked, or `None` if nothing is masked. It
/// is a call to the operation, or the result of one.
pub(crate) fn message(
    catalog: &Arc<Catalog>,
    operation: &Operation,
    payload: &RawValue,
    is_result: bool,
) -> Option<Box<RawValue>> {
    let spec = operation.spec();
    let secrets = if is_result { &spec.output_schema } else { &spec.input_schema }.secrets();
    // Most schemas have no secrets, so the payload is not parsed.
    if secrets.is_empty() && (is_result || !operation.spec().forwards) {
        return None;
    }
    let mut payload: Value = serde_json::from_str(payload.get()).ok()?;
    if is_result {
        let result = payload.get_mut("result")?;
        if let Some(data) = result.get_mut("structuredContent") {
            secrets.mask(data);
        }
        // The text content repeats the data, so it is masked completely.
        result["content"] = json!([{"type": "text", "text": MASKED}]);
    } else {
        let arguments = payload.pointer_mut("/params/arguments")?;
        let sent = Payload::from(arguments.take());
        *arguments = input(|| Arc::clone(catalog), Some(operation), &sent)?;
    }
    to_raw_value(&payload).ok()
}

/// Returns the masked envelope, or `None` if there is nothing to mask.
pub(super) fn output(call: &CallView<'_>, envelope: &Envelope<Payload>) -> Option<Value> {
    let masked = output_by_schema(call.operation, envelope);
    if masked.is_none() && !(call.has_secrets() && repeats_secret(call, envelope)) {
        return None;
    }
    let all = || json!({"data": to_value(&envelope.data), "meta": envelope.meta});
    let mut masked = masked.unwrap_or_else(all);
    call.mask_value(&mut masked);
    Some(masked)
}

/// Whether an envelope may contain a known secret of the call. Data that is text is not parsed, so it
/// may also be written with escapes.
fn repeats_secret(call: &CallView<'_>, envelope: &Envelope<Payload>) -> bool {
    let in_data = match envelope.data.as_raw() {
        Some(raw) => {
            let is_escaped = ["\\/", "\\u"].iter().any(|escape| raw.get().contains(escape));
            is_escaped || call.has_secret_in(raw.get())
        }
        None => is_in_json(call, &envelope.data),
    };
    in_data || is_in_json(call, &envelope.meta)
}

fn is_in_json(call: &CallView<'_>, value: &impl Serialize) -> bool {
    serde_json::to_string(value).is_ok_and(|text| call.has_secret_in(&text))
}

/// Masks the parts of an envelope that the schema of the operation marks as secret, and headers with
/// credentials.
pub(super) fn output_by_schema(
    operation: Option<&Operation>,
    envelope: &Envelope<Payload>,
) -> Option<Value> {
    let secrets = operation.map(|operation| operation.spec().output_schema.secrets());
    let secrets = secrets.filter(|secrets| !secrets.is_empty());
    let is_plain = match &envelope.meta {
        Meta::Http(meta) => {
            meta.set_cookie.is_empty() && !meta.headers.keys().any(|name| is_credential(name))
        }
        Meta::Mcp(meta) => !(meta.is_error && has_secrets(operation)),
        _ => true,
    };
    if secrets.is_none() && is_plain {
        return None;
    }
    let mut data = to_value(&envelope.data);
    let mut meta = serde_json::to_value(&envelope.meta).unwrap_or_default();
    mask_headers(&mut meta);
    let is_found = secrets.is_some_and(|secrets| secrets.mask(&mut data));
    if let Meta::Mcp(mcp_meta) = &envelope.meta {
        mask_duplicate_output(secrets, &mut meta);
        // Free text has no paths to mask by. This applies to tools without structured content and
        // to failed tools, which may quote their input.
        let is_free_text = mcp_meta.is_error || mcp_meta.structured_content.is_none() && !is_found;
        if is_free_text {
            data = MASKED.into();
        }
    }
    Some(json!({"data": data, "meta": meta}))
}

/// Masks the copies of the output in the MCP metadata. Text content is masked completely, because
/// it may quote secrets in any form.
fn mask_duplicate_output(secrets: Option<&Secrets>, meta: &mut Value) {
    let is_error = meta["isError"] == true;
    if let Some(structured) = meta.get_mut("structuredContent") {
        match secrets.filter(|_| !is_error) {
            Some(secrets) => drop(secrets.mask(structured)),
            None => *structured = MASKED.into(),
        }
    }
    if let Some(content) = meta.get_mut("content") {
        *content = MASKED.into();
    }
}

/// Returns the error message to record. For an HTTP service, the text after the status is derived
/// from the response body and is omitted if it may quote secrets.
pub(super) fn error_message<'a>(operation: Option<&Operation>, error: &'a CallError) -> &'a str {
    let quotes_body = error.details().is_some_and(|details| details.get("body").is_some());
    match error.message().split_once(": ") {
        Some((status, _)) if quotes_body && may_quote_secrets(operation, error) => status,
        _ => error.message(),
    }
}

/// Returns the error details to record. Validation issues keep only their paths if their messages
/// may quote a secret.
pub(super) fn error_details(operation: Option<&Operation>, error: &CallError) -> Option<Value> {
    let mut details = error.details()?.clone();
    let declared = operation.and_then(|operation| {
        let mut declared = operation.spec().error_schemas.iter();
        declared.find(|declared| declared.code == error.code().as_str())
    });
    if let Some(declared) = declared {
        declared.schema.secrets().mask(&mut details);
    }
    if may_quote_secrets(operation, error) {
        mask_quotes(&mut details);
    }
    mask_headers(&mut details);
    Some(details)
}

/// Whether an error may quote secrets. An error of a nested call may quote secrets of that call;
/// the record of the nested call contains it with its own masking.
fn may_quote_secrets(operation: Option<&Operation>, error: &CallError) -> bool {
    error.is_nested() || has_secrets(operation)
}

pub(super) fn has_secrets(operation: Option<&Operation>) -> bool {
    operation.is_some_and(Operation::has_secrets)
}

/// Masks `body`, `data` and `message` members: issues quote the invalid value, and bodies and
/// invalid data come from services.
fn mask_quotes(details: &mut Value) {
    match details {
        Value::Array(items) => items.iter_mut().for_each(mask_quotes),
        Value::Object(members) => {
            for (name, member) in members {
                match name.as_str() {
                    "body" | "data" | "message" => *member = MASKED.into(),
                    _ => mask_quotes(member),
                }
            }
        }
        _ => {}
    }
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
    CREDENTIAL_HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn to_value(payload: &Payload) -> Value {
    match payload.as_value() {
        Some(value) => value.clone(),
        None => payload.clone().into_value().unwrap_or_else(|_| MASKED.into()),
    }
}

#[cfg(test)]
mod tests {
    use toolpost::{
        ErrorCode, ErrorDefinition, HandlerError, HttpMeta, Issue, LocalMeta, McpMeta,
        OperationKind, OperationSpec, Pipeline, Registry, Schema, build_env,
    };

    use super::*;

    fn secret() -> Schema {
        Schema::new(json!({"properties": {"pin": {"format": "password"}}})).unwrap()
    }

    const HUB_CALL: &str = "hub.call";

    fn operation(id: &str, input: Schema, output: Schema) -> Operation {
        let mut spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Query);
        (spec.input_schema, spec.output_schema) = (input, output);
        let declared = ErrorDefinition::new("LOCKED", "").with_schema(secret());
        spec.error_schemas.push(declared);
        spec.forwards = id == HUB_CALL;
        Operation::from_spec(spec).build().unwrap()
    }

    /// A registry with an operation that has secrets in its input and output, one without secrets,
    /// and `hub.call`.
    fn registry() -> Registry {
        let registry = Registry::new();
        for operation in [
            operation("t.op", secret(), secret()),
            operation("t.open", Schema::unknown(), Schema::unknown()),
            operation(HUB_CALL, Schema::unknown(), Schema::unknown()),
        ] {
            registry.register(operation).unwrap();
        }
        registry
    }

    #[test]
    fn mask_input_hides_possible_secrets() {
        let registry = registry();
        for (id, text, expected) in [
            ("t.op", r#"{"pin": "1", "a": 2}"#, Some(json!({"pin": "***", "a": 2}))),
            ("t.op", r#"{"a": 2}"#, None),
            ("t.op", "[]", Some(json!("***"))),
            ("t.op", r#"{"pin": "1", "a": 1e999}"#, Some(json!("***"))),
            ("t.open", r#"{"pin": "1"}"#, None),
            ("t.open", r#"{"a": 1e999}"#, None),
            ("t.none", r#"{"pin": "1"}"#, Some(json!("***"))),
            (
                HUB_CALL,
                r#"{"id": "t.op", "input": {"pin": "1", "a": 2}}"#,
                Some(json!({"id": "t.op", "input": {"pin": "***", "a": 2}})),
            ),
            (HUB_CALL, r#"{"id": "t.op", "input": {"a": 2}}"#, None),
            (HUB_CALL, r#"{"id": "t.op"}"#, None),
            (HUB_CALL, r#"{"id": "t.open", "input": {"pin": "1"}}"#, None),
            (
                HUB_CALL,
                r#"{"id": "t.none", "input": {"pin": "1"}}"#,
                Some(json!({"id": "t.none", "input": "***"})),
            ),
            (
                HUB_CALL,
                r#"{"id": "hub.call", "input": {"id": "hub.call", "input": {"id": "t.op", "input": {"pin": "1"}}}}"#,
                Some(
                    json!({"id": "hub.call", "input": {"id": "hub.call", "input": {"id": "t.op", "input": {"pin": "***"}}}}),
                ),
            ),
            (
                HUB_CALL,
                r#"{"id": "t.op", "inputs": {"pin": "1"}}"#,
                Some(json!({"id": "t.op", "inputs": "***"})),
            ),
            (HUB_CALL, r#"{"id": {"pin": "1"}}"#, Some(json!({"id": "***"}))),
            (HUB_CALL, r#"["t.op", {"pin": "1"}]"#, Some(json!("***"))),
            (HUB_CALL, r#"{"id": "t.op", "input": {"pin": "1", "a": 1e999}}"#, Some(json!("***"))),
        ] {
            let payload = Payload::from_json(text.to_owned()).unwrap();
            let catalog = registry.catalog();
            let operation = catalog.get(id).map(|operation| &**operation);
            let masked = input(|| registry.catalog(), operation, &payload);
            assert_eq!(masked, expected, "{id} {text}");
        }
    }

    #[test]
    fn mask_output_hides_every_copy() {
        let operation = operation("t.op", secret(), secret());
        let data = || Payload::from(json!({"pin": "1"}));
        let http = HttpMeta::new(200, [("X-Api-Key", "a"), ("etag", "b"), ("Set-Cookie", "c")]);
        let mut mcp = McpMeta::default();
        mcp.structured_content = Some(json!({"pin": "1"}));
        for (meta, json_pointer, expected) in [
            (Meta::Local(LocalMeta::new("t.op", 1)), "/data/pin", "***"),
            (Meta::Http(Box::new(http.clone())), "/meta/headers/x-api-key", "***"),
            (Meta::Http(Box::new(http.clone())), "/meta/headers/etag", "b"),
            (Meta::Http(Box::new(http)), "/meta/setCookie", "***"),
            (Meta::Mcp(Box::new(mcp.clone())), "/meta/structuredContent/pin", "***"),
            (Meta::Mcp(Box::new(mcp)), "/meta/content", "***"),
        ] {
            let mut envelope = Envelope::local(data(), "t.op");
            envelope.meta = meta;
            let masked = output_by_schema(Some(&operation), &envelope).unwrap();
            assert_eq!(masked.pointer(json_pointer), Some(&json!(expected)), "{masked}");
        }
    }

    /// Each row: the data, the structured content, whether the call failed, whether the output
    /// schema has a secret, and the recorded data if anything is masked.
    #[test]
    fn mask_output_hides_tool_text_with_secrets() {
        let (text_data, object_data) = (json!("the pin is 1"), json!({"pin": "1"}));
        let (masked, hidden) = (json!({"pin": "***"}), json!("***"));
        for (data, structured, is_error, has_output, expected) in [
            (&text_data, None, false, true, Some(&hidden)),
            (&object_data, None, false, true, Some(&masked)),
            (&object_data, Some(&object_data), false, true, Some(&masked)),
            (&object_data, Some(&object_data), true, true, Some(&hidden)),
            (&text_data, None, true, false, Some(&hidden)),
            (&text_data, None, false, false, None),
        ] {
            let schema = if has_output { secret() } else { Schema::unknown() };
            let operation = operation("t.op", secret(), schema);
            let mut meta = McpMeta::new(vec![toolpost::ContentBlock::text("the pin is 1")]);
            (meta.structured_content, meta.is_error) = (structured.cloned(), is_error);
            let mut envelope = Envelope::local(Payload::from(data.clone()), "t.op");
            envelope.meta = Meta::Mcp(Box::new(meta));
            let written = output_by_schema(Some(&operation), &envelope);
            assert_eq!(written.as_ref().map(|written| &written["data"]), expected, "{data}");
            if let Some(written) = written {
                assert!(!written.to_string().contains('1'), "{written}");
            }
        }
    }

    #[test]
    fn mask_error_hides_quoted_secrets() {
        let registry = registry();
        let issues = [Issue::new("/pin", "\"1\" is too short")];
        let body = json!({"statusCode": 400, "headers": {"x-api-key": "k"}, "body": {"pin": "1"}});
        let rejected = CallError::execution("HTTP 400 Bad Request: no such pin: 1");
        let rejected = rejected.with_details(body);
        let masked_issue = json!({"path": "/pin", "message": "***"});
        let details_with_body =
            json!({"statusCode": 400, "headers": {"x-api-key": "***"}, "body": {"pin": "1"}});
        let mut hidden = details_with_body.clone();
        hidden["body"] = MASKED.into();
        for (id, error, message_expected, expected) in [
            ("t.op", CallError::validation("no", &issues), "no", json!([masked_issue])),
            (
                "t.op",
                CallError::output_validation_failed("t.op", &issues),
                "output of t.op does not match its schema",
                json!({"issues": [masked_issue]}),
            ),
            (
                "t.op",
                CallError::execution("no").with_details(json!({"details": [{"message": "1"}]})),
                "no",
                json!({"details": [{"message": "***"}]}),
            ),
            (
                "t.open",
                CallError::new(ErrorCode::Domain("LOCKED".into()), "no")
                    .with_details(json!({"pin": "1"})),
                "no",
                json!({"pin": "***"}),
            ),
            ("t.op", rejected.clone(), "HTTP 400 Bad Request", hidden),
            ("t.open", rejected.clone(), rejected.message(), details_with_body),
            (
                "t.open",
                CallError::validation("no", &issues),
                "no",
                json!([{"path": "/pin", "message": issues[0].message}]),
            ),
        ] {
            let catalog = registry.catalog();
            let operation = catalog.get(id).map(|operation| &**operation);
            assert_eq!(error_message(operation, &error), message_expected);
            assert_eq!(error_details(operation, &error), Some(expected), "{id} {error}");
        }
    }

    #[tokio::test]
    async fn mask_error_hides_secrets_of_nested_calls() {
        let registry = Registry::new();
        let inner = async |_: Value| -> Result<Value, HandlerError> {
            let details = json!({"statusCode": 400, "body": "pin 1"});
            Err(CallError::execution("HTTP 400: pin 1").with_details(details).into())
        };
        let outer =
            async |context: toolpost::CallContext, _: Value| -> Result<Value, HandlerError> {
                Ok(build_env(&context, ["t"]).call_trusted("t.inner", json!({})).await?.data)
            };
        registry.register(Operation::query("t.inner", inner).build().unwrap()).unwrap();
        registry.register(Operation::query("t.outer", outer).build().unwrap()).unwrap();
        let error = Pipeline::new(registry.clone()).call_trusted("t.outer", json!({})).await;
        let error = error.unwrap_err();
        let catalog = registry.catalog();
        let operation = catalog.get("t.outer").map(|operation| &**operation);
        assert_eq!(error_message(operation, &error), "HTTP 400");
        let expected = json!({"statusCode": 400, "body": "***"});
        assert_eq!(error_details(operation, &error), Some(expected));
    }
}
