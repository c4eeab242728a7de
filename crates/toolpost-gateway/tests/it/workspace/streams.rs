//! Streams: who opens, who writes, who reads, and how they end.

use serde_json::{Value, json};

use super::cast::Cast;
use super::client::Family;
use super::world::World;

const PEOPLE: [(&str, Family); 4] = [
    ("ada", Family::Mew04),
    ("carl", Family::Mew04),
    ("bob", Family::Mcpx),
    ("guest", Family::Mew03),
];

/// Opens a stream, as everybody is told.
async fn open(cast: &mut Cast, owner: &str, id: &str, payload: Value) -> Value {
    cast.say(
        owner,
        &json!({"id": id, "kind": "stream/request", "to": ["gateway"], "payload": payload}),
    )
    .await;
    let mut opened = Value::Null;
    for (who, family) in PEOPLE {
        let one = cast.one(who);
        one.expect("stream/request", |it| it["id"] == id).await;
        let correlation = family.correlation(id);
        opened = one.expect("stream/open", |it| it["correlation_id"] == correlation).await;
        assert_eq!(opened["from"], "gateway");
    }
    opened["payload"].take()
}

/// Somebody writes, and these get it as it was written; the others nothing.
async fn write(cast: &mut Cast, writer: &str, part: &str, readers: &[&str]) {
    cast.one(writer).say_text(part).await;
    for reader in readers {
        assert_eq!(cast.one(reader).part().await, part, "{reader}");
    }
    cast.nothing_else(writer, part).await;
}

async fn may_not_write(cast: &mut Cast, writer: &str, part: &str) {
    cast.one(writer).say_text(part).await;
    let told = cast.one(writer).expect("system/error", |_| true).await;
    assert_eq!(told["payload"]["error"], "unauthorized_stream_write", "{told}");
    cast.nothing_else(writer, part).await;
}

/// Hands something of a stream over; everybody is told what holds now, and nobody what was asked.
async fn hand(cast: &mut Cast, owner: &str, kind: &str, payload: Value, told: &str) -> Value {
    let id = format!("{kind}-{}", payload["reason"].as_str().unwrap_or("once"));
    cast.say(owner, &json!({"id": id, "kind": kind, "payload": payload})).await;
    let mut seen = Value::Null;
    for (who, family) in PEOPLE {
        seen = cast.one(who).expect(told, |_| true).await;
        assert_eq!(
            (&seen["from"], &seen["correlation_id"]),
            (&json!("gateway"), &family.correlation(&id))
        );
    }
    cast.nothing_else(owner, kind).await;
    seen["payload"].take()
}

#[tokio::test]
async fn a_stream_is_written_by_those_who_may_and_read_by_those_who_can() {
    let world = World::start().await;
    let mut cast = Cast::meet(&world, "lobby", &PEOPLE).await;
    let about = json!({"direction": "upload", "description": "a log", "x": {"y": 1}});
    let opened = open(&mut cast, "ada", "S", about).await;
    let expected = json!({"stream_id": "stream-1", "encoding": "text", "owner": "ada", "authorized_writers": ["ada"]});
    assert_eq!(opened, expected, "no target where none was asked for");
    for part in ["#stream-1#", "#stream-1#a#b\n{\"kind\":\"chat\"}", "#stream-1#ünï"] {
        write(&mut cast, "ada", part, &["ada", "carl"]).await;
    }
    may_not_write(&mut cast, "carl", "#stream-1#mine").await;
    let carl =
        |reason: &str| json!({"stream_id": "stream-1", "participant_id": "carl", "reason": reason});
    let granted =
        hand(&mut cast, "ada", "stream/grant-write", carl("1"), "stream/write-granted").await;
    assert_eq!(granted["authorized_writers"], json!(["ada", "carl"]));
    assert_eq!((&granted["participant_id"], &granted["reason"]), (&json!("carl"), &json!("1")));
    write(&mut cast, "carl", "#stream-1#mine", &["ada", "carl"]).await;
    let revoked =
        hand(&mut cast, "ada", "stream/revoke-write", carl("2"), "stream/write-revoked").await;
    assert_eq!(revoked["authorized_writers"], json!(["ada"]));
    may_not_write(&mut cast, "carl", "#stream-1#mine").await;
    let new_owner = json!({"stream_id": "stream-1", "new_owner": "carl"});
    let transferred = hand(
        &mut cast,
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
    may_not_write(&mut cast, "ada", "#stream-1#not mine any more").await;
    write(&mut cast, "carl", "#stream-1#now mine", &["ada", "carl"]).await;
    let late = world.join(Family::Mew04, "late", "lobby").await;
    let active = &late.welcome["active_streams"][0];
    assert_eq!((&active["stream_id"], &active["owner"]), (&json!("stream-1"), &json!("carl")));
    assert_eq!((&active["description"], &active["x"]["y"]), (&json!("a log"), &json!(1)));
    late.leave().await;
    cast.settle("ada").await;
    cast.say("carl", &json!({"kind": "stream/close", "payload": {"stream_id": "stream-1", "reason": "complete"}})).await;
    for (who, _) in PEOPLE {
        let closed = cast.one(who).expect("stream/close", |_| true).await;
        assert_eq!(
            (&closed["from"], &closed["payload"]["reason"]),
            (&json!("carl"), &json!("complete"))
        );
        assert!(!closed["correlation_id"].is_null(), "it names the message that opened it");
    }
    may_not_write(&mut cast, "carl", "#stream-1#too late").await;
    world.stop().await;
}

#[tokio::test]
async fn a_stream_with_a_target_is_read_by_that_alone() {
    let world = World::start().await;
    let mut cast = Cast::meet(&world, "lobby", &PEOPLE).await;
    let targets = json!({"direction": "upload", "target": ["carl", "bob"]});
    let opened = open(&mut cast, "ada", "S", targets).await;
    assert_eq!(opened["target"], json!(["carl", "bob"]));
    write(&mut cast, "ada", "#stream-1#for carl", &["carl"]).await;
    world.stop().await;
}

/// Each row: how its owner goes.
#[tokio::test]
async fn a_stream_ends_with_its_owner() {
    let world = World::start().await;
    for (room, is_kicked) in [("left", false), ("kicked", true)] {
        let mut cast = Cast::meet(&world, room, &PEOPLE).await;
        open(&mut cast, "ada", "S", json!({"direction": "upload"})).await;
        open(&mut cast, "carl", "T", json!({"direction": "upload"})).await;
        let carl = json!({"stream_id": "stream-2", "participant_id": "ada"});
        hand(&mut cast, "carl", "stream/grant-write", carl, "stream/write-granted").await;
        let mut ada = cast.take("ada");
        match is_kicked {
            true => {
                let kick = json!({"kind": "space/kick", "payload": {"participant_id": "ada"}});
                cast.say("carl", &kick).await;
                ada.closed().await;
            }
            false => ada.leave().await,
        }
        for who in ["carl", "bob", "guest"] {
            let closed = cast.one(who).expect("stream/close", |_| true).await;
            let told = json!({"stream_id": "stream-1", "reason": "owner_disconnected"});
            assert_eq!((&closed["from"], &closed["payload"]), (&json!("gateway"), &told));
        }
        let late = world.join(Family::Mew04, "late", room).await;
        let active = late.welcome["active_streams"].as_array().unwrap();
        assert_eq!(active.len(), 1);
        assert_eq!(active[0]["authorized_writers"], json!(["carl"]), "who is gone writes nowhere");
    }
    world.stop().await;
}
