//! The endpoint determines the identity of a caller. Claims in a frame are ignored.

use serde_json::{Value, json};
use toolpost_gateway::GatewaySettings;

use super::{
    HubClient, event_json, response_event, spec, start_authenticated_gateway, start_open_gateway,
    stop_gateway,
};

/// A request that claims an identity with full access.
fn request_with_forged_identity(operation: &str, input: &Value) -> Value {
    let identity = json!({"id": "root", "scopes": ["admin"], "resources": {"any:*": ["all"]}});
    let claims = json!({
        "operationId": operation, "input": input, "identity": identity,
        "trusted": true, "authority": "trusted", "metadata": {"identity": identity, "trusted": true},
    });
    event_json("call.requested", "the-call", &claims)
}

async fn send_request(raw: &mut HubClient, frame: &Value) -> Result<Value, String> {
    raw.send_json(frame).await;
    let event = raw.recv_event().await;
    match event["payload"]["code"].as_str() {
        Some(code) => Err(code.to_owned()),
        None => Ok(event["payload"]["output"]["data"].clone()),
    }
}

/// Each row: the operation, its input, whether `local` and `ci` may call it, and the error code if
/// not. `root` may call all of them.
#[tokio::test]
async fn forged_identity_in_frame_is_ignored() {
    let (open, closed) =
        (start_open_gateway().await, start_authenticated_gateway(GatewaySettings::default()).await);
    let mut local = HubClient::connect(open.address).await;
    let mut ci = HubClient::with_token(closed.address, "ci").await;
    let mut root = HubClient::with_token(closed.address, "root").await;
    let through = |id: &str, input: Value| json!({"id": id, "input": input});
    let twice = through("hub.call", through("who.admin", json!({})));
    let (am, admin) = (through("who.am", json!({})), through("who.admin", json!({})));
    let rows = [
        ("who.am", json!({}), true, ""),
        ("hub.call", am, true, ""),
        ("who.admin", json!({}), false, "ACCESS_DENIED"),
        // A nested call has no more access than a direct one.
        ("hub.call", admin, false, "ACCESS_DENIED"),
        ("hub.call", twice, false, "ACCESS_DENIED"),
        ("hub.schema", json!({"id": "who.admin"}), false, "ACCESS_DENIED"),
    ];
    for (operation, input, for_all, code) in rows {
        let row = format!("{operation} {input}");
        let frame = request_with_forged_identity(operation, &input);
        for (raw, name) in [(&mut local, "local"), (&mut ci, "ci")] {
            let expected = if for_all { Ok(json!(name)) } else { Err(code.to_owned()) };
            assert_eq!(send_request(raw, &frame).await, expected, "{name} {row}");
        }
        let got = send_request(&mut root, &frame).await;
        assert!(got.is_ok(), "root {row}: {got:?}");
    }
    for raw in [&mut local, &mut ci, &mut root] {
        raw.assert_works("after all of them").await;
    }
    stop_gateway(open, local).await;
    stop_gateway(closed, (ci, root)).await;
}

#[tokio::test]
async fn spoke_receives_authenticated_caller() {
    let running = start_authenticated_gateway(GatewaySettings::default()).await;
    let mut spoke = HubClient::with_token(running.address, "root").await;
    spoke.register("box", &json!([spec("fs", "read", "query")])).await.unwrap();
    let mut caller = HubClient::with_token(running.address, "ci").await;
    for operation in ["box.fs.read", "hub.call"] {
        let input = match operation {
            "hub.call" => json!({"id": "box.fs.read", "input": {}}),
            _ => json!({}),
        };
        caller.send_json(&request_with_forged_identity(operation, &input)).await;
        let forwarded_request = spoke.recv_event().await;
        assert_eq!(forwarded_request["payload"]["identity"]["id"], "ci", "{forwarded_request}");
        let scopes = forwarded_request["payload"]["identity"]["scopes"].as_array();
        assert!(scopes.is_none_or(Vec::is_empty), "{forwarded_request}");
        spoke
            .send_json(&response_event(forwarded_request["id"].as_str().unwrap(), &json!("read")))
            .await;
        let response = caller.recv_event().await;
        assert_eq!(response["payload"]["output"]["data"], "read", "{response}");
    }
    stop_gateway(running, (spoke, caller)).await;
}

/// `hub.list`, `hub.search` and `hub.schema` return only accessible operations.
#[tokio::test]
async fn hub_lists_only_accessible_operations() {
    let running = start_authenticated_gateway(GatewaySettings::default()).await;
    for (token, visible) in [("ci", vec!["who.am"]), ("root", vec!["who.admin", "who.am"])] {
        let mut raw = HubClient::with_token(running.address, token).await;
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
            let schema_result = raw.call("hub.schema", json!({"id": id})).await;
            assert_eq!(schema_result.is_ok(), visible.contains(&id), "{token} {id}");
            let called = raw.call(id, json!({})).await;
            assert_eq!(called.is_ok(), visible.contains(&id), "{token} {id}");
        }
    }
    running.stop().await;
}
