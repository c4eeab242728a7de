//! Invited participants are identities of their own kind.

use std::path::PathBuf;

use serde_json::{Value, json};
use toolpost_gateway::auth::TokenHash;
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, builtin};

use super::super::jwt::{Issuer, Signer};
use super::super::{TestGateway, client};
use super::client::{Client, Family, JoinError, JoinOptions};
use super::fixture::RoomFixture;

/// Invites a participant and returns the token of the invitation.
async fn invite(inviter: &mut Client, name: &str, capabilities: Value) -> String {
    let payload = json!({"participant_id": name, "initial_capabilities": capabilities});
    inviter.send_json(&json!({"kind": "space/invite", "payload": payload})).await;
    let is_about = |ack: &Value| ack["payload"]["participant_id"] == name;
    let ack = inviter.expect("space/invite-ack", is_about).await;
    ack["payload"]["token"].as_str().unwrap().to_owned()
}

fn join_with_token(name: &str, token: &str) -> JoinOptions {
    JoinOptions { token: Some(token.to_owned()), ..JoinOptions::new(Family::Mew04, name, "lobby") }
}

async fn join_guest(fixture: &RoomFixture, name: &str, token: &str) -> Client {
    fixture.join_with(join_with_token(name, token)).await.unwrap()
}

/// Polls until one call is pending approval, and returns it.
async fn pending_call(fixture: &RoomFixture) -> Value {
    loop {
        let (status, listed) = fixture.call("weak", "gateway.approvals", &json!({})).await;
        assert_eq!(status, 200, "{listed}");
        let is_call = |entry: &&Value| entry["room"].is_null();
        if let Some(entry) = listed["approvals"].as_array().unwrap().iter().find(is_call) {
            return entry.clone();
        }
    }
}

/// `sponsor` invites `gina`, and `gina` invites `gus`. `sponsor` and `weak` can approve.
#[tokio::test]
async fn inviters_cannot_approve_calls_of_their_guests() {
    let fixture = RoomFixture::start().await;
    let mut sponsor = fixture.join(Family::Mew04, "sponsor", "lobby").await;
    let given = json!(["chat", "mcp/request", "mcp/proposal", "space/*"]);
    let token = invite(&mut sponsor, "gina", given).await;
    let mut gina = join_guest(&fixture, "gina", &token).await;
    let token = invite(&mut gina, "gus", json!(["chat", "mcp/request", "mcp/proposal"])).await;
    let mut gus = join_guest(&fixture, "gus", &token).await;

    let lend = json!({"method": "tools/call", "params": {"name": "bank__lend"}});
    let message = |id: &str, kind: &str, about: Value| json!({"id": id, "kind": kind, "to": ["toolpost"], "correlation_id": about, "payload": lend});
    for (guest, name) in [(&mut gina, "gina"), (&mut gus, "gus")] {
        guest.send_json(&message(name, "mcp/request", json!([]))).await;
        let pending = pending_call(&fixture).await;
        assert_eq!(pending["caller"], format!("guest:lobby/{name}"), "{pending}");
        let id = json!({"id": pending["id"]});
        let (status, denied) = fixture.call("sponsor", "gateway.approve", &id).await;
        assert_eq!(status, 403, "{denied}");
        assert!(denied.to_string().contains("chain of invitations"), "{denied}");
        let (status, approved) = fixture.call("weak", "gateway.approve", &id).await;
        assert_eq!(status, 200, "{approved}");
        let is_about = |it: &Value| it["correlation_id"] == json!([name]);
        let response = guest.expect("mcp/response", is_about).await;
        assert_eq!(response["context_of"]["outcome"], "result", "{response}");
    }

    // A proposal of a guest is a call of the guest too.
    gus.send_json(&message("P", "mcp/proposal", json!([]))).await;
    sponsor.expect("mcp/proposal", |it| it["id"] == "P").await;
    let id = json!({"id": "lobby/P"});
    let (status, denied) = fixture.call("sponsor", "gateway.approve", &id).await;
    assert_eq!(status, 403, "{denied}");
    assert!(denied.to_string().contains("invited the proposer"), "{denied}");
    sponsor.send_json(&message("F", "mcp/request", json!(["P"]))).await;
    let pending = pending_call(&fixture).await;
    assert_eq!(pending["caller"], "sponsor", "the fulfillment is no approval: {pending}");
    let id = json!({"id": pending["id"]});
    assert_eq!(fixture.call("weak", "gateway.approve", &id).await.0, 200);
    let is_about = |it: &Value| it["correlation_id"] == json!(["F"]);
    sponsor.expect("mcp/response", is_about).await;

    // The chain survives a restart and the removal of the guest.
    gina.send_json(&message("Q", "mcp/proposal", json!([]))).await;
    sponsor.expect("mcp/proposal", |it| it["id"] == "Q").await;
    let kick = json!({"kind": "space/kick", "payload": {"participant_id": "gina"}});
    sponsor.send_json(&kick).await;
    gina.wait_closed().await;
    let fixture = fixture.restart().await;
    fixture.join(Family::Mew04, "sponsor", "lobby").await;
    let (status, denied) =
        fixture.call("sponsor", "gateway.approve", &json!({"id": "lobby/Q"})).await;
    assert_eq!(status, 403, "{denied}");

    let query = json!({"op": "bank.lend"});
    let (_, found) = fixture.call("auditor", "gateway.journal", &query).await;
    let calls: Vec<_> = found["calls"].as_array().unwrap().iter().collect();
    let callers: Vec<_> = calls.iter().map(|call| &call["identity"]).collect();
    assert_eq!(callers, ["sponsor", "guest:lobby/gus", "guest:lobby/gina"], "{found}");
    fixture.stop().await;
}

/// A gateway whose authorization server has a subject with the name of a guest.
struct SameNames {
    server: TestGateway,
    ada: Client,
    /// The token of the subject `bob`, which can approve.
    subject: String,
    /// The token of the guest `bob`.
    guest: String,
    issuer: Issuer,
    data: PathBuf,
}

impl SameNames {
    async fn start() -> Self {
        let key = Signer::new("one");
        let issuer = Issuer::start(&[&key]).await;
        let hash = TokenHash::of("tpt_ada");
        let data = std::env::temp_dir().join(format!("toolpost-guests-{}", std::process::id()));
        let text = format!(
            "[auth]\nissuer = \"{}\"\naudience = [\"toolpost\"]\n\
             [approval]\noperations = [\"demo.note\"]\n\
             [limits]\ncalls_per_minute = 30\n\
             [room.lobby]\nmembers = [\"ada\"]\n\
             [identity.ada]\ntoken_hash = \"{hash}\"\ncapabilities = [\"*\"]\n\
             scopes = [\"toolpost:read\"]\n",
            issuer.address
        );
        let config = Config::parse("toolpost.toml".as_ref(), &text, &|_| None).unwrap();
        let builder = Gateway::builder(builtin::registry()).config(config).journal(&data);
        let server = TestGateway::serve(builder, "127.0.0.1:0").await;
        let mut ada =
            JoinOptions::new(Family::Mew04, "ada", "lobby").join(server.address).await.unwrap();
        let guest = invite(&mut ada, "bob", json!(["chat", "mcp/request"])).await;
        let mut claims = issuer.claims();
        (claims["sub"], claims["scope"]) = ("bob".into(), "toolpost:approve".into());
        Self { server, ada, subject: key.sign(&claims), guest, issuer, data }
    }

    async fn join(&self, token: &str) -> Result<Client, JoinError> {
        join_with_token("bob", token).join(self.server.address).await
    }

    async fn call(&self, token: &str, operation: &str, input: &Value) -> (u16, Value) {
        let path = format!("/api/{}", operation.replace('.', "/"));
        let request = client().post(self.server.url(&path)).bearer_auth(token).json(input);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn read_history(&self, token: &str) -> u16 {
        let url = self.server.url("/v0.1/topics/lobby/history");
        client().get(url).bearer_auth(token).send().await.unwrap().status().as_u16()
    }

    async fn stop(self) {
        assert!(self.server.stop().await.in_time);
        let _ = std::fs::remove_dir_all(self.data);
    }
}

#[tokio::test]
async fn guest_and_jwt_subject_of_same_name_are_distinct() {
    let mut names = SameNames::start().await;
    // The invitation admits only the guest.
    let denied = JoinError::Closed("auth_violation".to_owned(), 4403);
    assert_eq!(names.join(&names.subject).await.err(), Some(denied));
    assert_eq!(names.read_history(&names.subject).await, 403);
    assert_eq!(names.read_history(&names.guest).await, 200);
    let mut guest = names.join(&names.guest).await.unwrap();

    // The subject approves a call of the guest, which is not its own.
    let echo = json!({"method": "tools/call",
        "params": {"name": "demo__note", "arguments": {"text": "hi"}}});
    let request =
        |id: &str| json!({"id": id, "kind": "mcp/request", "to": ["toolpost"], "payload": echo});
    guest.send_json(&request("R")).await;
    let pending = loop {
        let (status, listed) = names.call("tpt_ada", "gateway.approvals", &json!({})).await;
        match &listed["approvals"][0] {
            Value::Null => assert!([200, 429].contains(&status), "{listed}"),
            pending => break pending.clone(),
        }
    };
    assert_eq!(pending["caller"], "guest:lobby/bob");
    let id = json!({"id": pending["id"]});
    let (status, approved) = names.call(&names.subject, "gateway.approve", &id).await;
    assert_eq!((status, &approved["caller"]), (200, &json!("guest:lobby/bob")), "{approved}");
    guest.expect("mcp/response", |it| it["correlation_id"] == json!(["R"])).await;
    guest.chat("hello").await;
    names.ada.read_until_chat("hello").await;

    // Each has its own rate limit.
    let add = json!({"a": 2, "b": 3});
    while names.call(&names.subject, "demo.add", &add).await.0 == 200 {}
    assert_eq!(names.call(&names.subject, "demo.add", &add).await.0, 429);
    let add = json!({"method": "tools/call", "params": {"name": "demo__add", "arguments": add}});
    let add = json!({"id": "A", "kind": "mcp/request", "to": ["toolpost"], "payload": add});
    guest.send_json(&add).await;
    let response = guest.expect("mcp/response", |it| it["correlation_id"] == json!(["A"])).await;
    assert_eq!(response["context_of"]["outcome"], "result", "{response}");

    // The journal names them differently.
    let subject = format!("jwt:{}#bob", names.issuer.address);
    names.server.stop().await;
    let config = Config::parse(
        "toolpost.toml".as_ref(),
        &format!(
            "[identity.ada]\ntoken_hash = \"{}\"\nscopes = [\"toolpost:read\"]\n",
            TokenHash::of("tpt_ada")
        ),
        &|_| None,
    )
    .unwrap();
    let builder = Gateway::builder(builtin::registry()).config(config).journal(&names.data);
    names.server = TestGateway::serve(builder, "127.0.0.1:0").await;
    for (query, operation) in [
        (json!({"identity": subject, "op": "gateway.approve"}), "gateway.approve"),
        (json!({"identity": "guest:lobby/bob", "op": "demo.note"}), "demo.note"),
    ] {
        let (_, found) = names.call("tpt_ada", "gateway.journal", &query).await;
        assert_eq!(found["calls"][0]["operation"], operation, "{found}");
    }
    let query = json!({"identity": "guest:lobby/bob", "room": "lobby", "kind": "chat"});
    let (_, found) = names.call("tpt_ada", "gateway.journal", &query).await;
    assert_eq!(found["messages"][0]["message"]["from"], "bob", "{found}");
    let (_, found) = names.call("tpt_ada", "gateway.journal", &json!({"identity": "bob"})).await;
    assert_eq!(found["calls"], json!([]), "no token has this name");
    names.stop().await;
}
