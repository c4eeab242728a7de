//! `tools/call`: results, progress, logs, cancellation and subscription values.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolpost::{
    CallContext, HandlerError, HandlerOutput, LogMessage, Operation, OperationKind, OperationSpec,
    Progress, Schema,
};
use toolpost_gateway::GatewaySettings;

use super::super::{TestGateway, client};
use super::{McpEvents, message, response_json};

#[tokio::test]
async fn tool_errors_have_code_and_path_in_both_generations() {
    let gateway = TestGateway::start().await;
    for (name, arguments, expected_parts) in [
        ("demo__add", json!({"a": "x"}), &["VALIDATION_ERROR", "/a", "number", "/b"][..]),
        ("demo__fail", json!({}), &["DEMO_FAILURE", "always fails", "call another"]),
    ] {
        let params = json!({"name": name, "arguments": arguments});
        for request in [
            gateway.legacy_request("", "tools/call", &params),
            gateway.modern_request("", "tools/call", &params),
        ] {
            let result = &response_json(request).await["result"];
            assert_eq!(result["isError"], true, "{result}");
            let text = result["content"][0]["text"].as_str().unwrap();
            for part in expected_parts {
                assert!(text.contains(part), "{part} is not in {text}");
            }
        }
    }
    let params = json!({"name": "demo__ad"});
    let unknown = response_json(gateway.legacy_request("", "tools/call", &params)).await;
    assert_eq!(unknown["error"]["code"], -32_602);
    assert_eq!(unknown["error"]["message"], "unknown tool: `demo__ad`; did you mean `demo__add`?");
    gateway.stop().await;
}

/// An operation that reports progress and logs at three levels before it returns.
fn logging_operation() -> Operation {
    let handler = async |context: CallContext, _: Value| {
        context.report(Progress::new(1.0).with_total(2.0).with_message("half"));
        for level in ["debug", "info", "error"] {
            context.log(LogMessage::new(level, format!("a line of {level}")));
        }
        Ok::<_, HandlerError>("said")
    };
    Operation::query("talk.all", handler).build().unwrap()
}

#[tokio::test]
async fn progress_and_logs_precede_response_if_requested() {
    let gateway = TestGateway::start_with([logging_operation()], GatewaySettings::default()).await;
    let plain = json!({"name": "talk__all", "arguments": {}});
    let mut progress_params = plain.clone();
    progress_params["_meta"]["progressToken"] = "t".into();
    let level = "io.modelcontextprotocol/logLevel";
    let mut loud = plain.clone();
    loud["_meta"][level] = "error".into();
    let show = |events: &[Value]| -> Vec<String> {
        let lines = events.iter().map(|event| match &event["params"] {
            Value::Null => format!("response {}", event["id"]),
            params if params["progressToken"] == "t" => {
                format!("{} {}", params["progress"], params["message"])
            }
            params => format!("{}: {}", params["level"], params["data"]),
        });
        lines.map(|line| line.replace('"', "")).collect()
    };
    let session = gateway.start_session().await;
    let set = gateway.legacy_request("", "logging/setLevel", &json!({"level": "error"}));
    response_json(set.header("mcp-session-id", &session)).await;
    let wrong = gateway.legacy_request("", "logging/setLevel", &json!({"level": "loud"}));
    assert_eq!(
        response_json(wrong.header("mcp-session-id", &session)).await["error"]["code"],
        -32_602
    );
    let lost = gateway.legacy_request("", "logging/setLevel", &json!({"level": "error"}));
    assert_eq!(
        response_json(lost).await["error"]["code"],
        -32_600,
        "there is no session to resume"
    );
    let mut odd = plain.clone();
    odd["_meta"][level] = "loud".into();
    let odd = response_json(gateway.modern_request("", "tools/call", &odd)).await;
    assert_eq!(odd["error"]["code"], -32_602);
    let rows = [
        (
            gateway.legacy_request("", "tools/call", &progress_params),
            &["1.0 half", "info: a line of info", "error: a line of error", "response 1"][..],
        ),
        (
            gateway.legacy_request("", "tools/call", &plain),
            &["info: a line of info", "error: a line of error", "response 1"],
        ),
        (
            gateway.legacy_request("", "tools/call", &plain).header("mcp-session-id", &session),
            &["error: a line of error", "response 1"],
        ),
        (gateway.modern_request("", "tools/call", &progress_params), &["1.0 half", "response 1"]),
        (
            gateway.modern_request("", "tools/call", &loud),
            &["error: a line of error", "response 1"],
        ),
    ];
    for (number, (request, expected)) in rows.into_iter().enumerate() {
        let events = McpEvents::of(request).await.all().await;
        assert_eq!(show(&events), expected, "row {number}");
    }
    let silent = gateway.modern_request("", "tools/call", &plain);
    assert_eq!(response_json(silent).await["result"]["content"][0]["text"], "\"said\"");
    // A client that does not accept events receives only the response.
    let request = client().post(gateway.url("/mcp")).header("accept", "application/json");
    let deaf = request.json(&message(1, "tools/call", &progress_params));
    assert_eq!(response_json(deaf).await["id"], 1);
    gateway.stop().await;
}

/// An operation that reports when it begins, and when it is canceled or ends.
fn cancelable_operation(
    id: &str,
    kind: OperationKind,
    message: mpsc::Sender<&'static str>,
) -> Operation {
    let mut spec = OperationSpec::new(&id.parse().unwrap(), kind);
    spec.input_schema = Schema::new(json!({"type": "object"})).unwrap();
    let message = Arc::new(message);
    let wait = toolpost::Handler::once_fn(move |context: CallContext, _| {
        let message = Arc::clone(&message);
        async move {
            message.send("began").await.unwrap();
            tokio::select! {
                () = context.canceled() => message.send("canceled").await.unwrap(),
                () = tokio::time::sleep(Duration::from_secs(2)) => message.send("ended").await.unwrap(),
            }
            Ok(HandlerOutput::dynamic("done".into()))
        }
    });
    Operation::from_spec(spec).handler(wait).build().unwrap()
}

#[tokio::test]
async fn request_is_canceled_per_protocol_generation() {
    let (message, mut received) = mpsc::channel(8);
    let operations = [
        cancelable_operation("wait.mutation", OperationKind::Mutation, message.clone()),
        cancelable_operation("wait.query", OperationKind::Query, message),
    ];
    let gateway = TestGateway::start_with(operations, GatewaySettings::default()).await;
    let session = gateway.start_session().await;
    let other = gateway.start_session().await;
    for (generation, name, how, expected) in [
        ("legacy", "wait__mutation", "note", "canceled"),
        ("legacy", "wait__mutation", "note of another", "ended"),
        ("legacy", "wait__mutation", "leave", "ended"),
        ("legacy", "wait__query", "leave", "canceled"),
        ("modern", "wait__mutation", "leave", "canceled"),
        ("modern", "wait__query", "leave", "canceled"),
    ] {
        let params = json!({"name": name, "arguments": {}});
        let request = match generation {
            "modern" => gateway.modern_request("", "tools/call", &params),
            _ => {
                gateway.legacy_request("", "tools/call", &params).header("mcp-session-id", &session)
            }
        };
        let calling = tokio::spawn(request.send());
        assert_eq!(received.recv().await, Some("began"), "{generation} {name} {how}");
        match how {
            "leave" => calling.abort(),
            _ => {
                let from = if how == "note" { &session } else { &other };
                let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                    "params": {"requestId": 1, "reason": "enough"}});
                let noting = gateway.post("").header("mcp-session-id", from).json(&note);
                assert_eq!(noting.send().await.unwrap().status(), 202);
            }
        }
        assert_eq!(received.recv().await, Some(expected), "{generation} {name} {how}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn subscription_values_are_collected_up_to_limit() {
    let mut settings = GatewaySettings::default();
    settings.mcp.max_subscription_values = 3;
    settings.mcp.max_subscription_duration = Duration::from_secs(1);
    let gateway = TestGateway::start_with([], settings).await;
    for (arguments, ticks, text) in [
        (json!({"count": 2, "everyMs": 1}), 2, None),
        (json!({"count": 3, "everyMs": 1}), 3, None),
        (json!({"count": 1_000, "everyMs": 1}), 3, Some("stopped after 3 values")),
        (json!({"count": 2, "everyMs": 60_000}), 1, Some("stopped after 1 s")),
    ] {
        let logged = json!({"name": "demo__clock", "arguments": arguments});
        let events =
            McpEvents::of(gateway.legacy_request("", "tools/call", &logged)).await.all().await;
        let lines = events.iter().filter(|event| event["method"] == "notifications/message");
        assert_eq!(lines.count(), ticks, "a client without progress token reads the log");
        let mut params = logged;
        params["_meta"] = json!({"progressToken": 7});
        let events =
            McpEvents::of(gateway.legacy_request("", "tools/call", &params)).await.all().await;
        let (last, notifications) = events.split_last().unwrap();
        assert_eq!(notifications.len(), ticks, "{events:?}");
        let collected = last["result"]["structuredContent"]["result"].as_array().unwrap();
        assert_eq!(collected.len(), ticks);
        for (note, value) in notifications.iter().zip(collected) {
            let message = note["params"]["message"].as_str().unwrap();
            assert_eq!(serde_json::from_str::<Value>(message).unwrap(), *value);
        }
        let warnings = last["result"]["_meta"]["toolpost/warnings"].to_string();
        assert!(text.is_none_or(|text| warnings.contains(text)), "{warnings}");
        assert_eq!(text.is_none(), warnings == "null");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn long_call_upgrades_to_stream_with_keep_alive() {
    let mut settings = GatewaySettings::default();
    settings.heartbeat_interval = Duration::from_millis(30);
    let gateway = TestGateway::start_with([], settings).await;
    let params = json!({"name": "demo__slow", "arguments": {"ms": 200}});
    let events = McpEvents::of(gateway.legacy_request("", "tools/call", &params)).await.all().await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["result"]["structuredContent"]["sleptMs"], 200);
    gateway.stop().await;
}
