//! The operations of the registry as a participant: calls need a capability and operation access.

use serde_json::{Value, json};

use super::client::{Client, Family, parse_json};
use super::fixture::RoomFixture;
use super::room_clients::RoomClients;

fn call(id: &str, tool: &str, arguments: &Value) -> Value {
    json!({"id": id, "kind": "mcp/request", "to": ["toolpost"],
        "payload": {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}})
}

async fn expect_response(client: &mut Client, id: &str, full: &str) -> Value {
    let kind = format!("mcp/response:{full}");
    let (kind, about) = (client.family.kind(&kind).to_owned(), client.family.correlation(id));
    client.expect(&kind, |it| it["correlation_id"] == about).await
}

#[tokio::test]
async fn registry_lists_and_calls_tools_in_every_family() {
    let fixture = RoomFixture::start().await;
    for family in Family::ALL {
        let room = format!("{family:?}");
        let mut clerk = fixture.join(family, "clerk", &room).await;
        let mut bob = fixture.join(Family::Mcpx, "bob", &room).await;
        let list = json!({"id": "L", "kind": "mcp/request", "to": ["toolpost"], "payload": {"method": "tools/list"}});
        clerk.send_json(&list).await;
        let listed = expect_response(&mut clerk, "L", "tools/list").await;
        assert_eq!((&listed["from"], &listed["to"]), (&json!("toolpost"), &json!(["clerk"])));
        let tools = listed["payload"]["result"]["tools"].as_array().unwrap();
        assert!(tools.iter().any(|tool| tool["name"] == "demo__add"), "{listed}");
        for (number, (sent, responded)) in
            [(json!(null), None), (json!(7), Some(json!(7))), (json!("a"), Some(json!("a")))]
                .into_iter()
                .enumerate()
        {
            let id = format!("F{number}");
            let mut request = call(&id, "demo__add", &json!({"a": 2, "b": 3}));
            if !sent.is_null() {
                request["payload"]["jsonrpc"] = "2.0".into();
                request["payload"]["id"] = sent;
            }
            clerk.send_json(&request).await;
            for client in [&mut clerk, &mut bob] {
                let seen = expect_response(client, &id, "tools/call:demo__add").await;
                assert_eq!(
                    seen["payload"]["result"]["structuredContent"],
                    json!({"sum": 5}),
                    "{seen}"
                );
                let own = json!(id);
                assert_eq!(seen["payload"]["id"], *responded.as_ref().unwrap_or(&own), "{seen}");
                assert_eq!(
                    (&seen["context_of"]["from"], &seen["context_of"]["outcome"]),
                    (&json!("clerk"), &json!("result"))
                );
            }
        }
    }
    fixture.stop().await;
}

/// Each row: the addressees, the tool, and the outcome of the registry's response; `None` if it
/// sends none.
#[tokio::test]
async fn registry_responds_only_to_addressed_requests() {
    let fixture = RoomFixture::start().await;
    let participants = [("ada", Family::Mew04), ("bob", Family::Mcpx)];
    let mut clients = RoomClients::join_all(&fixture, "lobby", &participants).await;
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
        let mut request = call(&id, tool, &json!({"a": 1, "b": 1}));
        request["to"] = to;
        clients.send("ada", &request).await;
        let full = format!("tools/call:{tool}");
        for (participant, family) in participants {
            let one = clients.client(participant);
            one.expect(family.kind(&format!("mcp/request:{full}")), |it| it["id"] == id).await;
            if let Some(outcome) = outcome {
                let reply = expect_response(one, &id, &full).await;
                assert_eq!(reply["context_of"]["outcome"], outcome, "{reply}");
            }
        }
        // An unexpected response would arrive before the response to this call.
        clients
            .send("ada", &call(&format!("G{number}"), "demo__add", &json!({"a": 1, "b": 1})))
            .await;
        for (participant, family) in participants {
            let one = clients.client(participant);
            one.expect(family.kind("mcp/request:tools/call:demo__add"), |_| true).await;
            expect_response(one, &format!("G{number}"), "tools/call:demo__add").await;
        }
        clients.assert_no_other_messages("ada", tool).await;
    }
    fixture.stop().await;
}

/// Each row: caller and result. Capability and access control must both allow the call.
#[tokio::test]
async fn call_requires_capability_and_operation_access() {
    let fixture = RoomFixture::start().await;
    let participants = [
        ("poor", Family::Mew04),
        ("clerk", Family::Mcpx),
        ("ada", Family::Mew03),
        ("bob", Family::Mcpx),
    ];
    let mut clients = RoomClients::join_all(&fixture, "lobby", &participants).await;
    for (participant, expected) in [("poor", Err("access")), ("ada", Ok("ada")), ("bob", Ok("bob"))]
    {
        clients
            .send(participant, &call(&format!("F-{participant}"), "bank__pay", &json!({})))
            .await;
        let seen = expect_response(
            clients.client(participant),
            &format!("F-{participant}"),
            "tools/call:bank__pay",
        )
        .await;
        let result = &seen["payload"]["result"];
        match expected {
            Ok(name) => {
                assert_eq!(result["structuredContent"]["result"]["paid_by"], name, "{seen}");
            }
            Err(_) => assert_eq!(seen["context_of"]["outcome"], "error", "{seen}"),
        }
    }
    clients.drain("ada").await;
    clients.send("clerk", &call("F-clerk", "bank__pay", &json!({}))).await;
    let rejection = clients.client("clerk").expect_rejection("F-clerk").await;
    assert_eq!(
        (&rejection["error"], &rejection["attempted_kind"]),
        (&json!("capability_violation"), &json!("mcp/request:tools/call:bank__pay"))
    );
    clients.assert_no_other_messages("ada", "a call without the capability").await;
    let (status, found) =
        fixture.call("auditor", "gateway.journal", &json!({"op": "bank.pay"})).await;
    assert_eq!(status, 200, "{found}");
    let calls = found["calls"].as_array().unwrap();
    let records: Vec<[&str; 3]> = calls
        .iter()
        .map(|call| {
            ["identity", "endpoint", "outcome"].map(|member| call[member].as_str().unwrap())
        })
        .collect();
    let endpoint = "rooms";
    assert_eq!(
        records,
        [["bob", endpoint, "ok"], ["ada", endpoint, "ok"], ["poor", endpoint, "error"]]
    );
    fixture.stop().await;
}

/// Tool calls, forwarded MCP methods and requests with invalid params.
#[tokio::test]
async fn every_room_call_is_journaled_with_endpoint_rooms() {
    let fixture = RoomFixture::start().await;
    let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
    for (id, payload, operation) in [
        ("F1", json!({"method": "tools/call", "params": {"name": "bank__pay"}}), "bank.pay"),
        ("F2", json!({"method": "prompts/list"}), "notes.prompts/list"),
        (
            "F3",
            json!({"method": "tools/call",
                "params": {"name": "demo__add", "_meta": {"progressToken": {}}}}),
            "demo.add",
        ),
        ("F4", json!({"method": "tools/call", "params": {"name": "demo__no"}}), "demo.no"),
    ] {
        let request =
            json!({"id": id, "kind": "mcp/request", "to": ["toolpost"], "payload": payload});
        ada.send_json(&request).await;
        ada.expect("mcp/response", |it| it["correlation_id"] == json!([id])).await;
        let query = json!({"op": operation});
        let (status, found) = fixture.call("auditor", "gateway.journal", &query).await;
        assert_eq!(status, 200, "{found}");
        let calls = found["calls"].as_array().unwrap().iter();
        let endpoints: Vec<&str> = calls.map(|call| call["endpoint"].as_str().unwrap()).collect();
        assert_eq!(endpoints, ["rooms"], "{operation}");
    }
    fixture.stop().await;
}

/// Progress goes to the caller only and is not stored.
#[tokio::test]
async fn progress_is_sent_to_caller_only() {
    let fixture = RoomFixture::start().await;
    let participants = [("ada", Family::Mew04), ("bob", Family::Mcpx)];
    let mut clients = RoomClients::join_all(&fixture, "lobby", &participants).await;
    for (caller, other) in [("ada", "bob"), ("bob", "ada")] {
        let id = format!("F-{caller}");
        let mut request = call(&id, "bank__count", &json!({}));
        request["payload"]["params"]["_meta"] = json!({"progressToken": "how far"});
        clients.send(caller, &request).await;
        let one = clients.client(caller);
        let kind = one.family.kind("mcp/notification:notifications/progress").to_owned();
        let records = one.expect(&kind, |it| it["context_of"]["request_id"] == id).await;
        let is_correlated = records["correlation_id"] == one.family.correlation(&id);
        assert_eq!(is_correlated, one.family.is_mew(), "{records}");
        let params = &records["payload"]["params"];
        assert_eq!(
            (&params["progressToken"], &params["progress"]),
            (&json!("how far"), &json!(1.0))
        );
        assert_eq!((&records["from"], &records["to"]), (&json!("toolpost"), &json!([caller])));
        fixture.slow_operation.finish_permits.add_permits(1);
        for participant in [caller, other] {
            let seen =
                expect_response(clients.client(participant), &id, "tools/call:bank__count").await;
            assert_eq!(seen["context_of"]["outcome"], "result", "{seen}");
        }
        clients.client(other).chat("done").await;
        let received = clients.client(other).read_until_chat("done").await.join("\n");
        assert!(!received.contains("progress\":"), "{received}");
        clients.drain("ada").await;
    }
    let history = fixture.history("lobby").await;
    assert!(history.iter().all(|it| !it["kind"].as_str().unwrap().starts_with("mcp/notification")));
    fixture.stop().await;
}

/// `mcpx` clients take the first message that correlates to their request as its response.
#[tokio::test]
async fn progress_does_not_end_request_of_mcpx_client() {
    let fixture = RoomFixture::start().await;
    let mut bob = fixture.join(Family::Mcpx, "bob", "lobby").await;
    let mut files = fixture.join(Family::Mew04, "files", "lobby").await;
    let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
    let call_with_token = |id: &str, to: &str| {
        let mut request = call(id, "bank__count", &json!({}));
        request["payload"]["params"]["_meta"] = json!({"progressToken": 1});
        request["to"] = json!([to]);
        request
    };
    let first_correlated = async |bob: &mut Client, id: &str| loop {
        let message = parse_json(&bob.next().await.unwrap());
        if message["correlation_id"] == id {
            return message;
        }
    };
    let progress = "mcp/notification:notifications/progress";
    bob.send_json(&call_with_token("F1", "toolpost")).await;
    bob.expect(progress, |it| it["context_of"]["request_id"] == "F1").await;
    fixture.slow_operation.finish_permits.add_permits(1);
    let response = first_correlated(&mut bob, "F1").await;
    assert_eq!(response["kind"], "mcp/response:tools/call:bank__count", "{response}");
    // Progress of a participant, as an MCP server sends it.
    bob.send_json(&call_with_token("F2", "ada")).await;
    ada.expect("mcp/request", |it| it["id"] == "F2").await;
    let report = json!({"kind": "mcp/notification", "to": ["bob"], "correlation_id": ["F2"],
        "payload": {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}});
    ada.send_json(&report).await;
    let reply = json!({"kind": "mcp/response", "to": ["bob"], "correlation_id": ["F2"],
        "payload": {"result": {"content": []}}});
    ada.send_json(&reply).await;
    let seen = files.expect("mcp/notification", |_| true).await;
    assert_eq!(seen["correlation_id"], json!(["F2"]), "{seen}");
    let response = first_correlated(&mut bob, "F2").await;
    assert_eq!(response["kind"], "mcp/response:tools/call:bank__count", "{response}");
    let history = fixture.history("lobby").await;
    let stored = history.iter().find(|it| it["kind"] == progress).unwrap();
    assert_eq!(stored["context_of"]["request_id"], "F2", "{stored}");
    fixture.stop().await;
}

/// Each row: the addressees of a request, and which participant responds.
#[tokio::test]
async fn request_to_absent_participant_fails_at_once() {
    let fixture = RoomFixture::start().await;
    fixture.join(Family::Mew04, "carl", "lobby").await.leave().await;
    let participants = [("ada", Family::Mew04), ("bob", Family::Mcpx), ("files", Family::Mew03)];
    let mut clients = RoomClients::join_all(&fixture, "lobby", &participants).await;
    for (number, (to, responder)) in [
        (json!(["carl"]), "system:gateway"),
        (json!("unknown"), "system:gateway"),
        (json!(["carl", "unknown"]), "system:gateway"),
        (json!(["carl", "toolpost"]), "toolpost"),
        (json!(["carl", "files"]), "files"),
    ]
    .into_iter()
    .enumerate()
    {
        for (requester, _) in &participants[..2] {
            let id = format!("{requester}-{number}");
            let mut request = call(&id, "demo__add", &json!({"a": 1, "b": 1}));
            request["to"] = to.clone();
            clients.send(requester, &request).await;
            if responder == "files" {
                clients.client("files").expect("mcp/request", |it| it["id"] == id).await;
                let reply = json!({"kind": "mcp/response", "correlation_id": [id],
                    "payload": {"result": {"content": []}}});
                clients.send("files", &reply).await;
            }
            for (name, _) in participants {
                let seen = expect_response(clients.client(name), &id, "tools/call:demo__add").await;
                assert_eq!(seen["from"], responder, "{seen}");
                let is_error = seen["payload"]["error"]["data"]["error"] == "participant_not_found";
                assert_eq!(is_error, responder == "system:gateway", "{seen}");
            }
        }
        clients.drain("ada").await;
    }
    let history = fixture.history("lobby").await;
    let kinds = history.iter().filter(|it| it["from"] == "system:gateway").map(|it| &it["kind"]);
    assert!(kinds.clone().all(|kind| kind == "mcp/response:tools/call:demo__add"));
    assert_eq!(kinds.count(), 6);
    fixture.stop().await;
}

/// Each row: a form of cancellation by the caller.
#[tokio::test]
async fn only_the_caller_can_cancel_a_call() {
    let fixture = RoomFixture::start().await;
    let participants = [("ada", Family::Mew04), ("bob", Family::Mcpx)];
    let mut clients = RoomClients::join_all(&fixture, "lobby", &participants).await;
    let params =
        |of: Value| json!({"method": "notifications/cancelled", "params": {"requestId": of}});
    for (number, (caller, kind, correlation, requested)) in [
        ("ada", "mcp/notification", json!(["ID"]), Value::Null),
        ("ada", "mcp/request", json!([]), json!("ID")),
        ("bob", "mcp/request:notifications/cancelled", Value::Null, json!(7)),
        ("bob", "mcp/request:notifications/cancelled", json!("ID"), json!(7)),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("F{number}");
        let mut request = call(&id, "bank__count", &json!({}));
        request["payload"]["params"]["_meta"] = json!({"progressToken": 1});
        request["payload"]["id"] = 7.into();
        clients.send(caller, &request).await;
        let one = clients.client(caller);
        let progress = one.family.kind("mcp/notification:notifications/progress").to_owned();
        one.expect(&progress, |_| true).await;
        let filled = |value: &Value| {
            serde_json::from_str::<Value>(&value.to_string().replace("ID", &id)).unwrap()
        };
        let cancel = json!({"kind": kind, "to": ["toolpost"], "correlation_id": filled(&correlation),
            "payload": params(filled(&requested))});
        // A cancellation by another participant has no effect.
        let other = if caller == "ada" { "bob" } else { "ada" };
        clients.send_and_drain(other, &cancel).await;
        assert_eq!(
            fixture.slow_operation.cancellations.available_permits(),
            0,
            "{other} cannot cancel it"
        );
        clients.send(caller, &cancel).await;
        let canceled = tokio::time::timeout(
            std::time::Duration::from_secs(30),
            fixture.slow_operation.cancellations.acquire(),
        );
        canceled.await.expect("the operation is canceled").unwrap().forget();
        let seen = expect_response(clients.client(caller), &id, "tools/call:bank__count").await;
        assert_eq!(seen["context_of"]["outcome"], "error", "{seen}");
        clients.drain("ada").await;
    }
    fixture.stop().await;
}

/// A call that needs approval waits, and the room receives its outcome.
#[tokio::test]
async fn room_call_requiring_approval_waits_for_decision() {
    let fixture = RoomFixture::start().await;
    let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
    for (id, decision, outcome) in
        [("F1", "gateway.approve", "result"), ("F2", "gateway.reject", "error")]
    {
        ada.send_json(&call(id, "bank__lend", &json!({}))).await;
        let waiting = loop {
            let (_, listed) = fixture.call("decider", "gateway.approvals", &json!({})).await;
            if let Some(waiting) = listed["approvals"].get(0) {
                break waiting.clone();
            }
        };
        assert_eq!(
            (&waiting["operation"], &waiting["caller"]),
            (&json!("bank.lend"), &json!("ada"))
        );
        let (status, decided) =
            fixture.call("decider", decision, &json!({"id": waiting["id"]})).await;
        assert_eq!(status, 200, "{decided}");
        let seen = expect_response(&mut ada, id, "tools/call:bank__lend").await;
        assert_eq!(seen["context_of"]["outcome"], outcome, "{seen}");
    }
    fixture.stop().await;
}

/// Each row: who proposes `bank.lend`, who fulfills the proposal, and whether that is the approval.
#[tokio::test]
async fn fulfilled_proposal_waits_for_approval_at_most_once() {
    let fixture = RoomFixture::start().await;
    let names = ["agent", "ada", "decider"];
    let participants = names.map(|name| (name, Family::Mew04));
    let mut clients = RoomClients::join_all(&fixture, "lobby", &participants).await;
    let payload = json!({"method": "tools/call", "params": {"name": "bank__lend"}});
    let approvals = async || {
        let (status, mut listed) = fixture.call("weak", "gateway.approvals", &json!({})).await;
        assert_eq!(status, 200, "{listed}");
        serde_json::from_value::<Vec<Value>>(listed["approvals"].take()).unwrap()
    };
    for (number, (proposer, fulfiller, is_approval)) in [
        ("agent", "decider", true),
        ("agent", "ada", false),
        ("decider", "decider", false),
        ("ada", "decider", true),
    ]
    .into_iter()
    .enumerate()
    {
        let (proposal, request) = (format!("P{number}"), format!("F{number}"));
        let message =
            json!({"id": proposal, "kind": "mcp/proposal", "to": ["toolpost"], "payload": payload});
        clients.send(proposer, &message).await;
        clients.client(fulfiller).expect("mcp/proposal", |it| it["id"] == proposal).await;
        let listed = approvals().await;
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0]["id"], format!("lobby/{proposal}"));
        let message = json!({"id": request, "kind": "mcp/request", "to": ["toolpost"],
            "correlation_id": [proposal], "payload": payload});
        clients.send(fulfiller, &message).await;
        if !is_approval {
            let pending = loop {
                if let [pending] = &approvals().await[..]
                    && pending["room"].is_null()
                {
                    break pending.clone();
                }
            };
            assert_eq!(pending["caller"], fulfiller);
            let (status, decided) =
                fixture.call("weak", "gateway.approve", &json!({"id": pending["id"]})).await;
            assert_eq!(status, 200, "{decided}");
        }
        let seen =
            expect_response(clients.client(fulfiller), &request, "tools/call:bank__lend").await;
        assert_eq!(seen["context_of"]["outcome"], "result", "{seen}");
        assert_eq!(approvals().await, [] as [Value; 0]);
    }
    // The approval is recorded with the proposal and the approver.
    let query = json!({"op": "bank.lend"});
    let (_, found) = fixture.call("auditor", "gateway.journal", &query).await;
    let approver = |call: &Value| call["approval"]["by"].clone();
    let calls = found["calls"].as_array().unwrap();
    assert_eq!(
        calls.iter().map(approver).collect::<Vec<_>>(),
        ["decider", "weak", "weak", "decider"],
        "{found}"
    );
    fixture.stop().await;
}

/// The key may be in the `_meta` of the params, as over MCP, or of the payload.
#[tokio::test]
async fn repeated_key_returns_first_outcome_in_rooms() {
    let fixture = RoomFixture::start().await;
    for family in Family::ALL {
        let room = format!("{family:?}");
        let mut clerk = fixture.join(family, "clerk", &room).await;
        let meta = json!({"toolpost/idempotencyKey": room});
        let mut first = None;
        for (id, in_params) in [("K1", true), ("K2", true), ("K3", false)] {
            let mut request = call(id, "demo__note", &json!({"text": "x"}));
            match in_params {
                true => request["payload"]["params"]["_meta"] = meta.clone(),
                false => request["payload"]["_meta"] = meta.clone(),
            }
            clerk.send_json(&request).await;
            let seen = expect_response(&mut clerk, id, "tools/call:demo__note").await;
            let result = &seen["payload"]["result"];
            let note = result["structuredContent"].clone();
            let is_replayed = result["_meta"]["toolpost/replayed"] == true;
            assert_eq!(is_replayed, first.is_some(), "{seen}");
            assert_eq!(*first.get_or_insert(note.clone()), note, "{seen}");
        }
    }
    fixture.stop().await;
}
