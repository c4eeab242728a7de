//! Filters by kind and operation: of the history, the journal and the messages of a connection.

use serde_json::{Value, json};

use super::client::{Client, Family, connect, parse_json};
use super::fixture::RoomFixture;

const READS: &str = "mcp/response:tools/call:read_*";

/// Joins with a filter in the URL: as `mcpx` with a header, or as `mew` with a first frame.
async fn join_filtered(fixture: &RoomFixture, name: &str, family: Family, query: &str) -> Client {
    let (path, bearer) = match family.is_mew() {
        true => (format!("/ws?{query}"), None),
        false => (format!("/ws?topic=lobby&{query}"), Some(format!("tpt_{name}"))),
    };
    let socket = connect(fixture.server.address, &path, bearer.as_deref()).await.unwrap();
    let mut client = Client::new(socket, family);
    if family.is_mew() {
        let join = json!({"type": "join", "space": "lobby", "token": format!("tpt_{name}")});
        client.send_json(&join).await;
    }
    client.expect_welcome().await.unwrap();
    client
}

/// Calls a tool of `files`, which responds.
async fn call_and_respond(ada: &mut Client, files: &mut Client, id: &str, tool: &str) {
    let request = json!({"id": id, "kind": "mcp/request", "to": ["files"],
        "payload": {"method": "tools/call", "params": {"name": tool}}});
    ada.send_json(&request).await;
    files.expect("mcp/request", |it| it["id"] == id).await;
    let response = json!({"id": format!("re-{id}"), "kind": "mcp/response", "to": ["ada"],
        "correlation_id": [id], "payload": {"result": {"content": []}}});
    files.send_json(&response).await;
    ada.expect("mcp/response", |it| it["correlation_id"] == json!([id])).await;
}

fn ids(messages: &Value) -> Vec<&str> {
    messages.as_array().unwrap().iter().filter_map(|it| it["id"].as_str()).collect()
}

#[tokio::test]
async fn subscription_receives_only_matching_kinds() {
    let fixture = RoomFixture::start().await;
    let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
    let mut files = fixture.join(Family::Mew03, "files", "lobby").await;
    call_and_respond(&mut ada, &mut files, "F0", "read_file").await;
    let query = format!("kind={READS}&kind=stream/data&history=10");
    for (name, family) in [("bob", Family::Mcpx), ("carl", Family::Mew04)] {
        let mut filtered = join_filtered(&fixture, name, family, &query).await;
        assert_eq!(ids(&filtered.welcome["history"])[0], "re-F0", "{}", filtered.welcome);
        for (id, tool) in [("F1", "write_file"), ("F2", "read_file"), ("F3", "read_link")] {
            let id = format!("{name}-{id}");
            call_and_respond(&mut ada, &mut files, &id, tool).await;
            ada.chat("in between").await;
        }
        // Messages of the gateway to the participant itself are not filtered.
        filtered.send_json(&json!({"id": "x", "kind": "system/forged"})).await;
        filtered.expect_rejection("x").await;
        let stream = json!({"id": format!("{name}-S"), "kind": "stream/request", "payload": {}});
        filtered.send_json(&stream).await;
        ada.expect("stream/open", |_| true).await;
        call_and_respond(&mut ada, &mut files, &format!("{name}-last"), "read_last").await;
        let mut received = Vec::new();
        while received.last() != Some(&format!("re-{name}-last")) {
            let message = parse_json(&filtered.next().await.unwrap());
            let kind = family.kind("mcp/response:tools/call");
            assert!(message["kind"].as_str().unwrap().starts_with(kind), "{message}");
            received.push(message["id"].as_str().unwrap().to_owned());
        }
        let expected = ["F2", "F3", "last"].map(|id| format!("re-{name}-{id}"));
        assert_eq!(received, expected);
        filtered.leave().await;
    }
    fixture.stop().await;
}

/// Each row: the kinds of a subscription, and whether it receives stream frames.
#[tokio::test]
async fn subscription_filters_stream_frames() {
    let fixture = RoomFixture::start().await;
    for (query, is_received) in
        [("kind=stream/*", true), ("kind=chat&kind=stream/data", true), ("kind=chat", false)]
    {
        let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
        let mut carl = join_filtered(&fixture, "carl", Family::Mew04, query).await;
        ada.send_json(&json!({"kind": "stream/request", "payload": {}})).await;
        let opened = ada.expect("stream/open", |_| true).await;
        let frame = format!("#{}#data", opened["payload"]["stream_id"].as_str().unwrap());
        ada.send_text(&frame).await;
        ada.expect_stream_frame().await;
        if is_received {
            assert_eq!(carl.expect_stream_frame().await, frame, "{query}");
        } else {
            ada.chat("done").await;
            assert_eq!(carl.read_until_chat("done").await, [""; 0], "{query}");
        }
        ada.leave().await;
        carl.leave().await;
    }
    let bad = connect(fixture.server.address, "/ws?topic=lobby&kind=", Some("tpt_ada")).await;
    assert_eq!(bad.err(), Some(400));
    fixture.stop().await;
}

/// Each row: filters of the history and the journal, and the ids of the messages, newest first.
#[tokio::test]
async fn history_and_journal_filter_by_kind_and_operation() {
    let fixture = RoomFixture::start().await;
    let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
    let mut files = fixture.join(Family::Mew04, "files", "lobby").await;
    for (id, tool) in [("F1", "read_file"), ("F2", "write_file"), ("F3", "read_link")] {
        call_and_respond(&mut ada, &mut files, id, tool).await;
    }
    ada.send_json(&json!({"id": "C", "kind": "chat", "payload": {"text": "hi"}})).await;
    ada.read_until_chat("hi").await;
    // The journal also has the full kind of a rejected message of a `mew` client.
    let mut guest = fixture.join(Family::Mew04, "guest", "lobby").await;
    let denied = json!({"id": "D", "kind": "mcp/request", "to": ["files"],
        "payload": {"method": "tools/call", "params": {"name": "read_more"}}});
    guest.send_json(&denied).await;
    assert_eq!(guest.expect_rejection("D").await["attempted_kind"], "mcp/request");
    // A rejection is sent before it is recorded.
    let recorded = async {
        let input = json!({"room": "lobby", "kind": "mcp/request"});
        while !ids(&fixture.call("auditor", "gateway.journal", &input).await.1["messages"])
            .contains(&"D")
        {}
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), recorded)
        .await
        .expect("the rejection is recorded within 20 s");
    for (kinds, in_history, rejected) in [
        (&[READS][..], &["re-F3", "re-F1"][..], &[][..]),
        (&["mcp/request:tools/call:read_*"], &["F3", "F1"], &["D"]),
        (&["mcp/*:*:write_file"], &["re-F2", "F2"], &[]),
        (&["mcp/request"], &["F3", "F2", "F1"], &["D"]),
        (&["chat", READS], &["C", "re-F3", "re-F1"], &[]),
        (&["chat/*"], &[], &[]),
        (&["*"], &["C", "re-F3", "F3", "re-F2", "F2", "re-F1", "F1"], &["D"]),
    ] {
        let query: String = kinds.iter().map(|kind| format!("&kind={kind}")).collect();
        let (status, page) =
            fixture.get("ada", &format!("/v0.1/topics/lobby/history?limit=100{query}")).await;
        assert_eq!(status, 200, "{page}");
        assert_eq!(ids(&page["messages"]), in_history, "{kinds:?}");
        let first_page =
            fixture.get("ada", &format!("/v0.1/topics/lobby/history?limit=1{query}")).await.1;
        assert_eq!(ids(&first_page["messages"]), in_history[..in_history.len().min(1)]);
        let input = json!({"room": "lobby", "kind": kinds});
        let (status, found) = fixture.call("auditor", "gateway.journal", &input).await;
        assert_eq!(status, 200, "{found}");
        let recorded = [rejected, in_history].concat();
        assert_eq!(ids(&found["messages"]), recorded, "{kinds:?}: {found}");
    }
    let (status, found) =
        fixture.call("auditor", "gateway.journal", &json!({"room": "*", "kind": "chat"})).await;
    assert_eq!((status, ids(&found["messages"])), (200, vec!["C"]), "{found}");
    assert_eq!(fixture.get("ada", "/v0.1/topics/lobby/history?kind=").await.0, 400);
    for input in [json!({"kind": "chat"}), json!({"room": "lobby", "kind": ""})] {
        let (status, found) = fixture.call("auditor", "gateway.journal", &input).await;
        assert_eq!(status, 422, "{input}: {found}");
    }
    fixture.stop().await;
}
