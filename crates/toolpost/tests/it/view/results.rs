//! The rules of results, one table each.

use std::sync::Arc;

use serde_json::{Value, json};
use toolpost::tool_envelope::Reader;
use toolpost::view::{Collector, Dialect, ERROR_META, Era, REPAIRS_META, Sent, WARNINGS_META};
use toolpost::{CallError, Envelope, Issue, Kind, OperationSpec, Outcome, Payload};

use super::world::{Gives, answer, mcp, spec, tool, write};

fn query(output: Value) -> OperationSpec {
    spec("demo.x", Kind::Query, json!(true), output)
}

fn size() -> Value {
    json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[tokio::test]
async fn data_stands_where_the_era_wants_it() {
    use Era::{Legacy, Modern};
    let object = json!({"type": "object"});
    let maybe = json!({"type": ["object", "null"]});
    for (schema, data, era, expected) in [
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
        let row = format!("{schema} {data} {era:?}");
        let answer = answer(&query(schema), Gives::Data(data.clone()), Dialect::Data, era).await;
        assert_eq!(answer.result.get("structuredContent"), expected.as_ref(), "{row}");
        assert_eq!(answer.result["content"], json!([text(&data.to_string())]), "{row}");
    }
}

#[tokio::test]
async fn what_does_not_fit_is_a_failure_with_nothing_structured() {
    for dialect in [Dialect::Data, Dialect::Envelope, Dialect::Ok] {
        for gives in
            [Gives::Data(json!({"size": "large"})), mcp(&json!({"content": [text("large")]}))]
        {
            let relayed = matches!(gives, Gives::Mcp(..));
            let answer = answer(&query(size()), gives, dialect, Era::Legacy).await;
            assert_eq!(answer.sent, Sent::DoesNotFit, "{dialect}");
            assert_eq!(answer.result["isError"], true);
            assert_eq!(answer.result.get("structuredContent"), None);
            let blocks = answer.result["content"].as_array().unwrap();
            let words = blocks[0]["text"].as_str().unwrap();
            assert!(words.contains("OUTPUT_VALIDATION_FAILED"), "{words}");
            assert_eq!(
                blocks.get(1),
                relayed.then(|| text("large")).as_ref(),
                "what it said is kept"
            );
        }
    }
}

#[tokio::test]
async fn what_a_server_said_goes_out_equal() {
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png", "newer": [1]});
    let whole =
        json!({"content": [text("t"), image], "_meta": {"a": {"b": 1}}, "newer": {"c": [null]}});
    let with = |name: &str, value: Value| {
        let mut result = whole.clone();
        result[name] = value;
        result
    };
    for (schema, result, era, expected) in [
        (json!(true), whole.clone(), Era::Legacy, whole.clone()),
        (
            json!(true),
            with("structuredContent", json!({"x": 1})),
            Era::Legacy,
            with("structuredContent", json!({"x": 1})),
        ),
        (
            json!(true),
            with("structuredContent", json!([1])),
            Era::Legacy,
            with("structuredContent", json!({"result": [1]})),
        ),
        (
            size(),
            with("structuredContent", json!({"size": 1})),
            Era::Legacy,
            with("structuredContent", json!({"size": 1})),
        ),
        (size(), with("isError", json!(true)), Era::Legacy, with("isError", json!(true))),
        (
            json!(true),
            with("toolpost/source", json!("disk")),
            Era::Legacy,
            with("source", json!("disk")),
        ),
        (json!(true), json!({"content": []}), Era::Legacy, json!({"content": []})),
        (
            json!(true),
            json!({"content": [], "nothing": null}),
            Era::Modern,
            json!({"content": [], "resultType": "complete"}),
        ),
        (
            json!(true),
            json!({"content": [], "_meta": [1]}),
            Era::Legacy,
            json!({"content": [], "_meta": {"toolpost/meta": [1]}}),
        ),
        // A failure keeps what is structured only where it is what was declared.
        (
            size(),
            json!({"content": [], "isError": true, "structuredContent": {"size": 1}}),
            Era::Legacy,
            json!({"content": [], "isError": true, "structuredContent": {"size": 1}}),
        ),
        (
            size(),
            json!({"content": [], "isError": true, "structuredContent": {"why": 1}}),
            Era::Legacy,
            json!({"content": [], "isError": true}),
        ),
    ] {
        let answer = answer(&query(schema), mcp(&result), Dialect::Data, era).await;
        assert_eq!(answer.result, expected, "{result}");
    }
}

#[tokio::test]
async fn repairs_are_told() {
    let repair = json!([{"path": "/size", "action": "converted", "from": "3", "to": 3}]);
    for dialect in Dialect::ALL {
        let local = Gives::Data(json!({"size": "3"}));
        let answer = answer(&query(size()), local, dialect, Era::Legacy).await;
        assert_eq!(answer.result["_meta"], json!({REPAIRS_META: repair}), "{dialect}");
    }
    // Another gateway before us may have repaired something too.
    let before = json!({"content": [text("t")], "structuredContent": {"size": "3"},
        "_meta": {REPAIRS_META: [{"path": "/x"}], "a": 1}});
    let answer = answer(&query(size()), mcp(&before), Dialect::Data, Era::Legacy).await;
    assert_eq!(answer.result["structuredContent"], json!({"size": 3}));
    assert_eq!(answer.result["_meta"]["a"], 1);
    assert_eq!(answer.result["_meta"][REPAIRS_META], json!([{"path": "/x"}, repair[0]]));
}

#[test]
fn errors_name_code_message_and_places() {
    let issues = [Issue::new("/a/0", "is odd"), Issue::new("", "is missing")];
    let invalid = CallError::validation("the input does not fit", &issues);
    let many: Vec<_> = (0..60).map(|n| Issue::new(format!("/{n}"), "is odd")).collect();
    let declared = CallError::new("NO_ROOM".into(), "full").with_details(json!({"left": 0}));
    for (input, error, expected) in [
        (
            json!(true),
            invalid.clone(),
            "VALIDATION_ERROR: the input does not fit\n- /a/0: is odd\n- (root): is missing",
        ),
        // The input of this one is the argument `input`.
        (
            json!({"type": "string"}),
            invalid,
            "VALIDATION_ERROR: the input does not fit\n- /input/a/0: is odd\n- /input: is missing",
        ),
        (json!(true), declared, "NO_ROOM: full\nDetails: {\"left\":0}"),
        (json!(true), CallError::timeout("too long"), "TIMEOUT: too long"),
    ] {
        let tool = tool(spec("demo.x", Kind::Query, input, size()), Dialect::Data);
        let answer = write(&tool, Era::Legacy, Err(error.clone()));
        assert_eq!(answer.result["content"], json!([text(expected)]));
        assert_eq!(answer.result.get("structuredContent"), None);
        let kept = &answer.result["_meta"][ERROR_META];
        assert_eq!(
            (&kept["code"], &kept["message"]),
            (&json!(error.code().as_str()), &json!(error.message()))
        );
        assert_eq!(kept.get("details").is_some(), error.details().is_some());
    }
    let tool = tool(query(size()), Dialect::Data);
    let answer = write(&tool, Era::Legacy, Err(CallError::validation("no", &many)));
    assert!(
        answer.result["content"][0]["text"]
            .as_str()
            .unwrap()
            .ends_with("- /49: is odd\n- … and 10 more")
    );
}

#[tokio::test]
async fn the_dialect_ok_never_says_ok_of_a_failure() {
    let place = json!({"path": "/a", "message": "is odd"});
    let invalid = CallError::validation("no", &[Issue::new("/a", "is odd")]);
    let failed = json!({"content": [text("no such file")], "isError": true});
    let failed_details = json!({"isError": true, "content": [text("no such file")]});
    for (gives, expected) in [
        (Gives::Data(json!({"size": 1})), json!({"ok": true, "data": {"size": 1}})),
        (
            mcp(&json!({"content": [text("t")], "structuredContent": {"size": 1}})),
            json!({"ok": true, "data": {"size": 1}}),
        ),
        (
            Gives::Fails(invalid),
            json!({"ok": false, "error": {"code": "INVALID_PARAMS", "message": "no", "details": {"issues": [place]}}}),
        ),
        (
            Gives::Fails(CallError::execution("broken")),
            json!({"ok": false, "error": {"code": "HANDLER_ERROR", "message": "broken"}}),
        ),
        (
            Gives::Fails(CallError::overloaded("busy")),
            json!({"ok": false, "error": {"code": "OVERLOADED", "message": "busy"}}),
        ),
        (
            mcp(&failed),
            json!({"ok": false, "error": {"code": "HANDLER_ERROR", "message": "no such file", "details": failed_details}}),
        ),
    ] {
        for era in [Era::Legacy, Era::Modern] {
            let answer = answer(&query(size()), gives.clone(), Dialect::Ok, era).await;
            assert_eq!(answer.result["structuredContent"], expected);
            assert_eq!(answer.result.get("isError").is_some(), expected["ok"] == false);
            let words = answer.result["content"][0]["text"].as_str().unwrap();
            assert_eq!(serde_json::from_str::<Value>(words).unwrap(), expected);
        }
    }
}

#[tokio::test]
async fn tool_envelopes_are_read_back() {
    for (gives, payload, summary, is_error) in [
        (
            Gives::Data(json!({"size": 1})),
            json!({"size": 1}),
            "```json\n{\n  \"size\": 1\n}\n```",
            None,
        ),
        (Gives::Data(json!("plain")), json!("plain"), "plain", None),
        (
            mcp(&json!({"content": [text("one"), text("two")], "structuredContent": 5})),
            json!(5),
            "one\n\ntwo",
            None,
        ),
        (
            Gives::Fails(CallError::timeout("too long")),
            json!({"category": "timeout", "code": "TIMEOUT", "message": "too long", "recoverable": true}),
            "⏱  Timeout [TIMEOUT]: too long\n(This error may be recoverable — retry is safe.)",
            Some(true),
        ),
    ] {
        let answer = answer(&query(json!(true)), gives, Dialect::ToolEnvelopeV1, Era::Modern).await;
        assert_eq!((answer.declared, answer.result.get("structuredContent")), (None, None));
        let read = Reader::default().read_result(&answer.result).unwrap();
        assert_eq!(
            (&read.envelope.payload, read.summary, read.is_error),
            (&payload, summary, is_error)
        );
        assert_eq!(read.envelope.meta.ts(), "2025-06-17T18:30:00.000Z");
    }
    // What a server packed itself is not packed again.
    let envelope = toolpost::tool_envelope::ToolEnvelope::new(
        json!([1]),
        toolpost::tool_envelope::Meta::new("t", 0),
    );
    let packed = envelope.to_result("done").unwrap();
    let answer =
        answer(&query(json!(true)), mcp(&packed), Dialect::ToolEnvelopeV1, Era::Legacy).await;
    assert_eq!(answer.result, packed);
}

#[test]
fn a_subscription_is_the_list_of_its_values() {
    let watch = spec("demo.watch", Kind::Subscription, json!(true), json!({"type": "integer"}));
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
        let answer = write(&tool, Era::Legacy, Ok(collector.finish(&tool)));
        assert_eq!(answer.result["structuredContent"], json!({"result": [1, 2]}));
        assert_eq!(
            answer.result["_meta"][WARNINGS_META],
            json!([{"path": "", "message": "the values beyond the first 2 were left out"}])
        );
    }
    let mut collector = Collector::new(2, 1 << 20);
    collector.push(value(json!("odd").into()));
    let answer = write(&tool, Era::Modern, Ok(collector.finish(&tool)));
    assert_eq!(answer.sent, Sent::DoesNotFit);
    let none = write(&tool, Era::Modern, Ok(Collector::new(0, 1 << 20).finish(&tool)));
    assert_eq!(none.result["structuredContent"], json!([]));
}

/// Nobody looked into it, so it goes out to the byte, however deep it is.
#[test]
fn raw_payloads_go_out_as_they_came() {
    let tool = tool(query(json!(true)), Dialect::Data);
    let deep = format!("{{\"a\":  {}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    for text in ["{ \"b\":1.0,\t\"a\":[1e2] }", &deep] {
        let payload = Payload::from_json(text.to_owned()).unwrap();
        let outcome = Outcome::from(Envelope::local(payload, Arc::<str>::from("demo.x")));
        let mut result = Vec::new();
        assert_eq!(tool.write_result(&mut result, Era::Legacy, Ok(outcome)), Sent::Success);
        let result = String::from_utf8(result).unwrap();
        assert!(result.ends_with(&format!(",\"structuredContent\":{text}}}")));
    }
}

/// Up to draft 7 nothing beside a `$ref` counts, and in a list of values neither.
#[test]
fn old_references_stay_alone_inside_a_list() {
    let output = json!({"$schema": "http://json-schema.org/draft-07/schema#", "minimum": 10,
        "$ref": "#/definitions/n", "definitions": {"n": {"type": "integer"}}});
    let tool = tool(spec("demo.watch", Kind::Subscription, json!(true), output), Dialect::Data);
    let mut collector = Collector::new(9, 1 << 20);
    collector.push(Outcome::from(Envelope::local(json!(1).into(), "demo.watch")));
    assert_eq!(write(&tool, Era::Modern, Ok(collector.finish(&tool))).sent, Sent::Success);
}
