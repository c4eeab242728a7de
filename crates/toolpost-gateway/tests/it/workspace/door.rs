//! Who is not let in, by every way in, and what the others hear of it: nothing.

use serde_json::json;
use toolpost::Identity;
use toolpost_gateway::auth::{Authenticator, TokenHash};
use toolpost_gateway::room::RoomSettings;

use super::cast::Cast;
use super::client::{Client, Family, Joining, Refused, dial};
use super::world::{World, rooms};

/// What each family is told: a status at the door, or a message and the code of the goodbye.
type Expected = (u16, (&'static str, u16));

const NOBODY: Expected = (401, ("unauthorized", 4401));

fn expected(family: Family, (status, (error, code)): Expected) -> Refused {
    match family {
        Family::Mcpx => Refused::Status(status),
        _ => Refused::Told(error.to_owned(), code),
    }
}

/// Nobody comes in so, whatever he speaks; whoever is in the room hears nothing.
async fn check(world: &World, cast: &mut Cast, what: &str, joining: &Joining, row: Expected) {
    for family in Family::ALL {
        let joining = Joining { family, ..joining.clone() };
        let refused = world.enter(joining).await.err();
        assert_eq!(refused, Some(expected(family, row)), "{what} as {family:?}");
    }
    cast.nothing_else("ada", what).await;
}

fn coming(who: &str, room: &str) -> Joining {
    Joining::new(Family::Mcpx, who, room)
}

fn as_other(token: Option<&str>, participant: &str, room: &str) -> Joining {
    let (token, participant) = (token.map(str::to_owned), Some(participant.to_owned()));
    Joining { token, participant, ..coming("nobody", room) }
}

#[tokio::test]
async fn whoever_is_not_known_or_somebody_else_is_told_so_by_every_way_in() {
    let world = World::start().await;
    let mut cast = Cast::meet(&world, "lobby", &[("ada", Family::Mew04)]).await;
    let other: Expected = (403, ("auth_violation", 4403));
    for (what, joining, expected) in [
        ("an unknown token", coming("nobody", "lobby"), NOBODY),
        ("no token", as_other(None, "ada", "lobby"), NOBODY),
        ("an empty token", as_other(Some(""), "ada", "lobby"), (400, NOBODY.1)),
        ("another's token", as_other(Some("tpt_bob"), "ada", "lobby"), other),
        ("a name of the gateway", as_other(Some("tpt_bob"), "toolpost", "lobby"), other),
    ] {
        check(&world, &mut cast, what, &joining, expected).await;
    }
    world.stop().await;
}

/// Each row: a way to a WebSocket with a token in it, and the status.
#[tokio::test]
async fn a_token_at_the_door_is_looked_at_there() {
    let world = World::start().await;
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
        let dialed = dial(world.running.address, path, bearer).await.map(drop);
        assert_eq!(dialed, expected, "{path} {bearer:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn rooms_are_entered_by_members_while_there_is_a_place() {
    let private = |room: &mut RoomSettings| room.members = Some(vec!["ada".to_owned()]);
    let small = |room: &mut RoomSettings| room.participants = 1;
    let mut settings = rooms([("private", private), ("small", small)]);
    settings.most_rooms = 3;
    let world = World::with(settings).await;
    for (room, what, expected) in [
        ("private", "not a member", (403, ("not_a_member", 4403))),
        ("small", "a room that is full", (403, ("room_full", 4403))),
    ] {
        let mut cast = Cast::meet(&world, room, &[("ada", Family::Mew04)]).await;
        check(&world, &mut cast, what, &coming("bob", room), expected).await;
        // Whoever is in it may come again all the same.
        let again = world.join(Family::Mcpx, "ada", room).await;
        assert_eq!(cast.one("ada").closed().await.0, 4409);
        drop(again);
    }
    let mut cast = Cast::meet(&world, "third", &[("ada", Family::Mew04)]).await;
    let too_many = (503, ("limit_exceeded", 4403));
    check(&world, &mut cast, "a room too many", &coming("bob", "fourth"), too_many).await;
    let no_name = (400, ("invalid_message", 4403));
    for name in ["a/b", "a\\b", "a\u{7f}b", &"x".repeat(129)] {
        check(&world, &mut cast, name, &coming("bob", name), no_name).await;
    }
    world.stop().await;
}

/// The only place for a room is left to those who may have it.
#[tokio::test]
async fn whoever_is_not_known_opens_no_room() {
    let mut settings = rooms([]);
    settings.most_rooms = 1;
    let world = World::with(settings).await;
    for family in Family::ALL {
        let joining = Joining { family, ..coming("nobody", &format!("of-{family:?}")) };
        assert_eq!(world.enter(joining).await.err(), Some(expected(family, NOBODY)));
    }
    world.join(Family::Mew04, "ada", "lobby").await;
    world.stop().await;
}

#[tokio::test]
async fn whoever_was_sent_away_does_not_return_before_he_is_invited() {
    let world = World::start().await;
    let people = [("ada", Family::Mew04), ("bob", Family::Mcpx), ("guest", Family::Mew03)];
    let mut cast = Cast::meet(&world, "lobby", &people).await;
    let kick = json!({"id": "K", "kind": "space/kick",
        "payload": {"participant_id": "guest", "reason": "noise"}});
    cast.say("ada", &kick).await;
    let mut guest = cast.take("guest");
    guest.expect("space/kick", |it| it["payload"]["reason"] == "noise").await;
    assert_eq!(guest.closed().await.0, 4403);
    for one in ["ada", "bob"] {
        let left = cast.one(one).expect("system/presence", |_| true).await;
        assert_eq!(left["payload"]["event"], "leave", "{left}");
    }
    cast.settle("ada").await;
    let kicked = (403, ("kicked", 4403));
    check(&world, &mut cast, "one who was kicked", &coming("guest", "lobby"), kicked).await;
    assert_eq!(world.get("guest", "/v0.1/topics/lobby/history").await.0, 403);
    world.join(Family::Mew04, "guest", "elsewhere").await.leave().await;
    let invite = json!({"kind": "space/invite", "payload": {"participant_id": "guest"}});
    cast.say("ada", &invite).await;
    cast.one("ada").expect("space/invite-ack", |_| true).await;
    world.join(Family::Mcpx, "guest", "lobby").await;
    world.stop().await;
}

/// Where nobody needs a token, names are free but for those that somebody or the gateway has.
#[tokio::test]
async fn without_tokens_nobody_takes_a_name_that_is_known() {
    let world = World::start().await;
    let ada = Identity::new("ada").with_capabilities(["*"]);
    let open = Authenticator::open().also(TokenHash::of("tpt_ada"), ada);
    world.running.gateway.authenticator().replace(&open);
    let mut cast = Cast::meet(&world, "lobby", &[("ada", Family::Mew04)]).await;
    let (other, invalid) = ((403, ("auth_violation", 4403)), (403, ("invalid_message", 4403)));
    for (name, expected) in [
        ("ada", other),
        ("toolpost", invalid),
        ("gateway", invalid),
        ("system", invalid),
        ("system:gateway", invalid),
        ("a\nb", invalid),
    ] {
        check(&world, &mut cast, name, &as_other(None, name, "lobby"), expected).await;
    }
    let unknown = as_other(Some("tpt_nobody"), "eve", "lobby");
    check(&world, &mut cast, "an unknown token", &unknown, NOBODY).await;
    let eve = world.enter(as_other(None, "eve", "lobby")).await.unwrap();
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
    world.stop().await;
}

/// Each row: a first frame that is no join.
#[tokio::test]
async fn whoever_says_something_else_first_is_not_heard() {
    let world = World::start().await;
    let mut cast = Cast::meet(&world, "lobby", &[("ada", Family::Mew04)]).await;
    for (first, error, code) in [
        (r#"{"kind":"chat","payload":{"text":"hi"}}"#, "unauthorized", 4401),
        ("hello", "unauthorized", 4401),
        ("", "unauthorized", 4401),
        ("#stream-1#hi", "unauthorized", 4401),
        (r#"{"type":"join","token":"tpt_bob","token":"tpt_ada"}"#, "unauthorized", 4401),
        (r#"{"type":"join","token":7}"#, "invalid_message", 4403),
        (r#"{"type":"join","token":"tpt_bob","protocol":"mew/v9"}"#, "unsupported_protocol", 4403),
    ] {
        let socket = dial(world.running.address, "/ws?space=lobby", None).await.unwrap();
        let mut client = Client::on(socket, Family::Mew04);
        client.say_text(first).await;
        let refused = client.be_welcomed().await;
        assert_eq!(refused, Err(Refused::Told(error.to_owned(), code)), "{first}");
        cast.nothing_else("ada", first).await;
    }
    world.stop().await;
}
