//! Who calls is decided at the door; what a frame claims about it changes nothing.

use serde_json::{Value, json};
use toolpost_gateway::GatewaySettings;

use super::{Raw, about, closed, open, responded, spec, stop};

/// A request that claims to come from somebody who may do everything.
fn claiming(operation: &str, input: &Value) -> Value {
    let identity = json!({"id": "root", "scopes": ["admin"], "resources": {"any:*": ["all"]}});
    let claims = json!({
        "operationId": operation, "input": input, "identity": identity,
        "trusted": true, "authority": "trusted", "metadata": {"identity": identity, "trusted": true},
    });
    about("call.requested", "the-call", &claims)
}

async fn ask(raw: &mut Raw, frame: &Value) -> Result<Value, String> {
    raw.say(frame).await;
    let event = raw.hear().await;
    match event["payload"]["code"].as_str() {
        Some(code) => Err(code.to_owned()),
        None => Ok(event["payload"]["output"]["data"].clone()),
    }
}

/// Each row: the operation, its input, and what `local`, `ci` and `root` get.
#[tokio::test]
async fn claims_do_not_help_and_neither_does_a_way_around() {
    let (open, closed) = (open().await, closed(GatewaySettings::default()).await);
    let mut local = Raw::connect(open.address).await;
    let mut ci = Raw::with_token(closed.address, "ci").await;
    let mut root = Raw::with_token(closed.address, "root").await;
    let through = |id: &str, input: Value| json!({"id": id, "input": input});
    let twice = through("hub.call", through("who.admin", json!({})));
    let (am, admin) = (through("who.am", json!({})), through("who.admin", json!({})));
    let rows = [
        ("who.am", json!({}), true, ""),
        ("hub.call", am, true, ""),
        ("who.admin", json!({}), false, "ACCESS_DENIED"),
        // Through another operation he may no more than directly.
        ("hub.call", admin, false, "ACCESS_DENIED"),
        ("hub.call", twice, false, "ACCESS_DENIED"),
        ("hub.schema", json!({"id": "who.admin"}), false, "ACCESS_DENIED"),
    ];
    for (operation, input, for_all, code) in rows {
        let row = format!("{operation} {input}");
        let frame = claiming(operation, &input);
        for (raw, name) in [(&mut local, "local"), (&mut ci, "ci")] {
            let expected = if for_all { Ok(json!(name)) } else { Err(code.to_owned()) };
            assert_eq!(ask(raw, &frame).await, expected, "{name} {row}");
        }
        let got = ask(&mut root, &frame).await;
        assert!(got.is_ok(), "root {row}: {got:?}");
    }
    for raw in [&mut local, &mut ci, &mut root] {
        raw.assert_works("after all of them").await;
    }
    stop(open, local).await;
    stop(closed, (ci, root)).await;
}

#[tokio::test]
async fn a_spoke_is_told_who_really_calls() {
    let running = closed(GatewaySettings::default()).await;
    let mut spoke = Raw::with_token(running.address, "root").await;
    spoke.register("box", &json!([spec("fs", "read", "query")])).await.unwrap();
    let mut caller = Raw::with_token(running.address, "ci").await;
    for operation in ["box.fs.read", "hub.call"] {
        let input = match operation {
            "hub.call" => json!({"id": "box.fs.read", "input": {}}),
            _ => json!({}),
        };
        caller.say(&claiming(operation, &input)).await;
        let asked = spoke.hear().await;
        assert_eq!(asked["payload"]["identity"]["id"], "ci", "{asked}");
        let scopes = asked["payload"]["identity"]["scopes"].as_array();
        assert!(scopes.is_none_or(Vec::is_empty), "{asked}");
        spoke.say(&responded(asked["id"].as_str().unwrap(), &json!("read"))).await;
        let answer = caller.hear().await;
        assert_eq!(answer["payload"]["output"]["data"], "read", "{answer}");
    }
    stop(running, (spoke, caller)).await;
}

/// The names of what is listed, found and shown.
#[tokio::test]
async fn a_caller_is_shown_what_it_may_call() {
    let running = closed(GatewaySettings::default()).await;
    for (token, visible) in [("ci", vec!["who.am"]), ("root", vec!["who.admin", "who.am"])] {
        let mut raw = Raw::with_token(running.address, token).await;
        for (operation, input) in
            [("hub.list", json!({"namespace": "who"})), ("hub.search", json!({"query": "who"}))]
        {
            let listed = raw.call(operation, input).await.unwrap();
            let listed = listed["operations"].as_array().unwrap();
            let mut ids: Vec<_> = listed.iter().map(|item| item["id"].as_str().unwrap()).collect();
            ids.retain(|id| id.starts_with("who."));
            ids.sort_unstable();
            assert_eq!(ids, visible, "{token} {operation}");
        }
        for id in ["who.am", "who.admin"] {
            let shown = raw.call("hub.schema", json!({"id": id})).await;
            assert_eq!(shown.is_ok(), visible.contains(&id), "{token} {id}");
            let called = raw.call(id, json!({})).await;
            assert_eq!(called.is_ok(), visible.contains(&id), "{token} {id}");
        }
    }
    running.stop().await;
}
