//! What is said in one form is understood in every other, and nothing of it is lost.

use serde_json::{Value, json};

use super::cast::Cast;
use super::client::{Family, payload};
use super::world::World;

const PEOPLE: [(&str, Family); 3] =
    [("ada", Family::Mew04), ("bob", Family::Mcpx), ("carl", Family::Mew03)];

/// Each row: the kind that is sent, its payload, and what stands behind `mcp/request:` and
/// `mcp/response:` for those who read it there.
fn questions() -> Vec<(&'static str, Value, &'static str)> {
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
async fn what_was_asked_stands_in_the_kind_or_beside_the_payload() {
    let world = World::start().await;
    let mut cast = Cast::meet(&world, "lobby", &PEOPLE).await;
    for (number, (kind, payload, full)) in questions().into_iter().enumerate() {
        for asker in ["ada", "bob"] {
            let id = format!("{asker}-{number}");
            let asked = json!({"id": id, "kind": kind, "to": ["carl"], "payload": payload});
            cast.say(asker, &asked).await;
            let answer = json!({"id": format!("re-{id}"), "kind": "mcp/response",
                "correlation_id": [id], "to": asker, "payload": {"result": {"ok": true}}});
            cast.one("carl").expect("mcp/request", |it| it["id"] == id).await;
            cast.say("carl", &answer).await;
            for (who, family) in PEOPLE {
                let one = cast.one(who);
                let kind = format!("mcp/response:{full}");
                let correlation = family.correlation(&id);
                let is_it = |it: &Value| it["correlation_id"] == correlation;
                let seen = one.expect(family.kind(&kind), is_it).await;
                assert_eq!(seen["protocol"], family.protocol());
                assert_eq!((&seen["from"], &seen["to"]), (&json!("carl"), &json!([asker])));
                let about = &seen["context_of"];
                assert_eq!(
                    (&about["method"], &about["name"]),
                    (&payload["method"], &name_of(&payload))
                );
                assert_eq!((&about["request_id"], &about["from"]), (&json!(id), &json!(asker)));
                assert_eq!(about["outcome"], "result");
                if who != "carl" {
                    let kind = format!("mcp/request:{full}");
                    let seen = one.expect(family.kind(&kind), |it| it["id"] == id).await;
                    assert_eq!(seen.get("context_of"), None);
                }
            }
        }
    }
    cast.nothing_else("ada", "every question once, every answer once").await;
    world.stop().await;
}

/// Each row: members of a chat as somebody sends them, in the form of mew, and in that of mcpx.
#[tokio::test]
async fn who_is_addressed_and_what_is_answered_is_written_as_each_family_does() {
    let world = World::start().await;
    let mut cast = Cast::meet(&world, "lobby", &PEOPLE).await;
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
        (json!({"ts": "yesterday"}), json!({"ts": "yesterday"}), json!({"ts": "yesterday"})),
    ];
    for (number, (sent, mew, mcpx)) in rows.iter().enumerate() {
        for sender in ["ada", "bob", "carl"] {
            let id = format!("{sender}-{number}");
            let common = json!({"id": id, "kind": "chat", "payload": {"text": "hi"}});
            cast.say(sender, &merged(&common, sent)).await;
            for (who, family) in PEOPLE {
                let mut seen = cast.one(who).expect("chat", |it| it["id"] == id).await;
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
    world.stop().await;
}

fn merged(one: &Value, other: &Value) -> Value {
    let mut merged = one.clone();
    merged.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    merged
}

/// Each row: a payload that any reader and writer of JSON would change.
#[tokio::test]
async fn payloads_are_handed_on_byte_for_byte() {
    let world = World::start().await;
    let mut cast = Cast::meet(&world, "lobby", &PEOPLE).await;
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
        cast.one("ada").say_text(&message).await;
        for (who, _) in PEOPLE {
            let text = cast.one(who).expect_text("chat", |it| it["id"] == id).await;
            assert_eq!(payload(&text), sent, "{who}");
            assert!(text.contains("1.50"), "{text}");
        }
        let history = world.get_text("ada", "/v0.1/topics/lobby/history?limit=1").await;
        assert!(history.contains(sent) && history.contains("1.50"), "{history}");
    }
    let world = world.restart().await;
    let history = world.get_text("ada", "/v0.1/topics/lobby/history").await;
    assert!(history.contains("123456789012345678901234567890,\"b\":1.0,"), "{history}");
    world.stop().await;
}

/// Clients of one family take a request without `jsonrpc` and `id` for one that nobody answers, and
/// open conversations with a question that the other family has never heard of.
#[tokio::test]
async fn requests_are_framed_for_those_who_need_it_and_greetings_answered() {
    let world = World::start().await;
    let mut cast = Cast::meet(&world, "lobby", &PEOPLE).await;
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
        cast.one("ada").say_text(&message).await;
        let method = if sent.contains("notif") { "notifications/x" } else { "x/y" };
        let kind = format!("mcp/request:{method}");
        let seen = cast.one("bob").expect_text(&kind, |it| it["id"] == id).await;
        assert_eq!(payload(&seen), framed.replace("ID", &id));
        let seen = cast.one("carl").expect_text("mcp/request", |it| it["id"] == id).await;
        assert_eq!(payload(&seen), sent);
    }
    for (to, answerer) in [("ada", "system:gateway"), ("toolpost", "toolpost")] {
        let greeting = json!({"id": format!("hello-{to}"), "kind": "mcp/request:initialize", "to": [to],
            "payload": {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "bob", "version": "1"}}}});
        cast.say("bob", &greeting).await;
        let answer = cast.one("bob").expect("mcp/response:initialize", |_| true).await;
        assert_eq!(answer["from"], answerer);
        assert_eq!(answer["correlation_id"], format!("hello-{to}"));
        assert!(answer["payload"]["result"]["capabilities"].is_object(), "{answer}");
    }
    world.stop().await;
}
