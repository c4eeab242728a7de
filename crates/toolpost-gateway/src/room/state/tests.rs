//! Tables of messages and their effects.

use serde_json::{Value, json};
use toolpost::IdentityKind;

use super::*;
use crate::approval::ApprovalAction;
use crate::room::capability::Capability;
use crate::room::message::Draft;

/// The participants and their capabilities.
const PARTICIPANTS: [(&str, &[&str]); 4] = [
    ("ada", &["*"]),
    ("agent", &["mcp/proposal:*", "chat"]),
    ("tools", &["mcp/response", "stream/*"]),
    ("reader", &["mcp/request:tools/call:read_*"]),
];

/// Opens a room that creates a token for every invited participant.
fn new_room(
    document: Option<&str>,
    history: Vec<(i64, RoomMessage)>,
    prefix: &str,
    now: i64,
) -> Result<Room, serde_json::Error> {
    let create_token: CreateToken = Box::new(|id| Ok(Token::from(format!("token of {id}"))));
    Room::new(RoomSettings::default(), document, history, prefix, now, create_token)
}

struct RoomFixture {
    room: Room,
    now: i64,
}

impl RoomFixture {
    fn new() -> Self {
        let room = new_room(None, Vec::new(), "m", 0).unwrap();
        let mut fixture = Self { room, now: 1_000_000 };
        for (connection, (id, capabilities)) in (1..).zip(PARTICIPANTS) {
            fixture.join(connection, id, capabilities);
        }
        fixture
    }

    fn join(&mut self, connection: ConnectionId, id: &str, capabilities: &[&str]) -> Vec<Effect> {
        let own =
            Capabilities::new(capabilities.iter().map(|text| Capability::parse(text).unwrap()));
        let protocol = Protocol::Mew04;
        let identity = Arc::new(Identity::new(id));
        let (id, own) = (id.into(), Some(own));
        let join = ParticipantJoin {
            connection,
            id,
            token_capabilities: own,
            identity,
            protocol,
            history: None,
            kinds: None,
        };
        self.room.apply(self.now, RoomInput::Join(join))
    }

    fn send(&mut self, id: &str, message: &Value) -> Vec<Effect> {
        let connection = self.room.participants[id].connection;
        self.send_on(connection, message)
    }

    fn send_on(&mut self, connection: ConnectionId, message: &Value) -> Vec<Effect> {
        let draft = Draft::parse(&message.to_string()).map(Box::new);
        self.room.apply(self.now, RoomInput::Message { connection, draft })
    }
}

/// Returns why the identity of a token cannot join.
fn check_can_join(room: &Room, id: &str) -> RejectionCode {
    room.check_can_join(id, &Identity::new(id)).unwrap_err().code
}

/// Summarizes effects in one line.
fn summarize(effects: &[Effect]) -> String {
    let summarize_effect = |effect: &Effect| match effect {
        Effect::Deliver { message, .. } => Some(message.kind.full().to_owned()),
        Effect::Send { message, .. } => {
            let payload: Value = serde_json::from_str(message.payload.as_ref()?.get()).ok()?;
            let about =
                ["error", "event", "state", "status"].iter().find_map(|key| payload[key].as_str());
            let about = about.map(|about| format!("({about})")).unwrap_or_default();
            Some(format!("{}{about}", message.kind.short()))
        }
        Effect::Frame { .. } => Some("frame".to_owned()),
        Effect::Call { .. } => Some("call".to_owned()),
        Effect::Cancel { .. } => Some("cancel".to_owned()),
        Effect::Close { cause: close_cause, .. } => Some(format!("{close_cause:?}")),
        Effect::RecordRejection { .. } => None,
    };
    effects.iter().filter_map(summarize_effect).collect::<Vec<_>>().join(", ")
}

fn call(name: &str) -> Value {
    json!({"method": "tools/call", "params": {"name": name, "arguments": {}}})
}

/// Each row: sender, message and summary of its effects, in sequence.
#[test]
fn messages_are_delivered_or_rejected() {
    let mut fixture = RoomFixture::new();
    let proposal = json!({"id": "p", "kind": "mcp/proposal", "payload": call("drop")});
    let other = |id: &str| json!({"id": id, "kind": "mcp/proposal", "payload": call("drop")});
    let fulfill = |id: &str, of: &str, name: &str| json!({"id": id, "kind": "mcp/request", "to": ["tools"], "correlation_id": [of], "payload": call(name)});
    let reply = |of: &str| json!({"kind": "mcp/response", "correlation_id": [of], "payload": {"result": {}}});
    let failure =
        json!({"kind": "mcp/response", "correlation_id": ["t"], "payload": {"error": {"code": 1}}});
    let chat = |id: &str| json!({"id": id, "kind": "chat", "payload": {"text": "hi"}});
    for (sender, message_json, expected) in [
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
        ("ada", reply("r1"), "system/error(not_addressee)"),
        ("tools", reply("r0"), "system/error(unknown_request)"),
        ("tools", reply("r1"), "mcp/response:tools/call:read_x"),
        ("agent", proposal, "mcp/proposal:tools/call:drop"),
        ("reader", fulfill("f0", "p", "drop"), "system/error(capability_violation)"),
        ("ada", fulfill("f0", "p", "other"), "system/error(proposal_mismatch)"),
        ("ada", fulfill("f1", "p", "drop"), "mcp/request:tools/call:drop"),
        ("ada", fulfill("f2", "p", "drop"), "system/error(proposal_closed)"),
        ("tools", reply("f1"), "mcp/response:tools/call:drop, system/proposal(fulfilled)"),
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
        ("tools", reply("t"), "system/error(capability_violation)"),
        ("agent", reply("t"), "system/error(not_addressee)"),
        ("ada", failure, "system/error(not_addressee)"),
        ("ada", reply("t"), "mcp/response:tools/call:drop, system/proposal(fulfilled)"),
        ("ada", reply("t"), "system/error(proposal_closed)"),
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
            json!({"kind": "space/kick", "payload": {"participant_id": "unknown"}}),
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
        assert_eq!(
            summarize(&fixture.send(sender, &message_json)),
            expected,
            "{sender}: {message_json}"
        );
    }
}

#[test]
fn grant_requires_holding_and_survives_restart() {
    let mut fixture = RoomFixture::new();
    fixture.join(9, "warden", &["capability/grant", "capability/revoke", "chat"]);
    let grant = |to: &str, what: Value| json!({"id": "g", "kind": "capability/grant", "payload": {"recipient": to, "capabilities": [what]}});
    let read = json!({"to": ["tools"], "kind": "mcp/request", "payload": call("read_x")});
    let pattern = json!({"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "read_*"}}});
    for (sender, message_json, expected) in [
        ("agent", read.clone(), "system/error(capability_violation)"),
        ("warden", grant("agent", json!("mcp/request:*")), "system/error(capability_violation)"),
        ("warden", grant("tools", json!("chat")), "capability/grant, system/welcome"),
        ("tools", json!({"kind": "chat", "payload": {"text": "thanks"}}), "chat"),
        (
            "ada",
            json!({"kind": "capability/grant", "payload": {"recipient": "unknown", "capabilities": ["chat"]}}),
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
        assert_eq!(
            summarize(&fixture.send(sender, &message_json)),
            expected,
            "{sender}: {message_json}"
        );
    }
    let document = fixture.room.grants.snapshot("h");
    let mut later = new_room(Some(&document), Vec::new(), "n", 1_000_000).unwrap();
    std::mem::swap(&mut fixture.room, &mut later);
    fixture.join(1, "agent", &["chat"]);
    fixture.join(2, "ada", &["*"]);
    fixture.join(3, "tools", &["mcp/response"]);
    assert_eq!(summarize(&fixture.send("agent", &read)), "mcp/request:tools/call:read_x");
    let revoke =
        json!({"kind": "capability/revoke", "payload": {"recipient": "agent", "grant_id": "h"}});
    assert_eq!(summarize(&fixture.send("ada", &revoke)), "capability/revoke, system/welcome");
    assert_eq!(summarize(&fixture.send("agent", &read)), "system/error(capability_violation)");
}

#[test]
fn journaled_grant_missing_from_store_is_replayed() {
    let mut fixture = RoomFixture::new();
    let message_json = json!({"id": "g", "kind": "capability/grant", "payload": {"recipient": "agent", "capabilities": ["mcp/request:*"]}});
    let effects = fixture.send("ada", &message_json);
    let Some(Effect::Deliver { message, snapshot: Some(document), .. }) = effects.first() else {
        panic!("{effects:?}");
    };
    let read = json!({"kind": "mcp/request", "to": ["tools"], "payload": call("x")});
    for document in [None, Some(document.as_str())] {
        let history = vec![(1_000_000, RoomMessage::from_stored(&message.to_stored()).unwrap())];
        fixture.room = new_room(document, history, "n", 1_000_000).unwrap();
        fixture.join(1, "agent", &["chat"]);
        fixture.join(3, "tools", &["mcp/response"]);
        assert_eq!(
            summarize(&fixture.send("agent", &read)),
            "mcp/request:tools/call:x",
            "{document:?}"
        );
    }
}

#[test]
fn requests_and_proposals_are_restored_after_restart() {
    let mut fixture = RoomFixture::new();
    let mut history = Vec::new();
    for (sender, message_json) in [
        ("agent", json!({"id": "p", "kind": "mcp/proposal", "payload": call("drop")})),
        ("agent", json!({"id": "q", "kind": "mcp/proposal", "payload": call("keep")})),
        (
            "ada",
            json!({"id": "f", "to": ["tools"], "kind": "mcp/request", "correlation_id": ["p"], "payload": call("drop")}),
        ),
    ] {
        let effects = fixture.send(sender, &message_json);
        let Some(Effect::Deliver { message, .. }) = effects.first() else { panic!("{effects:?}") };
        history.push((1_000_000, RoomMessage::from_stored(&message.to_stored()).unwrap()));
    }
    fixture.room = new_room(None, history, "n", 1_000_000).unwrap();
    for (connection, (id, may)) in (11..).zip(PARTICIPANTS) {
        fixture.join(connection, id, may);
    }
    let reply =
        json!({"kind": "mcp/response", "correlation_id": ["f"], "payload": {"error": {"code": 1}}});
    let again = json!({"to": ["tools"], "kind": "mcp/request", "correlation_id": ["p"], "payload": call("drop")});
    let other = json!({"to": ["tools"], "kind": "mcp/request", "correlation_id": ["q"], "payload": call("keep")});
    assert_eq!(summarize(&fixture.send("ada", &again)), "system/error(proposal_closed)");
    assert_eq!(summarize(&fixture.send("ada", &other)), "mcp/request:tools/call:keep");
    let effects = fixture.send("tools", &reply);
    let Some(Effect::Deliver { message, .. }) = effects.first() else { panic!("{effects:?}") };
    let context = serde_json::to_value(message.context_of.as_ref().unwrap()).unwrap();
    let expected = json!({
        "method": "tools/call", "name": "drop", "request_id": "f", "from": "ada",
        "proposal_id": "p", "proposer": "agent", "outcome": "error",
    });
    assert_eq!(context, expected);
}

#[test]
fn open_proposal_expires_and_closes() {
    let mut fixture = RoomFixture::new();
    fixture.send("agent", &json!({"id": "p", "kind": "mcp/proposal", "payload": call("drop")}));
    fixture.now += 599_999;
    assert_eq!(summarize(&fixture.room.apply(fixture.now, RoomInput::Tick)), "");
    fixture.now += 1;
    let effects = fixture.room.apply(fixture.now, RoomInput::Tick);
    assert_eq!(summarize(&effects), "mcp/reject, system/proposal(expired)");
    let late = json!({"kind": "mcp/request", "correlation_id": ["p"], "payload": call("drop")});
    assert_eq!(summarize(&fixture.send("ada", &late)), "system/error(proposal_closed)");
}

#[test]
fn rejoin_replaces_earlier_connection() {
    let mut fixture = RoomFixture::new();
    let message_json = json!({"id": "c", "kind": "chat", "payload": {"text": "hi"}});
    assert_eq!(summarize(&fixture.send("agent", &message_json)), "chat");
    assert_eq!(summarize(&fixture.join(7, "agent", &["chat"])), "Replaced, system/welcome");
    assert_eq!(summarize(&fixture.room.apply(fixture.now, RoomInput::Leave { connection: 2 })), "");
    assert_eq!(summarize(&fixture.send_on(2, &message_json)), "", "a closed connection is ignored");
    assert_eq!(
        summarize(&fixture.send("agent", &message_json)),
        "chat",
        "a restarted client may reuse ids"
    );
    assert_eq!(summarize(&fixture.send("agent", &message_json)), "system/error(duplicate_id)");
    let leave_effects = fixture.room.apply(fixture.now, RoomInput::Leave { connection: 7 });
    assert_eq!(summarize(&leave_effects), "system/presence(leave)");
}

#[test]
fn stream_access_follows_owner_and_writers() {
    let mut fixture = RoomFixture::new();
    let frame = |connection, text: &str| {
        let (stream, _) = crate::room::message::parse_stream_frame(text).unwrap().unwrap();
        let frame = StreamFrame { stream: stream.into(), text: text.into() };
        RoomInput::Frame { connection, frame: Ok(frame) }
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
        (Ok(RoomInput::Leave { connection: 1 }), "stream/close, system/presence(leave)"),
        (Ok(frame(tools, "#stream-1#x")), "system/error(unauthorized_stream_write)"),
    ] {
        let effects = match input {
            Ok(input) => fixture.room.apply(fixture.now, input),
            Err((sender, message_json)) => fixture.send(sender, &message_json),
        };
        assert_eq!(summarize(&effects), expected);
    }
}

#[test]
fn history_page_ends_with_empty_page() {
    let mut fixture = RoomFixture::new();
    for number in 0..5 {
        fixture.now += 1_000;
        fixture.send(
            "agent",
            &json!({"id": format!("c{number}"), "kind": "chat", "payload": {"text": "hi"}}),
        );
    }
    let time = toolpost::timestamp(fixture.now - 2_000);
    let page = |limit, before: Option<&str>| {
        let page = fixture.room.history_page(limit, before, None);
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
    let settings = RoomSettings { max_history_messages: 2, ..RoomSettings::default() };
    fixture.room.apply(fixture.now, RoomInput::Settings(settings));
    assert_eq!(fixture.room.history_page(9, None, None).len(), 2);
}

#[test]
fn rate_limit_rejects_excess_messages() {
    let mut fixture = RoomFixture::new();
    let message_json = json!({"kind": "chat", "payload": {"text": "hi"}});
    let outcomes: Vec<String> =
        (0..700).map(|_| summarize(&fixture.send("agent", &message_json))).collect();
    assert_eq!(outcomes.iter().filter(|it| *it == "chat").count(), 600);
    assert_eq!(outcomes[699], "system/error(rate_limited)");
    assert_eq!(
        summarize(&fixture.send("ada", &message_json)),
        "chat",
        "other participants are not affected"
    );
    fixture.now += 50;
    assert_eq!(summarize(&fixture.send("agent", &message_json)), "chat");
}

#[test]
fn external_decision_requires_capability() {
    let mut fixture = RoomFixture::new();
    fixture.send(
        "agent",
        &json!({"id": "p", "to": ["tools"], "kind": "mcp/proposal", "payload": call("drop")}),
    );
    let decide = |fixture: &mut RoomFixture, by: &str, may: &str, action| {
        let own = Some(Capabilities::new([Capability::parse(may).unwrap()]));
        let identity = Arc::new(Identity::new(by));
        let (proposal, by) = ("p".into(), by.into());
        let decision = ProposalDecision { proposal, by, token_capabilities: own, identity, action };
        let (decided, effects) = fixture.room.decide(fixture.now, decision);
        let error = decided.err().map(|rejection| rejection.code.as_str());
        (error, summarize(&effects))
    };
    for (by, may, action, expected) in [
        ("agent", "*", ApprovalAction::Approve, (Some("own_proposal"), "")),
        ("eve", "chat", ApprovalAction::Approve, (Some("capability_violation"), "")),
        (
            "eve",
            "mcp/request:tools/call:drop",
            ApprovalAction::Approve,
            (None, "mcp/request:tools/call:drop"),
        ),
        ("eve", "*", ApprovalAction::Reject { reason: None }, (Some("proposal_closed"), "")),
    ] {
        let (error, effects_summary) = decide(&mut fixture, by, may, action);
        assert_eq!((error, effects_summary.as_str()), expected, "{by}");
    }
}

#[test]
fn settings_change_applies_to_present_participants() {
    let mut fixture = RoomFixture::new();
    let guest = ParticipantJoin {
        connection: 9,
        id: "guest".into(),
        token_capabilities: None,
        identity: Arc::new(Identity::new("guest")),
        protocol: Protocol::Mcpx01,
        history: None,
        kinds: None,
    };
    fixture.room.apply(fixture.now, RoomInput::Join(guest));
    let message_json = json!({"kind": "chat", "payload": {"text": "hi"}});
    assert_eq!(summarize(&fixture.send("guest", &message_json)), "chat");
    let capabilities = vec!["mcp/proposal".to_owned()];
    let mut settings = RoomSettings { capabilities, ..RoomSettings::default() };
    fixture.room.apply(fixture.now, RoomInput::Settings(settings.clone()));
    assert_eq!(
        summarize(&fixture.send("guest", &message_json)),
        "system/error(capability_violation)"
    );
    assert_eq!(
        summarize(&fixture.send("ada", &message_json)),
        "chat",
        "the token determines the capabilities"
    );
    settings.members = Some(vec!["ada".to_owned(), "agent".to_owned()]);
    fixture.room.apply(fixture.now, RoomInput::Settings(settings));
    let here: Vec<Arc<str>> = fixture.room.participants().into_iter().map(|(id, _)| id).collect();
    assert_eq!(here, ["ada".into(), "agent".into()]);
    assert_eq!(check_can_join(&fixture.room, "tools"), RejectionCode::NotAMember);
}

#[test]
fn invitation_creates_token_with_given_capabilities() {
    let mut fixture = RoomFixture::new();
    let invite = json!({"id": "i", "kind": "space/invite", "payload": {"participant_id": "new", "initial_capabilities": ["chat"]}});
    let effects = fixture.send("ada", &invite);
    let expected = "space/invite, space/invite-ack(created), system/presence(invited)";
    assert_eq!(summarize(&effects), expected);
    let sent_messages: Vec<&Arc<RoomMessage>> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send { message, to } if to.len() == 1 => Some(message),
            _ => None,
        })
        .collect();
    let ack: Value =
        serde_json::from_str(sent_messages[0].payload.as_ref().unwrap().get()).unwrap();
    let token = Token::from(ack["token"].as_str().unwrap().to_owned());
    let hash = token.hash().to_string();
    let (name, inviters) = fixture.room.guest(&hash).unwrap();
    let kind = IdentityKind::Guest { room: "lobby".into(), inviters: inviters.into() };
    assert_eq!((name, inviters), ("new", &[Identity::new("ada").key()][..]));
    assert_eq!(check_can_join(&fixture.room, "new"), RejectionCode::AuthViolation);
    let join = |connection| ParticipantJoin {
        connection,
        id: "new".into(),
        token_capabilities: None,
        identity: Arc::new(Identity::new("new").with_kind(kind.clone())),
        protocol: Protocol::Mew04,
        history: None,
        kinds: None,
    };
    fixture.room.apply(fixture.now, RoomInput::Join(join(20)));
    let chat = json!({"kind": "chat", "payload": {"text": "hi"}});
    let proposal = json!({"kind": "mcp/proposal", "payload": call("x")});
    assert_eq!(summarize(&fixture.send("new", &chat)), "chat");
    assert_eq!(summarize(&fixture.send("new", &proposal)), "system/error(capability_violation)");
    let kick = json!({"kind": "space/kick", "payload": {"participant_id": "new"}});
    assert_eq!(
        summarize(&fixture.send("ada", &kick)),
        "space/kick, system/presence(leave), Kicked"
    );
    assert_eq!(fixture.room.guest(&hash), None);
    assert_eq!(check_can_join(&fixture.room, "new"), RejectionCode::Kicked);
}

/// Each row: sender, message and summary of its effects, in sequence.
#[test]
fn multi_id_and_escalation_attempts_are_rejected() {
    let mut fixture = RoomFixture::new();
    fixture.join(9, "eve", &["chat", "capability/*", "mcp/proposal", "participant/*"]);
    let proposal = |id: &str| json!({"id": id, "kind": "mcp/proposal", "payload": call("drop")});
    let withdraw =
        |ids: &[&str]| json!({"kind": "mcp/withdraw", "correlation_id": ids, "payload": {}});
    let broadcast_request = json!({"id": "r", "kind": "mcp/request", "payload": call("read_x")});
    let both =
        json!({"kind": "mcp/response", "correlation_id": ["r", "p"], "payload": {"result": {}}});
    let revoke = |payload: Value| json!({"kind": "capability/revoke", "payload": payload});
    for (sender, message_json, expected) in [
        ("agent", proposal("p"), "mcp/proposal:tools/call:drop"),
        ("eve", proposal("mine"), "mcp/proposal:tools/call:drop"),
        ("eve", proposal("p"), "system/error(duplicate_id)"),
        ("eve", withdraw(&["p", "mine"]), "system/error(capability_violation)"),
        ("eve", withdraw(&["mine", "p"]), "mcp/withdraw"),
        ("reader", broadcast_request, "mcp/request:tools/call:read_x, call"),
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
        assert_eq!(
            summarize(&fixture.send(sender, &message_json)),
            expected,
            "{sender}: {message_json}"
        );
    }
    fixture.room.apply(fixture.now, RoomInput::Leave { connection: 9 });
    fixture.join(10, "eve", &["chat"]);
    let chat = json!({"kind": "chat", "payload": {"text": "hi"}});
    assert_eq!(summarize(&fixture.send("eve", &chat)), "system/error(participant_paused)");
}

#[test]
fn invite_of_identity_only_ends_kick() {
    let mut fixture = RoomFixture::new();
    fixture.room.create_token = Box::new(|id| match id {
        "known" => Err(RejectionCode::AuthViolation.error("it has its own token")),
        id => Ok(Token::from(format!("token of {id}"))),
    });
    fixture.join(9, "known", &["chat"]);
    let message_to =
        |kind: &str, id: &str| json!({"kind": kind, "payload": {"participant_id": id}});
    for (kind, id, expected) in [
        ("space/invite", "known", "system/error(auth_violation)"),
        ("space/kick", "known", "space/kick, system/presence(leave), Kicked"),
        (
            "space/invite",
            "known",
            "space/invite, space/invite-ack(added), system/presence(invited)",
        ),
        ("space/invite", "known", "system/error(auth_violation)"),
        (
            "space/invite",
            "other",
            "space/invite, space/invite-ack(created), system/presence(invited)",
        ),
    ] {
        let effects = fixture.send("ada", &message_to(kind, id));
        assert_eq!(summarize(&effects), expected, "{kind} {id}");
        let has_token = effects.iter().any(|effect| match effect {
            Effect::Send { message, .. } => {
                message.payload.as_ref().is_some_and(|payload| payload.get().contains("token of"))
            }
            _ => false,
        });
        assert_eq!(has_token, expected.contains("created"), "{kind} {id}");
    }
}

#[test]
fn rejoin_does_not_reset_rate_limit() {
    let mut fixture = RoomFixture::new();
    let chat = json!({"kind": "chat", "payload": {"text": "hi"}});
    while summarize(&fixture.send("agent", &chat)) == "chat" {}
    fixture.room.apply(fixture.now, RoomInput::Leave { connection: 2 });
    fixture.join(20, "agent", &["chat"]);
    assert_eq!(summarize(&fixture.send("agent", &chat)), "system/error(rate_limited)");
}

#[test]
fn oversized_call_response_becomes_error() {
    let mut fixture = RoomFixture::new();
    let request_json = json!({"id": "r", "to": ["toolpost"], "kind": "mcp/request", "payload": {"id": 7, "method": "tools/list"}});
    fixture.send("ada", &request_json);
    let result = Ok(serde_json::value::to_raw_value(&"x".repeat(2 * 1024 * 1024)).unwrap());
    let effects =
        fixture.room.apply(fixture.now, RoomInput::CallResponse { request: "r".into(), result });
    let Some(Effect::Deliver { message, .. }) = effects.first() else { panic!("{effects:?}") };
    let payload: Value = serde_json::from_str(message.payload.as_ref().unwrap().get()).unwrap();
    assert_eq!((&payload["id"], &payload["error"]["code"]), (&json!(7), &json!(-32_000)));
}

#[test]
fn restart_fails_orphaned_requests_and_restores_pauses() {
    let mut fixture = RoomFixture::new();
    let mut history = Vec::new();
    for (sender, message_json) in [
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
        let effects = fixture.send(sender, &message_json);
        let Some(Effect::Deliver { message, .. }) = effects.first() else { panic!("{effects:?}") };
        history.push((fixture.now, RoomMessage::from_stored(&message.to_stored()).unwrap()));
    }
    fixture.room = new_room(None, history, "n", fixture.now).unwrap();
    let join_effects = fixture.join(11, "ada", &["*"]);
    assert_eq!(summarize(&join_effects), "mcp/response:tools/list, system/welcome");
    fixture.join(12, "agent", &["chat"]);
    let chat = json!({"kind": "chat", "payload": {"text": "hi"}});
    assert_eq!(summarize(&fixture.send("agent", &chat)), "system/error(participant_paused)");
    fixture.now += 60_000;
    assert_eq!(summarize(&fixture.send("agent", &chat)), "chat");
}

#[test]
fn second_response_to_request_is_rejected() {
    let mut fixture = RoomFixture::new();
    let request = json!({"id": "r", "to": ["tools"], "kind": "mcp/request", "payload": call("x")});
    let response =
        json!({"kind": "mcp/response", "correlation_id": ["r"], "payload": {"result": {}}});
    assert_eq!(summarize(&fixture.send("ada", &request)), "mcp/request:tools/call:x");
    fixture.join(9, "ada", &["*"]);
    assert_eq!(
        summarize(&fixture.send("ada", &request)),
        "system/error(duplicate_id)",
        "the first request can still get a response"
    );
    assert_eq!(summarize(&fixture.send("tools", &response)), "mcp/response:tools/call:x");
    assert_eq!(summarize(&fixture.send("tools", &response)), "system/error(already_responded)");
    assert_eq!(summarize(&fixture.send("ada", &request)), "mcp/request:tools/call:x");
}

/// Each row: the time in seconds, the number of attempts, and the number admitted.
#[test]
fn rate_limit_allows_half_minute_burst_then_steady_rate() {
    let mut limit = RateLimit::default();
    for (second, come, expected) in
        [(0, 50, 30), (0, 5, 0), (1, 5, 1), (4, 5, 3), (14, 100, 10), (200, 100, 30)]
    {
        let admitted = (0..come).filter(|_| limit.acquire(second * 1_000, 60).is_ok()).count();
        assert_eq!(admitted, expected, "{come} messages in second {second}");
    }
    for per_minute in [1, 7, 60, 6_000, 1_000_000] {
        let mut limit = RateLimit::default();
        while limit.acquire(0, per_minute).is_ok() {}
        let rejection = limit.acquire(0, per_minute).unwrap_err();
        let wait = rejection.details["retry_after_ms"].as_i64().unwrap();
        assert!(limit.acquire(wait, per_minute).is_ok(), "{per_minute}");
    }
}
