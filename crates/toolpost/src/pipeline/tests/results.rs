//! Tests of the result stage: detection, wrapping, pass-through, warnings and rejections.

use super::*;
use crate::envelope::{ContentBlock, HttpMeta, McpMeta};
use crate::operation::{OutputPolicy, ResultPolicy};
use crate::schema::Schema;

fn schema() -> Schema {
    Schema::new(
        json!({"type": "object", "properties": {"n": {"type": "array"}}, "required": ["n"]}),
    )
    .unwrap()
}

fn operation_returning(
    output: impl Fn() -> HandlerOutput + Send + Sync + 'static,
) -> OperationBuilder {
    let output = Arc::new(output);
    let handler = Handler::once_fn(move |_, _| {
        let output = Arc::clone(&output);
        async move { Ok(output()) }
    });
    Operation::from_spec(spec("t.op", OperationKind::Query)).handler(handler)
}

async fn outcome(operation: OperationBuilder) -> Result<Outcome, CallError> {
    let pipeline = Pipeline::new(registry([operation]));
    pipeline.call(CallRequest::new("t.op", json!({})), trusted()).await
}

#[tokio::test]
async fn envelope_detection_applies_only_to_dynamic_output() {
    let wire =
        || json!({"data": 1, "meta": {"source": "local", "operationId": "far.op", "timestamp": 5}});
    let typed =
        outcome(operation_returning(move || HandlerOutput::Data(wire().into()))).await.unwrap();
    assert_eq!(typed.envelope.into_value().unwrap().data, wire());
    let text = move || Payload::from_json(wire().to_string()).unwrap();
    for dynamic in [
        outcome(operation_returning(move || HandlerOutput::dynamic(wire()))).await,
        outcome(operation_returning(move || HandlerOutput::Dynamic(text()))).await,
    ] {
        assert_eq!(serde_json::to_value(dynamic.unwrap()).unwrap(), wire());
    }
}

/// Returns the JSON of a result without the timestamp in its meta.
fn without_timestamp(result: &impl Serialize) -> Value {
    let mut result = serde_json::to_value(result).unwrap();
    let timestamp = result["meta"].as_object_mut().unwrap().shift_remove("timestamp");
    assert!(timestamp.unwrap().is_i64());
    result
}

#[tokio::test]
async fn adapter_envelope_gets_operation_id_and_timestamp() {
    let http = || HttpMeta::new(201, [("X-A", "1"), ("x-a", "2"), ("Set-Cookie", "c=1")]);
    let result = operation_returning(move || {
        HandlerOutput::Envelope(Envelope::http(json!(null).into(), http()))
    });
    let mut expected = json!({"data": null, "meta": {"source": "http", "statusCode": 201,
        "headers": {"x-a": "1, 2"}, "contentType": "", "setCookie": ["c=1"]}});
    expected["meta"]["operationId"] = "t.op".into();
    assert_eq!(without_timestamp(&outcome(result).await.unwrap()), expected);
    // Each row: the id and the time in the envelope of another gateway, and the id in the result.
    for (own, id) in [
        (json!({"operationId": "far.op", "timestamp": 5}), json!("far.op")),
        (json!({"timestamp": 5}), json!("t.op")),
        (json!({"operationId": [1], "timestamp": 5}), json!([1])),
    ] {
        let mut envelope =
            json!({"data": null, "meta": {"source": "mcp", "isError": false, "content": []}});
        envelope["meta"].as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let result = operation_returning(move || HandlerOutput::dynamic(envelope.clone()));
        let meta = serde_json::to_value(outcome(result).await.unwrap()).unwrap()["meta"].take();
        assert_eq!((&meta["operationId"], &meta["timestamp"]), (&id, &json!(5)));
    }
}

#[tokio::test]
async fn output_with_schema_validates_against_that_schema() {
    let id_schema = || Schema::new(json!({"properties": {"id": {"type": "integer"}}})).unwrap();
    let data = || json!({"id": "7", "n": 1}).into();
    let shaped = move || {
        let meta = HttpMeta::new(200, [("content-type", "application/json")]);
        HandlerOutput::WithSchema(Envelope::http(data(), meta), id_schema())
    };
    let result =
        outcome(operation_returning(shaped).schemas(Schema::unknown(), schema())).await.unwrap();
    assert!(result.warnings().is_empty());
    assert_eq!(result.envelope.into_value().unwrap().data, json!({"id": 7}));
}

/// Each row: the policy, the data, and the number of warnings or the error code.
#[tokio::test]
async fn schema_mismatch_warns_unless_enforced() {
    let (good, bad) = (json!({"n": []}), json!({"n": {}}));
    let rows = [
        (OutputPolicy::Normalize, &good, Ok(0)),
        (OutputPolicy::Normalize, &bad, Ok(1)),
        (OutputPolicy::Enforce, &good, Ok(0)),
        (OutputPolicy::Enforce, &bad, Err("OUTPUT_VALIDATION_FAILED")),
        (OutputPolicy::Raw, &bad, Ok(0)),
    ];
    for (policy, data, expected) in rows {
        let value = data.clone();
        let operation = operation_returning(move || HandlerOutput::dynamic(value.clone()))
            .schemas(Schema::unknown(), schema())
            .policy(ResultPolicy::new(policy));
        match (outcome(operation).await, expected) {
            (Ok(outcome), Ok(warnings)) => {
                assert_eq!(outcome.warnings().len(), warnings, "{policy:?}");
            }
            (Err(error), Err(code)) => {
                assert_eq!(error.code().as_str(), code);
                assert_eq!(error.details().unwrap()["issues"][0]["path"], "/n");
            }
            (outcome, _) => panic!("{policy:?} {data}: {outcome:?}"),
        }
    }
}

#[tokio::test]
async fn tool_errors_and_content_blocks_are_not_repaired() {
    let text = || vec![ContentBlock::text("no such file")];
    let blocks = || json!([{"type": "text", "text": "no such file"}]);
    let raw = |text: &str| Payload::from_json(text.to_owned()).unwrap();
    let odd = || json!({"type": "hologram", "n": []});
    let mut failure = McpMeta::new(text());
    failure.is_error = true;
    let mut structured = McpMeta::new(text());
    structured.structured_content = Some(json!({"n": []}));
    let rows: [(&str, Envelope<Payload>, usize); 6] = [
        ("blocks as text", Envelope::mcp(raw(&blocks().to_string()), McpMeta::new(text())), 1),
        (
            "a block of an unknown type",
            Envelope::mcp(
                json!([odd()]).into(),
                McpMeta::new(vec![ContentBlock::from_value(odd())]),
            ),
            1,
        ),
        ("a failure", Envelope::mcp(blocks().into(), failure), 0),
        ("blocks only", Envelope::mcp(blocks().into(), McpMeta::new(text())), 1),
        ("structured", Envelope::mcp(json!({"n": []}).into(), structured), 0),
        ("json text", Envelope::mcp(json!({"n": 5}).into(), McpMeta::new(text())), 1),
    ];
    for (name, envelope, warnings) in rows {
        let mut before = serde_json::to_value(&envelope).unwrap();
        before["meta"]["operationId"] = "t.op".into();
        for (policy, rejected) in
            [(OutputPolicy::Normalize, false), (OutputPolicy::Enforce, warnings > 0)]
        {
            let envelope = envelope.clone();
            let operation = operation_returning(move || HandlerOutput::Envelope(envelope.clone()))
                .schemas(Schema::unknown(), schema())
                .policy(ResultPolicy::new(policy));
            match outcome(operation).await {
                Ok(outcome) => {
                    assert!(!rejected, "{name} {policy:?}");
                    assert_eq!(outcome.warnings().len(), warnings, "{name} {policy:?}");
                    assert_eq!(without_timestamp(&outcome.envelope), before, "{name}");
                }
                Err(error) => {
                    assert!(rejected, "{name} {policy:?}: {error}");
                    assert_eq!(error.code().as_str(), "OUTPUT_VALIDATION_FAILED");
                }
            }
        }
    }
}

#[tokio::test]
async fn unparsed_output_is_returned_byte_for_byte() {
    let text = "{ \"a\" :1.00 }";
    let operation = operation_returning(move || {
        HandlerOutput::Dynamic(Payload::from_json(text.to_owned()).unwrap())
    });
    let outcome = outcome(operation).await.unwrap();
    assert_eq!(serde_json::to_string(&outcome.envelope.data).unwrap(), text);
}

#[tokio::test]
async fn invalid_schema_warns_on_output_and_fails_on_input() {
    let broken = || Schema::new(json!({"type": "nonsense"})).unwrap();
    let operation = operation_returning(|| HandlerOutput::dynamic(json!(1)));
    let warned = outcome(operation.schemas(Schema::unknown(), broken())).await.unwrap();
    assert!(warned.warnings()[0].message.contains("does not compile"), "{:?}", warned.warnings());
    let operation = operation_returning(|| HandlerOutput::dynamic(json!(1)));
    let error = outcome(operation.schemas(broken(), Schema::unknown())).await.unwrap_err();
    assert_eq!(error.code().as_str(), "EXECUTION_ERROR");
}

#[tokio::test]
async fn cast_records_repairs_and_warns_on_invented_values() {
    use crate::schema::RepairAction::{Converted, Defaulted, Invented, Replaced, Stripped};

    let schema = || {
        let properties = json!({
            "id": {"type": "integer"},
            "name": {"type": "string"},
            "role": {"type": "string", "default": "guest"},
        });
        let required = ["id", "name", "role"];
        Schema::new(json!({"type": "object", "properties": properties, "required": required}))
            .unwrap()
    };
    let data = json!({"id": "42", "extra": 1});
    let rows: [(ResultPolicy, Value, &[_], &[&str]); 3] = [
        (
            ResultPolicy::default(),
            json!({"id": 42, "role": "guest"}),
            &[Converted, Stripped, Defaulted],
            &["/name"],
        ),
        (
            ResultPolicy::default().keep_extras(),
            json!({"id": 42, "extra": 1, "role": "guest"}),
            &[Converted, Defaulted],
            &["/name"],
        ),
        (
            ResultPolicy::new(OutputPolicy::Cast),
            json!({"id": 0, "name": "", "role": "guest"}),
            &[Stripped, Replaced, Invented, Defaulted],
            &["/id", "/name"],
        ),
    ];
    for (policy, expected, actions, warnings) in rows {
        let data = data.clone();
        let operation = operation_returning(move || HandlerOutput::dynamic(data.clone()))
            .schemas(Schema::unknown(), schema())
            .policy(policy);
        let outcome = outcome(operation).await.unwrap();
        let mut found: Vec<_> = outcome.repairs().iter().map(|repair| repair.action).collect();
        let mut actions = actions.to_vec();
        found.sort_by_key(|action| format!("{action:?}"));
        actions.sort_by_key(|action| format!("{action:?}"));
        assert_eq!(found, actions, "{policy:?}");
        let paths: Vec<_> =
            outcome.warnings().iter().map(|warning| warning.path.as_str()).collect();
        assert_eq!(paths, warnings, "{policy:?}");
        assert_eq!(outcome.envelope.into_value().unwrap().data, expected, "{policy:?}");
    }
}
