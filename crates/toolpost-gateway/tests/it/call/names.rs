//! What spokes offer: under which names, what of it is taken, and what is left when they leave.

use serde_json::{Value, json};
use toolpost::hub::SpokeRules;
use toolpost_gateway::GatewaySettings;

use super::super::client;
use super::{Raw, closed, open, requested, responded, spec, stop};

/// Each row: who registers, under which name, and what it is told.
#[tokio::test]
async fn a_name_belongs_to_whoever_used_it_first_and_some_to_nobody() {
    let running = closed(GatewaySettings::default()).await;
    let mut ci = Raw::with_token(running.address, "ci").await;
    let mut root = Raw::with_token(running.address, "root").await;
    let offer = json!([spec("fs", "read", "query")]);
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
            let told = raw.register(name, &offer).await.err();
            assert_eq!(told.as_deref(), expected, "{name}");
            raw.assert_works(name).await;
        }
    }
    // The name stays its owner's after the owner has left.
    drop(ci);
    while running.gateway.hub().census().offline == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(root.register("box", &offer).await, Err("ACCESS_DENIED".to_owned()));
    let mut again = Raw::with_token(running.address, "ci").await;
    again.register("box", &offer).await.unwrap();
    stop(running, (again, root)).await;
}

/// Where nobody but those whom the operator has named may offer operations.
#[tokio::test]
async fn only_names_that_are_settled_are_taken() {
    let mut settings = GatewaySettings::default();
    settings.hub.spokes = 0;
    let running = closed(settings).await;
    let mut rules = SpokeRules::default();
    rules.owner = Some("ci".to_owned());
    running.gateway.hub().expect("box", rules);
    let offer = json!([spec("fs", "read", "query")]);
    for (who, name, expected) in [
        ("ci", "box", None),
        ("ci", "other", Some("ACCESS_DENIED")),
        ("root", "box", Some("ACCESS_DENIED")),
        ("root", "other", Some("ACCESS_DENIED")),
    ] {
        let mut raw = Raw::with_token(running.address, who).await;
        assert_eq!(raw.register(name, &offer).await.err().as_deref(), expected, "{who} {name}");
    }
    running.stop().await;
}

#[tokio::test]
async fn only_a_connection_can_register() {
    let running = open().await;
    let offer = json!({"name": "box", "operations": []});
    let url = running.url("/api/hub/register");
    let response = client().post(url).json(&offer).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 422);
    let mut raw = Raw::connect(running.address).await;
    let around = json!({"id": "hub.register", "input": offer});
    assert_eq!(raw.call("hub.call", around).await, Err("VALIDATION_ERROR".to_owned()));
    assert_eq!(running.gateway.hub().census().online, 0);
    stop(running, raw).await;
}

async fn listed(raw: &mut Raw, namespace: &str) -> Vec<(String, String)> {
    let list = raw.call("hub.list", json!({"namespace": namespace})).await.unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let operations = list["operations"].as_array().unwrap().iter();
    operations.map(|item| (text(&item["id"]), text(&item["status"]))).collect()
}

fn online(ids: &[&str]) -> Vec<(String, String)> {
    ids.iter().map(|id| ((*id).to_owned(), "online".to_owned())).collect()
}

#[tokio::test]
async fn one_bad_operation_is_refused_with_its_reason_and_the_others_stay() {
    let running = open().await;
    let mut spoke = Raw::connect(running.address).await;
    let mut bad_schema = spec("fs", "bad", "query");
    bad_schema["inputSchema"] = json!({"type": "strnig"});
    let offer = json!([
        spec("fs", "read", "query"),
        bad_schema,
        spec("fs", "write", "mutation"),
        spec("Fs", "read", "query"),
        spec("fs", "odd", "query-ish"),
        spec("fs", "read", "query"),
        5,
        {"namespace": "fs"},
    ]);
    let answer = spoke.register("box", &offer).await.unwrap();
    assert_eq!(answer["registered"], json!(["box.fs.read", "box.fs.write"]), "{answer}");
    let rows = [
        ("fs.bad", "inputSchema"),
        ("Fs.read", "Fs"),
        ("fs.odd", "query-ish"),
        ("fs.read", "twice"),
        ("operations[6]", ""),
        ("operations[7]", "missing field"),
    ];
    let refused = answer["refused"].as_array().unwrap();
    assert_eq!(refused.len(), rows.len(), "{answer}");
    for (refused, (id, words)) in refused.iter().zip(rows) {
        assert_eq!(refused["id"], id, "{answer}");
        let reason = refused["reason"].as_str().unwrap();
        assert!(!reason.is_empty() && reason.contains(words), "{id}: {reason}");
    }
    let mut caller = Raw::connect(running.address).await;
    assert_eq!(listed(&mut caller, "box").await, online(&["box.fs.read", "box.fs.write"]));

    // Another list replaces the first.
    let offer = json!([spec("fs", "write", "mutation"), spec("fs", "stat", "query")]);
    let answer = spoke.register("box", &offer).await.unwrap();
    assert_eq!(answer, json!({"registered": ["box.fs.write", "box.fs.stat"], "refused": []}));
    assert_eq!(listed(&mut caller, "box").await, online(&["box.fs.stat", "box.fs.write"]));
    let gone = caller.call("box.fs.read", json!({})).await;
    assert_eq!(gone, Err("OPERATION_NOT_FOUND".to_owned()));
    spoke.register("box", &json!([])).await.unwrap();
    assert_eq!(listed(&mut caller, "box").await, []);
    stop(running, (spoke, caller)).await;
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    let running = open().await;
    let mut spoke = Raw::connect(running.address).await;
    let name = |number: usize| format!("op-{number:03}");
    let offer: Vec<_> = (0..450).map(|number| spec("x", &name(number), "query")).collect();
    let answer = spoke.register("box", &json!(offer)).await.unwrap();
    assert_eq!(answer["registered"].as_array().unwrap().len(), 450);
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
    stop(running, spoke).await;
}

#[tokio::test]
async fn what_a_spoke_leaves_behind_is_offline_and_fails_before_it_is_sent() {
    let running = open().await;
    let offer = json!([spec("fs", "read", "query"), spec("fs", "write", "mutation")]);
    let mut spoke = Raw::connect(running.address).await;
    spoke.register("box", &offer).await.unwrap();
    let mut caller = Raw::connect(running.address).await;
    // One call is with the spoke when it leaves.
    caller.say(&requested("lost", "box.fs.write", &json!({}))).await;
    spoke.hear().await;
    drop(spoke);
    let lost = caller.hear().await;
    assert_eq!(lost["payload"]["code"], "UNAVAILABLE", "{lost}");
    assert_eq!(lost["payload"]["retryable"], false, "it may have run: {lost}");
    assert_eq!(lost["payload"]["details"]["mayHaveRun"], true, "{lost}");
    while running.gateway.hub().census().offline == 0 {
        tokio::task::yield_now().await;
    }

    let offline = |id: &str| (id.to_owned(), "offline".to_owned());
    let expected = [offline("box.fs.read"), offline("box.fs.write")];
    assert_eq!(listed(&mut caller, "box").await, expected);
    let shown = caller.call("hub.schema", json!({"id": "box.fs.write"})).await.unwrap();
    assert_eq!(shown["status"], "offline");
    for (operation, input) in [
        ("box.fs.read", json!({})),
        ("box.fs.write", json!({})),
        ("hub.call", json!({"id": "box.fs.write", "input": {}})),
    ] {
        caller.say(&requested("1", operation, &input)).await;
        let event = caller.hear().await;
        assert_eq!(event["payload"]["code"], "UNAVAILABLE", "{event}");
        assert_eq!(event["payload"]["retryable"], true, "nothing was sent: {event}");
        assert!(event["payload"].get("details").is_none(), "{event}");
        caller.assert_works(operation).await;
    }

    let mut back = Raw::connect(running.address).await;
    back.register("box", &offer).await.unwrap();
    assert_eq!(listed(&mut caller, "box").await, online(&["box.fs.read", "box.fs.write"]));
    caller.say(&requested("1", "box.fs.read", &json!({}))).await;
    let asked = back.hear().await;
    back.say(&responded(asked["id"].as_str().unwrap(), &json!("back"))).await;
    assert_eq!(caller.hear().await["payload"]["output"]["data"], "back");
    stop(running, (back, caller)).await;
}
