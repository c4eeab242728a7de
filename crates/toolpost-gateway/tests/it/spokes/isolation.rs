//! Peers that would like to be somebody else.

use serde_json::json;

use super::{Raw, caller, data, guarded};

#[tokio::test(flavor = "multi_thread")]
async fn a_spoke_cannot_answer_for_another_nor_hear_it() {
    let (gateway, [ada, eve, bob]) = guarded(["ada", "eve", "bob"]).await;
    let mut honest = Raw::connect(&gateway, Some(&ada)).await;
    let registered = honest.register("r1", "honest").await;
    assert_eq!(registered["payload"]["output"]["data"]["registered"], json!(["honest.wire.ask"]));
    let mut nosy = Raw::connect(&gateway, Some(&eve)).await;
    nosy.register("r1", "nosy").await;

    let client = caller(&gateway, Some(&bob)).await;
    let call = tokio::spawn(async move { data(&client, "honest.wire.ask", json!("?")).await });
    let asked = honest.next().await;
    assert_eq!(asked["payload"]["identity"]["id"], "bob", "the hub says who asks: {asked}");
    let id = asked["id"].as_str().unwrap();

    // Everything that Eve could say about a request whose id she has learnt.
    for topic in ["call.requested", "call.responded", "call.error"] {
        nosy.say("__subscribe", "", json!({"topic": format!("{topic}:{id}")})).await;
    }
    nosy.respond(id, "a lie").await;
    let error = json!({"code": "EXECUTION_ERROR", "message": "a lie", "retryable": false});
    nosy.say("call.error", id, error).await;
    nosy.say("call.completed", id, json!({})).await;
    nosy.say("call.aborted", id, json!({})).await;
    nosy.say("call.progress", id, json!({"progress": 1})).await;
    let unwanted = nosy.next().await;
    assert_eq!((&unwanted["type"], &unwanted["id"]), (&json!("call.aborted"), &json!(id)));

    // Whoever has heard Eve's next question has heard all of the above.
    nosy.ask("r2", "hub.list", json!({"namespace": "nosy"})).await;
    let next = nosy.next().await;
    assert_eq!(next["id"], "r2", "she hears her own answers only: {next}");
    honest.respond(id, "the truth").await;
    assert_eq!(call.await.unwrap(), Ok(json!("the truth")));
    nosy.ask("r3", "demo.add", json!({"a": 1, "b": 1})).await;
    assert_eq!(nosy.next().await["id"], "r3", "and nothing of Ada's");
    drop((honest, nosy));
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_belongs_to_the_identity_that_first_used_it() {
    let (gateway, [ada, eve]) = guarded(["ada", "eve"]).await;
    let mut first = Raw::connect(&gateway, Some(&ada)).await;
    first.register("r1", "mine").await;
    let mut thief = Raw::connect(&gateway, Some(&eve)).await;
    let refused = |answer: &serde_json::Value| {
        assert_eq!(answer["type"], "call.error", "{answer}");
        answer["payload"]["code"].as_str().unwrap().to_owned()
    };
    for name in ["mine", "hub", "demo", "gateway", "toolpost"] {
        let answer = thief.register("r1", name).await;
        assert_eq!(refused(&answer), "ACCESS_DENIED", "{name}");
    }
    assert_eq!(refused(&thief.register("r2", "Not a Name").await), "VALIDATION_ERROR");

    // To say that one is somebody else does not make one so.
    let offer = json!({"name": "mine", "operations": []});
    let posing = json!({
        "operationId": "hub.register", "input": offer,
        "identity": {"id": "ada", "scopes": []},
    });
    thief.say("call.requested", "r3", posing).await;
    assert_eq!(refused(&thief.next().await), "ACCESS_DENIED");

    drop(first);
    super::eventually("the owner leaves", || gateway.gateway.hub().census().online == 0).await;
    let answer = thief.register("r4", "mine").await;
    assert_eq!(refused(&answer), "ACCESS_DENIED", "while it is offline too");
    let mut owner = Raw::connect(&gateway, Some(&ada)).await;
    assert_eq!(owner.register("r1", "mine").await["type"], "call.responded");
    drop((owner, thief));
    gateway.stop().await;
}
