//! The operations of the registry as a participant: asked by members, under capabilities and access
//! control both.

use serde_json::{Value, json};

use super::cast::Cast;
use super::client::{Client, Family};
use super::world::World;

fn call(id: &str, tool: &str, arguments: &Value) -> Value {
    json!({"id": id, "kind": "mcp/request", "to": ["toolpost"],
        "payload": {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}})
}

async fn answer(client: &mut Client, id: &str, full: &str) -> Value {
    let kind = format!("mcp/response:{full}");
    let (kind, about) = (client.family.kind(&kind).to_owned(), client.family.correlation(id));
    client.expect(&kind, |it| it["correlation_id"] == about).await
}

#[tokio::test]
async fn members_list_and_call_operations_in_the_words_of_their_family() {
    let world = World::start().await;
    for family in Family::ALL {
        let room = format!("{family:?}");
        let mut clerk = world.join(family, "clerk", &room).await;
        let mut bob = world.join(Family::Mcpx, "bob", &room).await;
        let list = json!({"id": "L", "kind": "mcp/request", "to": ["toolpost"], "payload": {"method": "tools/list"}});
        clerk.say(&list).await;
        let listed = answer(&mut clerk, "L", "tools/list").await;
        assert_eq!((&listed["from"], &listed["to"]), (&json!("toolpost"), &json!(["clerk"])));
        let tools = listed["payload"]["result"]["tools"].as_array().unwrap();
        assert!(tools.iter().any(|tool| tool["name"] == "demo__add"), "{listed}");
        for (number, (sent, answered)) in
            [(json!(null), None), (json!(7), Some(json!(7))), (json!("a"), Some(json!("a")))]
                .into_iter()
                .enumerate()
        {
            let id = format!("F{number}");
            let mut asked = call(&id, "demo__add", &json!({"a": 2, "b": 3}));
            if !sent.is_null() {
                asked["payload"]["jsonrpc"] = "2.0".into();
                asked["payload"]["id"] = sent;
            }
            clerk.say(&asked).await;
            for client in [&mut clerk, &mut bob] {
                let seen = answer(client, &id, "tools/call:demo__add").await;
                assert_eq!(
                    seen["payload"]["result"]["structuredContent"],
                    json!({"sum": 5}),
                    "{seen}"
                );
                let own = json!(id);
                assert_eq!(seen["payload"]["id"], *answered.as_ref().unwrap_or(&own), "{seen}");
                assert_eq!(
                    (&seen["context_of"]["from"], &seen["context_of"]["outcome"]),
                    (&json!("clerk"), &json!("result"))
                );
            }
        }
    }
    world.stop().await;
}

/// Each row: whom a call is for, of which tool, and how the operations answer; nothing if they do not.
#[tokio::test]
async fn operations_answer_what_is_meant_for_them_and_nothing_else() {
    let world = World::start().await;
    let people = [("ada", Family::Mew04), ("bob", Family::Mcpx)];
    let mut cast = Cast::meet(&world, "lobby", &people).await;
    for (number, (to, tool, outcome)) in [
        (json!(["toolpost"]), "demo__add", Some("result")),
        (json!([]), "demo__add", Some("result")),
        (json!(["bob", "toolpost"]), "demo__add", Some("result")),
        (json!(["toolpost"]), "demo__fail", Some("error")),
        (json!(["toolpost"]), "no_such_tool", Some("error")),
        (json!([]), "no_such_tool", None),
        (json!(["bob"]), "demo__add", None),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("F{number}");
        let mut asked = call(&id, tool, &json!({"a": 1, "b": 1}));
        asked["to"] = to;
        cast.say("ada", &asked).await;
        let full = format!("tools/call:{tool}");
        for (who, family) in people {
            let one = cast.one(who);
            one.expect(family.kind(&format!("mcp/request:{full}")), |it| it["id"] == id).await;
            if let Some(outcome) = outcome {
                let answer = answer(one, &id, &full).await;
                assert_eq!(answer["context_of"]["outcome"], outcome, "{answer}");
            }
        }
        // An answer that nobody wants would come before what is asked next.
        cast.say("ada", &call(&format!("G{number}"), "demo__add", &json!({"a": 1, "b": 1}))).await;
        for (who, family) in people {
            let one = cast.one(who);
            one.expect(family.kind("mcp/request:tools/call:demo__add"), |_| true).await;
            answer(one, &format!("G{number}"), "tools/call:demo__add").await;
        }
        cast.nothing_else("ada", tool).await;
    }
    world.stop().await;
}

/// Each row: who calls, and what comes of it: capability and access control must both allow.
#[tokio::test]
async fn a_call_runs_as_its_caller_if_both_the_room_and_the_operation_allow_it() {
    let world = World::start().await;
    let people = [
        ("poor", Family::Mew04),
        ("clerk", Family::Mcpx),
        ("ada", Family::Mew03),
        ("bob", Family::Mcpx),
    ];
    let mut cast = Cast::meet(&world, "lobby", &people).await;
    for (who, expected) in [("poor", Err("access")), ("ada", Ok("ada")), ("bob", Ok("bob"))] {
        cast.say(who, &call(&format!("F-{who}"), "bank__pay", &json!({}))).await;
        let seen = answer(cast.one(who), &format!("F-{who}"), "tools/call:bank__pay").await;
        let result = &seen["payload"]["result"];
        match expected {
            Ok(name) => {
                assert_eq!(result["structuredContent"]["result"]["paid_by"], name, "{seen}");
            }
            Err(_) => assert_eq!(seen["context_of"]["outcome"], "error", "{seen}"),
        }
    }
    cast.settle("ada").await;
    cast.say("clerk", &call("F-clerk", "bank__pay", &json!({}))).await;
    let refusal = cast.one("clerk").refusal("F-clerk").await;
    assert_eq!(
        (&refusal["error"], &refusal["attempted_kind"]),
        (&json!("capability_violation"), &json!("mcp/request:tools/call:bank__pay"))
    );
    cast.nothing_else("ada", "a call without the capability").await;
    let (status, found) =
        world.call("auditor", "gateway.journal", &json!({"op": "bank.pay"})).await;
    assert_eq!(status, 200, "{found}");
    let calls = found["calls"].as_array().unwrap();
    let told: Vec<[&str; 3]> = calls
        .iter()
        .map(|call| ["who", "door", "outcome"].map(|member| call[member].as_str().unwrap()))
        .collect();
    let door = "workspace";
    assert_eq!(told, [["bob", door, "ok"], ["ada", door, "ok"], ["poor", door, "error"]]);
    world.stop().await;
}

/// The one who asked is told how far it is, and nobody else; it is not kept.
#[tokio::test]
async fn a_slow_call_tells_how_far_it_is() {
    let world = World::start().await;
    let people = [("ada", Family::Mew04), ("bob", Family::Mcpx)];
    let mut cast = Cast::meet(&world, "lobby", &people).await;
    for (asker, other) in [("ada", "bob"), ("bob", "ada")] {
        let id = format!("F-{asker}");
        let mut asked = call(&id, "bank__count", &json!({}));
        asked["payload"]["params"]["_meta"] = json!({"progressToken": "how far"});
        cast.say(asker, &asked).await;
        let one = cast.one(asker);
        let kind = one.family.kind("mcp/notification:notifications/progress").to_owned();
        let about = one.family.correlation(&id);
        let told = one.expect(&kind, |it| it["correlation_id"] == about).await;
        let params = &told["payload"]["params"];
        assert_eq!(
            (&params["progressToken"], &params["progress"]),
            (&json!("how far"), &json!(1.0))
        );
        assert_eq!((&told["from"], &told["to"]), (&json!("toolpost"), &json!([asker])));
        world.slow.may_end.add_permits(1);
        for who in [asker, other] {
            let seen = answer(cast.one(who), &id, "tools/call:bank__count").await;
            assert_eq!(seen["context_of"]["outcome"], "result", "{seen}");
        }
        cast.one(other).chat("done").await;
        let heard = cast.one(other).until_chat("done").await.join("\n");
        assert!(!heard.contains("progress\":"), "{heard}");
        cast.settle("ada").await;
    }
    let kept = world.history("lobby").await;
    assert!(kept.iter().all(|it| !it["kind"].as_str().unwrap().starts_with("mcp/notification")));
    world.stop().await;
}

/// Each row: how somebody says that he does not want the answer any more.
#[tokio::test]
async fn a_call_is_cancelled_by_the_one_who_made_it_and_the_operation_sees_it() {
    let world = World::start().await;
    let people = [("ada", Family::Mew04), ("bob", Family::Mcpx)];
    let mut cast = Cast::meet(&world, "lobby", &people).await;
    let params =
        |of: Value| json!({"method": "notifications/cancelled", "params": {"requestId": of}});
    for (number, (asker, kind, correlation, requested)) in [
        ("ada", "mcp/notification", json!(["ID"]), Value::Null),
        ("ada", "mcp/request", json!([]), json!("ID")),
        ("bob", "mcp/request:notifications/cancelled", Value::Null, json!(7)),
        ("bob", "mcp/request:notifications/cancelled", json!("ID"), json!(7)),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("F{number}");
        let mut asked = call(&id, "bank__count", &json!({}));
        asked["payload"]["params"]["_meta"] = json!({"progressToken": 1});
        asked["payload"]["id"] = 7.into();
        cast.say(asker, &asked).await;
        let one = cast.one(asker);
        let progress = one.family.kind("mcp/notification:notifications/progress").to_owned();
        one.expect(&progress, |_| true).await;
        let filled = |value: &Value| {
            serde_json::from_str::<Value>(&value.to_string().replace("ID", &id)).unwrap()
        };
        let cancel = json!({"kind": kind, "to": ["toolpost"], "correlation_id": filled(&correlation),
            "payload": params(filled(&requested))});
        // What somebody else says about it does not matter.
        let other = if asker == "ada" { "bob" } else { "ada" };
        cast.say_and_settle(other, &cancel).await;
        assert_eq!(world.slow.cancelled.available_permits(), 0, "{other} cannot cancel it");
        cast.say(asker, &cancel).await;
        let cancelled = tokio::time::timeout(
            std::time::Duration::from_secs(30),
            world.slow.cancelled.acquire(),
        );
        cancelled.await.expect("the operation sees it").unwrap().forget();
        let seen = answer(cast.one(asker), &id, "tools/call:bank__count").await;
        assert_eq!(seen["context_of"]["outcome"], "error", "{seen}");
        cast.settle("ada").await;
    }
    world.stop().await;
}

/// A call that somebody has to agree to waits, and the room hears what comes of it.
#[tokio::test]
async fn a_call_that_needs_approval_waits_for_it() {
    let world = World::start().await;
    let mut ada = world.join(Family::Mew04, "ada", "lobby").await;
    for (id, decision, outcome) in
        [("F1", "gateway.approve", "result"), ("F2", "gateway.reject", "error")]
    {
        ada.say(&call(id, "bank__lend", &json!({}))).await;
        let waiting = loop {
            let (_, listed) = world.call("decider", "gateway.approvals", &json!({})).await;
            if let Some(waiting) = listed["approvals"].get(0) {
                break waiting.clone();
            }
        };
        assert_eq!(
            (&waiting["operation"], &waiting["caller"]),
            (&json!("bank.lend"), &json!("ada"))
        );
        let (status, decided) =
            world.call("decider", decision, &json!({"id": waiting["id"]})).await;
        assert_eq!(status, 200, "{decided}");
        let seen = answer(&mut ada, id, "tools/call:bank__lend").await;
        assert_eq!(seen["context_of"]["outcome"], outcome, "{seen}");
    }
    world.stop().await;
}
