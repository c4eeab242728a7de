//! Messages are translated between protocol families without loss.

use serde_json::{Value, json};

use super::client::{Family, raw_payload};
use super::fixture::RoomFixture;
use super::room_clients::RoomClients;

const PARTICIPANTS: [(&str, Family); 3] =
    [("ada", Family::Mew04), ("bob", Family::Mcpx), ("carl", Family::Mew03)];

/// Each row: the sent kind, its payload, and the METHOD and CONTEXT of the full kind.
fn requests() -> Vec<(&'static str, Value, &'static str)> {
    let tool = |name: &str| json!({"method": "tools/call", "params": {"name": name}});
    let uri = || json!({"method": "resources/read", "params": {"uri": "file:///a:b?c=d#e"}});
    let prompt = json!({"method": "prompts/get", "params": {"name": "debug: me"}});
    let completion = |of: Value| json!({"method": "completion/complete", "params": {"ref": of}});
    vec![
        ("mcp/request", json!({"method": "tools/list"}), "tools/list"),
        ("mcp/request:tools/list", json!({"method": "tools/list"}), "tools/list"),
        ("mcp/request", tool("read_file"), "tools/call:read_file"),
        ("mcp/request:tools/call", tool("read_file"), "tools/call:read_file"),
        ("mcp/request:tools/call:read_file", tool("read_file"), "tools/call:read_file"),
        ("mcp/request:unknown", tool("read_file"), "tools/call:read_file"),
        ("mcp/request:tools", tool("read_file"), "tools/call:read_file"),
        ("mcp", tool("read_file"), "tools/call:read_file"),
        ("mcp/request", uri(), "resources/read:file:///a:b?c=d#e"),
        ("mcp/request:resources/read:file:///a:b?c=d#e", uri(), "resources/read:file:///a:b?c=d#e"),
        ("mcp/request", tool("a*b%c"), "tools/call:a%2Ab%25c"),
        ("mcp/request:tools/call:a*b%c", tool("a*b%c"), "tools/call:a%2Ab%25c"),
        ("mcp/request:tools/call:a%2Ab%25c", tool("a*b%c"), "tools/call:a%2Ab%25c"),
        ("mcp/request", tool("%2A"), "tools/call:%252A"),
        ("mcp/request", prompt, "prompts/get:debug: me"),
        (
            "mcp/request",
            completion(json!({"type": "ref/prompt", "name": "p:q"})),
            "completion/complete:p:q",
        ),
        (
            "mcp/request",
            completion(json!({"type": "ref/resource", "uri": "file:///{path}"})),
            "completion/complete:file:///{path}",
        ),
    ]
}

fn name_of(payload: &Value) -> Value {
    let params = &payload["params"];
    let candidates =
        [&params["name"], &params["uri"], &params["ref"]["name"], &params["ref"]["uri"]];
    candidates.into_iter().find(|it| it.is_string()).cloned().unwrap_or_default()
}

#[tokio::test]
async fn response_context_is_in_kind_or_context_of() {
    let fixture = RoomFixture::start().await;
    let mut clients = RoomClients::join_all(&fixture, "lobby", &PARTICIPANTS).await;
    for (number, (kind, payload, full)) in requests().into_iter().enumerate() {
        for requester in ["ada", "bob"] {
            let id = format!("{requester}-{number}");
            let request = json!({"id": id, "kind": kind, "to": ["carl"], "payload": payload});
            clients.send(requester, &request).await;
            let response = json!({"id": format!("re-{id}"), "kind": "mcp/response",
                "correlation_id": [id], "to": requester, "payload": {"result": {"ok": true}}});
            clients.client("carl").expect("mcp/request", |it| it["id"] == id).await;
            clients.send("carl", &response).await;
            for (name, family) in PARTICIPANTS {
                let one = clients.client(name);
                let kind = format!("mcp/response:{full}");
                let correlation = family.correlation(&id);
                let is_it = |it: &Value| it["correlation_id"] == correlation;
                let seen = one.expect(family.kind(&kind), is_it).await;
                assert_eq!(seen["protocol"], family.protocol());
                assert_eq!((&seen["from"], &seen["to"]), (&json!("carl"), &json!([requester])));
                let about = &seen["context_of"];
                assert_eq!(
                    (&about["method"], &about["name"]),
                    (&payload["method"], &name_of(&payload))
                );
                assert_eq!((&about["request_id"], &about["from"]), (&json!(id), &json!(requester)));
                assert_eq!(about["outcome"], "result");
                if name != "carl" {
                    let kind = format!("mcp/request:{full}");
                    let seen = one.expect(family.kind(&kind), |it| it["id"] == id).await;
                    assert_eq!(seen.get("context_of"), None);
                }
            }
        }
    }
    clients.assert_no_other_messages("ada", "each request and response once").await;
    fixture.stop().await;
}

/// Each row: members of a chat as sent, as encoded for `mew`, and as encoded for `mcpx`.
#[tokio::test]
async fn members_are_encoded_per_protocol_family() {
    let fixture = RoomFixture::start().await;
    let mut clients = RoomClients::join_all(&fixture, "lobby", &PARTICIPANTS).await;
    let time = "2026-01-01T01:00:00.5+01:00";
    let rows = [
        (json!({}), json!({}), json!({})),
        (
            json!({"correlation_id": "a"}),
            json!({"correlation_id": ["a"]}),
            json!({"correlation_id": "a"}),
        ),
        (
            json!({"correlation_id": ["a", "b"]}),
            json!({"correlation_id": ["a", "b"]}),
            json!({"correlation_id": "a"}),
        ),
        (json!({"correlation_id": []}), json!({}), json!({})),
        (json!({"to": "bob"}), json!({"to": ["bob"]}), json!({"to": ["bob"]})),
        (json!({"to": []}), json!({}), json!({})),
        (json!({"to": ["x", "bob"]}), json!({"to": ["x", "bob"]}), json!({"to": ["x", "bob"]})),
        (json!({"context": "thread"}), json!({"context": "thread"}), json!({"context": "thread"})),
        (json!({"mood": [1, null]}), json!({"mood": [1, null]}), json!({"mood": [1, null]})),
        (json!({"context_of": {"method": "forged"}}), json!({}), json!({})),
        (json!({"ts": time}), json!({"ts": time}), json!({"ts": time})),
    ];
    for (number, (sent, mew, mcpx)) in rows.iter().enumerate() {
        for sender in ["ada", "bob", "carl"] {
            let id = format!("{sender}-{number}");
            let common = json!({"id": id, "kind": "chat", "payload": {"text": "hi"}});
            clients.send(sender, &merged(&common, sent)).await;
            for (name, family) in PARTICIPANTS {
                let mut seen = clients.client(name).expect("chat", |it| it["id"] == id).await;
                let form = if family.is_mew() { mew } else { mcpx };
                let mut expected = merged(&common, form);
                expected["from"] = sender.into();
                expected["protocol"] = family.protocol().into();
                if form.get("ts").is_none() {
                    assert!(seen["ts"].as_str().unwrap().ends_with('Z'), "{seen}");
                    expected["ts"] = seen["ts"].take();
                    seen["ts"] = expected["ts"].clone();
                }
                assert_eq!(seen, expected);
            }
        }
    }
    fixture.stop().await;
}

fn merged(one: &Value, other: &Value) -> Value {
    let mut merged = one.clone();
    merged.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    merged
}

/// Each row: a payload. Most of them would change if they were parsed and encoded again.
#[tokio::test]
async fn payloads_are_relayed_byte_for_byte() {
    let fixture = RoomFixture::start().await;
    let mut clients = RoomClients::join_all(&fixture, "lobby", &PARTICIPANTS).await;
    for (number, sent) in [
        r#"{"text":"plain"}"#,
        "{ \"text\" :\t\"spaces\" ,\r\n \"more\" : [ ] }",
        r#"{"text":"numbers","a":123456789012345678901234567890,"b":1.0,"c":1e2,"d":-0.0,"e":0.1000}"#,
        r#"{"z":1,"text":"order","a":2}"#,
        r#"{"text":"esc\u0061pes \/ \ud83d\ude00","k\u0065y":"é"}"#,
        r#"{"text":"null","nothing":null,"deep":[[[[{"a":[null]}]]]]}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("n{number}");
        let message = format!(r#"{{"id":"{id}","kind":"chat","payload": {sent} ,"x":  1.50}}"#);
        clients.client("ada").send_text(&message).await;
        for (name, _) in PARTICIPANTS {
            let text = clients.client(name).expect_text("chat", |it| it["id"] == id).await;
            assert_eq!(raw_payload(&text), sent, "{name}");
            assert!(text.contains("1.50"), "{text}");
        }
        let history = fixture.get_text("ada", "/v0.1/topics/lobby/history?limit=1").await;
        assert!(history.contains(sent) && history.contains("1.50"), "{history}");
    }
    let fixture = fixture.restart().await;
    let history = fixture.get_text("ada", "/v0.1/topics/lobby/history").await;
    assert!(history.contains("123456789012345678901234567890,\"b\":1.0,"), "{history}");
    fixture.stop().await;
}

/// `mcpx` clients treat a request without `jsonrpc` and `id` as a notification, and start with
/// `initialize`, which `mew` does not have.
#[tokio::test]
async fn requests_gain_jsonrpc_and_initialize_is_answered() {
    let fixture = RoomFixture::start().await;
    let mut clients = RoomClients::join_all(&fixture, "lobby", &PARTICIPANTS).await;
    let rows = [
        (r#"{"method":"x/y"}"#, r#"{"jsonrpc":"2.0","id":"ID","method":"x/y"}"#),
        (r#"{"id":7,"method":"x/y"}"#, r#"{"jsonrpc":"2.0","id":7,"method":"x/y"}"#),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"x/y"}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"x/y"}"#,
        ),
        (r#"{"method":"notifications/x"}"#, r#"{"method":"notifications/x"}"#),
    ];
    for (number, (sent, framed)) in rows.into_iter().enumerate() {
        let id = format!("n{number}");
        let message =
            format!(r#"{{"id":"{id}","kind":"mcp/request","to":["bob"],"payload":{sent}}}"#);
        clients.client("ada").send_text(&message).await;
        let method = if sent.contains("notif") { "notifications/x" } else { "x/y" };
        let kind = format!("mcp/request:{method}");
        let seen = clients.client("bob").expect_text(&kind, |it| it["id"] == id).await;
        assert_eq!(raw_payload(&seen), framed.replace("ID", &id));
        let seen = clients.client("carl").expect_text("mcp/request", |it| it["id"] == id).await;
        assert_eq!(raw_payload(&seen), sent);
    }
    for (to, responder) in [("ada", "system:gateway"), ("toolpost", "toolpost")] {
        let initialize = json!({"id": format!("hello-{to}"), "kind": "mcp/request:initialize", "to": [to],
            "payload": {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "bob", "version": "1"}}}});
        clients.send("bob", &initialize).await;
        let response = clients.client("bob").expect("mcp/response:initialize", |_| true).await;
        assert_eq!(response["from"], responder);
        assert_eq!(response["correlation_id"], format!("hello-{to}"));
        assert!(response["payload"]["result"]["capabilities"].is_object(), "{response}");
    }
    fixture.stop().await;
}
