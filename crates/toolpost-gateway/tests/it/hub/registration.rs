//! Registration of spokes: their names, the accepted operations, and what remains after a
//! disconnect.

use serde_json::{Value, json};
use toolpost::hub::SpokeConfig;
use toolpost_gateway::GatewaySettings;

use super::super::client;
use super::{
    HubClient, request_event, response_event, spec, start_authenticated_gateway,
    start_open_gateway, stop_gateway,
};

/// Each row: the name, and the expected error code for `ci` and for `root`.
#[tokio::test]
async fn spoke_name_is_owned_by_first_registrant() {
    let running = start_authenticated_gateway(GatewaySettings::default()).await;
    let mut ci = HubClient::with_token(running.address, "ci").await;
    let mut root = HubClient::with_token(running.address, "root").await;
    let operation_specs = json!([spec("fs", "read", "query")]);
    let denied = Some("ACCESS_DENIED");
    for (name, to_ci, to_root) in [
        ("box", None, denied),
        ("box", None, denied),
        ("demo", denied, denied),
        ("hub", denied, denied),
        ("gateway", denied, denied),
        ("toolpost", denied, denied),
        ("who", denied, denied),
        ("Box", Some("VALIDATION_ERROR"), Some("VALIDATION_ERROR")),
        ("box.fs", Some("VALIDATION_ERROR"), Some("VALIDATION_ERROR")),
        ("", Some("VALIDATION_ERROR"), Some("VALIDATION_ERROR")),
    ] {
        for (raw, expected) in [(&mut ci, to_ci), (&mut root, to_root)] {
            let error_code = raw.register(name, &operation_specs).await.err();
            assert_eq!(error_code.as_deref(), expected, "{name}");
            raw.assert_works(name).await;
        }
    }
    // The name still belongs to its owner after a disconnect.
    drop(ci);
    while running.gateway.hub().stats().offline_spokes == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(root.register("box", &operation_specs).await, Err("ACCESS_DENIED".to_owned()));
    let mut again = HubClient::with_token(running.address, "ci").await;
    again.register("box", &operation_specs).await.unwrap();
    stop_gateway(running, (again, root)).await;
}

/// Only the spokes that the operator configured can register.
#[tokio::test]
async fn registration_accepts_only_configured_names() {
    let mut settings = GatewaySettings::default();
    settings.hub.max_spokes = 0;
    let running = start_authenticated_gateway(settings).await;
    let mut rules = SpokeConfig::default();
    rules.owner = Some("ci".to_owned());
    running.gateway.hub().configure_spoke("box", rules);
    let operation_specs = json!([spec("fs", "read", "query")]);
    for (token, name, expected) in [
        ("ci", "box", None),
        ("ci", "other", Some("ACCESS_DENIED")),
        ("root", "box", Some("ACCESS_DENIED")),
        ("root", "other", Some("ACCESS_DENIED")),
    ] {
        let mut raw = HubClient::with_token(running.address, token).await;
        assert_eq!(
            raw.register(name, &operation_specs).await.err().as_deref(),
            expected,
            "{token} {name}"
        );
    }
    running.stop().await;
}

#[tokio::test]
async fn register_requires_hub_connection() {
    let running = start_open_gateway().await;
    let registration = json!({"name": "box", "operations": []});
    let url = running.url("/api/hub/register");
    let response = client().post(url).json(&registration).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 422);
    let mut raw = HubClient::connect(running.address).await;
    let around = json!({"id": "hub.register", "input": registration});
    assert_eq!(raw.call("hub.call", around).await, Err("VALIDATION_ERROR".to_owned()));
    assert_eq!(running.gateway.hub().stats().online_spokes, 0);
    stop_gateway(running, raw).await;
}

async fn list_operations(raw: &mut HubClient, namespace: &str) -> Vec<(String, String)> {
    let list = raw.call("hub.list", json!({"namespace": namespace})).await.unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let operations = list["operations"].as_array().unwrap().iter();
    operations.map(|item| (text(&item["id"]), text(&item["status"]))).collect()
}

fn expect_online(ids: &[&str]) -> Vec<(String, String)> {
    ids.iter().map(|id| ((*id).to_owned(), "online".to_owned())).collect()
}

#[tokio::test]
async fn invalid_operation_is_rejected_and_others_registered() {
    let running = start_open_gateway().await;
    let mut spoke = HubClient::connect(running.address).await;
    let mut bad_schema = spec("fs", "bad", "query");
    bad_schema["inputSchema"] = json!({"type": "strnig"});
    let operation_specs = json!([
        spec("fs", "read", "query"),
        bad_schema,
        spec("fs", "write", "mutation"),
        spec("Fs", "read", "query"),
        spec("fs", "odd", "query-ish"),
        spec("fs", "read", "query"),
        5,
        {"namespace": "fs"},
    ]);
    let response = spoke.register("box", &operation_specs).await.unwrap();
    assert_eq!(response["registered"], json!(["box.fs.read", "box.fs.write"]), "{response}");
    let rows = [
        ("fs.bad", "inputSchema"),
        ("Fs.read", "Fs"),
        ("fs.odd", "query-ish"),
        ("fs.read", "duplicate"),
        ("operations[6]", ""),
        ("operations[7]", "missing field"),
    ];
    let rejected = response["refused"].as_array().unwrap();
    assert_eq!(rejected.len(), rows.len(), "{response}");
    for (rejected, (id, message)) in rejected.iter().zip(rows) {
        assert_eq!(rejected["id"], id, "{response}");
        let reason = rejected["reason"].as_str().unwrap();
        assert!(!reason.is_empty() && reason.contains(message), "{id}: {reason}");
    }
    let mut caller = HubClient::connect(running.address).await;
    assert_eq!(
        list_operations(&mut caller, "box").await,
        expect_online(&["box.fs.read", "box.fs.write"])
    );

    // A second registration replaces the first.
    let operation_specs = json!([spec("fs", "write", "mutation"), spec("fs", "stat", "query")]);
    let response = spoke.register("box", &operation_specs).await.unwrap();
    assert_eq!(response, json!({"registered": ["box.fs.write", "box.fs.stat"], "refused": []}));
    assert_eq!(
        list_operations(&mut caller, "box").await,
        expect_online(&["box.fs.stat", "box.fs.write"])
    );
    let removed_call = caller.call("box.fs.read", json!({})).await;
    assert_eq!(removed_call, Err("OPERATION_NOT_FOUND".to_owned()));
    spoke.register("box", &json!([])).await.unwrap();
    assert_eq!(list_operations(&mut caller, "box").await, []);
    stop_gateway(running, (spoke, caller)).await;
}

#[tokio::test]
async fn hub_list_is_paginated() {
    let running = start_open_gateway().await;
    let mut spoke = HubClient::connect(running.address).await;
    let name = |number: usize| format!("op-{number:03}");
    let operation_specs: Vec<_> =
        (0..450).map(|number| spec("x", &name(number), "query")).collect();
    let response = spoke.register("box", &json!(operation_specs)).await.unwrap();
    assert_eq!(response["registered"].as_array().unwrap().len(), 450);
    let (mut input, mut pages, mut ids) = (json!({"namespace": "box"}), Vec::new(), Vec::new());
    loop {
        let page = spoke.call("hub.list", input.clone()).await.unwrap();
        let operations = page["operations"].as_array().unwrap();
        pages.push(operations.len());
        ids.extend(operations.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        match &page["nextCursor"] {
            Value::Null => break,
            cursor => input["cursor"] = cursor.clone(),
        }
    }
    assert_eq!(pages, [200, 200, 50]);
    let expected: Vec<_> = (0..450).map(|number| format!("box.x.{}", name(number))).collect();
    assert_eq!(ids, expected);
    stop_gateway(running, spoke).await;
}

#[tokio::test]
async fn disconnected_spoke_operations_are_offline() {
    let running = start_open_gateway().await;
    let operation_specs = json!([spec("fs", "read", "query"), spec("fs", "write", "mutation")]);
    let mut spoke = HubClient::connect(running.address).await;
    spoke.register("box", &operation_specs).await.unwrap();
    let mut caller = HubClient::connect(running.address).await;
    // One call is in flight at the spoke when it disconnects.
    caller.send_json(&request_event("lost", "box.fs.write", &json!({}))).await;
    spoke.recv_event().await;
    drop(spoke);
    let lost = caller.recv_event().await;
    assert_eq!(lost["payload"]["code"], "UNAVAILABLE", "{lost}");
    assert_eq!(lost["payload"]["retryable"], false, "the call may have run: {lost}");
    assert_eq!(lost["payload"]["details"]["mayHaveRun"], true, "{lost}");
    while running.gateway.hub().stats().offline_spokes == 0 {
        tokio::task::yield_now().await;
    }

    let offline = |id: &str| (id.to_owned(), "offline".to_owned());
    let expected = [offline("box.fs.read"), offline("box.fs.write")];
    assert_eq!(list_operations(&mut caller, "box").await, expected);
    let schema_result = caller.call("hub.schema", json!({"id": "box.fs.write"})).await.unwrap();
    assert_eq!(schema_result["status"], "offline");
    for (operation, input) in [
        ("box.fs.read", json!({})),
        ("box.fs.write", json!({})),
        ("hub.call", json!({"id": "box.fs.write", "input": {}})),
    ] {
        caller.send_json(&request_event("1", operation, &input)).await;
        let event = caller.recv_event().await;
        assert_eq!(event["payload"]["code"], "UNAVAILABLE", "{event}");
        assert_eq!(event["payload"]["retryable"], true, "nothing was sent: {event}");
        assert!(event["payload"].get("details").is_none(), "{event}");
        caller.assert_works(operation).await;
    }

    let mut back = HubClient::connect(running.address).await;
    back.register("box", &operation_specs).await.unwrap();
    assert_eq!(
        list_operations(&mut caller, "box").await,
        expect_online(&["box.fs.read", "box.fs.write"])
    );
    caller.send_json(&request_event("1", "box.fs.read", &json!({}))).await;
    let forwarded_request = back.recv_event().await;
    back.send_json(&response_event(forwarded_request["id"].as_str().unwrap(), &json!("back")))
        .await;
    assert_eq!(caller.recv_event().await["payload"]["output"]["data"], "back");
    stop_gateway(running, (back, caller)).await;
}
