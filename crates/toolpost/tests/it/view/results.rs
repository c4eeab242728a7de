//! Rules for tool results, one table per rule.

use std::sync::Arc;

use serde_json::{Value, json};
use toolpost::tool_envelope::{EnvelopeReader, ToolEnvelope, ToolEnvelopeMeta};
use toolpost::view::{
    Collector, Dialect, ERROR_META, ProtocolGeneration, REPAIRS_META, ResultStatus, WARNINGS_META,
    WRAPPED_META,
};
use toolpost::{
    CallError, Envelope, Issue, Operation, OperationKind, OperationSpec, Outcome, OutputPolicy,
    Payload,
};

use super::fixture::{
    HandlerResponse, WrittenResult, call_and_write, call_operation, call_with_policy, mcp, spec,
    tool, write,
};

fn query(output: Value) -> OperationSpec {
    spec("demo.x", OperationKind::Query, json!(true), output)
}

fn size() -> Value {
    json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[tokio::test]
async fn structured_content_shape_follows_generation() {
    use ProtocolGeneration::{Legacy, Modern};
    let object = json!({"type": "object"});
    let maybe = json!({"type": ["object", "null"]});
    for (schema, data, generation, expected) in [
        (object.clone(), json!({"a": 1}), Legacy, Some(json!({"a": 1}))),
        (object, json!({"a": 1}), Modern, Some(json!({"a": 1}))),
        (json!({"type": "array"}), json!([1]), Legacy, Some(json!({"result": [1]}))),
        (json!({"type": "array"}), json!([1]), Modern, Some(json!([1]))),
        (json!({"type": "string"}), json!("a"), Modern, Some(json!("a"))),
        (maybe.clone(), json!({"a": 1}), Legacy, Some(json!({"result": {"a": 1}}))),
        (maybe.clone(), json!(null), Legacy, Some(json!({"result": null}))),
        (maybe, json!(null), Modern, Some(json!({"result": null}))),
        (json!({"properties": {}}), json!({"a": 1}), Legacy, Some(json!({"result": {"a": 1}}))),
        (json!(true), json!({"a": 1}), Legacy, Some(json!({"a": 1}))),
        (json!(true), json!([1]), Legacy, Some(json!({"result": [1]}))),
        (json!(true), json!([1]), Modern, Some(json!([1]))),
        (json!(true), json!(null), Legacy, None),
        (json!(true), json!(null), Modern, None),
    ] {
        let row = format!("{schema} {data} {generation:?}");
        let written = call_and_write(
            &query(schema),
            HandlerResponse::Data(data.clone()),
            Dialect::Data,
            generation,
        )
        .await;
        assert_eq!(written.result.get("structuredContent"), expected.as_ref(), "{row}");
        assert_eq!(written.result["content"], json!([text(&data.to_string())]), "{row}");
    }
}

/// Each row: the output schema, the response, the dialect, and the structured content. A mismatch
/// is a success with the data, its warnings and a line of text.
#[tokio::test]
async fn mismatch_is_success_with_data_and_warnings() {
    let invalid = json!({"size": "large"});
    let relayed = json!({"content": [text("large")], "structuredContent": invalid});
    let blocks = json!({"content": [text("large")]});
    let any_of = json!({"oneOf": [size(), {"type": "object", "required": ["x"]}]});
    let wrapped = json!({"result": invalid});
    for (schema, response, dialect, expected) in [
        (size(), HandlerResponse::Data(invalid.clone()), Dialect::Data, Some(wrapped.clone())),
        (size(), mcp(&relayed), Dialect::Data, Some(wrapped)),
        (size(), mcp(&blocks), Dialect::Data, Some(json!({"result": [text("large")]}))),
        (size(), HandlerResponse::Data(json!(null)), Dialect::Data, Some(json!({"result": null}))),
        // The relaxed schema requires nothing, so the data is sent as it is.
        (size(), HandlerResponse::Data(json!({})), Dialect::Data, Some(json!({}))),
        (
            size(),
            HandlerResponse::Data(json!({"size": null})),
            Dialect::Data,
            Some(json!({"size": null})),
        ),
        (any_of, HandlerResponse::Data(json!({"y": 1})), Dialect::Data, Some(json!({"y": 1}))),
        (size(), mcp(&relayed), Dialect::Ok, Some(json!({"ok": true, "data": invalid}))),
        (
            size(),
            HandlerResponse::Data(json!(5)),
            Dialect::Ok,
            Some(json!({"ok": true, "data": 5})),
        ),
        (size(), mcp(&relayed), Dialect::ToolEnvelopeV1, None),
    ] {
        let row = format!("{schema} {dialect} {expected:?}");
        let written =
            call_and_write(&query(schema), response, dialect, ProtocolGeneration::Legacy).await;
        let WrittenResult { result, status, .. } = written;
        assert_eq!(status, ResultStatus::Success, "{row}: {result}");
        assert_eq!(result.get("isError"), None, "{row}");
        assert_eq!(result.get("structuredContent"), expected.as_ref(), "{row}");
        let warnings = result["_meta"][WARNINGS_META].as_array().unwrap();
        assert_eq!(warnings.len(), 1, "{row}: {result}");
        let is_wrapped =
            dialect == Dialect::Data && result["structuredContent"].get("result").is_some();
        assert_eq!(result["_meta"].get(WRAPPED_META), is_wrapped.then_some(&json!(true)), "{row}");
        let content = result["content"].as_array().unwrap();
        let line = match dialect {
            Dialect::ToolEnvelopeV1 => {
                assert_eq!(content.len(), 2, "{row}: {result}");
                content[0]["text"].as_str().unwrap().rsplit('\n').next().unwrap()
            }
            _ => content.last().unwrap()["text"].as_str().unwrap(),
        };
        let message = warnings[0]["message"].as_str().unwrap();
        assert!(line.starts_with("Warning: ") && line.ends_with(message), "{row}: {line}");
    }
    let envelope = call_and_write(
        &query(size()),
        mcp(&relayed),
        Dialect::Envelope,
        ProtocolGeneration::Legacy,
    )
    .await;
    let structured = &envelope.result["structuredContent"];
    assert_eq!((&structured["data"], &structured["meta"]["source"]), (&invalid, &json!("mcp")));
}

#[tokio::test]
async fn server_tool_envelope_gets_warning_in_first_block() {
    let data = json!({"size": "large"});
    let envelope = ToolEnvelope::new(data.clone(), ToolEnvelopeMeta::new("t", 0));
    let packed = envelope.to_result("done").unwrap();
    let HandlerResponse::Mcp(_, mut meta) = mcp(&packed) else { unreachable!() };
    meta.structured_content = Some(data.clone());
    let response = HandlerResponse::Mcp(data, meta);
    let written = call_and_write(
        &query(size()),
        response,
        Dialect::ToolEnvelopeV1,
        ProtocolGeneration::Legacy,
    )
    .await;
    let content = &written.result["content"];
    let first = content[0]["text"].as_str().unwrap();
    assert!(first.starts_with("done\n\nWarning: /size: "), "{first}");
    assert_eq!(content[1], packed["content"][1]);
    assert_eq!(content.as_array().unwrap().len(), 2);
}

/// A policy `enforce` fails the call, and a local typed operation guarantees its schema. Each row: the dialect,
/// and where the data is in the structured content.
#[tokio::test]
async fn guaranteed_schema_mismatch_is_error_with_data() {
    #[derive(serde::Serialize, schemars::JsonSchema)]
    struct Size {
        #[schemars(range(max = 5))]
        size: u32,
    }
    for dialect in Dialect::ALL {
        let typed = Operation::mutation("demo.x", async |_: Value| {
            Ok::<_, toolpost::HandlerError>(Size { size: 9 })
        });
        let schema =
            json!({"type": "object", "properties": {"size": {"maximum": 5}}, "required": ["size"]});
        let mut enforced = query(schema);
        enforced.kind = OperationKind::Mutation;
        let data = json!({"size": 9});
        for written in [
            call_operation(typed.build().unwrap(), dialect).await,
            call_with_policy(
                &enforced,
                HandlerResponse::Data(data.clone()),
                dialect,
                OutputPolicy::Enforce,
            )
            .await,
        ] {
            let WrittenResult { result, output_schema, .. } = written;
            if dialect == Dialect::ToolEnvelopeV1 && result.get("isError").is_none() {
                // This dialect publishes no schema.
                assert_eq!(result["_meta"][WARNINGS_META].as_array().unwrap().len(), 1);
                continue;
            }
            assert_eq!(result["isError"], true, "{dialect}: {result}");
            let text = result["content"].to_string();
            assert!(text.contains("OUTPUT_VALIDATION_FAILED"), "{dialect}: {text}");
            let details = match dialect {
                Dialect::Ok => &result["structuredContent"]["error"]["details"],
                Dialect::ToolEnvelopeV1 => continue,
                _ => {
                    assert_eq!(result.get("structuredContent"), None, "{dialect}");
                    &result["_meta"][ERROR_META]["details"]
                }
            };
            assert_eq!((&details["data"], &details["mayHaveRun"]), (&data, &json!(true)));
            assert!(text.contains("9"), "{dialect}: {text}");
            let declared = output_schema.unwrap().to_string();
            assert!(declared.contains("\"maximum\":5"), "{declared}");
        }
    }
}

/// Each row: the policy, the output schema, and a part of the schema that is published.
#[tokio::test]
async fn published_schema_follows_policy() {
    for (policy, schema, expected) in [
        (OutputPolicy::Normalize, size(), Some("Relaxed")),
        (OutputPolicy::Enforce, size(), Some("required")),
        (OutputPolicy::Raw, size(), None),
        (OutputPolicy::Normalize, json!(true), None),
        (OutputPolicy::Enforce, json!({}), None),
    ] {
        for dialect in [Dialect::Data, Dialect::Envelope, Dialect::Ok] {
            let data = HandlerResponse::Data(json!({"size": 1}));
            let written = call_with_policy(&query(schema.clone()), data, dialect, policy).await;
            let published = written.output_schema.map(|schema| schema.to_string());
            match expected {
                None => assert_eq!(published, None, "{policy:?} {dialect} {schema}"),
                Some(part) => {
                    let published = published.unwrap();
                    assert!(published.contains(part), "{policy:?} {dialect} {published}");
                    assert_eq!(published.contains("Relaxed"), part == "Relaxed", "{published}");
                }
            }
        }
    }
    let raw = HandlerResponse::Data(json!({"size": "large"}));
    let written = call_with_policy(&query(size()), raw, Dialect::Data, OutputPolicy::Raw).await;
    assert_eq!(written.result["structuredContent"], json!({"size": "large"}));
    assert_eq!(written.result.get("_meta"), None, "nothing is checked");
}

#[tokio::test]
async fn server_result_is_relayed_unchanged() {
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png", "newer": [1]});
    let full_result =
        json!({"content": [text("t"), image], "_meta": {"a": {"b": 1}}, "newer": {"c": [null]}});
    let with = |name: &str, value: Value| {
        let mut result = full_result.clone();
        result[name] = value;
        result
    };
    for (schema, result, generation, expected) in [
        (json!(true), full_result.clone(), ProtocolGeneration::Legacy, full_result.clone()),
        (
            json!(true),
            with("structuredContent", json!({"x": 1})),
            ProtocolGeneration::Legacy,
            with("structuredContent", json!({"x": 1})),
        ),
        (json!(true), with("structuredContent", json!([1])), ProtocolGeneration::Legacy, {
            let mut wrapped = with("structuredContent", json!({"result": [1]}));
            wrapped["_meta"][WRAPPED_META] = json!(true);
            wrapped
        }),
        (
            size(),
            with("structuredContent", json!({"size": 1})),
            ProtocolGeneration::Legacy,
            with("structuredContent", json!({"size": 1})),
        ),
        (
            size(),
            with("isError", json!(true)),
            ProtocolGeneration::Legacy,
            with("isError", json!(true)),
        ),
        (
            json!(true),
            with("toolpost/source", json!("disk")),
            ProtocolGeneration::Legacy,
            with("source", json!("disk")),
        ),
        (json!(true), json!({"content": []}), ProtocolGeneration::Legacy, json!({"content": []})),
        (
            json!(true),
            json!({"content": [], "nothing": null}),
            ProtocolGeneration::Modern,
            json!({"content": [], "resultType": "complete"}),
        ),
        (
            json!(true),
            json!({"content": [], "_meta": [1]}),
            ProtocolGeneration::Legacy,
            json!({"content": [], "_meta": {"toolpost/meta": [1]}}),
        ),
        // A tool error keeps its structured content, wrapped if it does not match the schema.
        (
            size(),
            json!({"content": [], "isError": true, "structuredContent": {"size": 1}}),
            ProtocolGeneration::Legacy,
            json!({"content": [], "isError": true, "structuredContent": {"size": 1}}),
        ),
        (
            size(),
            json!({"content": [], "isError": true, "structuredContent": {"size": []}}),
            ProtocolGeneration::Legacy,
            json!({"content": [], "isError": true, "structuredContent": {"result": {"size": []}},
                "_meta": {WRAPPED_META: true}}),
        ),
    ] {
        let written = call_and_write(&query(schema), mcp(&result), Dialect::Data, generation).await;
        assert_eq!(written.result, expected, "{result}");
    }
}

#[tokio::test]
async fn repairs_are_reported_in_meta() {
    let repair = json!([{"path": "/size", "action": "converted", "from": "3", "to": 3}]);
    for dialect in Dialect::ALL {
        let local = HandlerResponse::Data(json!({"size": "3"}));
        let written =
            call_and_write(&query(size()), local, dialect, ProtocolGeneration::Legacy).await;
        assert_eq!(written.result["_meta"], json!({REPAIRS_META: repair}), "{dialect}");
    }
    // Repairs of an upstream gateway are kept.
    let before = json!({"content": [text("t")], "structuredContent": {"size": "3"},
        "_meta": {REPAIRS_META: [{"path": "/x"}], "a": 1}});
    let written =
        call_and_write(&query(size()), mcp(&before), Dialect::Data, ProtocolGeneration::Legacy)
            .await;
    assert_eq!(written.result["structuredContent"], json!({"size": 3}));
    assert_eq!(written.result["_meta"]["a"], 1);
    assert_eq!(written.result["_meta"][REPAIRS_META], json!([{"path": "/x"}, repair[0]]));
}

#[test]
fn error_text_lists_code_message_and_paths() {
    let issues = [Issue::new("/a/0", "is odd"), Issue::new("", "is missing")];
    let invalid = CallError::validation("invalid input", &issues);
    let many: Vec<_> = (0..60).map(|n| Issue::new(format!("/{n}"), "is odd")).collect();
    let declared = CallError::new("NO_ROOM".into(), "full").with_details(json!({"left": 0}));
    for (input, error, expected) in [
        (
            json!(true),
            invalid.clone(),
            "VALIDATION_ERROR: invalid input\n- /a/0: is odd\n- (root): is missing",
        ),
        // The input is the argument `input`, so issue paths start with `/input`.
        (
            json!({"type": "string"}),
            invalid,
            "VALIDATION_ERROR: invalid input\n- /input/a/0: is odd\n- /input: is missing",
        ),
        (json!(true), declared, "NO_ROOM: full\nDetails: {\"left\":0}"),
        (json!(true), CallError::timeout("too long"), "TIMEOUT: too long"),
    ] {
        let tool = tool(spec("demo.x", OperationKind::Query, input, size()), Dialect::Data);
        let written = write(&tool, ProtocolGeneration::Legacy, Err(error.clone()));
        assert_eq!(written.result["content"], json!([text(expected)]));
        assert_eq!(written.result.get("structuredContent"), None);
        let error_meta = &written.result["_meta"][ERROR_META];
        assert_eq!(
            (&error_meta["code"], &error_meta["message"]),
            (&json!(error.code().as_str()), &json!(error.message()))
        );
        assert_eq!(error_meta.get("details").is_some(), error.details().is_some());
    }
    let tool = tool(query(size()), Dialect::Data);
    let written = write(&tool, ProtocolGeneration::Legacy, Err(CallError::validation("no", &many)));
    assert!(
        written.result["content"][0]["text"]
            .as_str()
            .unwrap()
            .ends_with("- /49: is odd\n- … and 10 more")
    );
}

#[tokio::test]
async fn ok_dialect_reports_failures_as_not_ok() {
    let issue = json!({"path": "/a", "message": "is odd"});
    let invalid = CallError::validation("no", &[Issue::new("/a", "is odd")]);
    let failed = json!({"content": [text("no such file")], "isError": true});
    let failed_details = json!({"isError": true, "content": [text("no such file")]});
    for (response, expected) in [
        (HandlerResponse::Data(json!({"size": 1})), json!({"ok": true, "data": {"size": 1}})),
        (
            mcp(&json!({"content": [text("t")], "structuredContent": {"size": 1}})),
            json!({"ok": true, "data": {"size": 1}}),
        ),
        (
            HandlerResponse::Error(invalid),
            json!({"ok": false, "error": {"code": "INVALID_PARAMS", "message": "no", "details": {"issues": [issue]}}}),
        ),
        (
            HandlerResponse::Error(CallError::execution("broken")),
            json!({"ok": false, "error": {"code": "HANDLER_ERROR", "message": "broken"}}),
        ),
        (
            HandlerResponse::Error(CallError::overloaded("busy")),
            json!({"ok": false, "error": {"code": "OVERLOADED", "message": "busy"}}),
        ),
        (
            mcp(&failed),
            json!({"ok": false, "error": {"code": "HANDLER_ERROR", "message": "no such file", "details": failed_details}}),
        ),
    ] {
        for generation in [ProtocolGeneration::Legacy, ProtocolGeneration::Modern] {
            let written =
                call_and_write(&query(size()), response.clone(), Dialect::Ok, generation).await;
            assert_eq!(written.result["structuredContent"], expected);
            assert_eq!(written.result.get("isError").is_some(), expected["ok"] == false);
            let text_block = written.result["content"][0]["text"].as_str().unwrap();
            assert_eq!(serde_json::from_str::<Value>(text_block).unwrap(), expected);
        }
    }
}

#[tokio::test]
async fn tool_envelope_dialect_round_trips() {
    for (response, payload, summary, is_error) in [
        (
            HandlerResponse::Data(json!({"size": 1})),
            json!({"size": 1}),
            "```json\n{\n  \"size\": 1\n}\n```",
            None,
        ),
        (HandlerResponse::Data(json!("plain")), json!("plain"), "plain", None),
        (
            mcp(&json!({"content": [text("one"), text("two")], "structuredContent": 5})),
            json!(5),
            "one\n\ntwo",
            None,
        ),
        (
            HandlerResponse::Error(CallError::timeout("too long")),
            json!({"category": "timeout", "code": "TIMEOUT", "message": "too long", "recoverable": true,
                "suggestedAction": "Call again."}),
            "⏱  Timeout [TIMEOUT]: too long\nSuggestion: Call again.\n(This error may be recoverable — retry is safe.)",
            Some(true),
        ),
    ] {
        let written = call_and_write(
            &query(json!(true)),
            response,
            Dialect::ToolEnvelopeV1,
            ProtocolGeneration::Modern,
        )
        .await;
        assert_eq!((written.output_schema, written.result.get("structuredContent")), (None, None));
        let read = EnvelopeReader::default().read_result(&written.result).unwrap();
        assert_eq!(
            (&read.envelope.payload, read.summary, read.is_error),
            (&payload, summary, is_error)
        );
        assert_eq!(read.envelope.meta.ts(), "2025-06-17T18:30:00.000Z");
    }
    // A ToolEnvelope created by the server is relayed unchanged.
    let envelope = ToolEnvelope::new(json!([1]), ToolEnvelopeMeta::new("t", 0));
    let packed = envelope.to_result("done").unwrap();
    let written = call_and_write(
        &query(json!(true)),
        mcp(&packed),
        Dialect::ToolEnvelopeV1,
        ProtocolGeneration::Legacy,
    )
    .await;
    assert_eq!(written.result, packed);
}

#[test]
fn subscription_result_is_list_of_values() {
    let watch =
        spec("demo.watch", OperationKind::Subscription, json!(true), json!({"type": "integer"}));
    let tool = tool(watch, Dialect::Data);
    let value = |value: Payload| Outcome::from(Envelope::local(value, "demo.watch"));
    for raw in [false, true] {
        let mut collector = Collector::new(2, 1 << 20);
        for number in 1..=4 {
            let payload = match raw {
                true => Payload::from_json(number.to_string()).unwrap(),
                false => json!(number).into(),
            };
            collector.push(value(payload));
        }
        assert!(collector.is_full());
        let written = write(&tool, ProtocolGeneration::Legacy, Ok(collector.finish(&tool)));
        assert_eq!(written.result["structuredContent"], json!({"result": [1, 2]}));
        assert_eq!(
            written.result["_meta"][WARNINGS_META],
            json!([{"path": "", "message": "values after the first 2 were omitted"}])
        );
    }
    let mut collector = Collector::new(2, 1 << 20);
    collector.push(value(json!("odd").into()));
    let written = write(&tool, ProtocolGeneration::Modern, Ok(collector.finish(&tool)));
    assert_eq!(written.status, ResultStatus::Success);
    assert_eq!(written.result["structuredContent"], json!({"result": ["odd"]}));
    let none =
        write(&tool, ProtocolGeneration::Modern, Ok(Collector::new(0, 1 << 20).finish(&tool)));
    assert_eq!(none.result["structuredContent"], json!([]));
}

/// A payload that was never parsed is written byte for byte, at any nesting depth.
#[test]
fn raw_payload_is_written_byte_for_byte() {
    let tool = tool(query(json!(true)), Dialect::Data);
    let deep = format!("{{\"a\":  {}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    for text in ["{ \"b\":1.0,\t\"a\":[1e2] }", &deep] {
        let payload = Payload::from_json(text.to_owned()).unwrap();
        let outcome = Outcome::from(Envelope::local(payload, Arc::<str>::from("demo.x")));
        let mut result = Vec::new();
        assert_eq!(
            tool.write_result(&mut result, ProtocolGeneration::Legacy, Ok(outcome)),
            ResultStatus::Success
        );
        let result = String::from_utf8(result).unwrap();
        assert!(result.ends_with(&format!(",\"structuredContent\":{text}}}")));
    }
}

/// Draft 7 ignores siblings of `$ref`, also when the schema is embedded in the list schema of a
/// subscription.
#[test]
fn draft_7_ref_ignores_siblings_in_subscription_list() {
    let output = json!({"$schema": "http://json-schema.org/draft-07/schema#", "minimum": 10,
        "$ref": "#/definitions/n", "definitions": {"n": {"type": "integer"}}});
    let tool =
        tool(spec("demo.watch", OperationKind::Subscription, json!(true), output), Dialect::Data);
    let mut collector = Collector::new(9, 1 << 20);
    collector.push(Outcome::from(Envelope::local(json!(1).into(), "demo.watch")));
    assert_eq!(
        write(&tool, ProtocolGeneration::Modern, Ok(collector.finish(&tool))).status,
        ResultStatus::Success
    );
}
