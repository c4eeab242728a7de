//! A room in which an agent may only propose, a person approves, and somebody answers: a server of
//! either family, or the operations of the registry. Then somebody comes who has seen nothing.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Client, Family, Joining};
use super::world::{World, rooms};

/// Who answers: a participant of a family, or the operations of the registry.
const RUNS: [(&str, Option<Family>); 3] = [
    ("mew-server", Some(Family::Mew04)),
    ("mcpx-server", Some(Family::Mcpx)),
    ("operations", None),
];

#[tokio::test]
async fn an_agent_proposes_a_person_approves_and_whoever_comes_late_understands_it() {
    let world = World::start().await;
    for (room, server) in RUNS {
        let mut cast = Cast::meet(&world, room, server).await;
        cast.call_directly().await;
        cast.fulfil("P1", "F1", cast.good, "result").await;
        cast.reject("P2").await;
        cast.withdraw("P3").await;
        cast.fulfil("P4", "F4", cast.bad, "error").await;
        cast.look_back(&world, room).await;
    }
    world.stop().await;
}

#[tokio::test]
async fn a_proposal_that_nobody_takes_up_expires_and_its_proposer_is_told() {
    let hasty = |room: &mut toolpost_gateway::room::RoomSettings| {
        room.proposal_expires = Duration::from_millis(1);
    };
    let world = World::with(rooms([("hasty", hasty)])).await;
    let mut cast = Cast::meet(&world, "hasty", Some(Family::Mew04)).await;
    cast.propose("P1", cast.good).await;
    let over = cast.human.expect("mcp/reject", |_| true).await;
    assert_eq!(
        (&over["from"], &over["correlation_id"]),
        (&json!("system:gateway"), &json!(["P1"]))
    );
    assert_eq!(over["payload"]["reason"], "timeout");
    cast.agent.expect("mcp/reject", |it| it["correlation_id"] == "P1").await;
    let told = cast.told_about("P1").await;
    assert_eq!((&told["state"], &told["name"]), (&json!("expired"), &json!("read_file")));
    // Whoever approves it now comes too late.
    cast.approve("P1", "F1", cast.good).await;
    let refusal = cast.human.refusal("F1").await;
    assert_eq!(refusal["error"], "proposal_closed", "{refusal}");
    let kinds: Vec<Value> =
        world.history("hasty").await.iter().map(|it| it["kind"].clone()).collect();
    assert_eq!(kinds, ["mcp/reject", "mcp/proposal:tools/call:read_file"]);
    world.stop().await;
}

/// What was proposed and asked before is still known when the gateway is started again.
#[tokio::test]
async fn proposals_and_requests_outlive_the_process() {
    let world = World::start().await;
    let mut cast = Cast::meet(&world, "lobby", Some(Family::Mew04)).await;
    for id in ["P1", "P2"] {
        cast.propose(id, cast.good).await;
    }
    cast.approve("P1", "F1", cast.good).await;
    cast.human.expect("mcp/request", |it| it["id"] == "F1").await;
    let world = world.restart().await;
    let mut cast = Cast::meet(&world, "lobby", Some(Family::Mcpx)).await;
    cast.approve("P1", "F2", cast.good).await;
    assert_eq!(cast.human.refusal("F2").await["error"], "proposal_closed");
    let answer = json!({"kind": "mcp/response:tools/call", "correlation_id": "F1", "to": ["human"],
        "payload": {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}});
    cast.server.as_mut().unwrap().say(&answer).await;
    let seen = cast.human.expect("mcp/response", |_| true).await;
    assert_eq!(seen["context_of"]["proposer"], "agent", "{seen}");
    assert_eq!(cast.told_about("P1").await["outcome"], "result");
    cast.approve("P2", "F3", cast.good).await;
    cast.answer("F3", cast.good, "result").await;
    assert_eq!(cast.told_about("P2").await["outcome"], "result");
    world.stop().await;
}

struct Cast {
    agent: Client,
    human: Client,
    server: Option<Client>,
    /// Who is asked.
    name: &'static str,
    /// A tool that does what it should, and one that fails.
    good: &'static str,
    bad: &'static str,
}

impl Cast {
    async fn meet(world: &World, room: &str, server: Option<Family>) -> Self {
        let agent = world.join(Family::Mcpx, "agent", room).await;
        let human = world.join(Family::Mew04, "human", room).await;
        let (name, good, bad) = match server {
            Some(_) => ("files", "read_file", "delete_file"),
            None => ("toolpost", "demo__add", "demo__fail"),
        };
        let server = match server {
            Some(family) => Some(world.join(family, "files", room).await),
            None => None,
        };
        Self { agent, human, server, name, good, bad }
    }

    fn call_of(tool: &str) -> Value {
        let arguments = json!({"a": 2, "b": 3});
        json!({"method": "tools/call", "params": {"name": tool, "arguments": arguments}})
    }

    async fn call_directly(&mut self) {
        let call = json!({"id": "F0", "kind": "mcp/request", "to": [self.name],
            "payload": Self::call_of(self.good)});
        self.human.say(&call).await;
        self.answer("F0", self.good, "result").await;
        let answer = self.human.expect("mcp/response", |it| it["correlation_id"][0] == "F0").await;
        assert_eq!((&answer["from"], &answer["to"]), (&json!(self.name), &json!(["human"])));
        assert!(answer["payload"]["result"].is_object(), "{answer}");
    }

    /// The agent may not do it, and proposes it instead; the person sees all that there is to it.
    async fn propose(&mut self, id: &str, tool: &str) {
        let kind = format!("mcp/request:tools/call:{tool}");
        let (payload, to) = (Self::call_of(tool), [self.name]);
        let tried = json!({"protocol": "mcpx/v0.1", "id": format!("tried-{id}"), "kind": kind,
            "to": to, "payload": payload});
        self.agent.say(&tried).await;
        let refusal = self.agent.refusal(&format!("tried-{id}")).await;
        assert_eq!(
            (&refusal["error"], &refusal["attempted_kind"]),
            (&json!("capability_violation"), &json!(kind))
        );
        let proposal = json!({"protocol": "mcpx/v0.1", "id": id, "to": to, "payload": payload,
            "kind": format!("mcp/proposal:tools/call:{tool}")});
        self.agent.say(&proposal).await;
        let seen = self.human.expect("mcp/proposal", |it| it["id"] == id).await;
        assert_eq!((&seen["from"], &seen["payload"]), (&json!("agent"), &payload));
        assert_eq!(seen["protocol"], "mew/v0.4");
    }

    async fn approve(&mut self, proposal: &str, request: &str, tool: &str) {
        let approved = json!({"protocol": "mew/v0.4", "id": request, "kind": "mcp/request",
            "to": [self.name], "correlation_id": [proposal], "payload": Self::call_of(tool)});
        self.human.say(&approved).await;
    }

    async fn fulfil(&mut self, proposal: &str, request: &str, tool: &str, outcome: &str) {
        self.propose(proposal, tool).await;
        self.approve(proposal, request, tool).await;
        self.answer(request, tool, outcome).await;
        // The fulfilment comes before its answer, and both to the agent.
        let kind = |what: &str| format!("mcp/{what}:tools/call:{tool}");
        let asked = self.agent.expect(&kind("request"), |it| it["id"] == request).await;
        assert_eq!((&asked["correlation_id"], &asked["from"]), (&json!(proposal), &json!("human")));
        let is_it = |it: &Value| it["correlation_id"] == request;
        let answer = self.agent.expect(&kind("response"), is_it).await;
        assert_eq!(answer["to"], json!(["human", "agent"]));
        let seen = self.human.expect("mcp/response", |it| it["correlation_id"][0] == request).await;
        assert_eq!(seen["payload"], answer["payload"]);
        let told = self.told_about(proposal).await;
        assert_eq!(told["state"], "fulfilled", "{told}");
        assert_eq!((&told["outcome"], &told["by"]), (&json!(outcome), &json!(self.name)));
        assert_eq!((&told["request_id"], &told["name"]), (&json!(request), &json!(tool)));
    }

    async fn reject(&mut self, proposal: &str) {
        self.propose(proposal, self.bad).await;
        let words = json!({"reason": "disagree", "details": "not today"});
        let rejected = json!({"kind": "mcp/reject", "correlation_id": proposal, "payload": words});
        self.human.say(&rejected).await;
        let seen = self.agent.expect("mcp/reject", |it| it["correlation_id"] == proposal).await;
        assert_eq!((&seen["from"], &seen["payload"]), (&json!("human"), &words));
        assert_eq!(self.told_about(proposal).await["state"], "rejected");
    }

    async fn withdraw(&mut self, proposal: &str) {
        self.propose(proposal, self.bad).await;
        let words = json!({"reason": "no_longer_needed"});
        let withdrawn =
            json!({"kind": "mcp/withdraw", "correlation_id": proposal, "payload": words});
        self.agent.say(&withdrawn).await;
        let seen =
            self.human.expect("mcp/withdraw", |it| it["correlation_id"][0] == proposal).await;
        assert_eq!((&seen["from"], &seen["payload"]), (&json!("agent"), &words));
    }

    /// What the agent is told by the gateway.
    async fn told_about(&mut self, proposal: &str) -> Value {
        let is_it = |it: &Value| it["correlation_id"] == proposal;
        self.agent.expect("system/proposal", is_it).await["payload"].take()
    }

    /// The server answers with a short kind, as its family does; the operations do it by themselves.
    async fn answer(&mut self, request: &str, tool: &str, outcome: &str) {
        let Some(server) = &mut self.server else { return };
        let kind = format!("mcp/request:tools/call:{tool}");
        let kind = server.family.kind(&kind).to_owned();
        let asked = server.expect(&kind, |it| it["id"] == request).await;
        let mut payload = match outcome {
            "error" => json!({"error": {"code": -32000, "message": "it cannot be deleted"}}),
            _ => json!({"result": {"content": [{"type": "text", "text": "Operation completed"}]}}),
        };
        let mut answer = json!({"id": format!("R-{request}"), "to": [asked["from"]],
            "kind": "mcp/response", "correlation_id": server.family.correlation(request)});
        if !server.family.is_mew() {
            // It could not answer a request that has no id.
            assert_eq!(
                (&asked["payload"]["jsonrpc"], &asked["payload"]["id"]),
                (&json!("2.0"), &json!(request))
            );
            payload["jsonrpc"] = "2.0".into();
            payload["id"] = asked["payload"]["id"].clone();
            answer["kind"] = "mcp/response:tools/call".into();
        }
        answer["payload"] = payload;
        server.say(&answer).await;
    }

    /// Those who have seen nothing are told everything by each single answer.
    async fn look_back(&self, world: &World, room: &str) {
        let expected = |form: Family| {
            let told = |tool: &str, outcome: &str, proposer: Option<&str>| Told {
                tool: tool.to_owned(),
                by: "human".to_owned(),
                answered_by: self.name.to_owned(),
                outcome: outcome.to_owned(),
                proposer: proposer.map(str::to_owned),
                protocol: form.protocol().to_owned(),
            };
            [
                told(self.bad, "error", Some("agent")),
                told(self.good, "result", Some("agent")),
                told(self.good, "result", None),
            ]
        };
        for form in [Family::Mcpx, Family::Mew04, Family::Mew03] {
            let pages = pages(world, room, form).await;
            let answers = pages.iter().filter_map(|entry| told_by(entry, form));
            assert_eq!(answers.collect::<Vec<_>>(), expected(form), "{room} in pages");
            let mut welcomed = welcomed(world, room, form).await;
            assert_eq!(welcomed.len(), pages.len());
            welcomed.reverse();
            assert_eq!(welcomed, pages, "{room}: both ways tell the same");
            let ended = pages
                .iter()
                .filter(|it| it["kind"] == "mcp/reject" || it["kind"] == "mcp/withdraw");
            for entry in ended {
                let about = &entry["context_of"];
                assert_eq!(
                    (&about["name"], &about["proposer"]),
                    (&json!(self.bad), &json!("agent"))
                );
            }
        }
    }
}

/// What a reader of one answer knows.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    tool: String,
    by: String,
    answered_by: String,
    outcome: String,
    proposer: Option<String>,
    protocol: String,
}

/// Reads one entry and nothing else; nothing if it is no answer.
fn told_by(entry: &Value, form: Family) -> Option<Told> {
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
    Some(Told {
        tool,
        by: text(&about["from"]),
        answered_by: text(&entry["from"]),
        outcome: text(&about["outcome"]),
        proposer: about["proposer"].as_str().map(str::to_owned),
        protocol: text(&entry["protocol"]),
    })
}

/// The whole history, two by two, to the empty page.
async fn pages(world: &World, room: &str, form: Family) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    loop {
        let mut path = format!("/v0.1/topics/{room}/history?limit=2&protocol={}", form.protocol());
        if let Some(last) = all.last() {
            path += &format!("&before={}", last["id"].as_str().unwrap());
        }
        let (status, body) = world.get("late", &path).await;
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
async fn welcomed(world: &World, room: &str, form: Family) -> Vec<Value> {
    let joining = Joining { history: Some(1_000), ..Joining::new(form, "late", room) };
    let late = world.enter(joining).await.unwrap();
    let history = late.welcome["history"].as_array().unwrap().clone();
    late.leave().await;
    history
}
