//! The sources of a configuration: spokes that connect, and hubs that the gateway connects to.

use serde_json::json;
use toolpost::{CallRequest, Identity};
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, GatewayBuilder, SourceState, builtin};

use super::{
    RawPeer, TestGateway, call_data, caller, gateway_with_tokens, operation_status, wait_until,
};

fn config(text: &str) -> Config {
    Config::parse("toolpost.toml".as_ref(), text, &|_| None).unwrap()
}

/// Creates a gateway with one identity, `branch`.
fn upstream_gateway(token: &Token) -> GatewayBuilder {
    Gateway::builder(builtin::registry())
        .authenticator(Authenticator::with_tokens([(token.hash(), Identity::new("branch"))]))
}

#[tokio::test(flavor = "multi_thread")]
async fn upstream_hub_is_listed_and_survives_restart() {
    let token = Token::generate().unwrap();
    let upstream = TestGateway::serve(upstream_gateway(&token), "127.0.0.1:0").await;
    let address = upstream.address.to_string();
    let branch = TestGateway::start().await;
    let text = format!(
        "[source.office]\nhub = {{ url = \"ws://{address}\", token = \"{}\" }}\n\
         exclude = [\"demo.fail\"]\n",
        token.reveal()
    );
    let sources = branch.gateway.start_sources(&config(&text));
    let online = || sources.statuses()[0].state == SourceState::Ready;
    wait_until("the other hub is connected", online).await;

    let client = caller(&branch, None).await;
    let rows = [
        ("office.demo.add", "online"),
        ("office.demo.clock", "online"),
        ("office.demo.fail", "not listed"),
        ("office.hub.list", "not listed"),
        ("demo.add", "online"),
    ];
    for (id, expected) in rows {
        assert_eq!(operation_status(&client, id).await, expected, "{id}");
    }
    let five = Ok(json!({"sum": 5}));
    assert_eq!(call_data(&client, "office.demo.add", json!({"a": 2, "b": 3})).await, five);
    let bad = call_data(&client, "office.demo.add", json!({"a": "x"})).await;
    assert_eq!(bad, Err("VALIDATION_ERROR".to_owned()));

    upstream.stop().await;
    wait_until("the other hub is down", || !online()).await;
    assert_eq!(operation_status(&client, "office.demo.add").await, "offline");
    let away = call_data(&client, "office.demo.add", json!({"a": 2, "b": 3})).await;
    assert_eq!(away, Err("UNAVAILABLE".to_owned()));

    let upstream = TestGateway::serve(upstream_gateway(&token), &address).await;
    wait_until("the other hub is back", online).await;
    assert_eq!(call_data(&client, "office.demo.add", json!({"a": 2, "b": 3})).await, five);

    // The connection to the other hub stays open until calls in flight have finished.
    let slow = tokio::spawn(client.call(CallRequest::new("office.demo.slow", json!({"ms": 300}))));
    wait_until("the call is in flight", || upstream.gateway.pipeline().in_flight() == 1).await;
    assert!(branch.stop().await.in_time);
    assert!(slow.await.unwrap().is_ok(), "it finished");
    upstream.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_spoke_requires_its_identity() {
    let (gateway, [ada, eve]) = gateway_with_tokens(["ada", "eve"]).await;
    let text = "[source.box]\nspoke = { identity = \"ada\" }\naccess = { scopes = [\"inside\"] }\n";
    // The identity of a spoke must be in the configuration as well.
    let hash = ada.hash();
    let text = format!("[identity.ada]\ntoken_hash = \"{hash}\"\n{text}");
    let _sources = gateway.gateway.start_sources(&config(&text));
    let mut thief = RawPeer::connect(&gateway, Some(&eve)).await;
    let rejected = thief.register("r1", "box").await;
    assert_eq!(rejected["payload"]["code"], "ACCESS_DENIED", "the name was free before");
    let mut spoke = RawPeer::connect(&gateway, Some(&ada)).await;
    let taken = spoke.register("r1", "box").await;
    assert_eq!(taken["payload"]["output"]["data"]["registered"], json!(["box.wire.ask"]));

    let client = caller(&gateway, Some(&eve)).await;
    assert_eq!(
        operation_status(&client, "box.wire.ask").await,
        "not listed",
        "the scope is missing"
    );
    let denied = call_data(&client, "box.wire.ask", json!({})).await;
    assert_eq!(denied, Err("ACCESS_DENIED".to_owned()));
    drop((spoke, thief));
    gateway.stop().await;
}
