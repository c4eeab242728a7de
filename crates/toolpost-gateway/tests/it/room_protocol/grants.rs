//! Grants, revocations and invitations: they apply at once and persist.

use serde_json::{Value, json};

use super::client::{Client, Family, JoinError, JoinOptions};
use super::fixture::RoomFixture;
use super::room_clients::RoomClients;

fn call(id: &str) -> Value {
    json!({"id": id, "kind": "mcp/request", "to": ["ada"],
        "payload": {"method": "tools/call", "params": {"name": "read_file"}}})
}

/// Whether the guest may make the granted call.
async fn try_call(guest: &mut Client, id: &str) -> bool {
    guest.send_json(&call(id)).await;
    let (done, rejected) = (format!("{id}-done"), guest.family.correlation(id));
    guest.chat(&done).await;
    let before = guest.read_until_chat(&done).await;
    let is_rejected = before.iter().any(|text| {
        let message: Value = serde_json::from_str(text).unwrap();
        message["kind"] == "system/error"
            && message["correlation_id"] == rejected
            && message["payload"]["error"] == "capability_violation"
    });
    let is_delivered = before.iter().any(|text| text.contains("mcp/request"));
    assert!(is_rejected || is_delivered, "{before:?}");
    !is_rejected
}

/// Each row: the protocol of the guest, the granted capability, and the form in which the guest
/// receives it.
#[tokio::test]
async fn grant_applies_at_once_and_persists_until_revoked() {
    let pattern = json!({"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "read_*"}}});
    let text = json!("mcp/request:tools/call:read_*");
    for (family, granted, displayed) in [
        (Family::Mcpx, &text, &text),
        (Family::Mcpx, &pattern, &text),
        (Family::Mew04, &text, &pattern),
        (Family::Mew03SystemJoin, &pattern, &pattern),
    ] {
        let mut fixture = RoomFixture::start().await;
        let participants = [("ada", Family::Mew04), ("guest", family), ("bob", Family::Mcpx)];
        let mut clients = RoomClients::join_all(&fixture, "lobby", &participants).await;
        assert!(!try_call(clients.client("guest"), "before").await);
        clients.drain("ada").await;
        let grant = json!({"id": "G", "kind": "capability/grant",
            "payload": {"recipient": "guest", "capabilities": [granted], "reason": "trust"}});
        clients.send("ada", &grant).await;
        let is_displayed = |welcome: &Value| {
            welcome["you"]["capabilities"].as_array().unwrap().contains(displayed)
        };
        let guest = clients.client("guest");
        let seen = guest.expect("capability/grant", |_| true).await;
        assert_eq!((&seen["to"], &seen["from"]), (&json!(["guest"]), &json!("ada")));
        let welcome = guest.expect("system/welcome", |_| true).await;
        assert!(is_displayed(&welcome["payload"]), "{welcome}");
        assert!(try_call(guest, "after").await);
        let ack = json!({"kind": "capability/grant-ack", "correlation_id": "G", "payload": {"status": "accepted"}});
        guest.send_json(&ack).await;
        clients
            .client("ada")
            .expect("capability/grant-ack", |it| it["correlation_id"] == json!(["G"]))
            .await;
        clients.client("bob").expect("capability/grant", |it| it["to"] == json!(["guest"])).await;
        // Only the guest receives another welcome.
        clients.client("bob").chat("done").await;
        let received = clients.client("bob").read_until_chat("done").await;
        assert!(received.iter().all(|text| !text.contains("system/welcome")), "{received:?}");
        clients.take("guest").leave().await;
        for how in ["another connection", "another process"] {
            if how == "another process" {
                fixture = fixture.restart().await;
            }
            let mut guest = fixture.join(family, "guest", "lobby").await;
            assert!(is_displayed(&guest.welcome), "{how}: {}", guest.welcome);
            assert!(try_call(&mut guest, how).await, "{how}");
            let mut elsewhere = fixture.join(family, "guest", "elsewhere").await;
            assert!(!try_call(&mut elsewhere, how).await, "a grant applies to one room");
            guest.leave().await;
        }
        let mut guest = fixture.join(family, "guest", "lobby").await;
        let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
        let revoke = json!({"kind": "capability/revoke", "payload": {"recipient": "guest", "grant_id": "G"}});
        ada.send_json(&revoke).await;
        let welcome = guest.expect("system/welcome", |_| true).await;
        assert!(!is_displayed(&welcome["payload"]), "{welcome}");
        assert!(!try_call(&mut guest, "revoked").await);
        let fixture = fixture.restart().await;
        let mut guest = fixture.join(family, "guest", "lobby").await;
        assert!(!try_call(&mut guest, "permanently revoked").await);
        fixture.stop().await;
    }
}

/// A token capability is revoked in one room and granted again there.
#[tokio::test]
async fn token_capability_is_revoked_and_regranted_per_room() {
    let fixture = RoomFixture::start().await;
    let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
    let mut guest = fixture.join(Family::Mew04, "guest", "lobby").await;
    let mut elsewhere = fixture.join(Family::Mew04, "guest", "elsewhere").await;
    let change = |kind: &str| json!({"kind": kind, "payload": {"recipient": "guest", "capabilities": ["chat"]}});
    ada.send_json(&change("capability/revoke")).await;
    let welcome = guest.expect("system/welcome", |_| true).await;
    assert_eq!(welcome["payload"]["you"]["capabilities"], json!([]));
    let chat_message = |id: &str| json!({"id": id, "kind": "chat", "payload": {"text": id}});
    guest.send_json(&chat_message("refused")).await;
    assert_eq!(guest.expect_rejection("refused").await["error"], "capability_violation");
    elsewhere.send_json(&chat_message("delivered")).await;
    elsewhere.expect("chat", |it| it["id"] == "delivered").await;
    guest.leave().await;
    let fixture = fixture.restart().await;
    let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
    let mut guest = fixture.join(Family::Mew04, "guest", "lobby").await;
    assert_eq!(guest.welcome["you"]["capabilities"], json!([]));
    ada.send_json(&change("capability/grant")).await;
    guest.expect("system/welcome", |_| true).await;
    guest.send_json(&chat_message("again")).await;
    ada.expect("chat", |it| it["id"] == "again").await;
    fixture.stop().await;
}

fn with_token(family: Family, token: &str, room: &str) -> JoinOptions {
    let (token, participant) = (Some(token.to_owned()), None);
    JoinOptions { token, participant, ..JoinOptions::new(family, "zoe", room) }
}

/// Only the inviter receives the token of an invitation, and it is valid in no other room.
#[tokio::test]
async fn invitation_token_is_valid_in_its_room_only() {
    let fixture = RoomFixture::start().await;
    let participants = [("ada", Family::Mew04), ("bob", Family::Mcpx), ("carl", Family::Mew03)];
    let mut clients = RoomClients::join_all(&fixture, "lobby", &participants).await;
    let invite = json!({"id": "I", "kind": "space/invite", "payload": {
        "participant_id": "zoe", "initial_capabilities": ["chat"], "reason": "welcome"}});
    clients.send("ada", &invite).await;
    let ack = clients
        .client("ada")
        .expect("space/invite-ack", |it| it["correlation_id"] == json!(["I"]))
        .await;
    assert_eq!((&ack["payload"]["status"], &ack["to"]), (&json!("created"), &json!(["ada"])));
    let token = ack["payload"]["token"].as_str().unwrap().to_owned();
    clients.client("ada").chat("invited").await;
    for participant in ["bob", "carl"] {
        let received = clients.client(participant).read_until_chat("invited").await.join("\n");
        assert!(
            received.contains("\"event\":\"invited\"") && !received.contains(&token),
            "{received}"
        );
    }
    let written = fixture.get_text("ada", "/v0.1/topics/lobby/history").await;
    assert!(!written.contains(&token));
    let fixture = fixture.restart().await;
    for family in Family::ALL {
        let mut zoe = fixture.join_with(with_token(family, &token, "lobby")).await.unwrap();
        assert_eq!(zoe.id, "zoe");
        zoe.chat("hello").await;
        zoe.read_until_chat("hello").await;
        let elsewhere = fixture.join_with(with_token(family, &token, "elsewhere")).await.err();
        let unknown = match family {
            Family::Mcpx => JoinError::Status(401),
            _ => JoinError::Closed("unauthorized".to_owned(), 4401),
        };
        assert_eq!(elsewhere, Some(unknown), "{family:?}");
        zoe.leave().await;
    }
    let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
    ada.send_json(&json!({"id": "K", "kind": "space/kick", "payload": {"participant_id": "zoe"}}))
        .await;
    ada.expect("space/kick", |_| true).await;
    let rejected = fixture.join_with(with_token(Family::Mcpx, &token, "lobby")).await.err();
    assert_eq!(rejected, Some(JoinError::Status(401)), "the invitation was revoked");
    fixture.stop().await;
}

/// An inviter can neither impersonate another participant nor gain capabilities.
#[tokio::test]
async fn invitation_cannot_impersonate_or_escalate() {
    let fixture = RoomFixture::start().await;
    let participants = [("ada", Family::Mew04), ("host", Family::Mew04)];
    let mut clients = RoomClients::join_all(&fixture, "lobby", &participants).await;
    let invite = |id: &str, invitee: &str, capabilities: Value| {
        json!({"id": id, "kind": "space/invite",
        "payload": {"participant_id": invitee, "initial_capabilities": capabilities}})
    };
    let long = "x".repeat(129);
    for (number, (name, error)) in [
        ("late", "auth_violation"),
        ("local", "auth_violation"),
        ("operator", "auth_violation"),
        ("ada", "auth_violation"),
        ("toolpost", "invalid_message"),
        ("system:gateway", "invalid_message"),
        ("system:x", "invalid_message"),
        ("", "invalid_message"),
        ("a\nb", "invalid_message"),
        (&long, "invalid_message"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("N{number}");
        clients.send("host", &invite(&id, name, json!(["chat"]))).await;
        let rejection = clients.client("host").expect_rejection(&id).await;
        assert_eq!(rejection["error"], error, "{name}: {rejection}");
        clients.assert_no_other_messages("ada", name).await;
    }
    clients.send("host", &invite("2", "zoe", json!(["mcp/request"]))).await;
    assert_eq!(clients.client("host").expect_rejection("2").await["error"], "capability_violation");
    clients.send("ada", &invite("3", "zoe", json!(["mcp/request"]))).await;
    clients.client("ada").expect("space/invite-ack", |_| true).await;
    clients.send("host", &invite("4", "zoe", json!(["chat"]))).await;
    let rejection = clients.client("host").expect_rejection("4").await;
    assert_eq!(
        rejection["error"], "capability_violation",
        "the grant exceeds the capabilities of the sender"
    );
    fixture.stop().await;
}

/// Each row: the addressees of a call, and whether `limited` may send it.
#[tokio::test]
async fn capability_covers_only_its_addressees() {
    let fixture = RoomFixture::start().await;
    let participants =
        [("limited", Family::Mcpx), ("files", Family::Mew04), ("ada", Family::Mew04)];
    let mut clients = RoomClients::join_all(&fixture, "lobby", &participants).await;
    let to_participants = json!({"kind": "mcp/request:tools/call:*", "to": ["files", "tool-*"]});
    let own = &clients.client("limited").welcome["you"]["capabilities"];
    assert!(own.as_array().unwrap().contains(&to_participants), "{own}");
    let payload = json!({"method": "tools/call", "params": {"name": "read_file"}});
    for (number, (to, is_allowed)) in [
        (json!(["files"]), true),
        (json!("files"), true),
        (json!(["tool-1", "files"]), true),
        (json!(["files", "ada"]), false),
        (json!(["toolpost"]), false),
        (json!([]), false),
        (Value::Null, false),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("F{number}");
        let request = json!({"id": id, "kind": "mcp/request", "to": to, "payload": payload});
        clients.send("limited", &request).await;
        if is_allowed {
            clients.client("files").expect("mcp/request", |it| it["id"] == id).await;
        } else {
            let rejection = clients.client("limited").expect_rejection(&id).await;
            assert_eq!(rejection["error"], "capability_violation", "{to}");
        }
        clients.drain("ada").await;
    }
    // A fulfilling request without `to` has the addressees of the proposal.
    for (id, to, is_allowed) in [("P1", "files", true), ("P2", "toolpost", false)] {
        let proposal = json!({"id": id, "kind": "mcp/proposal", "to": [to], "payload": payload});
        clients.send("ada", &proposal).await;
        let request = json!({"id": format!("of-{id}"), "kind": "mcp/request", "correlation_id": id,
            "payload": payload});
        clients.client("limited").expect("mcp/proposal:tools/call:read_file", |_| true).await;
        clients.send("limited", &request).await;
        if is_allowed {
            clients.client("files").expect("mcp/request", |it| it["to"] == json!([to])).await;
        } else {
            let rejection = clients.client("limited").expect_rejection(&format!("of-{id}")).await;
            assert_eq!(rejection["error"], "capability_violation", "{to}");
        }
    }
    fixture.stop().await;
}

/// Each row: the granted capability, its recipient and the claimed addressee, and the error.
#[tokio::test]
async fn addressees_limit_grants_and_what_is_granted() {
    let fixture = RoomFixture::start().await;
    let participants =
        [("limited", Family::Mcpx), ("guest", Family::Mew04), ("ada", Family::Mew04)];
    let mut clients = RoomClients::join_all(&fixture, "lobby", &participants).await;
    let call_of = |to: Value| json!({"kind": "mcp/request:tools/call:read_file", "to": to});
    for (number, (capability, recipient, to, error)) in [
        (json!("chat"), "guest", json!(["guest"]), None),
        (json!("chat"), "guest", json!(["ada"]), None),
        (json!("chat"), "ada", json!(["guest"]), Some("capability_violation")),
        (call_of(json!(["files"])), "guest", Value::Null, None),
        (call_of(json!("tool-7")), "guest", Value::Null, None),
        (call_of(json!(["files", "ada"])), "guest", Value::Null, Some("capability_violation")),
        (call_of(json!("*")), "guest", Value::Null, Some("capability_violation")),
        (
            json!("mcp/request:tools/call:read_file"),
            "guest",
            Value::Null,
            Some("capability_violation"),
        ),
        (call_of(json!([])), "guest", Value::Null, Some("invalid_message")),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("G{number}");
        let grant = json!({"id": id, "kind": "capability/grant", "to": to,
            "payload": {"recipient": recipient, "capabilities": [capability]}});
        clients.send("limited", &grant).await;
        match error {
            Some(error) => {
                let rejection = clients.client("limited").expect_rejection(&id).await;
                assert_eq!(rejection["error"], error, "{grant}: {rejection}");
            }
            None => {
                let seen =
                    clients.client("ada").expect("capability/grant", |it| it["id"] == id).await;
                assert_eq!(seen["to"], json!(["guest"]), "{seen}");
            }
        }
        clients.drain("ada").await;
    }
    let kick = |id: &str, of: &str| json!({"id": id, "kind": "space/kick", "to": ["guest"], "payload": {"participant_id": of}});
    clients.send("limited", &kick("K1", "ada")).await;
    let rejection = clients.client("limited").expect_rejection("K1").await;
    assert_eq!(rejection["error"], "capability_violation", "{rejection}");
    clients.send("limited", &kick("K2", "guest")).await;
    clients.client("ada").expect("space/kick", |it| it["to"] == json!(["guest"])).await;
    fixture.stop().await;
}
