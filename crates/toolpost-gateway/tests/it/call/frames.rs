//! Frames that are no events, events that nobody asked for, and what they do: nothing to others.

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use toolpost_gateway::GatewaySettings;

use super::super::Running;
use super::{Raw, about, control, open, requested, responded, spec, stop};

/// Each row: a frame, then the id, the code and some words of the error that it is answered with.
#[tokio::test]
async fn a_frame_that_cannot_be_is_answered_and_the_connection_works_on() {
    let running = open().await;
    let invalid = "VALIDATION_ERROR";
    let text = |text: &str| Message::text(text);
    let event = |frame: serde_json::Value| Message::text(frame.to_string());
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
        (event(about("call.requested", "7", &json!({}))), "7", invalid, "operationId"),
        (event(about("call.requested", "7", &json!({"operationId": 5}))), "7", invalid, "string"),
        (event(requested("", "demo.add", &json!({}))), "", invalid, "`id` is empty"),
        (event(about("call.responded", "7", &json!({"output": 5}))), "7", invalid, "envelope"),
        (event(about("call.error", "7", &json!({"code": 5}))), "7", invalid, "call.error"),
        (event(about("weather.changed", "7", &json!({}))), "7", invalid, "unknown type"),
        (event(about("call.requestd", "7", &json!({}))), "7", invalid, "did you mean"),
        (event(control("__reboot", &json!({}))), "", invalid, "unknown type"),
        (event(control("__subscribe", &json!({"topic": "all"}))), "", invalid, "a topic is"),
        (event(control("__subscribe", &json!({}))), "", invalid, "missing field `topic`"),
        (
            event(control("__unsubscribe", &json!({"topic": "call.responded:1"}))),
            "",
            invalid,
            "not subscribed",
        ),
        (event(requested("7", "demo.none", &json!({}))), "7", "OPERATION_NOT_FOUND", "demo.none"),
        (event(requested("7", "demo.add", &json!({}))), "7", invalid, "does not fit demo.add"),
    ];
    for (message, id, code, words) in rows {
        let row = format!("{message:?}");
        // As the first frame of a connection, and as a later one.
        let mut raw = Raw::connect(running.address).await;
        for _ in 0..2 {
            raw.send(message.clone()).await;
            let (about, said, why) = raw.hear_error().await;
            assert_eq!((&*about, &*said), (id, code), "{row}");
            assert!(why.contains(words), "{row}: {why}");
            raw.assert_works(&row).await;
        }
    }
    assert!(running.stop().await.in_time);
}

#[tokio::test]
async fn what_nobody_waits_for_is_ignored_in_silence() {
    let running = open().await;
    let error = json!({"code": "TIMEOUT", "message": "m"});
    let rows = [
        about("call.completed", "7", &json!({})),
        about("call.aborted", "7", &json!({"reason": "enough"})),
        about("call.progress", "7", &json!({"progress": 1})),
        about("call.error", "7", &error),
        about("call.error", "", &error),
        control("__more", &json!({"requestId": "7", "count": 5})),
        control("__subscribe", &json!({"topic": "call.responded:7"})),
    ];
    for frame in rows {
        let mut raw = Raw::connect(running.address).await;
        for _ in 0..2 {
            raw.say(&frame).await;
            raw.assert_works(&frame.to_string()).await;
        }
    }
    let mut raw = Raw::connect(running.address).await;
    raw.say(&responded("7", &json!(1))).await;
    let told = raw.hear().await;
    assert_eq!((&told["type"], &told["id"]), (&json!("call.aborted"), &json!("7")), "{told}");
    raw.assert_works("a value for nobody").await;
    stop(running, raw).await;
}

#[tokio::test]
async fn a_frame_over_the_limit_closes_with_1009() {
    let mut settings = GatewaySettings::default();
    settings.websocket.frame_bytes = 2_000;
    let running = Running::with([], settings).await;
    let large = "x".repeat(2_001);
    for earlier in 0..3 {
        let mut raw = Raw::connect(running.address).await;
        for _ in 0..earlier {
            raw.assert_works("before").await;
        }
        raw.send(large.as_str()).await;
        let (code, words) = raw.hear_close().await;
        assert_eq!(code, 1009, "after {earlier} calls: {words}");
    }
    let mut raw = Raw::connect(running.address).await;
    raw.send(&large[1..]).await;
    assert!(raw.hear_error().await.2.contains("not JSON"), "one byte less is read");
    raw.assert_works("another connection").await;
    stop(running, raw).await;
}

#[tokio::test]
async fn an_id_serves_one_request_at_a_time() {
    let running = open().await;
    let mut raw = Raw::connect(running.address).await;
    let silent = json!({"count": 2, "everyMs": 3_600_000});
    for _ in 0..2 {
        raw.say(&requested("a", "demo.clock", &silent)).await;
        assert_eq!(raw.hear().await["type"], "call.responded");
        raw.say(&requested("a", "demo.add", &json!({"a": 1, "b": 1}))).await;
        let (id, code, words) = raw.hear_error().await;
        assert_eq!((&*id, &*code), ("a", "VALIDATION_ERROR"));
        assert!(words.contains("already in use"), "{words}");
        raw.assert_works("while `a` is in use").await;
        raw.say(&about("call.aborted", "a", &json!({}))).await;
        let (id, code, _) = raw.hear_error().await;
        assert_eq!((&*id, &*code), ("a", "ABORTED"));
    }
    stop(running, raw).await;
}

#[tokio::test]
async fn topics_are_counted_and_show_nothing_of_others() {
    let running = open().await;
    let (mut raw, mut other) =
        (Raw::connect(running.address).await, Raw::connect(running.address).await);
    let topic = json!({"topic": "call.responded:the-call"});
    raw.say(&control("__subscribe", &topic)).await;
    raw.say(&control("__subscribe", &topic)).await;
    raw.assert_works("subscribed").await;
    other.assert_works("its answer is its own").await;
    // The very next event is the answer to this call, so none of the other's came.
    raw.assert_works("after the other was answered").await;
    for _ in 0..2 {
        raw.say(&control("__unsubscribe", &topic)).await;
        raw.assert_works("unsubscribed").await;
    }
    raw.say(&control("__unsubscribe", &topic)).await;
    let (id, code, words) = raw.hear_error().await;
    assert_eq!((&*id, &*code), ("", "VALIDATION_ERROR"));
    assert!(words.contains("not subscribed"), "{words}");
    raw.assert_works("after all").await;
    stop(running, (raw, other)).await;
}

#[tokio::test]
async fn only_the_one_who_was_asked_can_answer() {
    let running = open().await;
    let mut spoke = Raw::connect(running.address).await;
    spoke.register("box", &json!([spec("fs", "read", "query")])).await.unwrap();
    let mut other = Raw::connect(running.address).await;
    other.register("bag", &json!([spec("fs", "read", "query")])).await.unwrap();
    let mut caller = Raw::connect(running.address).await;
    let error = json!({"code": "TIMEOUT", "message": "m"});
    let forged = [
        about("call.error", "mine", &error),
        about("call.completed", "mine", &json!({})),
        about("call.aborted", "mine", &json!({})),
        about("call.progress", "mine", &json!({"progress": 1})),
        responded("mine", &json!("forged")),
    ];
    for (round, forged) in forged.iter().enumerate() {
        caller.say(&requested("mine", "box.fs.read", &json!({}))).await;
        let asked = spoke.hear().await;
        assert_eq!(asked["payload"]["operationId"], "fs.read");
        let id = asked["id"].as_str().unwrap();
        // Even if the others could guess it.
        let mut forged = forged.clone();
        (forged["id"], forged["payload"]["requestId"]) = (json!(id), json!(id));
        other.say(&forged).await;
        if forged["type"] == "call.responded" {
            assert_eq!(other.hear().await["type"], "call.aborted");
        }
        other.assert_works("the forged one was read").await;
        spoke.say(&responded(id, &json!(round))).await;
        let answer = caller.hear().await;
        assert_eq!(answer["id"], "mine");
        assert_eq!(answer["payload"]["output"]["data"], json!(round), "{forged}");
    }
    for peer in [&mut spoke, &mut other, &mut caller] {
        peer.assert_works("all of them").await;
    }
    assert_eq!(running.gateway.hub().census().pending, 0);
    stop(running, (spoke, other, caller)).await;
}

#[tokio::test]
async fn a_broken_answer_fails_the_call_it_was_meant_for() {
    let running = open().await;
    let mut spoke = Raw::connect(running.address).await;
    spoke.register("box", &json!([spec("fs", "read", "query")])).await.unwrap();
    let mut caller = Raw::connect(running.address).await;
    for (kind, payload) in [
        ("call.responded", json!({"output": 5})),
        ("call.responded", json!({})),
        ("call.error", json!({"code": 5, "message": "m"})),
    ] {
        caller.say(&requested("mine", "box.fs.read", &json!({}))).await;
        let asked = spoke.hear().await;
        spoke.say(&about(kind, asked["id"].as_str().unwrap(), &payload)).await;
        assert_eq!(spoke.hear_error().await.1, "VALIDATION_ERROR", "{kind} {payload}");
        assert_eq!(caller.hear_error().await.1, "EXECUTION_ERROR", "{kind} {payload}");
        spoke.assert_works("the one who was told").await;
    }
    stop(running, (spoke, caller)).await;
}

#[tokio::test]
async fn an_answer_to_whoever_gave_up_reaches_nobody_else() {
    let running = open().await;
    let mut spoke = Raw::connect(running.address).await;
    spoke.register("box", &json!([spec("fs", "read", "query")])).await.unwrap();
    let (mut ada, mut bob) =
        (Raw::connect(running.address).await, Raw::connect(running.address).await);
    ada.say(&requested("1", "box.fs.read", &json!({}))).await;
    let asked_by_ada = spoke.hear().await;
    assert_eq!(asked_by_ada["payload"]["parentRequestId"], "1", "{asked_by_ada}");
    ada.say(&about("call.aborted", "1", &json!({}))).await;
    assert_eq!(ada.hear_error().await.1, "ABORTED");
    assert_eq!(spoke.hear().await["type"], "call.aborted");
    bob.say(&requested("1", "box.fs.read", &json!({}))).await;
    let asked_by_bob = spoke.hear().await;
    // The answer to the first was under way when it was given up.
    spoke.say(&responded(asked_by_ada["id"].as_str().unwrap(), &json!("for ada"))).await;
    assert_eq!(spoke.hear().await["type"], "call.aborted");
    spoke.say(&responded(asked_by_bob["id"].as_str().unwrap(), &json!("for bob"))).await;
    assert_eq!(bob.hear().await["payload"]["output"]["data"], "for bob");
    ada.assert_works("nothing came for ada").await;
    stop(running, (spoke, ada, bob)).await;
}
