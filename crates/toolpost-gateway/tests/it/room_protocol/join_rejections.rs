//! Rejected joins in every protocol; the other participants receive nothing.

use serde_json::json;
use toolpost::Identity;
use toolpost_gateway::auth::{Authenticator, TokenHash};
use toolpost_gateway::room::RoomSettings;

use super::client::{Client, Family, JoinError, JoinOptions, connect};
use super::fixture::{RoomFixture, rooms_settings};
use super::room_clients::RoomClients;

/// The expected rejection: the HTTP status for `mcpx`; the error code and the close code for `mew`.
type ExpectedRejection = (u16, (&'static str, u16));

const UNAUTHENTICATED: ExpectedRejection = (401, ("unauthorized", 4401));

fn expected_error(family: Family, (status, (error, code)): ExpectedRejection) -> JoinError {
    match family {
        Family::Mcpx => JoinError::Status(status),
        _ => JoinError::Closed(error.to_owned(), code),
    }
}

/// Asserts that the join is rejected in every protocol and the room receives nothing.
async fn assert_join_rejected(
    fixture: &RoomFixture,
    clients: &mut RoomClients,
    what: &str,
    options: &JoinOptions,
    row: ExpectedRejection,
) {
    for family in Family::ALL {
        let options = JoinOptions { family, ..options.clone() };
        let rejected = fixture.join_with(options).await.err();
        assert_eq!(rejected, Some(expected_error(family, row)), "{what} as {family:?}");
    }
    clients.assert_no_other_messages("ada", what).await;
}

fn join_as(participant: &str, room: &str) -> JoinOptions {
    JoinOptions::new(Family::Mcpx, participant, room)
}

fn join_with_claimed_name(token: Option<&str>, participant: &str, room: &str) -> JoinOptions {
    let (token, participant) = (token.map(str::to_owned), Some(participant.to_owned()));
    JoinOptions { token, participant, ..join_as("unknown", room) }
}

#[tokio::test]
async fn join_rejects_unknown_or_foreign_identity() {
    let fixture = RoomFixture::start().await;
    let mut clients = RoomClients::join_all(&fixture, "lobby", &[("ada", Family::Mew04)]).await;
    let other: ExpectedRejection = (403, ("auth_violation", 4403));
    for (what, options, expected) in [
        ("an unknown token", join_as("unknown", "lobby"), UNAUTHENTICATED),
        ("no token", join_with_claimed_name(None, "ada", "lobby"), UNAUTHENTICATED),
        (
            "an empty token",
            join_with_claimed_name(Some(""), "ada", "lobby"),
            (400, UNAUTHENTICATED.1),
        ),
        ("another's token", join_with_claimed_name(Some("tpt_bob"), "ada", "lobby"), other),
        (
            "a name of the gateway",
            join_with_claimed_name(Some("tpt_bob"), "toolpost", "lobby"),
            other,
        ),
    ] {
        assert_join_rejected(&fixture, &mut clients, what, &options, expected).await;
    }
    fixture.stop().await;
}

/// Each row: path, bearer token and result of the upgrade request.
#[tokio::test]
async fn upgrade_request_token_is_checked() {
    let fixture = RoomFixture::start().await;
    let long = "x".repeat(129);
    for (path, bearer, expected) in [
        ("/ws?topic=lobby&token=tpt_ada", None, Ok(())),
        ("/ws?topic=lobby&token=tpt_nobody", None, Err(401)),
        ("/ws?topic=lobby&token=tpt_ada", Some("tpt_nobody"), Err(401)),
        ("/ws?topic=lobby", None, Err(401)),
        ("/ws?space=lobby", Some("tpt_nobody"), Err(401)),
        ("/ws?space=lobby", Some("tpt_ada"), Ok(())),
        ("/ws", Some("tpt_nobody"), Err(401)),
        ("/ws?topic=lobby&participant=bob", Some("tpt_ada"), Err(403)),
        ("/ws?topic=", Some("tpt_ada"), Err(400)),
        ("/ws?topic=a/b", Some("tpt_ada"), Err(400)),
        ("/ws?topic=a%5Cb", Some("tpt_ada"), Err(400)),
        ("/ws?topic=a%00b", Some("tpt_ada"), Err(400)),
        (&*format!("/ws?topic={long}"), Some("tpt_ada"), Err(400)),
        ("/ws?topic=lobby&history=many", Some("tpt_ada"), Err(400)),
        ("/v0.2/ws?topic=lobby", Some("tpt_ada"), Err(404)),
    ] {
        let connected = connect(fixture.server.address, path, bearer).await.map(drop);
        assert_eq!(connected, expected, "{path} {bearer:?}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn join_requires_membership_and_free_capacity() {
    let private = |room: &mut RoomSettings| room.members = Some(vec!["ada".to_owned()]);
    let small = |room: &mut RoomSettings| room.max_participants = 1;
    let mut settings = rooms_settings([("private", private), ("small", small)]);
    settings.max_rooms = 1;
    let fixture = RoomFixture::with(settings).await;
    for (room, what, expected) in [
        ("private", "not a member", (403, ("not_a_member", 4403))),
        ("small", "a room that is full", (403, ("room_full", 4403))),
    ] {
        let mut clients = RoomClients::join_all(&fixture, room, &[("ada", Family::Mew04)]).await;
        assert_join_rejected(&fixture, &mut clients, what, &join_as("bob", room), expected).await;
        // A present participant can join again.
        let again = fixture.join(Family::Mcpx, "ada", room).await;
        assert_eq!(clients.client("ada").wait_closed().await.0, 4409);
        drop(again);
    }
    let mut clients = RoomClients::join_all(&fixture, "third", &[("ada", Family::Mew04)]).await;
    let too_many = (503, ("limit_exceeded", 4403));
    assert_join_rejected(
        &fixture,
        &mut clients,
        "a room above the limit",
        &join_as("bob", "fourth"),
        too_many,
    )
    .await;
    let no_name = (400, ("invalid_message", 4403));
    for name in ["a/b", "a\\b", "a\u{7f}b", "a b", "é", "a*", ".", "..", &"x".repeat(65)] {
        assert_join_rejected(&fixture, &mut clients, name, &join_as("bob", name), no_name).await;
    }
    fixture.stop().await;
}

/// A rejected join does not use up the room limit.
#[tokio::test]
async fn unauthenticated_join_opens_no_room() {
    let mut settings = rooms_settings([]);
    settings.max_rooms = 1;
    let fixture = RoomFixture::with(settings).await;
    for family in Family::ALL {
        let options = JoinOptions { family, ..join_as("unknown", &format!("of-{family:?}")) };
        assert_eq!(
            fixture.join_with(options).await.err(),
            Some(expected_error(family, UNAUTHENTICATED))
        );
    }
    fixture.join(Family::Mew04, "ada", "first").await;
    fixture.stop().await;
}

#[tokio::test]
async fn kicked_participant_rejoins_only_after_invite() {
    let fixture = RoomFixture::start().await;
    let participants = [("ada", Family::Mew04), ("bob", Family::Mcpx), ("guest", Family::Mew03)];
    let mut clients = RoomClients::join_all(&fixture, "lobby", &participants).await;
    let kick = json!({"id": "K", "kind": "space/kick",
        "payload": {"participant_id": "guest", "reason": "noise"}});
    clients.send("ada", &kick).await;
    let mut guest = clients.take("guest");
    guest.expect("space/kick", |it| it["payload"]["reason"] == "noise").await;
    assert_eq!(guest.wait_closed().await.0, 4403);
    for one in ["ada", "bob"] {
        let leave_message = clients.client(one).expect("system/presence", |_| true).await;
        assert_eq!(leave_message["payload"]["event"], "leave", "{leave_message}");
    }
    clients.drain("ada").await;
    let kicked = (403, ("kicked", 4403));
    assert_join_rejected(
        &fixture,
        &mut clients,
        "a kicked participant",
        &join_as("guest", "lobby"),
        kicked,
    )
    .await;
    assert_eq!(fixture.get("guest", "/v0.1/topics/lobby/history").await.0, 403);
    fixture.join(Family::Mew04, "guest", "elsewhere").await.leave().await;
    let invite = json!({"kind": "space/invite", "payload": {"participant_id": "guest"}});
    clients.send("ada", &invite).await;
    clients.client("ada").expect("space/invite-ack", |_| true).await;
    fixture.join(Family::Mcpx, "guest", "lobby").await;
    fixture.stop().await;
}

/// With anonymous access, any name is accepted except known identities, reserved names and invalid
/// names.
#[tokio::test]
async fn open_gateway_protects_known_and_reserved_names() {
    let fixture = RoomFixture::start().await;
    let ada = Identity::new("ada").with_capabilities(["*"]);
    let open = Authenticator::allow_anonymous().with_token(TokenHash::of("tpt_ada"), ada);
    fixture.server.gateway.authenticator().replace(&open);
    let mut clients = RoomClients::join_all(&fixture, "lobby", &[("ada", Family::Mew04)]).await;
    let (other, invalid) = ((403, ("auth_violation", 4403)), (403, ("invalid_message", 4403)));
    for (name, expected) in [
        ("ada", other),
        ("toolpost", invalid),
        ("gateway", invalid),
        ("system", invalid),
        ("system:gateway", invalid),
        ("a\nb", invalid),
    ] {
        assert_join_rejected(
            &fixture,
            &mut clients,
            name,
            &join_with_claimed_name(None, name, "lobby"),
            expected,
        )
        .await;
    }
    let unknown = join_with_claimed_name(Some("tpt_nobody"), "eve", "lobby");
    assert_join_rejected(&fixture, &mut clients, "an unknown token", &unknown, UNAUTHENTICATED)
        .await;
    let eve = fixture.join_with(join_with_claimed_name(None, "eve", "lobby")).await.unwrap();
    assert_eq!(eve.id, "eve");
    let kinds: Vec<&str> = eve.welcome["you"]["capabilities"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it.as_str())
        .collect();
    assert!(kinds.contains(&"chat") && kinds.contains(&"mcp/*"), "{kinds:?}");
    for privileged in ["*", "capability/grant", "capability/*", "space/*", "space/kick"] {
        assert!(!kinds.contains(&privileged), "{kinds:?}");
    }
    fixture.stop().await;
}

/// Each row: a first frame that is not a valid join, the error code and the close code.
#[tokio::test]
async fn first_frame_other_than_join_is_rejected() {
    let fixture = RoomFixture::start().await;
    let mut clients = RoomClients::join_all(&fixture, "lobby", &[("ada", Family::Mew04)]).await;
    for (first, error, code) in [
        (r#"{"kind":"chat","payload":{"text":"hi"}}"#, "unauthorized", 4401),
        ("hello", "unauthorized", 4401),
        ("", "unauthorized", 4401),
        ("#stream-1#hi", "unauthorized", 4401),
        (r#"{"type":"join","token":"tpt_bob","token":"tpt_ada"}"#, "unauthorized", 4401),
        (r#"{"type":"join","token":7}"#, "invalid_message", 4403),
        (r#"{"type":"join","token":"tpt_bob","protocol":"mew/v9"}"#, "unsupported_protocol", 4403),
    ] {
        let socket = connect(fixture.server.address, "/ws?space=lobby", None).await.unwrap();
        let mut client = Client::new(socket, Family::Mew04);
        client.send_text(first).await;
        let rejected = client.expect_welcome().await;
        assert_eq!(rejected, Err(JoinError::Closed(error.to_owned(), code)), "{first}");
        clients.assert_no_other_messages("ada", first).await;
    }
    fixture.stop().await;
}
