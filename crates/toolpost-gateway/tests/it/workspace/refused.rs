//! What is refused in a room: its sender learns why, and nobody else learns anything.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use toolpost_gateway::room::RoomSettings;

use super::cast::Cast;
use super::client::Family;
use super::world::{World, rooms};

/// Everybody who is in every room of these tables. `ada`, `bob` and `carl` may everything.
const PEOPLE: [(&str, Family); 6] = [
    ("ada", Family::Mew04),
    ("bob", Family::Mcpx),
    ("carl", Family::Mew04),
    ("guest", Family::Mew03),
    ("talker", Family::Variant),
    ("agent", Family::Mcpx),
];

/// What is sent.
enum Sent {
    Json(Value),
    Text(String),
    Binary(Vec<u8>),
}

/// One thing that is refused: what it is, what was said before and by whom, who sends what, and the
/// code that he is told.
struct Row {
    what: &'static str,
    before: Vec<(&'static str, Value)>,
    who: &'static str,
    sent: Sent,
    error: &'static str,
    /// Who speaks afterwards: the sender, unless he may not.
    after: &'static str,
}

fn row(what: &'static str, sent: Value, error: &'static str) -> Row {
    Row { what, before: Vec::new(), who: "ada", sent: Sent::Json(sent), error, after: "ada" }
}

fn text(what: &'static str, sent: impl Into<String>, error: &'static str) -> Row {
    Row { sent: Sent::Text(sent.into()), ..row(what, Value::Null, error) }
}

impl Row {
    fn by(mut self, who: &'static str) -> Self {
        (self.who, self.after) = (who, who);
        self
    }

    fn behind(mut self, who: &'static str, said: Value) -> Self {
        self.before.push((who, said));
        self
    }

    fn then(mut self, after: &'static str) -> Self {
        self.after = after;
        self
    }

    /// In a room of its own, so that nothing of another row matters.
    async fn check(self, world: &World, room: &str) {
        let Self { what, before, who, sent, error, after } = self;
        let mut cast = Cast::meet(world, room, &PEOPLE).await;
        for (who, said) in before {
            cast.say_and_settle(who, &said).await;
        }
        let kept = world.history(room).await;
        let (message, id) = match sent {
            Sent::Json(json) => {
                (Message::text(json.to_string()), json["id"].as_str().map(str::to_owned))
            }
            Sent::Text(text) => (Message::text(text), None),
            Sent::Binary(bytes) => (Message::binary(bytes), None),
        };
        let sender = cast.one(who);
        sender.send(message).await;
        let told = sender.expect("system/error", |_| true).await;
        assert_eq!(told["payload"]["error"], error, "{what}: {told}");
        assert_ne!(told["payload"]["message"].as_str().unwrap(), "", "{what}: {told}");
        assert!(told["payload"]["attempted_kind"].is_string(), "{what}: {told}");
        assert_eq!(
            (&told["from"], &told["to"]),
            (&json!("system:gateway"), &json!([who])),
            "{what}"
        );
        let about = id.map_or(Value::Null, |id| sender.family.correlation(&id));
        assert_eq!(told["correlation_id"], about, "{what}: {told}");
        let is_shown = told["payload"]["your_capabilities"].is_array();
        assert_eq!(is_shown, error == "capability_violation", "{what}: {told}");
        cast.nothing_else(after, what).await;
        let now = world.history(room).await;
        assert_eq!(now[1..], kept[..], "{what}: the marker alone is new");
    }
}

async fn check_all(rows: Vec<Row>) {
    let world = World::start().await;
    for (number, row) in rows.into_iter().enumerate() {
        row.check(&world, &format!("row-{number}")).await;
    }
    world.stop().await;
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

fn about(mut message: Value, id: &str) -> Value {
    message["correlation_id"] = json!([id]);
    message
}

fn of_kind(kind: &str) -> Value {
    json!({"id": "x", "kind": kind, "payload": {"text": "forged", "you": {"id": "carl"}}})
}

#[tokio::test]
async fn who_somebody_is_and_what_is_the_gateways_word() {
    let as_bob = json!({"id": "x", "from": "bob", "kind": "chat", "payload": {"text": "hi"}});
    let as_toolpost = json!({"id": "x", "from": "toolpost", "kind": "mcp/response", "payload": {}});
    let as_gateway = json!({"id": "x", "from": "system:gateway", "kind": "system/welcome"});
    let mut rows = vec![
        row("a spoofed sender", as_bob, "auth_violation"),
        row("the operations as a sender", as_toolpost, "auth_violation"),
        row("the gateway as a sender", as_gateway, "auth_violation"),
        text(
            "another one joins here",
            r#"{"type":"join","participantId":"bob"}"#,
            "auth_violation",
        ),
        text("the same joins elsewhere", r#"{"type":"join","space":"attic"}"#, "auth_violation"),
    ];
    for kind in ["welcome", "presence", "error", "proposal", "register", "anything"] {
        let kind = format!("system/{kind}");
        rows.push(row("a forged system message", of_kind(&kind), "capability_violation"));
    }
    for kind in ["stream/open", "stream/data", "stream/write-granted", "space/invite-ack", "system"]
    {
        rows.push(row("a kind of the gateway", of_kind(kind), "capability_violation"));
    }
    for kind in ["welcome", "error", "message", "disconnected", "anything"] {
        rows.push(row("a kind that is an event of clients", of_kind(kind), "invalid_message"));
    }
    check_all(rows).await;
}

#[tokio::test]
async fn what_is_no_message_or_says_something_else_than_it_is() {
    let lie = |kind: &str| {
        let mut call = call("x", "carl", "delete_file");
        call["kind"] = kind.into();
        call
    };
    let answer = |kind: &str| json!({"id": "x", "kind": kind, "correlation_id": "F", "payload": {"result": {}}});
    let large = chat("x", &"x".repeat(RoomSettings::default().message_bytes));
    let chat_of = |payload: Value| json!({"id": "x", "kind": "chat", "payload": payload});
    let ask = |payload: Value| json!({"id": "x", "kind": "mcp/request", "payload": payload});
    let rubbish = Sent::Binary(vec![0xff, 0xfe, 0x00, 0x80]);
    check_all(vec![
        row("another tool", lie("mcp/request:tools/call:read_file"), "kind_mismatch"),
        row("another method", lie("mcp/request:tools/list"), "kind_mismatch"),
        row(
            "a proposal of another tool",
            lie("mcp/proposal:tools/call:read_file"),
            "kind_mismatch",
        ),
        row(
            "an answer about another tool",
            answer("mcp/response:tools/call:delete_file"),
            "kind_mismatch",
        )
        .behind("bob", call("F", "ada", "read_file")),
        row("an answer about another method", answer("mcp/response:tools/list"), "kind_mismatch")
            .behind("bob", call("F", "ada", "read_file")),
        row("a large message", large, "message_too_large"),
        text("no JSON", "hello", "invalid_message"),
        text("nothing", "", "invalid_message"),
        text("half a message", r#"{"kind":"chat","#, "invalid_message"),
        text("a list", "[]", "invalid_message"),
        text(
            "too deep",
            format!("{{\"kind\":\"chat\",\"payload\":{}", "[".repeat(9_999)),
            "invalid_message",
        ),
        Row { sent: rubbish, ..row("bytes that are no text", Value::Null, "invalid_message") },
        text(
            "a key twice",
            r#"{"kind":"chat","kind":"chat","payload":{"text":"a"}}"#,
            "invalid_message",
        ),
        text(
            "a key twice in the payload",
            r#"{"kind":"chat","payload":{"text":"a","text":"b"}}"#,
            "invalid_message",
        ),
        row(
            "another protocol",
            json!({"id": "x", "protocol": "mew/v9", "kind": "chat"}),
            "unsupported_protocol",
        ),
        row("no kind", json!({"id": "x", "payload": {}}), "invalid_message"),
        row("a chat without payload", json!({"id": "x", "kind": "chat"}), "invalid_message"),
        row("a chat without text", chat_of(json!({})), "invalid_message"),
        row("a chat with an empty text", chat_of(json!({"text": ""})), "invalid_message"),
        row("a chat with a number", chat_of(json!({"text": 7})), "invalid_message"),
        row("a request without method", ask(json!({"params": {}})), "invalid_message"),
        row(
            "a request without payload",
            json!({"id": "x", "kind": "mcp/request"}),
            "invalid_message",
        ),
        row("a request that is a list", ask(json!([])), "invalid_message"),
        row("an id once more", chat("dup", "again"), "duplicate_id")
            .behind("ada", chat("dup", "once")),
        row("an id of somebody else", chat("dup", "again"), "duplicate_id")
            .behind("bob", chat("dup", "once")),
    ])
    .await;
}

#[tokio::test]
async fn what_somebody_may_not() {
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
    let kick =
        |whom: &str| json!({"id": "x", "kind": "space/kick", "payload": {"participant_id": whom}});
    let invite = json!({"id": "x", "kind": "space/invite", "payload": {"participant_id": "carl"}});
    let lacking = "capability_violation";
    check_all(vec![
        row("a request of a guest", call("x", "carl", "read_file"), lacking).by("guest"),
        row("a tool that is not among his", call("x", "carl", "delete_file"), lacking).by("talker"),
        row("a request of one who may propose", call("x", "carl", "read_file"), lacking)
            .by("agent"),
        row("a grant of everything", grant("carl", json!("*")), lacking).by("talker"),
        row("a grant of a bit more", grant("carl", json!("mcp/request:tools/call:*")), lacking)
            .by("talker"),
        row("a grant to himself", grant("talker", json!({"kind": "mcp/*"})), lacking).by("talker"),
        row("a grant without the right to", grant("carl", json!("chat")), lacking).by("guest"),
        row("a grant to nobody", grant("nobody", json!("chat")), "participant_not_found"),
        row("a grant of nonsense", grant("carl", json!({"kind": "/(/"})), "invalid_message"),
        row("a revocation of what he lacks", revoke(all), lacking).by("talker"),
        row("a revocation of another's grant", revoke(of_grant), lacking)
            .by("talker")
            .behind("ada", granted),
        row(
            "a revocation of no grant",
            revoke(json!({"recipient": "carl", "grant_id": "no"})),
            "unknown_grant",
        ),
        row("to send oneself away", kick("ada"), "invalid_operation"),
        row("to send the operations away", kick("toolpost"), "invalid_operation"),
        row("to send nobody away", kick("nobody"), "participant_not_found"),
        row("to send somebody away without the right to", kick("carl"), lacking).by("guest"),
        row("to invite who is here", invite, "already_exists"),
    ])
    .await;
}

#[tokio::test]
async fn proposals_and_answers_of_those_whose_they_are_not() {
    let answer = |to: &str| json!({"id": "x", "kind": "mcp/response", "correlation_id": [to], "payload": {"result": {}}});
    let withdraw = about(json!({"id": "x", "kind": "mcp/withdraw", "payload": {}}), "P");
    let reject = about(json!({"id": "x", "kind": "mcp/reject", "payload": {}}), "P");
    let fulfilment = |id: &str, tool: &str| about(call(id, "carl", tool), "P");
    let proposed = || ("agent", proposal("P", "read_file"));
    let unanswered = json!({"id": "x", "kind": "mcp/response", "payload": {"result": {}}});
    let behind = |row: Row, (who, said): (&'static str, Value)| row.behind(who, said);
    check_all(vec![
        behind(
            row("a second fulfilment", fulfilment("x", "read_file"), "proposal_closed"),
            proposed(),
        )
        .behind("bob", fulfilment("F", "read_file")),
        behind(
            row(
                "a fulfilment by something else",
                fulfilment("x", "delete_file"),
                "proposal_mismatch",
            ),
            proposed(),
        ),
        behind(
            row("a fulfilment after a rejection", fulfilment("x", "read_file"), "proposal_closed"),
            proposed(),
        )
        .behind("bob", about(json!({"kind": "mcp/reject", "payload": {}}), "P")),
        behind(
            row(
                "a fulfilment of what was withdrawn",
                fulfilment("x", "read_file"),
                "proposal_closed",
            ),
            proposed(),
        )
        .behind("agent", about(json!({"kind": "mcp/withdraw", "payload": {}}), "P")),
        behind(
            row(
                "a fulfilment by one who may not",
                fulfilment("x", "read_file"),
                "capability_violation",
            )
            .by("agent"),
            proposed(),
        ),
        behind(row("a withdrawal by another", withdraw.clone(), "not_proposer"), proposed()),
        behind(
            row("a withdrawal by one who may not", withdraw.clone(), "capability_violation")
                .by("guest"),
            proposed(),
        ),
        row("a withdrawal of nothing", withdraw, "unknown_proposal"),
        behind(row("a second rejection", reject.clone(), "proposal_closed"), proposed())
            .behind("bob", about(json!({"kind": "mcp/reject", "payload": {}}), "P")),
        row("a rejection of nothing", reject, "unknown_proposal"),
        row("an answer of somebody else", answer("F"), "not_addressee")
            .behind("bob", call("F", "carl", "read_file")),
        row("an answer to nothing", answer("nothing"), "unknown_request"),
        row("an answer to a chat", answer("C"), "unknown_request").behind("bob", chat("C", "hi")),
        row("an answer that names nothing", unanswered, "invalid_message"),
        row("an answer to his own proposal", answer("P"), "not_addressee")
            .behind("ada", proposal("P", "read_file")),
        row("an answer to a proposal by one who may not", answer("P"), "capability_violation")
            .by("talker")
            .behind("ada", proposal("P", "delete_file")),
    ])
    .await;
}

#[tokio::test]
async fn streams_and_orders_of_those_whose_they_are_not() {
    let request = json!({"id": "S", "kind": "stream/request", "payload": {"direction": "upload"}});
    let opened = || ("carl", request.clone());
    let of = |kind: &str, payload: Value| json!({"id": "x", "kind": kind, "payload": payload});
    let to_ada = |kind: &str| json!({"kind": kind, "to": ["ada"], "payload": {}});
    let behind = |row: Row, (who, said): (&'static str, Value)| row.behind(who, said);
    let stream = json!({"stream_id": "stream-1"});
    let handed = json!({"stream_id": "stream-1", "participant_id": "ada", "new_owner": "ada"});
    let handed = |kind: &str| {
        let mut payload = handed.clone();
        let unused = if kind.contains("owner") { "participant_id" } else { "new_owner" };
        payload.as_object_mut().unwrap().remove(unused);
        of(kind, payload)
    };
    let gone = json!({"stream_id": "stream-7"});
    let nobody = json!({"direction": "upload", "target": ["carl", "nobody"]});
    check_all(vec![
        behind(
            text("a part of another's stream", "#stream-1#mine", "unauthorized_stream_write"),
            opened(),
        ),
        text("a part of no stream", "#stream-1#mine", "unauthorized_stream_write"),
        text("a part without a stream", "#mine", "invalid_message"),
        behind(
            row("closing another's stream", of("stream/close", stream), "unauthorized"),
            opened(),
        ),
        row("closing no stream", of("stream/close", gone), "stream_not_found"),
        behind(
            row("taking another's stream", handed("stream/transfer-ownership"), "unauthorized"),
            opened(),
        ),
        behind(
            row("writing in another's stream", handed("stream/grant-write"), "unauthorized"),
            opened(),
        ),
        row("a stream to nobody", of("stream/request", nobody), "target_not_found"),
        row("a stream of a guest", of("stream/request", json!({})), "capability_violation")
            .by("guest"),
        row("a pause of everybody", of("participant/pause", json!({})), "invalid_message"),
        row("an end of everybody", of("participant/shutdown", json!({})), "invalid_message"),
        row(
            "a pause by a guest",
            json!({"id": "x", "kind": "participant/pause", "to": ["ada"], "payload": {}}),
            "capability_violation",
        )
        .by("guest"),
        row("a chat of one who is paused", chat("x", "hi"), "participant_paused")
            .behind("bob", to_ada("participant/pause"))
            .then("bob"),
        row("a chat of one who was shut down", chat("x", "hi"), "participant_shut_down")
            .behind("bob", to_ada("participant/shutdown"))
            .then("bob"),
    ])
    .await;
}

fn narrow(room: &mut RoomSettings) {
    room.messages_per_minute = 4;
}

const THREE: [(&str, Family); 3] =
    [("bob", Family::Mcpx), ("ada", Family::Mew04), ("carl", Family::Mew03)];

/// Two are let through at once; those behind them are refused with the time to wait.
#[tokio::test]
async fn whoever_floods_a_room_is_told_when_to_come_again() {
    let world = World::with(rooms([("narrow", narrow)])).await;
    let mut cast = Cast::meet(&world, "narrow", &THREE).await;
    for number in 0..4 {
        cast.say("ada", &chat(&format!("n{number}"), &format!("number {number}"))).await;
    }
    for id in ["n2", "n3"] {
        let refusal = cast.one("ada").refusal(id).await;
        assert_eq!(refusal["error"], "rate_limited", "{refusal}");
        let wait = refusal["retry_after_ms"].as_u64().unwrap();
        assert!((1..=15_001).contains(&wait), "{wait}");
    }
    for one in ["ada", "bob", "carl"] {
        for text in ["number 0", "number 1"] {
            cast.one(one).expect("chat", |it| it["payload"]["text"] == text).await;
        }
    }
    cast.nothing_else("bob", "a flood").await;
    assert_eq!(world.history("narrow").await.len(), 4, "two, and two of bob");
    world.stop().await;
}

/// What is refused counts as well, apart from what is not: else nonsense would fill the journal.
#[tokio::test]
async fn whoever_floods_a_room_with_nonsense_is_told_so_and_it_is_not_written_down() {
    let world = World::with(rooms([("narrow", narrow)])).await;
    let mut cast = Cast::meet(&world, "narrow", &THREE).await;
    let ada = cast.one("ada");
    for text in ["no JSON", r##"{"kind":"system/error"}"##, "#no-stream#x", "{}", "again"] {
        ada.say_text(text).await;
    }
    let mut told = Vec::new();
    for _ in 0..5 {
        let error = ada.expect("system/error", |_| true).await;
        told.push(error["payload"]["error"].as_str().unwrap().to_owned());
    }
    let limited = "rate_limited";
    assert_eq!(told, ["invalid_message", "capability_violation", limited, limited, limited]);
    cast.nothing_else("ada", "nonsense").await;
    let asked = json!({"room": "narrow", "errors": true});
    let (status, found) = world.call("auditor", "gateway.journal", &asked).await;
    assert_eq!(status, 200, "{found}");
    assert_eq!(found["messages"].as_array().map(Vec::len), Some(2), "{found}");
    world.stop().await;
}

/// More than is read at all: the connection ends, and the room goes on.
#[tokio::test]
async fn whoever_sends_far_too_much_is_let_go_and_may_come_again() {
    let world = World::start().await;
    let mut cast = Cast::meet(&world, "large", &THREE).await;
    let mut ada = cast.take("ada");
    let far_too_much = 5 * RoomSettings::default().message_bytes;
    ada.send(Message::text(chat("x", &"x".repeat(far_too_much)).to_string())).await;
    let (code, words) = ada.closed().await;
    assert_eq!((code, &*words), (1009, "a message has at most 1048576 bytes"));
    for one in ["bob", "carl"] {
        let left = cast.one(one).expect("system/presence", |_| true).await;
        assert_eq!(left["payload"]["event"], "leave", "{left}");
    }
    cast.nothing_else("bob", "far too much").await;
    cast.add(world.join(Family::Mew04, "ada", "large").await);
    cast.settle("ada").await;
    world.stop().await;
}
