//! Reading rooms over HTTP and deciding their proposals without joining.

use serde_json::{Value, json};
use toolpost_gateway::room::RoomSettings;

use super::client::{Client, Family};
use super::fixture::{RoomFixture, rooms_settings};

async fn propose(agent: &mut Client, id: &str) {
    let proposal = json!({"id": id, "kind": "mcp/proposal", "to": ["toolpost"], "payload": {
        "method": "tools/call", "params": {"name": "demo__add", "arguments": {"a": 2, "b": 3}}}});
    agent.send_json(&proposal).await;
    agent.expect("mcp/proposal:tools/call:demo__add", |it| it["id"] == id).await;
}

async fn expect_proposal_update(agent: &mut Client, id: &str) -> Value {
    agent.expect("system/proposal", |it| it["correlation_id"] == id).await["payload"].take()
}

#[tokio::test]
async fn proposals_are_decided_over_http_with_capability() {
    let fixture = RoomFixture::start().await;
    let mut agent = fixture.join(Family::Mcpx, "agent", "lobby").await;
    propose(&mut agent, "P1").await;
    let (status, listed) = fixture.call("decider", "gateway.approvals", &json!({})).await;
    assert_eq!(status, 200, "{listed}");
    let waiting = &listed["approvals"][0];
    assert_eq!(
        (&waiting["operation"], &waiting["caller"]),
        (&json!("tools/call:demo__add"), &json!("agent"))
    );
    assert_eq!((&waiting["room"], &waiting["input"]), (&json!("lobby"), &json!({"a": 2, "b": 3})));
    let (id, digest) = (&waiting["id"], &waiting["inputDigest"]);
    let approve = "gateway.approve";
    for (caller, input, expected) in [
        ("clerk", json!({"id": id}), 403),
        ("weak", json!({"id": id}), 403),
        ("decider", json!({"id": "lobby/nothing"}), 404),
        ("decider", json!({"id": "attic/P1"}), 404),
        ("decider", json!({"id": id, "inputDigest": "another"}), 409),
        ("decider", json!({"id": id, "inputDigest": digest}), 200),
        ("decider", json!({"id": id, "inputDigest": digest}), 404),
    ] {
        let (status, body) = fixture.call(caller, approve, &input).await;
        assert_eq!(status, expected, "{caller} {input}: {body}");
    }
    let request = agent.expect("mcp/request:tools/call:demo__add", |_| true).await;
    assert_eq!((&request["from"], &request["correlation_id"]), (&json!("decider"), &json!("P1")));
    let response = agent.expect("mcp/response:tools/call:demo__add", |_| true).await;
    assert_eq!(response["payload"]["result"]["structuredContent"], json!({"sum": 5}));
    assert_eq!(
        (&response["context_of"]["proposer"], &response["context_of"]["from"]),
        (&json!("agent"), &json!("decider"))
    );
    let outcome = expect_proposal_update(&mut agent, "P1").await;
    assert_eq!((&outcome["state"], &outcome["outcome"]), (&json!("fulfilled"), &json!("result")));
    let (_, found) = fixture.call("auditor", "gateway.journal", &json!({"op": "demo.add"})).await;
    assert_eq!(found["calls"][0]["identity"], "decider", "{found}");
    propose(&mut agent, "P2").await;
    let rejected = json!({"id": "lobby/P2", "reason": "not today"});
    assert_eq!(fixture.call("clerk", "gateway.reject", &rejected).await.0, 403);
    assert_eq!(fixture.call("decider", "gateway.reject", &rejected).await.0, 200);
    let seen = agent.expect("mcp/reject", |it| it["correlation_id"] == "P2").await;
    assert_eq!(
        (&seen["from"], &seen["payload"]["reason"]),
        (&json!("decider"), &json!("not today"))
    );
    assert_eq!(expect_proposal_update(&mut agent, "P2").await["state"], "rejected");
    let (_, listed) = fixture.call("decider", "gateway.approvals", &json!({})).await;
    assert_eq!(listed["approvals"], json!([]));
    fixture.stop().await;
}

/// Each row: the addressees of a proposal, its arguments, and those that the approver sees.
#[tokio::test]
async fn listed_proposals_mask_secrets_like_the_journal() {
    let fixture = RoomFixture::start().await;
    let mut agent = fixture.join(Family::Mcpx, "agent", "lobby").await;
    let token = format!("tpt_{}", "a".repeat(43));
    let masked_token = format!("tpt_{}", "*".repeat(43));
    let secret = json!({"pin": "1234", "box": 7});
    for (number, (to, arguments, expected)) in [
        (json!(["toolpost"]), secret.clone(), json!({"pin": "***", "box": 7})),
        (Value::Null, secret.clone(), json!({"pin": "***", "box": 7})),
        (json!(["files"]), secret.clone(), secret),
        (json!(["toolpost"]), json!({"box": token}), json!({"box": masked_token})),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("P{number}");
        let params = json!({"name": "bank__unlock", "arguments": arguments});
        let proposal = json!({"id": id, "kind": "mcp/proposal", "to": to,
            "payload": {"method": "tools/call", "params": params}});
        agent.send_json(&proposal).await;
        agent.expect("mcp/proposal:tools/call:bank__unlock", |it| it["id"] == id).await;
        let (_, listed) = fixture.call("decider", "gateway.approvals", &json!({})).await;
        let listed = listed["approvals"].as_array().unwrap();
        let listed = listed.iter().find(|it| it["requestId"] == id).unwrap();
        assert_eq!(listed["input"], expected, "{id}: {listed}");
        let query = json!({"room": "lobby", "limit": 1});
        let (_, found) = fixture.call("auditor", "gateway.journal", &query).await;
        let recorded = &found["messages"][0]["message"]["payload"]["params"]["arguments"];
        assert_eq!(*recorded, expected, "{found}");
    }
    fixture.stop().await;
}

/// An identity that cannot join a room cannot decide its proposals.
#[tokio::test]
async fn only_room_members_decide_its_proposals() {
    let private = |room: &mut RoomSettings| {
        room.members = Some(["agent", "decider"].map(str::to_owned).into());
    };
    let others = |room: &mut RoomSettings| room.members = Some(vec!["agent".to_owned()]);
    let fixture =
        RoomFixture::with(rooms_settings([("private", private), ("others", others)])).await;
    for (room, expected) in [("others", 403), ("private", 200)] {
        let mut agent = fixture.join(Family::Mcpx, "agent", room).await;
        propose(&mut agent, "P").await;
        let id = json!({"id": format!("{room}/P")});
        for decision in ["gateway.approve", "gateway.reject"] {
            let (status, body) = fixture.call("decider", decision, &id).await;
            let is_decided = decision == "gateway.reject" && expected == 200;
            assert_eq!(
                status,
                if is_decided { 404 } else { expected },
                "{room} {decision}: {body}"
            );
        }
    }
    fixture.stop().await;
}

/// Each row: caller, path and status.
#[tokio::test]
async fn rest_api_enforces_room_membership() {
    let private = |room: &mut RoomSettings| room.members = Some(vec!["ada".to_owned()]);
    let fixture = RoomFixture::with(rooms_settings([("private", private)])).await;
    let mut ada = fixture.join(Family::Mew04, "ada", "private").await;
    ada.chat("secret").await;
    ada.read_until_chat("secret").await;
    let long = format!("/v0.1/topics/{}/history", "x".repeat(65));
    for (caller, path, expected) in [
        ("ada", "/v0.1/topics", 200),
        ("unknown", "/v0.1/topics", 401),
        ("ada", "/v0.1/topics/private/participants", 200),
        ("bob", "/v0.1/topics/private/participants", 403),
        ("unknown", "/v0.1/topics/private/participants", 401),
        ("ada", "/v0.1/topics/private/history", 200),
        ("bob", "/v0.1/topics/private/history", 403),
        ("unknown", "/v0.1/topics/private/history", 401),
        ("ada", "/v0.1/topics/private/history?limit=1000", 200),
        ("ada", "/v0.1/topics/private/history?limit=1001", 400),
        ("ada", "/v0.1/topics/private/history?limit=0", 400),
        ("ada", "/v0.1/topics/private/history?limit=-1", 400),
        ("ada", "/v0.1/topics/private/history?limit=all", 400),
        ("ada", "/v0.1/topics/private/history?protocol=mew/v9", 400),
        ("ada", "/v0.1/topics/a%2Fb/history", 400),
        ("ada", "/v0.1/topics/a%20b/history", 400),
        ("ada", "/v0.1/topics/a%00b/participants", 400),
        ("ada", &long, 400),
        ("ada", "/v0.1/topics/empty/history", 200),
    ] {
        let (status, body) = fixture.get(caller, path).await;
        assert_eq!(status, expected, "{caller} {path}: {body}");
        assert!(caller == "ada" || !body.to_string().contains("secret"), "{body}");
    }
    for path in ["/v0.1/topics", "/v0.1/topics/lobby/history", "/v0.1/topics/lobby/participants"] {
        assert_eq!(fixture.get_anonymous(path).await, 401, "{path}");
    }
    let (_, topics) = fixture.get("ada", "/v0.1/topics").await;
    assert_eq!(topics["topics"], json!(["empty", "lobby", "private"]));
    let (_, topics) = fixture.get("bob", "/v0.1/topics").await;
    assert_eq!(topics["topics"], json!(["empty", "lobby"]), "only rooms that the caller may join");
    let (_, there) = fixture.get("ada", "/v0.1/topics/private/participants").await;
    let expected = json!([{"id": "ada", "capabilities": ["*"]}, {"id": "toolpost", "capabilities": ["mcp/response"]}]);
    assert_eq!(there["participants"], expected);
    fixture.stop().await;
}

/// Each row: the `before` parameter and the numbers of the returned messages.
#[tokio::test]
async fn history_pages_back_by_id_or_time_to_empty_page() {
    let small = |room: &mut RoomSettings| room.max_history_messages = 4;
    let fixture = RoomFixture::with(rooms_settings([("small", small)])).await;
    let mut ada = fixture.join(Family::Mew04, "ada", "small").await;
    for number in 0..6 {
        let message = json!({"id": format!("n{number}"), "ts": format!("2026-01-01T00:00:0{number}.000Z"),
            "kind": "chat", "payload": {"text": format!("{number}")}});
        ada.send_json(&message).await;
    }
    ada.read_until_chat("5").await;
    let fixture = {
        for (before, expected) in [
            ("", vec!["5", "4", "3", "2"]),
            ("&before=n4", vec!["3", "2"]),
            ("&before=n2", vec![]),
            ("&before=n0", vec![]),
            ("&before=unknown", vec![]),
            ("&before=2026-01-01T00:00:04.000Z", vec!["3", "2"]),
            ("&before=2026-01-01T02:00:04%2B02:00", vec!["3", "2"]),
            ("&before=2027-01-01T00:00:00.000Z", vec!["5", "4", "3", "2"]),
            ("&before=2025-01-01T00:00:00.000Z", vec![]),
        ] {
            let path = format!("/v0.1/topics/small/history?limit=10{before}");
            let (_, page) = fixture.get("bob", &path).await;
            let texts: Vec<&str> = page["messages"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|it| it["payload"]["text"].as_str())
                .collect();
            assert_eq!(texts, expected, "{before}");
        }
        fixture.restart().await
    };
    let texts: Vec<Value> =
        fixture.history("small").await.iter().map(|it| it["payload"]["text"].clone()).collect();
    assert_eq!(texts, ["5", "4", "3", "2"], "a restart does not change the history");
    fixture.stop().await;
}

/// A restarted client reuses its ids, and paging still terminates.
#[tokio::test]
async fn history_paging_terminates_with_reused_ids() {
    let fixture = RoomFixture::start().await;
    for round in 0..3 {
        let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
        for number in 0..2 {
            let text = format!("{round}.{number}");
            ada.send_json(
                &json!({"id": format!("ada-{number}"), "kind": "chat", "payload": {"text": text}}),
            )
            .await;
            ada.read_until_chat(&text).await;
        }
    }
    let mut before = String::new();
    for _ in 0..6 {
        let (_, page) =
            fixture.get("bob", &format!("/v0.1/topics/lobby/history?limit=1{before}")).await;
        match page["messages"].get(0) {
            Some(message) => before = format!("&before={}", message["id"].as_str().unwrap()),
            None => return fixture.stop().await,
        }
    }
    panic!("the history does not end after six pages");
}
