//! `tools/call`: results, progress, logs, cancellation, and the values of subscriptions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolpost::{
    CallContext, HandlerError, Kind, LogLine, Operation, OperationSpec, Output, Progress, Schema,
};
use toolpost_gateway::GatewaySettings;

use super::super::{Running, client};
use super::{Events, answer, message};

#[tokio::test]
async fn failures_say_what_and_where_in_both_eras() {
    let gateway = Running::start().await;
    for (name, arguments, words) in [
        ("demo__add", json!({"a": "x"}), &["VALIDATION_ERROR", "/a", "number", "/b"][..]),
        ("demo__fail", json!({}), &["DEMO_FAILURE", "always fails", "call another"]),
    ] {
        let params = json!({"name": name, "arguments": arguments});
        for request in
            [gateway.ask("", "tools/call", &params), gateway.ask_modern("", "tools/call", &params)]
        {
            let result = &answer(request).await["result"];
            assert_eq!(result["isError"], true, "{result}");
            let text = result["content"][0]["text"].as_str().unwrap();
            for word in words {
                assert!(text.contains(word), "{word} is not in {text}");
            }
        }
    }
    let params = json!({"name": "demo__ad"});
    let unknown = answer(gateway.ask("", "tools/call", &params)).await;
    assert_eq!(unknown["error"]["code"], -32_602);
    assert_eq!(unknown["error"]["message"], "unknown tool: `demo__ad`; did you mean `demo__add`?");
    gateway.stop().await;
}

/// Reports and logs what its input says, then answers.
fn talker() -> Operation {
    let talk = async |context: CallContext, _: Value| {
        context.report(Progress::new(1.0).of(2.0).with_message("half"));
        for level in ["debug", "info", "error"] {
            context.log(LogLine::new(level, format!("a line of {level}")));
        }
        Ok::<_, HandlerError>("said")
    };
    Operation::query("talk.all", talk).build().unwrap()
}

#[tokio::test]
async fn progress_and_logs_come_before_the_answer_to_those_who_asked() {
    let gateway = Running::with([talker()], GatewaySettings::default()).await;
    let plain = json!({"name": "talk__all", "arguments": {}});
    let mut asked = plain.clone();
    asked["_meta"]["progressToken"] = "t".into();
    let level = "io.modelcontextprotocol/logLevel";
    let mut loud = plain.clone();
    loud["_meta"][level] = "error".into();
    let show = |events: &[Value]| -> Vec<String> {
        let shown = events.iter().map(|event| match &event["params"] {
            Value::Null => format!("answer {}", event["id"]),
            params if params["progressToken"] == "t" => {
                format!("{} {}", params["progress"], params["message"])
            }
            params => format!("{}: {}", params["level"], params["data"]),
        });
        shown.map(|line| line.replace('"', "")).collect()
    };
    let session = gateway.begin().await;
    let set = gateway.ask("", "logging/setLevel", &json!({"level": "error"}));
    answer(set.header("mcp-session-id", &session)).await;
    let wrong = gateway.ask("", "logging/setLevel", &json!({"level": "loud"}));
    assert_eq!(answer(wrong.header("mcp-session-id", &session)).await["error"]["code"], -32_602);
    let lost = gateway.ask("", "logging/setLevel", &json!({"level": "error"}));
    assert_eq!(answer(lost).await["error"]["code"], -32_600, "nobody would remember it");
    let mut odd = plain.clone();
    odd["_meta"][level] = "loud".into();
    let odd = answer(gateway.ask_modern("", "tools/call", &odd)).await;
    assert_eq!(odd["error"]["code"], -32_602);
    let rows = [
        (
            gateway.ask("", "tools/call", &asked),
            &["1.0 half", "info: a line of info", "error: a line of error", "answer 1"][..],
        ),
        (
            gateway.ask("", "tools/call", &plain),
            &["info: a line of info", "error: a line of error", "answer 1"],
        ),
        (
            gateway.ask("", "tools/call", &plain).header("mcp-session-id", &session),
            &["error: a line of error", "answer 1"],
        ),
        (gateway.ask_modern("", "tools/call", &asked), &["1.0 half", "answer 1"]),
        (gateway.ask_modern("", "tools/call", &loud), &["error: a line of error", "answer 1"]),
    ];
    for (number, (request, expected)) in rows.into_iter().enumerate() {
        let events = Events::of(request).await.all().await;
        assert_eq!(show(&events), expected, "row {number}");
    }
    let silent = gateway.ask_modern("", "tools/call", &plain);
    assert_eq!(answer(silent).await["result"]["content"][0]["text"], "\"said\"");
    // Whoever reads no events hears nothing before the answer.
    let request = client().post(gateway.url("/mcp")).header("accept", "application/json");
    let deaf = request.json(&message(1, "tools/call", &asked));
    assert_eq!(answer(deaf).await["id"], 1);
    gateway.stop().await;
}

/// An operation that says when it began, and when it was canceled or ended.
fn waiter(id: &str, kind: Kind, said: mpsc::Sender<&'static str>) -> Operation {
    let mut spec = OperationSpec::new(&id.parse().unwrap(), kind);
    spec.input_schema = Schema::new(json!({"type": "object"})).unwrap();
    let said = Arc::new(said);
    let wait = toolpost::Handler::once_fn(move |context: CallContext, _| {
        let said = Arc::clone(&said);
        async move {
            said.send("began").await.unwrap();
            tokio::select! {
                () = context.cancelled() => said.send("canceled").await.unwrap(),
                () = tokio::time::sleep(Duration::from_secs(2)) => said.send("ended").await.unwrap(),
            }
            Ok(Output::dynamic("done".into()))
        }
    });
    Operation::from_spec(spec).handler(wait).build().unwrap()
}

#[tokio::test]
async fn a_request_is_cancelled_in_the_way_of_its_era() {
    let (said, mut heard) = mpsc::channel(8);
    let operations = [
        waiter("wait.mutation", Kind::Mutation, said.clone()),
        waiter("wait.query", Kind::Query, said),
    ];
    let gateway = Running::with(operations, GatewaySettings::default()).await;
    let session = gateway.begin().await;
    let other = gateway.begin().await;
    for (era, name, how, expected) in [
        ("legacy", "wait__mutation", "note", "canceled"),
        ("legacy", "wait__mutation", "note of another", "ended"),
        ("legacy", "wait__mutation", "leave", "ended"),
        ("legacy", "wait__query", "leave", "canceled"),
        ("modern", "wait__mutation", "leave", "canceled"),
        ("modern", "wait__query", "leave", "canceled"),
    ] {
        let params = json!({"name": name, "arguments": {}});
        let request = match era {
            "modern" => gateway.ask_modern("", "tools/call", &params),
            _ => gateway.ask("", "tools/call", &params).header("mcp-session-id", &session),
        };
        let calling = tokio::spawn(request.send());
        assert_eq!(heard.recv().await, Some("began"), "{era} {name} {how}");
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
        assert_eq!(heard.recv().await, Some(expected), "{era} {name} {how}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn the_values_of_a_subscription_are_told_and_collected_up_to_a_bound() {
    let mut settings = GatewaySettings::default();
    settings.mcp.subscription_values = 3;
    settings.mcp.subscription_time = Duration::from_secs(1);
    let gateway = Running::with([], settings).await;
    for (arguments, ticks, words) in [
        (json!({"count": 2, "everyMs": 1}), 2, None),
        (json!({"count": 3, "everyMs": 1}), 3, None),
        (json!({"count": 1_000, "everyMs": 1}), 3, Some("it was stopped after 3 values")),
        (json!({"count": 2, "everyMs": 60_000}), 1, Some("it was stopped after 1 s")),
    ] {
        let logged = json!({"name": "demo__clock", "arguments": arguments});
        let events = Events::of(gateway.ask("", "tools/call", &logged)).await.all().await;
        let lines = events.iter().filter(|event| event["method"] == "notifications/message");
        assert_eq!(lines.count(), ticks, "whoever asks for no progress reads the log");
        let mut params = logged;
        params["_meta"] = json!({"progressToken": 7});
        let events = Events::of(gateway.ask("", "tools/call", &params)).await.all().await;
        let (last, told) = events.split_last().unwrap();
        assert_eq!(told.len(), ticks, "{events:?}");
        let collected = last["result"]["structuredContent"]["result"].as_array().unwrap();
        assert_eq!(collected.len(), ticks);
        for (note, value) in told.iter().zip(collected) {
            let message = note["params"]["message"].as_str().unwrap();
            assert_eq!(serde_json::from_str::<Value>(message).unwrap(), *value);
        }
        let warnings = last["result"]["_meta"]["toolpost/warnings"].to_string();
        assert!(words.is_none_or(|words| warnings.contains(words)), "{warnings}");
        assert_eq!(words.is_none(), warnings == "null");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_call_that_takes_long_becomes_a_stream_that_stays_alive() {
    let mut settings = GatewaySettings::default();
    settings.heartbeat = Duration::from_millis(30);
    let gateway = Running::with([], settings).await;
    let params = json!({"name": "demo__slow", "arguments": {"ms": 200}});
    let events = Events::of(gateway.ask("", "tools/call", &params)).await.all().await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["result"]["structuredContent"]["sleptMs"], 200);
    gateway.stop().await;
}
