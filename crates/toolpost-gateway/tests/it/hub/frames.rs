//! Invalid frames and unexpected events do not affect other peers.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use toolpost::{Handler, HandlerOutput, Operation, OperationKind, OperationSpec, Schema};
use toolpost_gateway::GatewaySettings;

use super::super::{TestGateway, client};
use super::{
    HubClient, control_event, event_json, request_event, response_event, spec, start_open_gateway,
    stop_gateway,
};

/// Each row: a frame, and the id, the code and part of the message of the expected error.
#[tokio::test]
async fn invalid_frame_returns_error_and_keeps_connection() {
    let running = start_open_gateway().await;
    let invalid = "VALIDATION_ERROR";
    let text = |text: &str| Message::text(text);
    let event = |frame: Value| Message::text(frame.to_string());
    let rows = [
        (Message::binary(vec![1, 2, 3]), "", invalid, "frames are text"),
        (Message::binary(r#"{"type":"call.completed"}"#), "", invalid, "frames are text"),
        (text(""), "", invalid, "not JSON"),
        (text("nonsense"), "", invalid, "not JSON"),
        (text("[]"), "", invalid, "a frame is a JSON object"),
        (text("null"), "", invalid, "a frame is a JSON object"),
        (text(r#"{"type":1,"id":"7","payload":{}}"#), "7", invalid, "`type` must be a string"),
        (text(r#"{"type":"call.requested","id":7,"payload":{}}"#), "", invalid, "`id` must be"),
        (text(r#"{"type":"call.requested","id":"7"}"#), "7", invalid, "`payload` is missing"),
        (event(event_json("call.requested", "7", &json!({}))), "7", invalid, "operationId"),
        (
            event(event_json("call.requested", "7", &json!({"operationId": 5}))),
            "7",
            invalid,
            "string",
        ),
        (event(request_event("", "demo.add", &json!({}))), "", invalid, "`id` is empty"),
        (event(event_json("call.responded", "7", &json!({"output": 5}))), "7", invalid, "envelope"),
        (event(event_json("call.error", "7", &json!({"code": 5}))), "7", invalid, "call.error"),
        (event(event_json("weather.changed", "7", &json!({}))), "7", invalid, "unknown type"),
        (event(event_json("call.requestd", "7", &json!({}))), "7", invalid, "did you mean"),
        (event(control_event("__reboot", &json!({}))), "", invalid, "unknown type"),
        (event(control_event("__subscribe", &json!({"topic": "all"}))), "", invalid, "a topic is"),
        (event(control_event("__subscribe", &json!({}))), "", invalid, "missing field `topic`"),
        (
            event(control_event("__unsubscribe", &json!({"topic": "call.responded:1"}))),
            "",
            invalid,
            "not subscribed",
        ),
        (
            event(request_event("7", "demo.none", &json!({}))),
            "7",
            "OPERATION_NOT_FOUND",
            "demo.none",
        ),
        (
            event(request_event("7", "demo.add", &json!({}))),
            "7",
            invalid,
            "invalid input for demo.add",
        ),
    ];
    for (message, id, code, expected_message) in rows {
        let row = format!("{message:?}");
        // Sent as the first and as a later frame of a connection.
        let mut raw = HubClient::connect(running.address).await;
        for _ in 0..2 {
            raw.send(message.clone()).await;
            let (about, error_code, why) = raw.recv_error().await;
            assert_eq!((&*about, &*error_code), (id, code), "{row}");
            assert!(why.contains(expected_message), "{row}: {why}");
            raw.assert_works(&row).await;
        }
    }
    assert!(running.stop().await.in_time);
}

/// Each row: the property with a mismatch, and a part of its message. Messages and repairs are masked
/// if the schema has secrets, as in the journal.
#[tokio::test]
async fn response_event_carries_warnings() {
    let operation = |name: &str, secret: Value| {
        let id = format!("odd.{name}").parse().unwrap();
        let mut spec = OperationSpec::new(&id, OperationKind::Mutation);
        let properties =
            json!({"id": {"type": "integer"}, "n": {"type": "integer"}, "pin": secret});
        spec.output_schema = Schema::new(json!({"properties": properties})).unwrap();
        let data = json!({"id": "A-7", "n": "5", "pin": "1234"});
        let handler = Handler::once_fn(move |_, _| {
            std::future::ready(Ok(HandlerOutput::Data(data.clone().into())))
        });
        Operation::from_spec(spec).handler(handler).build().unwrap()
    };
    let operations = [
        operation("plain", json!({"type": "string"})),
        operation("secret", json!({"type": "string", "format": "password"})),
    ];
    let running = TestGateway::start_with(operations, GatewaySettings::default()).await;
    let mut raw = HubClient::connect(running.address).await;
    for (id, message, to) in [("odd.plain", "A-7", json!(5)), ("odd.secret", "***", json!("***"))] {
        for (called, input) in [(id, json!({})), ("hub.call", json!({"id": id, "input": {}}))] {
            raw.send_json(&request_event("7", called, &input)).await;
            let event = raw.recv_event().await;
            assert_eq!(event["type"], "call.responded", "{event}");
            let payload = &event["payload"];
            assert_eq!(payload["output"]["data"], json!({"id": "A-7", "n": 5, "pin": "1234"}));
            let [warning] = payload["warnings"].as_array().unwrap().as_slice() else {
                panic!("{event}")
            };
            assert_eq!(warning["path"], "/id", "{event}");
            assert!(warning["message"].as_str().unwrap().contains(message), "{event}");
            assert_eq!(payload["repairs"][0]["to"], to, "{event}");
        }
    }
    stop_gateway(running, raw).await;
}

/// Each row: the output that a spoke responds with, and the reason of the error.
#[tokio::test]
async fn bare_value_of_a_spoke_is_explained_to_both_sides() {
    let running = start_open_gateway().await;
    let mut spoke = HubClient::connect(running.address).await;
    spoke.register("box", &json!([spec("math", "add", "query")])).await.unwrap();
    let missing_meta = "missing field `meta`";
    for (output, reason) in [
        (json!({"output": 5}), "invalid type: integer `5`, expected an object"),
        (json!({"output": "five"}), "invalid type: string \"five\", expected an object"),
        (json!({"output": true}), "invalid type: boolean `true`, expected an object"),
        (json!({"output": null}), "it is missing or null"),
        (json!({"output": {"sum": 5}}), missing_meta),
        (json!({"output": {"data": 5}}), missing_meta),
        (
            json!({"output": {"data": 5, "meta": 1}}),
            "invalid type: integer `1`, expected an object",
        ),
        (json!({"output": {"data": 5, "meta": {"source": "box"}}}), "`source` must be local"),
        (json!({}), "it is missing or null"),
    ] {
        let (response, event) = call_spoke(&running, &mut spoke, &output).await;
        assert_eq!(response.status(), 502, "{output}");
        let problem: Value = response.json().await.unwrap();
        assert_eq!(problem["error"]["code"], "EXECUTION_ERROR", "{problem}");
        assert_eq!(
            (&event["type"], &event["payload"]["code"]),
            (&json!("call.error"), &json!("VALIDATION_ERROR"))
        );
        for message in [&problem["error"]["message"], &event["payload"]["message"]] {
            let message = message.as_str().unwrap();
            assert!(message.contains(reason), "{output}: {message}");
            let explanation =
                r#"an envelope is an object with `data` and `meta`, such as {"data": 5, "#;
            assert!(message.contains(explanation), "{output}: {message}");
            assert!(!message.contains("struct"), "{output}: {message}");
        }
    }
    stop_gateway(running, spoke).await;
}

#[tokio::test]
async fn envelope_of_a_spoke_without_data_is_null() {
    let running = start_open_gateway().await;
    let mut spoke = HubClient::connect(running.address).await;
    spoke.register("box", &json!([spec("math", "add", "query")])).await.unwrap();
    let http = json!({"source": "http", "statusCode": 204, "headers": {}, "contentType": ""});
    for meta in [json!({"source": "local", "operationId": "math.add", "timestamp": 1}), http] {
        let output = json!({"output": {"meta": meta}});
        let (response, event) = call_spoke(&running, &mut spoke, &output).await;
        assert_eq!(response.status(), 200, "{output}");
        let envelope: Value = response.json().await.unwrap();
        assert_eq!(
            (&envelope["data"], &envelope["meta"]["source"]),
            (&Value::Null, &meta["source"])
        );
        assert_eq!(event, Value::Null);
    }
    stop_gateway(running, spoke).await;
}

/// Each row: the metadata of a spoke, and the operation in the response.
#[tokio::test]
async fn meta_of_a_spoke_has_operation_id_and_timestamp() {
    let running = start_open_gateway().await;
    let mut spoke = HubClient::connect(running.address).await;
    spoke.register("box", &json!([spec("math", "add", "query")])).await.unwrap();
    let http = json!({"source": "http", "statusCode": 200, "headers": {}, "contentType": ""});
    let mcp = json!({"source": "mcp", "isError": false, "content": []});
    let local = json!({"source": "local", "operationId": "math.add", "timestamp": 1});
    for (meta, operation) in [(http, "box.math.add"), (mcp, "box.math.add"), (local, "math.add")] {
        let output = json!({"output": {"data": 1, "meta": meta}});
        let (response, _) = call_spoke(&running, &mut spoke, &output).await;
        let envelope: Value = response.json().await.unwrap();
        assert_eq!(envelope["meta"]["operationId"], operation, "{envelope}");
        assert!(envelope["meta"]["timestamp"].as_i64().unwrap() > 0, "{envelope}");
    }
    stop_gateway(running, spoke).await;
}

/// Calls the operation of a spoke, which responds with these members. Returns the response over
/// HTTP and the error that the spoke gets, if any.
async fn call_spoke(
    running: &TestGateway,
    spoke: &mut HubClient,
    members: &Value,
) -> (reqwest::Response, Value) {
    let url = running.url("/api/box/math.add?envelope=true");
    let calling = tokio::spawn(client().post(url).json(&json!({})).send());
    let request = spoke.recv_event().await;
    assert_eq!(request["type"], "call.requested", "{request}");
    spoke.send_json(&event_json("call.responded", request["id"].as_str().unwrap(), members)).await;
    let response = calling.await.unwrap().unwrap();
    let error = match response.status().is_success() {
        true => Value::Null,
        false => spoke.recv_event().await,
    };
    spoke.assert_works("after the response").await;
    (response, error)
}

/// The messages use the terms of JSON, not the names and types of the implementation.
#[tokio::test]
async fn frame_errors_name_no_internal_types() {
    let running = start_open_gateway().await;
    let mut raw = HubClient::connect(running.address).await;
    let payload = |kind: &str, payload: Value| json!({"type": kind, "id": "7", "payload": payload});
    let request = |name: &str, value: Value| {
        event_json("call.requested", "7", &json!({"operationId": "demo.add", name: value}))
    };
    let mut frames = vec![
        request("deadline", json!("soon")),
        request("timeoutMs", json!([])),
        request("window", json!(-1)),
        request("identity", json!(5)),
        request("identity", json!({"id": "a", "scopes": 5})),
        request("metadata", json!("x")),
        event_json("call.progress", "7", &json!({"progress": "half"})),
        event_json("call.responded", "7", &json!({"output": 5})),
        event_json(
            "call.responded",
            "7",
            &json!({"output": {"data": 1, "meta": []}, "repairs": 5}),
        ),
        event_json("call.error", "7", &json!({"code": 5, "message": "m"})),
        control_event("__more", &json!({"requestId": "7", "count": "many"})),
    ];
    let kinds = [
        "call.requested",
        "call.responded",
        "call.progress",
        "call.completed",
        "call.aborted",
        "call.error",
    ];
    for kind in kinds.into_iter().chain(["__auth", "__subscribe", "__more"]) {
        frames.extend(
            [json!(5), json!("x"), json!([]), json!([1, 2, 3]), json!(null)]
                .map(|wrong| payload(kind, wrong)),
        );
    }
    for frame in frames {
        raw.send_json(&frame).await;
        let (_, _, message) = raw.recv_error().await;
        assert_names_no_internal_type(&message, &frame.to_string());
    }
    for specs in [json!(5), json!([5]), json!([{"namespace": 5}]), json!([{"type": []}])] {
        raw.send_json(&request_event(
            "r",
            "hub.register",
            &json!({"name": "box", "operations": specs}),
        ))
        .await;
        let event = raw.recv_event().await;
        assert_names_no_internal_type(&event.to_string(), &specs.to_string());
    }
    stop_gateway(running, raw).await;
}

fn assert_names_no_internal_type(message: &str, row: &str) {
    let is_internal = |word: &str| {
        let is_number =
            word.strip_prefix(['u', 'i', 'f']).is_some_and(|bits| bits.parse::<u8>().is_ok());
        is_number || ["struct", "enum", "tuple", "usize", "sequence", "map", "unit"].contains(&word)
    };
    let mut words = message.split(|character: char| !character.is_ascii_alphanumeric());
    assert_eq!(words.find(|word| is_internal(word)), None, "{row}: {message}");
}

#[tokio::test]
async fn unsolicited_events_are_ignored() {
    let running = start_open_gateway().await;
    let error = json!({"code": "TIMEOUT", "message": "m"});
    let rows = [
        event_json("call.completed", "7", &json!({})),
        event_json("call.aborted", "7", &json!({"reason": "enough"})),
        event_json("call.progress", "7", &json!({"progress": 1})),
        event_json("call.error", "7", &error),
        event_json("call.error", "", &error),
        control_event("__more", &json!({"requestId": "7", "count": 5})),
        control_event("__subscribe", &json!({"topic": "call.responded:7"})),
    ];
    for frame in rows {
        let mut raw = HubClient::connect(running.address).await;
        for _ in 0..2 {
            raw.send_json(&frame).await;
            raw.assert_works(&frame.to_string()).await;
        }
    }
    let mut raw = HubClient::connect(running.address).await;
    raw.send_json(&response_event("7", &json!(1))).await;
    let abort_event = raw.recv_event().await;
    assert_eq!(
        (&abort_event["type"], &abort_event["id"]),
        (&json!("call.aborted"), &json!("7")),
        "{abort_event}"
    );
    raw.assert_works("a value without a request").await;
    stop_gateway(running, raw).await;
}

#[tokio::test]
async fn oversized_frame_closes_with_1009() {
    let mut settings = GatewaySettings::default();
    settings.websocket.max_frame_bytes = 2_000;
    let running = TestGateway::start_with([], settings).await;
    let large = "x".repeat(2_001);
    for earlier in 0..3 {
        let mut raw = HubClient::connect(running.address).await;
        for _ in 0..earlier {
            raw.assert_works("before").await;
        }
        raw.send(large.as_str()).await;
        let (code, message) = raw.recv_close().await;
        assert_eq!(code, 1009, "after {earlier} calls: {message}");
    }
    let mut raw = HubClient::connect(running.address).await;
    raw.send(&large[1..]).await;
    assert!(raw.recv_error().await.2.contains("not JSON"), "one byte less is accepted");
    raw.assert_works("another connection").await;
    stop_gateway(running, raw).await;
}

#[tokio::test]
async fn duplicate_request_id_in_flight_is_rejected() {
    let running = start_open_gateway().await;
    let mut raw = HubClient::connect(running.address).await;
    let silent = json!({"count": 2, "everyMs": 3_600_000});
    for _ in 0..2 {
        raw.send_json(&request_event("a", "demo.clock", &silent)).await;
        assert_eq!(raw.recv_event().await["type"], "call.responded");
        raw.send_json(&request_event("a", "demo.add", &json!({"a": 1, "b": 1}))).await;
        let (id, code, message) = raw.recv_error().await;
        assert_eq!((&*id, &*code), ("a", "VALIDATION_ERROR"));
        assert!(message.contains("already in use"), "{message}");
        raw.assert_works("while `a` is in use").await;
        raw.send_json(&event_json("call.aborted", "a", &json!({}))).await;
        let (id, code, _) = raw.recv_error().await;
        assert_eq!((&*id, &*code), ("a", "ABORTED"));
    }
    stop_gateway(running, raw).await;
}

#[tokio::test]
async fn topics_are_limited_and_isolated_per_connection() {
    let running = start_open_gateway().await;
    let (mut raw, mut other) =
        (HubClient::connect(running.address).await, HubClient::connect(running.address).await);
    let topic = json!({"topic": "call.responded:the-call"});
    raw.send_json(&control_event("__subscribe", &topic)).await;
    raw.send_json(&control_event("__subscribe", &topic)).await;
    raw.assert_works("subscribed").await;
    other.assert_works("it gets its own response").await;
    // The next event is the response to this call, so no event of the other peer was received.
    raw.assert_works("after the response to the other peer").await;
    for _ in 0..2 {
        raw.send_json(&control_event("__unsubscribe", &topic)).await;
        raw.assert_works("unsubscribed").await;
    }
    raw.send_json(&control_event("__unsubscribe", &topic)).await;
    let (id, code, message) = raw.recv_error().await;
    assert_eq!((&*id, &*code), ("", "VALIDATION_ERROR"));
    assert!(message.contains("not subscribed"), "{message}");
    raw.assert_works("after all").await;
    stop_gateway(running, (raw, other)).await;
}

#[tokio::test]
async fn response_from_other_peer_is_ignored() {
    let running = start_open_gateway().await;
    let mut spoke = HubClient::connect(running.address).await;
    spoke.register("box", &json!([spec("fs", "read", "query")])).await.unwrap();
    let mut other = HubClient::connect(running.address).await;
    other.register("bag", &json!([spec("fs", "read", "query")])).await.unwrap();
    let mut caller = HubClient::connect(running.address).await;
    let error = json!({"code": "TIMEOUT", "message": "m"});
    let forged = [
        event_json("call.error", "mine", &error),
        event_json("call.completed", "mine", &json!({})),
        event_json("call.aborted", "mine", &json!({})),
        event_json("call.progress", "mine", &json!({"progress": 1})),
        response_event("mine", &json!("forged")),
    ];
    for (round, forged) in forged.iter().enumerate() {
        caller.send_json(&request_event("mine", "box.fs.read", &json!({}))).await;
        let forwarded_request = spoke.recv_event().await;
        assert_eq!(forwarded_request["payload"]["operationId"], "fs.read");
        let id = forwarded_request["id"].as_str().unwrap();
        // The forged event uses the correct request id.
        let mut forged = forged.clone();
        (forged["id"], forged["payload"]["requestId"]) = (json!(id), json!(id));
        other.send_json(&forged).await;
        if forged["type"] == "call.responded" {
            assert_eq!(other.recv_event().await["type"], "call.aborted");
        }
        other.assert_works("the forged one was read").await;
        spoke.send_json(&response_event(id, &json!(round))).await;
        let response = caller.recv_event().await;
        assert_eq!(response["id"], "mine");
        assert_eq!(response["payload"]["output"]["data"], json!(round), "{forged}");
    }
    for peer in [&mut spoke, &mut other, &mut caller] {
        peer.assert_works("all of them").await;
    }
    assert_eq!(running.gateway.hub().stats().pending, 0);
    stop_gateway(running, (spoke, other, caller)).await;
}

#[tokio::test]
async fn malformed_response_fails_its_call() {
    let running = start_open_gateway().await;
    let mut spoke = HubClient::connect(running.address).await;
    spoke.register("box", &json!([spec("fs", "read", "query")])).await.unwrap();
    let mut caller = HubClient::connect(running.address).await;
    for (kind, payload) in [
        ("call.responded", json!({"output": 5})),
        ("call.responded", json!({})),
        ("call.error", json!({"code": 5, "message": "m"})),
    ] {
        caller.send_json(&request_event("mine", "box.fs.read", &json!({}))).await;
        let forwarded_request = spoke.recv_event().await;
        spoke
            .send_json(&event_json(kind, forwarded_request["id"].as_str().unwrap(), &payload))
            .await;
        assert_eq!(spoke.recv_error().await.1, "VALIDATION_ERROR", "{kind} {payload}");
        assert_eq!(caller.recv_error().await.1, "EXECUTION_ERROR", "{kind} {payload}");
        spoke.assert_works("the notified spoke").await;
    }
    stop_gateway(running, (spoke, caller)).await;
}

#[tokio::test]
async fn late_response_is_not_delivered_to_others() {
    let running = start_open_gateway().await;
    let mut spoke = HubClient::connect(running.address).await;
    spoke.register("box", &json!([spec("fs", "read", "query")])).await.unwrap();
    let (mut ada, mut bob) =
        (HubClient::connect(running.address).await, HubClient::connect(running.address).await);
    ada.send_json(&request_event("1", "box.fs.read", &json!({}))).await;
    let asked_by_ada = spoke.recv_event().await;
    assert_eq!(asked_by_ada["payload"]["parentRequestId"], "1", "{asked_by_ada}");
    ada.send_json(&event_json("call.aborted", "1", &json!({}))).await;
    assert_eq!(ada.recv_error().await.1, "ABORTED");
    assert_eq!(spoke.recv_event().await["type"], "call.aborted");
    bob.send_json(&request_event("1", "box.fs.read", &json!({}))).await;
    let asked_by_bob = spoke.recv_event().await;
    // The response to the first call was in transit when the call was aborted.
    spoke.send_json(&response_event(asked_by_ada["id"].as_str().unwrap(), &json!("for ada"))).await;
    assert_eq!(spoke.recv_event().await["type"], "call.aborted");
    spoke.send_json(&response_event(asked_by_bob["id"].as_str().unwrap(), &json!("for bob"))).await;
    assert_eq!(bob.recv_event().await["payload"]["output"]["data"], "for bob");
    ada.assert_works("no message for ada").await;
    stop_gateway(running, (spoke, ada, bob)).await;
}
