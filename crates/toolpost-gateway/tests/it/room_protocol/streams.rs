//! Streams: open, write, read and close.

use serde_json::{Value, json};

use super::client::Family;
use super::fixture::RoomFixture;
use super::room_clients::RoomClients;

const PARTICIPANTS: [(&str, Family); 4] = [
    ("ada", Family::Mew04),
    ("carl", Family::Mew04),
    ("bob", Family::Mcpx),
    ("guest", Family::Mew03),
];

/// Opens a stream, which is announced to every participant.
async fn open_stream(clients: &mut RoomClients, owner: &str, id: &str, payload: Value) -> Value {
    clients
        .send(
            owner,
            &json!({"id": id, "kind": "stream/request", "to": ["gateway"], "payload": payload}),
        )
        .await;
    let mut opened = Value::Null;
    for (name, family) in PARTICIPANTS {
        let one = clients.client(name);
        one.expect("stream/request", |it| it["id"] == id).await;
        let correlation = family.correlation(id);
        opened = one.expect("stream/open", |it| it["correlation_id"] == correlation).await;
        assert_eq!(opened["from"], "gateway");
    }
    opened["payload"].take()
}

/// Writes a frame and asserts that exactly these readers receive it unchanged.
async fn write_frame(clients: &mut RoomClients, writer: &str, part: &str, readers: &[&str]) {
    clients.client(writer).send_text(part).await;
    for reader in readers {
        assert_eq!(clients.client(reader).expect_stream_frame().await, part, "{reader}");
    }
    clients.assert_no_other_messages(writer, part).await;
}

async fn assert_write_rejected(clients: &mut RoomClients, writer: &str, part: &str) {
    clients.client(writer).send_text(part).await;
    let event_kind = clients.client(writer).expect("system/error", |_| true).await;
    assert_eq!(event_kind["payload"]["error"], "unauthorized_stream_write", "{event_kind}");
    clients.assert_no_other_messages(writer, part).await;
}

/// Changes write access or ownership; the result is announced, the request is not relayed.
async fn change_stream_access(
    clients: &mut RoomClients,
    owner: &str,
    kind: &str,
    payload: Value,
    event_kind: &str,
) -> Value {
    let id = format!("{kind}-{}", payload["reason"].as_str().unwrap_or("once"));
    clients.send(owner, &json!({"id": id, "kind": kind, "payload": payload})).await;
    let mut seen = Value::Null;
    for (name, family) in PARTICIPANTS {
        seen = clients.client(name).expect(event_kind, |_| true).await;
        assert_eq!(
            (&seen["from"], &seen["correlation_id"]),
            (&json!("gateway"), &family.correlation(&id))
        );
    }
    clients.assert_no_other_messages(owner, kind).await;
    seen["payload"].take()
}

#[tokio::test]
async fn stream_frames_require_write_access_and_mew04_readers() {
    let fixture = RoomFixture::start().await;
    let mut clients = RoomClients::join_all(&fixture, "lobby", &PARTICIPANTS).await;
    let about = json!({"direction": "upload", "description": "a log", "x": {"y": 1}});
    let opened = open_stream(&mut clients, "ada", "S", about).await;
    let expected = json!({"stream_id": "stream-1", "encoding": "text", "owner": "ada", "authorized_writers": ["ada"]});
    assert_eq!(opened, expected, "no target unless one is requested");
    for part in ["#stream-1#", "#stream-1#a#b\n{\"kind\":\"chat\"}", "#stream-1#ünï"] {
        write_frame(&mut clients, "ada", part, &["ada", "carl"]).await;
    }
    assert_write_rejected(&mut clients, "carl", "#stream-1#mine").await;
    let carl =
        |reason: &str| json!({"stream_id": "stream-1", "participant_id": "carl", "reason": reason});
    let granted = change_stream_access(
        &mut clients,
        "ada",
        "stream/grant-write",
        carl("1"),
        "stream/write-granted",
    )
    .await;
    assert_eq!(granted["authorized_writers"], json!(["ada", "carl"]));
    assert_eq!((&granted["participant_id"], &granted["reason"]), (&json!("carl"), &json!("1")));
    write_frame(&mut clients, "carl", "#stream-1#mine", &["ada", "carl"]).await;
    let revoked = change_stream_access(
        &mut clients,
        "ada",
        "stream/revoke-write",
        carl("2"),
        "stream/write-revoked",
    )
    .await;
    assert_eq!(revoked["authorized_writers"], json!(["ada"]));
    assert_write_rejected(&mut clients, "carl", "#stream-1#mine").await;
    let new_owner = json!({"stream_id": "stream-1", "new_owner": "carl"});
    let transferred = change_stream_access(
        &mut clients,
        "ada",
        "stream/transfer-ownership",
        new_owner,
        "stream/ownership-transferred",
    )
    .await;
    assert_eq!(
        (&transferred["previous_owner"], &transferred["new_owner"]),
        (&json!("ada"), &json!("carl"))
    );
    assert_eq!(transferred["authorized_writers"], json!(["carl"]));
    assert_write_rejected(&mut clients, "ada", "#stream-1#no longer mine").await;
    write_frame(&mut clients, "carl", "#stream-1#now mine", &["ada", "carl"]).await;
    let late = fixture.join(Family::Mew04, "late", "lobby").await;
    let active = &late.welcome["active_streams"][0];
    assert_eq!((&active["stream_id"], &active["owner"]), (&json!("stream-1"), &json!("carl")));
    assert_eq!((&active["description"], &active["x"]["y"]), (&json!("a log"), &json!(1)));
    late.leave().await;
    clients.drain("ada").await;
    clients.send("carl", &json!({"kind": "stream/close", "payload": {"stream_id": "stream-1", "reason": "complete"}})).await;
    for (name, _) in PARTICIPANTS {
        let closed = clients.client(name).expect("stream/close", |_| true).await;
        assert_eq!(
            (&closed["from"], &closed["payload"]["reason"]),
            (&json!("carl"), &json!("complete"))
        );
        assert!(
            !closed["correlation_id"].is_null(),
            "the response names the message that opened the stream"
        );
    }
    assert_write_rejected(&mut clients, "carl", "#stream-1#too late").await;
    fixture.stop().await;
}

#[tokio::test]
async fn targeted_stream_reaches_only_its_targets() {
    let fixture = RoomFixture::start().await;
    let mut clients = RoomClients::join_all(&fixture, "lobby", &PARTICIPANTS).await;
    let targets = json!({"direction": "upload", "target": ["carl", "bob"]});
    let opened = open_stream(&mut clients, "ada", "S", targets).await;
    assert_eq!(opened["target"], json!(["carl", "bob"]));
    write_frame(&mut clients, "ada", "#stream-1#for carl", &["carl"]).await;
    fixture.stop().await;
}

/// Each row: how the owner leaves.
#[tokio::test]
async fn stream_closes_when_owner_leaves() {
    let fixture = RoomFixture::start().await;
    for (room, is_kicked) in [("left", false), ("kicked", true)] {
        let mut clients = RoomClients::join_all(&fixture, room, &PARTICIPANTS).await;
        open_stream(&mut clients, "ada", "S", json!({"direction": "upload"})).await;
        open_stream(&mut clients, "carl", "T", json!({"direction": "upload"})).await;
        let carl = json!({"stream_id": "stream-2", "participant_id": "ada"});
        change_stream_access(
            &mut clients,
            "carl",
            "stream/grant-write",
            carl,
            "stream/write-granted",
        )
        .await;
        let mut ada = clients.take("ada");
        match is_kicked {
            true => {
                let kick = json!({"kind": "space/kick", "payload": {"participant_id": "ada"}});
                clients.send("carl", &kick).await;
                ada.wait_closed().await;
            }
            false => ada.leave().await,
        }
        for name in ["carl", "bob", "guest"] {
            let closed = clients.client(name).expect("stream/close", |_| true).await;
            let event_kind = json!({"stream_id": "stream-1", "reason": "owner_disconnected"});
            assert_eq!((&closed["from"], &closed["payload"]), (&json!("gateway"), &event_kind));
        }
        let late = fixture.join(Family::Mew04, "late", room).await;
        let active = late.welcome["active_streams"].as_array().unwrap();
        assert_eq!(active.len(), 1);
        assert_eq!(
            active[0]["authorized_writers"],
            json!(["carl"]),
            "a departed participant has no write access"
        );
    }
    fixture.stop().await;
}
