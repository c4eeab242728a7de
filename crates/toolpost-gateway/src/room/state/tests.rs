//! A room in tables: who says what, and what comes of it.

use serde_json::{Value, json};

use super::*;
use crate::room::message::Draft;

/// Who is there, and what each may.
const PEOPLE: [(&str, &[&str]); 4] = [
    ("ada", &["*"]),
    ("agent", &["mcp/proposal:*", "chat"]),
    ("tools", &["mcp/response", "stream/*"]),
    ("reader", &["mcp/request:tools/call:read_*"]),
];

struct World {
    room: Room,
    now: i64,
}

impl World {
    fn new() -> Self {
        let room = Room::new(RoomSettings::default(), None, Vec::new(), "m", 0).unwrap();
        let mut world = Self { room, now: 1_000_000 };
        for (connection, (id, may)) in (1..).zip(PEOPLE) {
            world.arrive(connection, id, may);
        }
        world
    }

    fn arrive(&mut self, connection: ConnectionId, id: &str, may: &[&str]) -> Vec<Effect> {
        let own = Capabilities::new(may.iter().map(|text| Capability::parse(text).unwrap()));
        let protocol = Protocol::Mew04;
        let (id, own) = (id.into(), Some(own));
        let identity = nobody();
        let arrival = Arrival { connection, id, own, identity, protocol, history: None };
        self.room.apply(self.now, Input::Arrive(arrival))
    }

    fn say(&mut self, id: &str, message: &Value) -> Vec<Effect> {
        let connection = self.room.present[id].connection;
        self.say_on(connection, message)
    }

    fn say_on(&mut self, connection: ConnectionId, message: &Value) -> Vec<Effect> {
        let draft = Draft::read(&message.to_string()).map(Box::new);
        self.room.apply(self.now, Input::Say { connection, draft })
    }
}

fn nobody() -> Arc<Identity> {
    Arc::new(Identity::new("nobody"))
}

/// What came of it, in a line: what was handed on, told, or refused.
fn shown(effects: &[Effect]) -> String {
    let one = |effect: &Effect| match effect {
        Effect::Deliver { message, .. } => Some(message.kind.full().to_owned()),
        Effect::Tell { message, .. } => {
            let payload: Value = serde_json::from_str(message.payload.as_ref()?.get()).ok()?;
            let about = ["error", "event", "state"].iter().find_map(|key| payload[key].as_str());
            let about = about.map(|about| format!("({about})")).unwrap_or_default();
            Some(format!("{}{about}", message.kind.short()))
        }
        Effect::Frame { .. } => Some("frame".to_owned()),
        Effect::Call(_) => Some("call".to_owned()),
        Effect::Cancel { .. } => Some("cancel".to_owned()),
        Effect::Close { closing, .. } => Some(format!("{closing:?}")),
        Effect::Refused { .. } => None,
    };
    effects.iter().filter_map(one).collect::<Vec<_>>().join(", ")
}

fn call(name: &str) -> Value {
    json!({"method": "tools/call", "params": {"name": name, "arguments": {}}})
}

/// Each row: who says what, and what comes of it; one after another.
#[test]
fn what_is_said_is_handed_on_or_refused() {
    let mut world = World::new();
    let proposal = json!({"id": "p", "kind": "mcp/proposal", "payload": call("drop")});
    let other = |id: &str| json!({"id": id, "kind": "mcp/proposal", "payload": call("drop")});
    let fulfil = |id: &str, of: &str, name: &str| json!({"id": id, "kind": "mcp/request", "to": ["tools"], "correlation_id": [of], "payload": call(name)});
    let answer = |of: &str| json!({"kind": "mcp/response", "correlation_id": [of], "payload": {"result": {}}});
    let failure =
        json!({"kind": "mcp/response", "correlation_id": ["t"], "payload": {"error": {"code": 1}}});
    let chat = |id: &str| json!({"id": id, "kind": "chat", "payload": {"text": "hi"}});
    for (who, said, expected) in [
        ("agent", chat("c1"), "chat"),
        ("agent", chat("c1"), "system/error(duplicate_id)"),
        ("ada", chat("c1"), "system/error(duplicate_id)"),
        ("tools", chat("c2"), "system/error(capability_violation)"),
        (
            "agent",
            json!({"from": "ada", "kind": "chat", "payload": {"text": "x"}}),
            "system/error(auth_violation)",
        ),
        ("ada", json!({"kind": "system/presence"}), "system/error(capability_violation)"),
        ("ada", json!({"kind": "system/heartbeat", "payload": {}}), ""),
        ("ada", json!({"kind": "welcome"}), "system/error(invalid_message)"),
        ("ada", json!({"kind": "stream/open"}), "system/error(capability_violation)"),
        ("ada", json!({"kind": "chat", "payload": {}}), "system/error(invalid_message)"),
        ("ada", json!({"kind": "mcp/request", "payload": {}}), "system/error(invalid_message)"),
        (
            "reader",
            json!({"id": "r1", "to": ["tools"], "kind": "mcp/request", "payload": call("read_x")}),
            "mcp/request:tools/call:read_x",
        ),
        (
            "reader",
            json!({"to": ["tools"], "kind": "mcp/request", "payload": call("drop")}),
            "system/error(capability_violation)",
        ),
        (
            "reader",
            json!({"to": ["tools"], "kind": "mcp/request:tools/call:read_x", "payload": call("drop")}),
            "system/error(kind_mismatch)",
        ),
        ("ada", answer("r1"), "system/error(not_addressee)"),
        ("tools", answer("r0"), "system/error(unknown_request)"),
        ("tools", answer("r1"), "mcp/response:tools/call:read_x"),
        ("agent", proposal, "mcp/proposal:tools/call:drop"),
        ("reader", fulfil("f0", "p", "drop"), "system/error(capability_violation)"),
        ("ada", fulfil("f0", "p", "other"), "system/error(proposal_mismatch)"),
        ("ada", fulfil("f1", "p", "drop"), "mcp/request:tools/call:drop"),
        ("ada", fulfil("f2", "p", "drop"), "system/error(proposal_closed)"),
        ("tools", answer("f1"), "mcp/response:tools/call:drop, system/proposal(fulfilled)"),
        ("agent", other("q"), "mcp/proposal:tools/call:drop"),
        (
            "ada",
            json!({"kind": "mcp/withdraw", "correlation_id": ["q"], "payload": {}}),
            "system/error(not_proposer)",
        ),
        (
            "agent",
            json!({"kind": "mcp/withdraw", "correlation_id": ["q"], "payload": {}}),
            "mcp/withdraw",
        ),
        (
            "ada",
            json!({"kind": "mcp/reject", "correlation_id": ["q"], "payload": {}}),
            "system/error(proposal_closed)",
        ),
        ("agent", other("s"), "mcp/proposal:tools/call:drop"),
        (
            "ada",
            json!({"kind": "mcp/reject", "correlation_id": ["s"], "payload": {"reason": "unsafe"}}),
            "mcp/reject, system/proposal(rejected)",
        ),
        ("agent", other("t"), "mcp/proposal:tools/call:drop"),
        ("tools", answer("t"), "system/error(capability_violation)"),
        ("agent", answer("t"), "system/error(not_addressee)"),
        ("ada", failure, "system/error(not_addressee)"),
        ("ada", answer("t"), "mcp/response:tools/call:drop, system/proposal(fulfilled)"),
        ("ada", answer("t"), "system/error(proposal_closed)"),
        (
            "ada",
            json!({"id": "m1", "to": ["toolpost"], "kind": "mcp/request", "payload": call("demo__add")}),
            "mcp/request:tools/call:demo__add, call",
        ),
        (
            "ada",
            json!({"to": ["toolpost"], "kind": "mcp/request", "correlation_id": ["m1"], "payload": {"method": "notifications/cancelled"}}),
            "mcp/request:notifications/cancelled, cancel",
        ),
        (
            "ada",
            json!({"kind": "participant/pause", "payload": {}}),
            "system/error(invalid_message)",
        ),
        (
            "ada",
            json!({"to": ["agent"], "kind": "participant/pause", "payload": {"timeout_seconds": 5}}),
            "participant/pause",
        ),
        ("agent", chat("c3"), "system/error(participant_paused)"),
        ("ada", json!({"to": ["agent"], "kind": "participant/resume"}), "participant/resume"),
        ("agent", chat("c4"), "chat"),
        (
            "ada",
            json!({"kind": "space/kick", "payload": {"participant_id": "nobody"}}),
            "system/error(participant_not_found)",
        ),
        (
            "ada",
            json!({"kind": "space/kick", "payload": {"participant_id": "toolpost"}}),
            "system/error(invalid_operation)",
        ),
        (
            "ada",
            json!({"kind": "space/kick", "payload": {"participant_id": "reader"}}),
            "space/kick, system/presence(leave), Kicked",
        ),
    ] {
        assert_eq!(shown(&world.say(who, &said)), expected, "{who}: {said}");
    }
}

#[test]
fn nobody_gives_what_he_lacks_and_a_grant_holds_at_once_and_later() {
    let mut world = World::new();
    world.arrive(9, "warden", &["capability/grant", "capability/revoke", "chat"]);
    let grant = |to: &str, what: Value| json!({"id": "g", "kind": "capability/grant", "payload": {"recipient": to, "capabilities": [what]}});
    let read = json!({"to": ["tools"], "kind": "mcp/request", "payload": call("read_x")});
    let pattern = json!({"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "read_*"}}});
    for (who, said, expected) in [
        ("agent", read.clone(), "system/error(capability_violation)"),
        ("warden", grant("agent", json!("mcp/request:*")), "system/error(capability_violation)"),
        ("warden", grant("tools", json!("chat")), "capability/grant, system/welcome"),
        ("tools", json!({"kind": "chat", "payload": {"text": "thanks"}}), "chat"),
        (
            "ada",
            json!({"kind": "capability/grant", "payload": {"recipient": "nobody", "capabilities": ["chat"]}}),
            "system/error(participant_not_found)",
        ),
        (
            "ada",
            json!({"id": "h", "kind": "capability/grant", "payload": {"recipient": "agent", "capabilities": [pattern]}}),
            "capability/grant, system/welcome",
        ),
        (
            "agent",
            json!({"kind": "capability/grant-ack", "correlation_id": ["h"], "payload": {"status": "accepted"}}),
            "capability/grant-ack",
        ),
        ("agent", read.clone(), "mcp/request:tools/call:read_x"),
        (
            "warden",
            json!({"kind": "capability/revoke", "payload": {"recipient": "agent", "grant_id": "h"}}),
            "system/error(capability_violation)",
        ),
    ] {
        assert_eq!(shown(&world.say(who, &said)), expected, "{who}: {said}");
    }
    let kept = world.room.standings.write("h");
    let mut later =
        Room::new(RoomSettings::default(), Some(&kept), Vec::new(), "n", 1_000_000).unwrap();
    std::mem::swap(&mut world.room, &mut later);
    world.arrive(1, "agent", &["chat"]);
    world.arrive(2, "ada", &["*"]);
    assert_eq!(shown(&world.say("agent", &read)), "mcp/request:tools/call:read_x");
    let revoke =
        json!({"kind": "capability/revoke", "payload": {"recipient": "agent", "grant_id": "h"}});
    assert_eq!(shown(&world.say("ada", &revoke)), "capability/revoke, system/welcome");
    assert_eq!(shown(&world.say("agent", &read)), "system/error(capability_violation)");
}

#[test]
fn a_grant_that_was_written_down_and_not_kept_holds_after_all() {
    let mut world = World::new();
    let said = json!({"id": "g", "kind": "capability/grant", "payload": {"recipient": "agent", "capabilities": ["mcp/request:*"]}});
    let effects = world.say("ada", &said);
    let Some(Effect::Deliver { message, keep: Some(kept), .. }) = effects.first() else {
        panic!("{effects:?}");
    };
    let read = json!({"kind": "mcp/request", "to": ["tools"], "payload": call("x")});
    for kept in [None, Some(kept.as_str())] {
        let history = vec![(1_000_000, Message::from_stored(&message.stored()).unwrap())];
        world.room = Room::new(RoomSettings::default(), kept, history, "n", 1_000_000).unwrap();
        world.arrive(1, "agent", &["chat"]);
        assert_eq!(shown(&world.say("agent", &read)), "mcp/request:tools/call:x", "{kept:?}");
    }
}

#[test]
fn what_was_asked_and_proposed_is_known_again_after_a_restart() {
    let mut world = World::new();
    let mut history = Vec::new();
    for (who, said) in [
        ("agent", json!({"id": "p", "kind": "mcp/proposal", "payload": call("drop")})),
        ("agent", json!({"id": "q", "kind": "mcp/proposal", "payload": call("keep")})),
        (
            "ada",
            json!({"id": "f", "to": ["tools"], "kind": "mcp/request", "correlation_id": ["p"], "payload": call("drop")}),
        ),
    ] {
        let effects = world.say(who, &said);
        let Some(Effect::Deliver { message, .. }) = effects.first() else { panic!("{effects:?}") };
        history.push((1_000_000, Message::from_stored(&message.stored()).unwrap()));
    }
    world.room = Room::new(RoomSettings::default(), None, history, "n", 1_000_000).unwrap();
    for (connection, (id, may)) in (11..).zip(PEOPLE) {
        world.arrive(connection, id, may);
    }
    let answer =
        json!({"kind": "mcp/response", "correlation_id": ["f"], "payload": {"error": {"code": 1}}});
    let again = json!({"to": ["tools"], "kind": "mcp/request", "correlation_id": ["p"], "payload": call("drop")});
    let other = json!({"to": ["tools"], "kind": "mcp/request", "correlation_id": ["q"], "payload": call("keep")});
    assert_eq!(shown(&world.say("ada", &again)), "system/error(proposal_closed)");
    assert_eq!(shown(&world.say("ada", &other)), "mcp/request:tools/call:keep");
    let effects = world.say("tools", &answer);
    let Some(Effect::Deliver { message, .. }) = effects.first() else { panic!("{effects:?}") };
    let context = serde_json::to_value(message.context_of.as_ref().unwrap()).unwrap();
    let expected = json!({
        "method": "tools/call", "name": "drop", "request_id": "f", "from": "ada",
        "proposal_id": "p", "proposer": "agent", "outcome": "error",
    });
    assert_eq!(context, expected);
}

#[test]
fn a_proposal_that_nobody_takes_up_expires_for_everybody() {
    let mut world = World::new();
    world.say("agent", &json!({"id": "p", "kind": "mcp/proposal", "payload": call("drop")}));
    world.now += 599_999;
    assert_eq!(shown(&world.room.apply(world.now, Input::Time)), "");
    world.now += 1;
    let effects = world.room.apply(world.now, Input::Time);
    assert_eq!(shown(&effects), "mcp/reject, system/proposal(expired)");
    let late = json!({"kind": "mcp/request", "correlation_id": ["p"], "payload": call("drop")});
    assert_eq!(shown(&world.say("ada", &late)), "system/error(proposal_closed)");
}

#[test]
fn who_comes_again_takes_the_place_of_his_earlier_connection() {
    let mut world = World::new();
    let said = json!({"id": "c", "kind": "chat", "payload": {"text": "hi"}});
    assert_eq!(shown(&world.say("agent", &said)), "chat");
    assert_eq!(shown(&world.arrive(7, "agent", &["chat"])), "Replaced, system/welcome");
    assert_eq!(shown(&world.room.apply(world.now, Input::Leave { connection: 2 })), "");
    assert_eq!(shown(&world.say_on(2, &said)), "", "nobody hears a connection that is over");
    assert_eq!(
        shown(&world.say("agent", &said)),
        "chat",
        "a program that began again counts again"
    );
    assert_eq!(shown(&world.say("agent", &said)), "system/error(duplicate_id)");
    let left = world.room.apply(world.now, Input::Leave { connection: 7 });
    assert_eq!(shown(&left), "system/presence(leave)");
}

#[test]
fn streams_have_owners_writers_and_readers() {
    let mut world = World::new();
    let frame = |connection, text: &str| {
        let (stream, _) = crate::room::message::stream_frame(text).unwrap().unwrap();
        let frame = Frame { stream: stream.into(), text: text.into() };
        Input::Frame { connection, frame: Ok(frame) }
    };
    let tools = 3;
    for (input, expected) in [
        (
            Err((
                "tools",
                json!({"kind": "stream/request", "payload": {"direction": "upload", "target": ["ghost"]}}),
            )),
            "system/error(target_not_found)",
        ),
        (
            Err(("tools", json!({"kind": "stream/request", "payload": {"direction": "upload"}}))),
            "stream/request, stream/open",
        ),
        (Ok(frame(tools, "#stream-1#a#b")), "frame"),
        (Ok(frame(1, "#stream-1#x")), "system/error(unauthorized_stream_write)"),
        (Ok(frame(tools, "#stream-9#x")), "system/error(unauthorized_stream_write)"),
        (
            Err(("ada", json!({"kind": "stream/close", "payload": {"stream_id": "stream-1"}}))),
            "system/error(unauthorized)",
        ),
        (
            Err((
                "tools",
                json!({"kind": "stream/grant-write", "payload": {"stream_id": "stream-1", "participant_id": "ada"}}),
            )),
            "stream/write-granted",
        ),
        (Ok(frame(1, "#stream-1#x")), "frame"),
        (
            Err((
                "tools",
                json!({"kind": "stream/transfer-ownership", "payload": {"stream_id": "stream-1", "new_owner": "ada"}}),
            )),
            "stream/ownership-transferred",
        ),
        (Ok(frame(tools, "#stream-1#x")), "system/error(unauthorized_stream_write)"),
        (
            Err((
                "ada",
                json!({"kind": "stream/revoke-write", "payload": {"stream_id": "stream-1", "participant_id": "ada"}}),
            )),
            "system/error(invalid_operation)",
        ),
        (Ok(Input::Leave { connection: 1 }), "stream/close, system/presence(leave)"),
        (Ok(frame(tools, "#stream-1#x")), "system/error(unauthorized_stream_write)"),
    ] {
        let effects = match input {
            Ok(input) => world.room.apply(world.now, input),
            Err((who, said)) => world.say(who, &said),
        };
        assert_eq!(shown(&effects), expected);
    }
}

#[test]
fn a_page_of_the_history_ends_where_there_is_no_more() {
    let mut world = World::new();
    for number in 0..5 {
        world.now += 1_000;
        world.say(
            "agent",
            &json!({"id": format!("c{number}"), "kind": "chat", "payload": {"text": "hi"}}),
        );
    }
    let time = toolpost::timestamp(world.now - 2_000);
    let page = |limit, before: Option<&str>| {
        let page = world.room.page(limit, before);
        page.iter().map(|message| message.id.to_string()).collect::<Vec<_>>().join(" ")
    };
    for (limit, before, expected) in [
        (2, None, "c4 c3"),
        (2, Some("c3"), "c2 c1"),
        (9, Some("c1"), "c0"),
        (9, Some("c0"), ""),
        (9, Some("unknown"), ""),
        (9, Some(time.as_str()), "c1 c0"),
    ] {
        assert_eq!(page(limit, before), expected, "{limit} {before:?}");
    }
    let settings = RoomSettings { history: 2, ..RoomSettings::default() };
    world.room.apply(world.now, Input::Settings(settings));
    assert_eq!(world.room.page(9, None).len(), 2);
}

#[test]
fn too_much_is_refused_and_says_when_to_come_again() {
    let mut world = World::new();
    let said = json!({"kind": "chat", "payload": {"text": "hi"}});
    let outcomes: Vec<String> = (0..700).map(|_| shown(&world.say("agent", &said))).collect();
    assert_eq!(outcomes.iter().filter(|it| *it == "chat").count(), 600);
    assert_eq!(outcomes[699], "system/error(rate_limited)");
    assert_eq!(shown(&world.say("ada", &said)), "chat", "others are not disturbed");
    world.now += 50;
    assert_eq!(shown(&world.say("agent", &said)), "chat");
}

#[test]
fn whoever_decides_elsewhere_needs_the_same_capability() {
    let mut world = World::new();
    world.say(
        "agent",
        &json!({"id": "p", "to": ["tools"], "kind": "mcp/proposal", "payload": call("drop")}),
    );
    let decide = |world: &mut World, by: &str, may: &str, verdict| {
        let (answer, mut decided) = tokio::sync::oneshot::channel();
        let own = Some(Capabilities::new([Capability::parse(may).unwrap()]));
        let (proposal, by, identity) = ("p".into(), by.into(), nobody());
        let decision = Decision { proposal, by, own, identity, verdict, answer };
        let effects = world.room.apply(world.now, Input::Decide(decision));
        let error = decided.try_recv().unwrap().err().map(|refusal| refusal.error);
        (error, shown(&effects))
    };
    for (by, may, verdict, expected) in [
        ("agent", "*", Verdict::Approved, (Some("own_proposal"), "")),
        ("eve", "chat", Verdict::Approved, (Some("capability_violation"), "")),
        (
            "eve",
            "mcp/request:tools/call:drop",
            Verdict::Approved,
            (None, "mcp/request:tools/call:drop"),
        ),
        ("eve", "*", Verdict::Rejected { reason: None }, (Some("proposal_closed"), "")),
    ] {
        let (error, shown) = decide(&mut world, by, may, verdict);
        assert_eq!((error, shown.as_str()), expected, "{by}");
    }
}

#[test]
fn other_settings_hold_for_those_who_are_here() {
    let mut world = World::new();
    let guest = Arrival {
        connection: 9,
        id: "guest".into(),
        own: None,
        identity: nobody(),
        protocol: Protocol::Mcpx01,
        history: None,
    };
    world.room.apply(world.now, Input::Arrive(guest));
    let said = json!({"kind": "chat", "payload": {"text": "hi"}});
    assert_eq!(shown(&world.say("guest", &said)), "chat");
    let capabilities = vec!["mcp/proposal".to_owned()];
    let mut settings = RoomSettings { capabilities, ..RoomSettings::default() };
    world.room.apply(world.now, Input::Settings(settings.clone()));
    assert_eq!(shown(&world.say("guest", &said)), "system/error(capability_violation)");
    assert_eq!(shown(&world.say("ada", &said)), "chat", "her token says what she may");
    settings.members = Some(vec!["ada".to_owned(), "agent".to_owned()]);
    world.room.apply(world.now, Input::Settings(settings));
    let here: Vec<Arc<str>> = world.room.participants().into_iter().map(|(id, _)| id).collect();
    assert_eq!(here, ["ada".into(), "agent".into()]);
    assert_eq!(world.room.check_arrival("tools").unwrap_err().error, "not_a_member");
}

#[test]
fn the_invited_come_with_a_token_of_the_room_and_may_what_they_were_given() {
    let mut world = World::new();
    let invite = json!({"id": "i", "kind": "space/invite", "payload": {"participant_id": "new", "initial_capabilities": ["chat"]}});
    let effects = world.say("ada", &invite);
    assert_eq!(shown(&effects), "space/invite, space/invite-ack, system/presence(invited)");
    let told: Vec<&Arc<Message>> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Tell { message, to } if to.len() == 1 => Some(message),
            _ => None,
        })
        .collect();
    let ack: Value = serde_json::from_str(told[0].payload.as_ref().unwrap().get()).unwrap();
    let token = crate::auth::Token::from(ack["token"].as_str().unwrap().to_owned());
    let hash = token.hash().to_string();
    assert_eq!(world.room.invited(&hash).as_deref(), Some("new"));
    let arrival = |connection| Arrival {
        connection,
        id: "new".into(),
        own: None,
        identity: nobody(),
        protocol: Protocol::Mew04,
        history: None,
    };
    world.room.apply(world.now, Input::Arrive(arrival(20)));
    let chat = json!({"kind": "chat", "payload": {"text": "hi"}});
    let proposal = json!({"kind": "mcp/proposal", "payload": call("x")});
    assert_eq!(shown(&world.say("new", &chat)), "chat");
    assert_eq!(shown(&world.say("new", &proposal)), "system/error(capability_violation)");
    let kick = json!({"kind": "space/kick", "payload": {"participant_id": "new"}});
    assert_eq!(shown(&world.say("ada", &kick)), "space/kick, system/presence(leave), Kicked");
    assert_eq!(world.room.invited(&hash), None);
    assert_eq!(world.room.check_arrival("new").unwrap_err().error, "kicked");
}

/// Each row: who says what, and what comes of it; one after another.
#[test]
fn nobody_reaches_further_than_what_he_says_was_looked_at() {
    let mut world = World::new();
    world.arrive(9, "eve", &["chat", "capability/*", "mcp/proposal", "participant/*"]);
    let proposal = |id: &str| json!({"id": id, "kind": "mcp/proposal", "payload": call("drop")});
    let withdraw =
        |ids: &[&str]| json!({"kind": "mcp/withdraw", "correlation_id": ids, "payload": {}});
    let everybody = json!({"id": "r", "kind": "mcp/request", "payload": call("read_x")});
    let both =
        json!({"kind": "mcp/response", "correlation_id": ["r", "p"], "payload": {"result": {}}});
    let revoke = |payload: Value| json!({"kind": "capability/revoke", "payload": payload});
    for (who, said, expected) in [
        ("agent", proposal("p"), "mcp/proposal:tools/call:drop"),
        ("eve", proposal("mine"), "mcp/proposal:tools/call:drop"),
        ("eve", proposal("p"), "system/error(duplicate_id)"),
        ("eve", withdraw(&["p", "mine"]), "system/error(capability_violation)"),
        ("eve", withdraw(&["mine", "p"]), "mcp/withdraw"),
        ("reader", everybody, "mcp/request:tools/call:read_x, call"),
        ("reader", both.clone(), "system/error(not_addressee)"),
        ("tools", both, "mcp/response:tools/call:read_x"),
        (
            "ada",
            json!({"kind": "mcp/reject", "correlation_id": ["p"], "payload": {}}),
            "mcp/reject, system/proposal(rejected)",
        ),
        ("eve", json!({"kind": "chat", "payload": ["hi"]}), "system/error(invalid_message)"),
        ("ada", json!({"kind": "reasoning/start", "payload": 5}), "system/error(invalid_message)"),
        (
            "eve",
            json!({"id": "g", "kind": "capability/grant", "payload": {"recipient": "ada", "capabilities": ["chat"]}}),
            "capability/grant, system/welcome",
        ),
        (
            "eve",
            revoke(json!({"recipient": "ada", "grant_id": "g", "capabilities": ["*"]})),
            "system/error(invalid_message)",
        ),
        (
            "eve",
            revoke(json!({"recipient": "ada", "capabilities": ["*"]})),
            "system/error(capability_violation)",
        ),
        (
            "ada",
            revoke(json!({"recipient": "agent", "capabilities": ["mcp/request"]})),
            "system/error(unknown_grant)",
        ),
        (
            "ada",
            revoke(json!({"recipient": "agent", "capabilities": [{"kind": "chat"}]})),
            "capability/revoke, system/welcome",
        ),
        (
            "agent",
            json!({"kind": "chat", "payload": {"text": "hi"}}),
            "system/error(capability_violation)",
        ),
        (
            "ada",
            json!({"to": ["eve"], "kind": "participant/pause", "payload": {}}),
            "participant/pause",
        ),
        (
            "eve",
            json!({"to": ["eve"], "kind": "participant/resume"}),
            "system/error(participant_paused)",
        ),
    ] {
        assert_eq!(shown(&world.say(who, &said)), expected, "{who}: {said}");
    }
    world.room.apply(world.now, Input::Leave { connection: 9 });
    world.arrive(10, "eve", &["chat"]);
    let chat = json!({"kind": "chat", "payload": {"text": "hi"}});
    assert_eq!(shown(&world.say("eve", &chat)), "system/error(participant_paused)");
}

#[test]
fn whoever_has_a_token_is_invited_without_another_one() {
    let mut world = World::new();
    let room = std::mem::replace(&mut world.room, World::new().room);
    world.room = room.knowing(|id| id == "known");
    for (id, status) in [("known", "added"), ("other", "created")] {
        let payload = json!({"participant_id": id});
        let effects = world.say("ada", &json!({"kind": "space/invite", "payload": payload}));
        let acks: Vec<Value> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Tell { message, .. } if message.kind.short() == "space/invite-ack" => {
                    serde_json::from_str(message.payload.as_ref()?.get()).ok()
                }
                _ => None,
            })
            .collect();
        assert_eq!(acks[0]["status"], status);
        assert_eq!(acks[0].get("token").is_some(), status == "created");
    }
}

#[test]
fn what_a_name_has_used_up_is_not_given_back_by_coming_again() {
    let mut world = World::new();
    let chat = json!({"kind": "chat", "payload": {"text": "hi"}});
    while shown(&world.say("agent", &chat)) == "chat" {}
    world.room.apply(world.now, Input::Leave { connection: 2 });
    world.arrive(20, "agent", &["chat"]);
    assert_eq!(shown(&world.say("agent", &chat)), "system/error(rate_limited)");
}

#[test]
fn an_answer_that_is_no_message_any_more_is_an_error() {
    let mut world = World::new();
    let asked = json!({"id": "r", "to": ["toolpost"], "kind": "mcp/request", "payload": {"id": 7, "method": "tools/list"}});
    world.say("ada", &asked);
    let payload = serde_json::value::to_raw_value(&"x".repeat(2 * 1024 * 1024)).unwrap();
    let effects = world.room.apply(world.now, Input::Answered { request: "r".into(), payload });
    let Some(Effect::Deliver { message, .. }) = effects.first() else { panic!("{effects:?}") };
    let payload: Value = serde_json::from_str(message.payload.as_ref().unwrap().get()).unwrap();
    assert_eq!((&payload["id"], &payload["error"]["code"]), (&json!(7), &json!(-32_000)));
}

#[test]
fn what_a_process_left_unanswered_or_ordered_is_known_to_the_next_one() {
    let mut world = World::new();
    let mut history = Vec::new();
    for (who, said) in [
        (
            "ada",
            json!({"id": "r", "to": ["toolpost"], "kind": "mcp/request", "payload": {"id": 7, "method": "tools/list"}}),
        ),
        ("ada", json!({"id": "s", "to": ["tools"], "kind": "mcp/request", "payload": call("x")})),
        (
            "ada",
            json!({"to": ["agent"], "kind": "participant/pause", "payload": {"timeout_seconds": 60}}),
        ),
    ] {
        let effects = world.say(who, &said);
        let Some(Effect::Deliver { message, .. }) = effects.first() else { panic!("{effects:?}") };
        history.push((world.now, Message::from_stored(&message.stored()).unwrap()));
    }
    world.room = Room::new(RoomSettings::default(), None, history, "n", world.now).unwrap();
    let came = world.arrive(11, "ada", &["*"]);
    assert_eq!(shown(&came), "mcp/response:tools/list, system/welcome");
    world.arrive(12, "agent", &["chat"]);
    let chat = json!({"kind": "chat", "payload": {"text": "hi"}});
    assert_eq!(shown(&world.say("agent", &chat)), "system/error(participant_paused)");
    world.now += 60_000;
    assert_eq!(shown(&world.say("agent", &chat)), "chat");
}

#[test]
fn each_of_those_who_were_asked_answers_once() {
    let mut world = World::new();
    let ask = json!({"id": "r", "to": ["tools"], "kind": "mcp/request", "payload": call("x")});
    let answer =
        json!({"kind": "mcp/response", "correlation_id": ["r"], "payload": {"result": {}}});
    assert_eq!(shown(&world.say("ada", &ask)), "mcp/request:tools/call:x");
    world.arrive(9, "ada", &["*"]);
    assert_eq!(shown(&world.say("ada", &ask)), "system/error(duplicate_id)", "it may be answered");
    assert_eq!(shown(&world.say("tools", &answer)), "mcp/response:tools/call:x");
    assert_eq!(shown(&world.say("tools", &answer)), "system/error(already_answered)");
    assert_eq!(shown(&world.say("ada", &ask)), "mcp/request:tools/call:x");
}
