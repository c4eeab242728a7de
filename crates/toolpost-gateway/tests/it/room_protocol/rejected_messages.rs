//! Rejected messages: only the sender receives the error.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use toolpost_gateway::room::RoomSettings;

use super::client::Family;
use super::fixture::{RoomFixture, rooms_settings};
use super::room_clients::RoomClients;

/// The participants of every room here. `ada`, `bob` and `carl` hold every capability.
const PARTICIPANTS: [(&str, Family); 6] = [
    ("ada", Family::Mew04),
    ("bob", Family::Mcpx),
    ("carl", Family::Mew04),
    ("guest", Family::Mew03),
    ("talker", Family::Mew03SystemJoin),
    ("agent", Family::Mcpx),
];

/// The frame that is sent.
enum SentFrame {
    Json(Value),
    Text(String),
    Binary(Vec<u8>),
}

/// A rejected message: its name, earlier messages, the sender, the frame and the expected error code.
struct RejectionCase {
    name: &'static str,
    before: Vec<(&'static str, Value)>,
    sender: &'static str,
    sent: SentFrame,
    error: &'static str,
    /// The sender of the next message: the same one, unless it may not send.
    next_sender: &'static str,
}

fn json_case(what: &'static str, sent: Value, error: &'static str) -> RejectionCase {
    RejectionCase {
        name: what,
        before: Vec::new(),
        sender: "ada",
        sent: SentFrame::Json(sent),
        error,
        next_sender: "ada",
    }
}

fn text_case(what: &'static str, sent: impl Into<String>, error: &'static str) -> RejectionCase {
    RejectionCase { sent: SentFrame::Text(sent.into()), ..json_case(what, Value::Null, error) }
}

impl RejectionCase {
    fn sent_by(mut self, sender_id: &'static str) -> Self {
        (self.sender, self.next_sender) = (sender_id, sender_id);
        self
    }

    fn after_message(mut self, sender_id: &'static str, message: Value) -> Self {
        self.before.push((sender_id, message));
        self
    }

    fn next_sent_by(mut self, after: &'static str) -> Self {
        self.next_sender = after;
        self
    }

    /// Runs the case in its own room, so that cases do not affect each other.
    async fn check(self, fixture: &RoomFixture, room: &str) {
        let Self { name: what, before, sender: sender_id, sent, error, next_sender: after } = self;
        let mut clients = RoomClients::join_all(fixture, room, &PARTICIPANTS).await;
        for (sender_id, message) in before {
            clients.send_and_drain(sender_id, &message).await;
        }
        let history_before = fixture.history(room).await;
        let (message, id) = match sent {
            SentFrame::Json(json) => {
                (Message::text(json.to_string()), json["id"].as_str().map(str::to_owned))
            }
            SentFrame::Text(text) => (Message::text(text), None),
            SentFrame::Binary(bytes) => (Message::binary(bytes), None),
        };
        let sender = clients.client(sender_id);
        sender.send(message).await;
        let error_message = sender.expect("system/error", |_| true).await;
        assert_eq!(error_message["payload"]["error"], error, "{what}: {error_message}");
        assert_ne!(
            error_message["payload"]["message"].as_str().unwrap(),
            "",
            "{what}: {error_message}"
        );
        assert!(error_message["payload"]["attempted_kind"].is_string(), "{what}: {error_message}");
        assert_eq!(
            (&error_message["from"], &error_message["to"]),
            (&json!("system:gateway"), &json!([sender_id])),
            "{what}"
        );
        let about = id.map_or(Value::Null, |id| sender.family.correlation(&id));
        assert_eq!(error_message["correlation_id"], about, "{what}: {error_message}");
        let has_capabilities = error_message["payload"]["your_capabilities"].is_array();
        assert_eq!(has_capabilities, error == "capability_violation", "{what}: {error_message}");
        clients.assert_no_other_messages(after, what).await;
        let now = fixture.history(room).await;
        assert_eq!(now[1..], history_before[..], "{what}: only the marker is new");
    }
}

async fn check_all(rows: Vec<RejectionCase>) {
    let fixture = RoomFixture::start().await;
    for (number, row) in rows.into_iter().enumerate() {
        row.check(&fixture, &format!("row-{number}")).await;
    }
    fixture.stop().await;
}

fn chat(id: &str, text: &str) -> Value {
    json!({"id": id, "kind": "chat", "payload": {"text": text}})
}

fn call(id: &str, to: &str, tool: &str) -> Value {
    json!({"id": id, "kind": "mcp/request", "to": [to],
        "payload": {"method": "tools/call", "params": {"name": tool}}})
}

fn proposal(id: &str, tool: &str) -> Value {
    json!({"id": id, "kind": "mcp/proposal", "to": ["carl"],
        "payload": {"method": "tools/call", "params": {"name": tool}}})
}

fn with_correlation(mut message: Value, id: &str) -> Value {
    message["correlation_id"] = json!([id]);
    message
}

fn of_kind(kind: &str) -> Value {
    json!({"id": "x", "kind": kind, "payload": {"text": "forged", "you": {"id": "carl"}}})
}

#[tokio::test]
async fn forged_senders_and_gateway_kinds_are_rejected() {
    let as_bob = json!({"id": "x", "from": "bob", "kind": "chat", "payload": {"text": "hi"}});
    let as_toolpost = json!({"id": "x", "from": "toolpost", "kind": "mcp/response", "payload": {}});
    let as_gateway = json!({"id": "x", "from": "system:gateway", "kind": "system/welcome"});
    let mut rows = vec![
        json_case("a spoofed sender", as_bob, "auth_violation"),
        json_case("the operations as a sender", as_toolpost, "auth_violation"),
        json_case("the gateway as a sender", as_gateway, "auth_violation"),
        text_case(
            "a join of another participant on this connection",
            r#"{"type":"join","participantId":"bob"}"#,
            "auth_violation",
        ),
        text_case(
            "a join of another room on this connection",
            r#"{"type":"join","space":"attic"}"#,
            "auth_violation",
        ),
    ];
    for kind in ["welcome", "presence", "error", "proposal", "register", "anything"] {
        let kind = format!("system/{kind}");
        rows.push(json_case("a forged system message", of_kind(&kind), "capability_violation"));
    }
    for kind in ["stream/open", "stream/data", "stream/write-granted", "space/invite-ack", "system"]
    {
        rows.push(json_case("a kind of the gateway", of_kind(kind), "capability_violation"));
    }
    for kind in ["welcome", "error", "message", "disconnected", "anything"] {
        rows.push(json_case(
            "a kind that is an event of clients",
            of_kind(kind),
            "invalid_message",
        ));
    }
    check_all(rows).await;
}

#[tokio::test]
async fn malformed_and_mismatched_messages_are_rejected() {
    let lie = |kind: &str| {
        let mut call = call("x", "carl", "delete_file");
        call["kind"] = kind.into();
        call
    };
    let reply = |kind: &str| json!({"id": "x", "kind": kind, "correlation_id": "F", "payload": {"result": {}}});
    let large = chat("x", &"x".repeat(RoomSettings::default().max_message_bytes));
    let chat_of = |payload: Value| json!({"id": "x", "kind": "chat", "payload": payload});
    let ask = |payload: Value| json!({"id": "x", "kind": "mcp/request", "payload": payload});
    let with_ts = |ts: &str| {
        let mut message = chat("x", "hi");
        message["ts"] = ts.into();
        message
    };
    let rubbish = SentFrame::Binary(vec![0xff, 0xfe, 0x00, 0x80]);
    check_all(vec![
        json_case("another tool", lie("mcp/request:tools/call:read_file"), "kind_mismatch"),
        json_case("another method", lie("mcp/request:tools/list"), "kind_mismatch"),
        json_case(
            "a proposal of another tool",
            lie("mcp/proposal:tools/call:read_file"),
            "kind_mismatch",
        ),
        json_case(
            "a response about another tool",
            reply("mcp/response:tools/call:delete_file"),
            "kind_mismatch",
        )
        .after_message("bob", call("F", "ada", "read_file")),
        json_case(
            "a response about another method",
            reply("mcp/response:tools/list"),
            "kind_mismatch",
        )
        .after_message("bob", call("F", "ada", "read_file")),
        json_case("a large message", large, "message_too_large"),
        text_case("no JSON", "hello", "invalid_message"),
        text_case("nothing", "", "invalid_message"),
        text_case("an incomplete message", r#"{"kind":"chat","#, "invalid_message"),
        text_case("a list", "[]", "invalid_message"),
        text_case(
            "too deep",
            format!("{{\"kind\":\"chat\",\"payload\":{}", "[".repeat(9_999)),
            "invalid_message",
        ),
        RejectionCase {
            sent: rubbish,
            ..json_case("invalid UTF-8", Value::Null, "invalid_message")
        },
        text_case(
            "a duplicate key",
            r#"{"kind":"chat","kind":"chat","payload":{"text":"a"}}"#,
            "invalid_message",
        ),
        text_case(
            "a duplicate key in the payload",
            r#"{"kind":"chat","payload":{"text":"a","text":"b"}}"#,
            "invalid_message",
        ),
        json_case(
            "another protocol",
            json!({"id": "x", "protocol": "mew/v9", "kind": "chat"}),
            "unsupported_protocol",
        ),
        json_case("a time that is a name", with_ts("yesterday"), "invalid_message"),
        json_case("a time without an offset", with_ts("2026-11-18T04:00:00"), "invalid_message"),
        json_case("a time that does not exist", with_ts("2026-02-30T04:00:00Z"), "invalid_message"),
        json_case("no kind", json!({"id": "x", "payload": {}}), "invalid_message"),
        json_case("a chat without payload", json!({"id": "x", "kind": "chat"}), "invalid_message"),
        json_case("a chat without text", chat_of(json!({})), "invalid_message"),
        json_case("a chat with an empty string", chat_of(json!({"text": ""})), "invalid_message"),
        json_case("a chat with a number", chat_of(json!({"text": 7})), "invalid_message"),
        json_case("a request without method", ask(json!({"params": {}})), "invalid_message"),
        json_case(
            "a request without payload",
            json!({"id": "x", "kind": "mcp/request"}),
            "invalid_message",
        ),
        json_case("a request that is a list", ask(json!([])), "invalid_message"),
        json_case("a repeated id", chat("dup", "again"), "duplicate_id")
            .after_message("ada", chat("dup", "once")),
        json_case("an id of another participant", chat("dup", "again"), "duplicate_id")
            .after_message("bob", chat("dup", "once")),
    ])
    .await;
}

#[tokio::test]
async fn capability_and_membership_violations_are_rejected() {
    let grant = |recipient: &str, capability: Value| {
        json!({"id": "x", "kind": "capability/grant",
            "payload": {"recipient": recipient, "capabilities": [capability]}})
    };
    let revoke =
        |payload: Value| json!({"id": "x", "kind": "capability/revoke", "payload": payload});
    let all = json!({"recipient": "carl", "capabilities": ["*"]});
    let granted = json!({"id": "G", "kind": "capability/grant",
        "payload": {"recipient": "guest", "capabilities": ["mcp/request"]}});
    let of_grant = json!({"recipient": "guest", "grant_id": "G"});
    let kick = |target: &str| json!({"id": "x", "kind": "space/kick", "payload": {"participant_id": target}});
    let invite = json!({"id": "x", "kind": "space/invite", "payload": {"participant_id": "carl"}});
    let violation = "capability_violation";
    check_all(vec![
        json_case("a request of a guest", call("x", "carl", "read_file"), violation)
            .sent_by("guest"),
        json_case("a tool without capability", call("x", "carl", "delete_file"), violation)
            .sent_by("talker"),
        json_case(
            "a request without the capability to call",
            call("x", "carl", "read_file"),
            violation,
        )
        .sent_by("agent"),
        json_case("a grant of everything", grant("carl", json!("*")), violation).sent_by("talker"),
        json_case(
            "a grant of slightly more",
            grant("carl", json!("mcp/request:tools/call:*")),
            violation,
        )
        .sent_by("talker"),
        json_case(
            "a grant to the sender itself",
            grant("talker", json!({"kind": "mcp/*"})),
            violation,
        )
        .sent_by("talker"),
        json_case(
            "a grant without the capability to grant",
            grant("carl", json!("chat")),
            violation,
        )
        .sent_by("guest"),
        json_case(
            "a grant to an unknown participant",
            grant("unknown", json!("chat")),
            "participant_not_found",
        ),
        json_case(
            "a grant of an invalid capability",
            grant("carl", json!({"kind": "/(/"})),
            "invalid_message",
        ),
        json_case("a revocation beyond the own capabilities", revoke(all), violation)
            .sent_by("talker"),
        json_case("a revocation of another's grant", revoke(of_grant), violation)
            .sent_by("talker")
            .after_message("ada", granted),
        json_case(
            "a revocation of an unknown grant",
            revoke(json!({"recipient": "carl", "grant_id": "no"})),
            "unknown_grant",
        ),
        json_case("a kick of the sender itself", kick("ada"), "invalid_operation"),
        json_case("a kick of the operations", kick("toolpost"), "invalid_operation"),
        json_case("a kick of an unknown participant", kick("unknown"), "participant_not_found"),
        json_case("a kick without capability", kick("carl"), violation).sent_by("guest"),
        json_case("inviting an identity", invite, "auth_violation"),
    ])
    .await;
}

#[tokio::test]
async fn foreign_proposals_and_responses_are_rejected() {
    let reply = |to: &str| json!({"id": "x", "kind": "mcp/response", "correlation_id": [to], "payload": {"result": {}}});
    let withdraw = with_correlation(json!({"id": "x", "kind": "mcp/withdraw", "payload": {}}), "P");
    let reject = with_correlation(json!({"id": "x", "kind": "mcp/reject", "payload": {}}), "P");
    let fulfillment = |id: &str, tool: &str| with_correlation(call(id, "carl", tool), "P");
    let proposed = || ("agent", proposal("P", "read_file"));
    let unanswered = json!({"id": "x", "kind": "mcp/response", "payload": {"result": {}}});
    let behind = |row: RejectionCase, (sender_id, message): (&'static str, Value)| {
        row.after_message(sender_id, message)
    };
    check_all(vec![
        behind(
            json_case("a second fulfillment", fulfillment("x", "read_file"), "proposal_closed"),
            proposed(),
        )
        .after_message("bob", fulfillment("F", "read_file")),
        behind(
            json_case(
                "a fulfillment with another request",
                fulfillment("x", "delete_file"),
                "proposal_mismatch",
            ),
            proposed(),
        ),
        behind(
            json_case(
                "a fulfillment after a rejection",
                fulfillment("x", "read_file"),
                "proposal_closed",
            ),
            proposed(),
        )
        .after_message("bob", with_correlation(json!({"kind": "mcp/reject", "payload": {}}), "P")),
        behind(
            json_case(
                "a fulfillment of a withdrawn proposal",
                fulfillment("x", "read_file"),
                "proposal_closed",
            ),
            proposed(),
        )
        .after_message(
            "agent",
            with_correlation(json!({"kind": "mcp/withdraw", "payload": {}}), "P"),
        ),
        behind(
            json_case(
                "a fulfillment without the capability",
                fulfillment("x", "read_file"),
                "capability_violation",
            )
            .sent_by("agent"),
            proposed(),
        ),
        behind(json_case("a withdrawal by another", withdraw.clone(), "not_proposer"), proposed()),
        behind(
            json_case(
                "a withdrawal without the capability",
                withdraw.clone(),
                "capability_violation",
            )
            .sent_by("guest"),
            proposed(),
        ),
        json_case("a withdrawal of an unknown proposal", withdraw, "unknown_proposal"),
        behind(json_case("a second rejection", reject.clone(), "proposal_closed"), proposed())
            .after_message(
                "bob",
                with_correlation(json!({"kind": "mcp/reject", "payload": {}}), "P"),
            ),
        json_case("a rejection of an unknown proposal", reject, "unknown_proposal"),
        json_case("a response of another participant", reply("F"), "not_addressee")
            .after_message("bob", call("F", "carl", "read_file")),
        json_case("a response to an unknown request", reply("nothing"), "unknown_request"),
        json_case("a response to a chat", reply("C"), "unknown_request")
            .after_message("bob", chat("C", "hi")),
        json_case("a response without a request id", unanswered, "invalid_message"),
        json_case("a response to the own proposal", reply("P"), "not_addressee")
            .after_message("ada", proposal("P", "read_file")),
        json_case(
            "a response to a proposal without the capability",
            reply("P"),
            "capability_violation",
        )
        .sent_by("talker")
        .after_message("ada", proposal("P", "delete_file")),
    ])
    .await;
}

#[tokio::test]
async fn foreign_streams_and_control_are_rejected() {
    let request = json!({"id": "S", "kind": "stream/request", "payload": {"direction": "upload"}});
    let opened = || ("carl", request.clone());
    let of = |kind: &str, payload: Value| json!({"id": "x", "kind": kind, "payload": payload});
    let to_ada = |kind: &str| json!({"kind": kind, "to": ["ada"], "payload": {}});
    let behind = |row: RejectionCase, (sender_id, message): (&'static str, Value)| {
        row.after_message(sender_id, message)
    };
    let stream = json!({"stream_id": "stream-1"});
    let handed = json!({"stream_id": "stream-1", "participant_id": "ada", "new_owner": "ada"});
    let handed = |kind: &str| {
        let mut payload = handed.clone();
        let unused = if kind.contains("owner") { "participant_id" } else { "new_owner" };
        payload.as_object_mut().unwrap().remove(unused);
        of(kind, payload)
    };
    let unknown_stream = json!({"stream_id": "stream-7"});
    let unknown_target = json!({"direction": "upload", "target": ["carl", "unknown"]});
    check_all(vec![
        behind(
            text_case(
                "a frame of a stream without write access",
                "#stream-1#mine",
                "unauthorized_stream_write",
            ),
            opened(),
        ),
        text_case("a frame of an unknown stream", "#stream-1#mine", "unauthorized_stream_write"),
        text_case("a frame without a stream id", "#mine", "invalid_message"),
        behind(
            json_case("closing another's stream", of("stream/close", stream), "unauthorized"),
            opened(),
        ),
        json_case(
            "closing an unknown stream",
            of("stream/close", unknown_stream),
            "stream_not_found",
        ),
        behind(
            json_case(
                "transferring a stream of another participant",
                handed("stream/transfer-ownership"),
                "unauthorized",
            ),
            opened(),
        ),
        behind(
            json_case(
                "granting write access to a stream of another participant",
                handed("stream/grant-write"),
                "unauthorized",
            ),
            opened(),
        ),
        json_case(
            "a stream to an unknown target",
            of("stream/request", unknown_target),
            "target_not_found",
        ),
        json_case("a stream of a guest", of("stream/request", json!({})), "capability_violation")
            .sent_by("guest"),
        json_case(
            "a pause without addressee",
            of("participant/pause", json!({})),
            "invalid_message",
        ),
        json_case(
            "a shutdown without addressee",
            of("participant/shutdown", json!({})),
            "invalid_message",
        ),
        json_case(
            "a pause by a guest",
            json!({"id": "x", "kind": "participant/pause", "to": ["ada"], "payload": {}}),
            "capability_violation",
        )
        .sent_by("guest"),
        json_case("a chat of a paused participant", chat("x", "hi"), "participant_paused")
            .after_message("bob", to_ada("participant/pause"))
            .next_sent_by("bob"),
        json_case("a chat after shutdown", chat("x", "hi"), "participant_shut_down")
            .after_message("bob", to_ada("participant/shutdown"))
            .next_sent_by("bob"),
    ])
    .await;
}

fn set_low_rate_limit(room: &mut RoomSettings) {
    room.messages_per_minute = 4;
}

const THREE_PARTICIPANTS: [(&str, Family); 3] =
    [("bob", Family::Mcpx), ("ada", Family::Mew04), ("carl", Family::Mew03)];

/// Two messages pass at once; the next ones are rejected with a retry delay.
#[tokio::test]
async fn rate_limited_sender_gets_retry_after() {
    let fixture = RoomFixture::with(rooms_settings([("narrow", set_low_rate_limit)])).await;
    let mut clients = RoomClients::join_all(&fixture, "narrow", &THREE_PARTICIPANTS).await;
    for number in 0..4 {
        clients.send("ada", &chat(&format!("n{number}"), &format!("number {number}"))).await;
    }
    for id in ["n2", "n3"] {
        let rejection = clients.client("ada").expect_rejection(id).await;
        assert_eq!(rejection["error"], "rate_limited", "{rejection}");
        let wait = rejection["retry_after_ms"].as_u64().unwrap();
        assert!((1..=15_001).contains(&wait), "{wait}");
    }
    for one in ["ada", "bob", "carl"] {
        for text in ["number 0", "number 1"] {
            clients.client(one).expect("chat", |it| it["payload"]["text"] == text).await;
        }
    }
    clients.assert_no_other_messages("bob", "a flood").await;
    assert_eq!(fixture.history("narrow").await.len(), 4, "two of ada and two of bob");
    fixture.stop().await;
}

/// Rejected messages have their own rate limit, so that they cannot fill the journal.
#[tokio::test]
async fn invalid_message_flood_is_rate_limited_and_not_recorded() {
    let fixture = RoomFixture::with(rooms_settings([("narrow", set_low_rate_limit)])).await;
    let mut clients = RoomClients::join_all(&fixture, "narrow", &THREE_PARTICIPANTS).await;
    let ada = clients.client("ada");
    for text in ["no JSON", r##"{"kind":"system/error"}"##, "#no-stream#x", "{}", "again"] {
        ada.send_text(text).await;
    }
    let mut error_message = Vec::new();
    for _ in 0..5 {
        let error = ada.expect("system/error", |_| true).await;
        error_message.push(error["payload"]["error"].as_str().unwrap().to_owned());
    }
    let limited = "rate_limited";
    assert_eq!(
        error_message,
        ["invalid_message", "capability_violation", limited, limited, limited]
    );
    clients.assert_no_other_messages("ada", "nonsense").await;
    let journal_query = json!({"room": "narrow", "errors": true});
    let (status, found) = fixture.call("auditor", "gateway.journal", &journal_query).await;
    assert_eq!(status, 200, "{found}");
    assert_eq!(found["messages"].as_array().map(Vec::len), Some(2), "{found}");
    fixture.stop().await;
}

/// A frame above the read limit closes the connection; the room stays open.
#[tokio::test]
async fn oversized_frame_closes_connection_and_allows_rejoin() {
    let fixture = RoomFixture::start().await;
    let mut clients = RoomClients::join_all(&fixture, "large", &THREE_PARTICIPANTS).await;
    let mut ada = clients.take("ada");
    let far_too_much = 5 * RoomSettings::default().max_message_bytes;
    ada.send(Message::text(chat("x", &"x".repeat(far_too_much)).to_string())).await;
    let (code, close_reason) = ada.wait_closed().await;
    assert_eq!((code, &*close_reason), (1009, "a message has at most 1048576 bytes"));
    for one in ["bob", "carl"] {
        let leave_message = clients.client(one).expect("system/presence", |_| true).await;
        assert_eq!(leave_message["payload"]["event"], "leave", "{leave_message}");
    }
    clients.assert_no_other_messages("bob", "far too much").await;
    clients.add(fixture.join(Family::Mew04, "ada", "large").await);
    clients.drain("ada").await;
    fixture.stop().await;
}
