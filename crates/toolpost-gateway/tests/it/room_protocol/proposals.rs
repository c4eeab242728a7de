//! The lifecycle of a proposal: an agent proposes, a person approves, and a server of either family
//! or the registry responds. Then a later participant reads the history.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Client, Family, JoinOptions};
use super::fixture::{RoomFixture, rooms_settings};

/// The responder: a participant of a family, or the registry.
const RESPONDERS: [(&str, Option<Family>); 3] = [
    ("mew-server", Some(Family::Mew04)),
    ("mcpx-server", Some(Family::Mcpx)),
    ("operations", None),
];

#[tokio::test]
async fn proposal_lifecycle_is_self_contained_in_history() {
    let fixture = RoomFixture::start().await;
    for (room, server) in RESPONDERS {
        let mut scenario = ProposalScenario::join_all(&fixture, room, server).await;
        scenario.call_directly().await;
        scenario.fulfill("P1", "F1", scenario.working_tool, "result").await;
        scenario.reject("P2").await;
        scenario.withdraw("P3").await;
        scenario.fulfill("P4", "F4", scenario.failing_tool, "error").await;
        scenario.check_history(&fixture, room).await;
    }
    fixture.stop().await;
}

#[tokio::test]
async fn expired_proposal_notifies_proposer() {
    let short_expiry = |room: &mut toolpost_gateway::room::RoomSettings| {
        room.proposal_expires = Duration::from_millis(1);
    };
    let fixture = RoomFixture::with(rooms_settings([("hasty", short_expiry)])).await;
    let mut scenario = ProposalScenario::join_all(&fixture, "hasty", Some(Family::Mew04)).await;
    scenario.propose("P1", scenario.working_tool).await;
    let over = scenario.human.expect("mcp/reject", |_| true).await;
    assert_eq!(
        (&over["from"], &over["correlation_id"]),
        (&json!("system:gateway"), &json!(["P1"]))
    );
    assert_eq!(over["payload"]["reason"], "timeout");
    scenario.agent.expect("mcp/reject", |it| it["correlation_id"] == "P1").await;
    let update = scenario.expect_proposal_update("P1").await;
    assert_eq!((&update["state"], &update["name"]), (&json!("expired"), &json!("read_file")));
    // Approval after the expiry is rejected.
    scenario.approve("P1", "F1", scenario.working_tool).await;
    let rejection = scenario.human.expect_rejection("F1").await;
    assert_eq!(rejection["error"], "proposal_closed", "{rejection}");
    let kinds: Vec<Value> =
        fixture.history("hasty").await.iter().map(|it| it["kind"].clone()).collect();
    assert_eq!(kinds, ["mcp/reject", "mcp/proposal:tools/call:read_file"]);
    fixture.stop().await;
}

/// Proposals and requests are restored after a restart.
#[tokio::test]
async fn proposals_and_requests_survive_restart() {
    let fixture = RoomFixture::start().await;
    let mut scenario = ProposalScenario::join_all(&fixture, "lobby", Some(Family::Mew04)).await;
    for id in ["P1", "P2"] {
        scenario.propose(id, scenario.working_tool).await;
    }
    scenario.approve("P1", "F1", scenario.working_tool).await;
    scenario.human.expect("mcp/request", |it| it["id"] == "F1").await;
    let fixture = fixture.restart().await;
    let mut scenario = ProposalScenario::join_all(&fixture, "lobby", Some(Family::Mcpx)).await;
    scenario.approve("P1", "F2", scenario.working_tool).await;
    assert_eq!(scenario.human.expect_rejection("F2").await["error"], "proposal_closed");
    let reply = json!({"kind": "mcp/response:tools/call", "correlation_id": "F1", "to": ["human"],
        "payload": {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}});
    scenario.server.as_mut().unwrap().send_json(&reply).await;
    let seen = scenario.human.expect("mcp/response", |_| true).await;
    assert_eq!(seen["context_of"]["proposer"], "agent", "{seen}");
    assert_eq!(scenario.expect_proposal_update("P1").await["outcome"], "result");
    scenario.approve("P2", "F3", scenario.working_tool).await;
    scenario.respond("F3", scenario.working_tool, "result").await;
    assert_eq!(scenario.expect_proposal_update("P2").await["outcome"], "result");
    fixture.stop().await;
}

/// Each row: the addressees of the proposal, those of the fulfilling request, and those of the
/// request as delivered. The tool is one of the registry, which must not respond for `files`.
#[tokio::test]
async fn fulfillment_inherits_addressees_of_proposal() {
    let fixture = RoomFixture::start().await;
    let payload = ProposalScenario::call_payload("demo__add");
    for (number, (proposed, sent, expected)) in [
        (json!(["files"]), Value::Null, json!(["files"])),
        (json!("files"), json!([]), json!(["files"])),
        (json!(["toolpost"]), Value::Null, json!(["toolpost"])),
        (json!(["files"]), json!(["toolpost"]), json!(["toolpost"])),
        (Value::Null, Value::Null, Value::Null),
    ]
    .into_iter()
    .enumerate()
    {
        let room = format!("row-{number}");
        let mut scenario = ProposalScenario::join_all(&fixture, &room, Some(Family::Mcpx)).await;
        let mut ada = fixture.join(Family::Mew04, "ada", &room).await;
        let proposal =
            json!({"id": "P", "kind": "mcp/proposal", "to": proposed, "payload": payload});
        scenario.agent.send_json(&proposal).await;
        scenario.human.expect("mcp/proposal", |_| true).await;
        let request = json!({"id": "F", "kind": "mcp/request", "to": sent, "correlation_id": ["P"],
            "payload": payload});
        scenario.human.send_json(&request).await;
        let seen = ada.expect("mcp/request", |it| it["id"] == "F").await;
        assert_eq!(seen["to"], expected, "{seen}");
        let responder = if expected == json!(["files"]) { "files" } else { "toolpost" };
        if responder == "files" {
            let reply = json!({"id": "R", "kind": "mcp/response", "correlation_id": ["F"],
                "payload": {"result": {}}});
            ada.send_json(&reply).await;
            assert_eq!(ada.expect_rejection("R").await["error"], "not_addressee");
            scenario.server.as_mut().unwrap().send_json(&reply).await;
        }
        let seen = scenario.human.expect("mcp/response", |_| true).await;
        assert_eq!(seen["from"], responder, "{seen}");
        assert_eq!(scenario.expect_proposal_update("P").await["by"], responder);
    }
    fixture.stop().await;
}

struct ProposalScenario {
    agent: Client,
    human: Client,
    server: Option<Client>,
    /// The participant that receives the requests.
    server_name: &'static str,
    /// A tool that succeeds and one that fails.
    working_tool: &'static str,
    failing_tool: &'static str,
}

impl ProposalScenario {
    async fn join_all(fixture: &RoomFixture, room: &str, server: Option<Family>) -> Self {
        let agent = fixture.join(Family::Mcpx, "agent", room).await;
        let human = fixture.join(Family::Mew04, "human", room).await;
        let (name, good, bad) = match server {
            Some(_) => ("files", "read_file", "delete_file"),
            None => ("toolpost", "demo__add", "demo__fail"),
        };
        let server = match server {
            Some(family) => Some(fixture.join(family, "files", room).await),
            None => None,
        };
        Self { agent, human, server, server_name: name, working_tool: good, failing_tool: bad }
    }

    fn call_payload(tool: &str) -> Value {
        let arguments = json!({"a": 2, "b": 3});
        json!({"method": "tools/call", "params": {"name": tool, "arguments": arguments}})
    }

    async fn call_directly(&mut self) {
        let call = json!({"id": "F0", "kind": "mcp/request", "to": [self.server_name],
            "payload": Self::call_payload(self.working_tool)});
        self.human.send_json(&call).await;
        self.respond("F0", self.working_tool, "result").await;
        let reply = self.human.expect("mcp/response", |it| it["correlation_id"][0] == "F0").await;
        assert_eq!((&reply["from"], &reply["to"]), (&json!(self.server_name), &json!(["human"])));
        assert!(reply["payload"]["result"].is_object(), "{reply}");
    }

    /// The agent may not make the call and proposes it instead; the person receives the complete
    /// proposal.
    async fn propose(&mut self, id: &str, tool: &str) {
        let kind = format!("mcp/request:tools/call:{tool}");
        let (payload, to) = (Self::call_payload(tool), [self.server_name]);
        let tried = json!({"protocol": "mcpx/v0.1", "id": format!("tried-{id}"), "kind": kind,
            "to": to, "payload": payload});
        self.agent.send_json(&tried).await;
        let rejection = self.agent.expect_rejection(&format!("tried-{id}")).await;
        assert_eq!(
            (&rejection["error"], &rejection["attempted_kind"]),
            (&json!("capability_violation"), &json!(kind))
        );
        let proposal = json!({"protocol": "mcpx/v0.1", "id": id, "to": to, "payload": payload,
            "kind": format!("mcp/proposal:tools/call:{tool}")});
        self.agent.send_json(&proposal).await;
        let seen = self.human.expect("mcp/proposal", |it| it["id"] == id).await;
        assert_eq!((&seen["from"], &seen["payload"]), (&json!("agent"), &payload));
        assert_eq!(seen["protocol"], "mew/v0.4");
    }

    async fn approve(&mut self, proposal: &str, request: &str, tool: &str) {
        let approved = json!({"protocol": "mew/v0.4", "id": request, "kind": "mcp/request",
            "to": [self.server_name], "correlation_id": [proposal], "payload": Self::call_payload(tool)});
        self.human.send_json(&approved).await;
    }

    async fn fulfill(&mut self, proposal: &str, request: &str, tool: &str, outcome: &str) {
        self.propose(proposal, tool).await;
        self.approve(proposal, request, tool).await;
        self.respond(request, tool, outcome).await;
        // The agent receives the fulfilling request before its response.
        let kind = |what: &str| format!("mcp/{what}:tools/call:{tool}");
        let request_message = self.agent.expect(&kind("request"), |it| it["id"] == request).await;
        assert_eq!(
            (&request_message["correlation_id"], &request_message["from"]),
            (&json!(proposal), &json!("human"))
        );
        let is_it = |it: &Value| it["correlation_id"] == request;
        let reply = self.agent.expect(&kind("response"), is_it).await;
        assert_eq!(reply["to"], json!(["human", "agent"]));
        let seen = self.human.expect("mcp/response", |it| it["correlation_id"][0] == request).await;
        assert_eq!(seen["payload"], reply["payload"]);
        let update = self.expect_proposal_update(proposal).await;
        assert_eq!(update["state"], "fulfilled", "{update}");
        assert_eq!(
            (&update["outcome"], &update["by"]),
            (&json!(outcome), &json!(self.server_name))
        );
        assert_eq!((&update["request_id"], &update["name"]), (&json!(request), &json!(tool)));
    }

    async fn reject(&mut self, proposal: &str) {
        self.propose(proposal, self.failing_tool).await;
        let message = json!({"reason": "disagree", "details": "not today"});
        let rejected =
            json!({"kind": "mcp/reject", "correlation_id": proposal, "payload": message});
        self.human.send_json(&rejected).await;
        let seen = self.agent.expect("mcp/reject", |it| it["correlation_id"] == proposal).await;
        assert_eq!((&seen["from"], &seen["payload"]), (&json!("human"), &message));
        assert_eq!(self.expect_proposal_update(proposal).await["state"], "rejected");
    }

    async fn withdraw(&mut self, proposal: &str) {
        self.propose(proposal, self.failing_tool).await;
        let message = json!({"reason": "no_longer_needed"});
        let withdrawn =
            json!({"kind": "mcp/withdraw", "correlation_id": proposal, "payload": message});
        self.agent.send_json(&withdrawn).await;
        let seen =
            self.human.expect("mcp/withdraw", |it| it["correlation_id"][0] == proposal).await;
        assert_eq!((&seen["from"], &seen["payload"]), (&json!("agent"), &message));
    }

    /// Waits for the gateway's update about a proposal to the agent.
    async fn expect_proposal_update(&mut self, proposal: &str) -> Value {
        let is_it = |it: &Value| it["correlation_id"] == proposal;
        self.agent.expect("system/proposal", is_it).await["payload"].take()
    }

    /// The server responds with a short kind, as its family does; the registry responds on its own.
    async fn respond(&mut self, request: &str, tool: &str, outcome: &str) {
        let Some(server) = &mut self.server else { return };
        let kind = format!("mcp/request:tools/call:{tool}");
        let kind = server.family.kind(&kind).to_owned();
        let request_message = server.expect(&kind, |it| it["id"] == request).await;
        let mut payload = match outcome {
            "error" => json!({"error": {"code": -32000, "message": "it cannot be deleted"}}),
            _ => json!({"result": {"content": [{"type": "text", "text": "Operation completed"}]}}),
        };
        let mut reply = json!({"id": format!("R-{request}"), "to": [request_message["from"]],
            "kind": "mcp/response", "correlation_id": server.family.correlation(request)});
        if !server.family.is_mew() {
            // The server could not respond to a request without an id.
            assert_eq!(
                (&request_message["payload"]["jsonrpc"], &request_message["payload"]["id"]),
                (&json!("2.0"), &json!(request))
            );
            payload["jsonrpc"] = "2.0".into();
            payload["id"] = request_message["payload"]["id"].clone();
            reply["kind"] = "mcp/response:tools/call".into();
        }
        reply["payload"] = payload;
        server.send_json(&reply).await;
    }

    /// Each response in the history is self-contained.
    async fn check_history(&self, fixture: &RoomFixture, room: &str) {
        let expected = |form: Family| {
            let summary = |tool: &str, outcome: &str, proposer: Option<&str>| ResponseSummary {
                tool: tool.to_owned(),
                requested_by: "human".to_owned(),
                responded_by: self.server_name.to_owned(),
                outcome: outcome.to_owned(),
                proposer: proposer.map(str::to_owned),
                protocol: form.protocol().to_owned(),
            };
            [
                summary(self.failing_tool, "error", Some("agent")),
                summary(self.working_tool, "result", Some("agent")),
                summary(self.working_tool, "result", None),
            ]
        };
        for form in [Family::Mcpx, Family::Mew04, Family::Mew03] {
            let pages = read_history_pages(fixture, room, form).await;
            let responses = pages.iter().filter_map(|entry| summarize_response(entry, form));
            assert_eq!(responses.collect::<Vec<_>>(), expected(form), "{room} in pages");
            let mut welcomed = read_welcome_history(fixture, room, form).await;
            assert_eq!(welcomed.len(), pages.len());
            welcomed.reverse();
            assert_eq!(welcomed, pages, "{room}: both protocols report the same");
            let ended = pages
                .iter()
                .filter(|it| it["kind"] == "mcp/reject" || it["kind"] == "mcp/withdraw");
            for entry in ended {
                let about = &entry["context_of"];
                assert_eq!(
                    (&about["name"], &about["proposer"]),
                    (&json!(self.failing_tool), &json!("agent"))
                );
            }
        }
    }
}

/// The information in a single response.
#[derive(Debug, PartialEq, Eq)]
struct ResponseSummary {
    tool: String,
    requested_by: String,
    responded_by: String,
    outcome: String,
    proposer: Option<String>,
    protocol: String,
}

/// Summarizes one history entry; `None` if it is not a response.
fn summarize_response(entry: &Value, form: Family) -> Option<ResponseSummary> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let kind = text(&entry["kind"]);
    if !kind.starts_with("mcp/response") {
        return None;
    }
    let about = &entry["context_of"];
    let tool = match form {
        Family::Mcpx => kind.strip_prefix("mcp/response:tools/call:").unwrap().to_owned(),
        _ => {
            assert_eq!((&*kind, &about["method"]), ("mcp/response", &json!("tools/call")));
            text(&about["name"])
        }
    };
    let request = form.correlation(about["request_id"].as_str().unwrap());
    assert_eq!(entry["correlation_id"], request, "{entry}");
    Some(ResponseSummary {
        tool,
        requested_by: text(&about["from"]),
        responded_by: text(&entry["from"]),
        outcome: text(&about["outcome"]),
        proposer: about["proposer"].as_str().map(str::to_owned),
        protocol: text(&entry["protocol"]),
    })
}

/// Reads the history in pages of two until an empty page.
async fn read_history_pages(fixture: &RoomFixture, room: &str, form: Family) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    loop {
        let mut path = format!("/v0.1/topics/{room}/history?limit=2&protocol={}", form.protocol());
        if let Some(last) = all.last() {
            path += &format!("&before={}", last["id"].as_str().unwrap());
        }
        let (status, body) = fixture.get("late", &path).await;
        assert_eq!(status, 200, "{body}");
        let page = body["messages"].as_array().unwrap();
        assert!(page.len() <= 2);
        if page.is_empty() {
            return all;
        }
        all.extend(page.iter().cloned());
    }
}

/// The history in a welcome, oldest first.
async fn read_welcome_history(fixture: &RoomFixture, room: &str, form: Family) -> Vec<Value> {
    let options = JoinOptions { history: Some(1_000), ..JoinOptions::new(form, "late", room) };
    let late = fixture.join_with(options).await.unwrap();
    let history = late.welcome["history"].as_array().unwrap().clone();
    late.leave().await;
    history
}
