//! Peers that try to act as another spoke or identity.

use serde_json::json;

use super::{RawPeer, call_data, caller, gateway_with_tokens};

#[tokio::test(flavor = "multi_thread")]
async fn spoke_cannot_respond_for_or_observe_another() {
    let (gateway, [ada, eve, bob]) = gateway_with_tokens(["ada", "eve", "bob"]).await;
    let mut honest = RawPeer::connect(&gateway, Some(&ada)).await;
    let registered = honest.register("r1", "honest").await;
    assert_eq!(registered["payload"]["output"]["data"]["registered"], json!(["honest.wire.ask"]));
    let mut nosy = RawPeer::connect(&gateway, Some(&eve)).await;
    nosy.register("r1", "nosy").await;

    let client = caller(&gateway, Some(&bob)).await;
    let call = tokio::spawn(async move { call_data(&client, "honest.wire.ask", json!("?")).await });
    let call_event = honest.next_event().await;
    assert_eq!(
        call_event["payload"]["identity"]["id"], "bob",
        "the hub sends the identity of the caller: {call_event}"
    );
    let id = call_event["id"].as_str().unwrap();

    // Every event that another peer could send about a request if it has the id.
    for topic in ["call.requested", "call.responded", "call.error"] {
        nosy.send_event("__subscribe", "", json!({"topic": format!("{topic}:{id}")})).await;
    }
    nosy.respond(id, "a lie").await;
    let error = json!({"code": "EXECUTION_ERROR", "message": "a lie", "retryable": false});
    nosy.send_event("call.error", id, error).await;
    nosy.send_event("call.completed", id, json!({})).await;
    nosy.send_event("call.aborted", id, json!({})).await;
    nosy.send_event("call.progress", id, json!({"progress": 1})).await;
    let unwanted = nosy.next_event().await;
    assert_eq!((&unwanted["type"], &unwanted["id"]), (&json!("call.aborted"), &json!(id)));

    // Events are handled in order, so the response to this call shows that all of the above were
    // handled.
    nosy.call("r2", "hub.list", json!({"namespace": "nosy"})).await;
    let next = nosy.next_event().await;
    assert_eq!(next["id"], "r2", "a client gets only its own responses: {next}");
    honest.respond(id, "the truth").await;
    assert_eq!(call.await.unwrap(), Ok(json!("the truth")));
    nosy.call("r3", "demo.add", json!({"a": 1, "b": 1})).await;
    assert_eq!(nosy.next_event().await["id"], "r3", "no response of Ada's calls");
    drop((honest, nosy));
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spoke_name_belongs_to_first_identity() {
    let (gateway, [ada, eve]) = gateway_with_tokens(["ada", "eve"]).await;
    let mut first = RawPeer::connect(&gateway, Some(&ada)).await;
    first.register("r1", "mine").await;
    let mut thief = RawPeer::connect(&gateway, Some(&eve)).await;
    let rejected = |response: &serde_json::Value| {
        assert_eq!(response["type"], "call.error", "{response}");
        response["payload"]["code"].as_str().unwrap().to_owned()
    };
    for name in ["mine", "hub", "demo", "gateway", "toolpost"] {
        let response = thief.register("r1", name).await;
        assert_eq!(rejected(&response), "ACCESS_DENIED", "{name}");
    }
    assert_eq!(rejected(&thief.register("r2", "Not a Name").await), "VALIDATION_ERROR");

    // An identity in the payload is ignored.
    let registration = json!({"name": "mine", "operations": []});
    let posing = json!({
        "operationId": "hub.register", "input": registration,
        "identity": {"id": "ada", "scopes": []},
    });
    thief.send_event("call.requested", "r3", posing).await;
    assert_eq!(rejected(&thief.next_event().await), "ACCESS_DENIED");

    drop(first);
    super::wait_until("the owner leaves", || gateway.gateway.hub().stats().online_spokes == 0)
        .await;
    let response = thief.register("r4", "mine").await;
    assert_eq!(rejected(&response), "ACCESS_DENIED", "the same while it is offline");
    let mut owner = RawPeer::connect(&gateway, Some(&ada)).await;
    assert_eq!(owner.register("r1", "mine").await["type"], "call.responded");
    drop((owner, thief));
    gateway.stop().await;
}
