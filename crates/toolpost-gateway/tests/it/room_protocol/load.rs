//! Many participants in many rooms, each with a slow reader: the others receive every message once and
//! in one order, and the slow reader never sees a gap.

use std::net::SocketAddr;

use futures::future::join_all;
use serde_json::{Value, json};
use toolpost_gateway::auth::Authenticator;

use super::client::{Client, Family, JoinOptions, connect_with_small_buffer};
use super::fixture::{RoomFixture, rooms_settings};

const ROOMS: usize = 50;
/// In each room, including the slow reader.
const PARTICIPANTS_PER_ROOM: usize = 20;
const SENDERS: usize = 4;
/// Messages per sender.
const MESSAGES: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn thousand_participants_receive_all_messages_in_order() {
    let mut settings = rooms_settings([]);
    settings.max_rooms_per_caller = ROOMS;
    let fixture = RoomFixture::with(settings).await;
    fixture.server.gateway.authenticator().replace(&Authenticator::allow_anonymous());
    let address = fixture.server.address;
    let rooms = (0..ROOMS).map(|number| tokio::spawn(run_room(address, format!("room-{number}"))));
    let mut received = 0;
    for room in join_all(rooms).await {
        received += room.unwrap();
    }
    assert_eq!(received, ROOMS * (PARTICIPANTS_PER_ROOM - 1) * (SENDERS * MESSAGES + 1));
    fixture.stop().await;
}

/// Fills a room with senders, readers and one slow reader. Returns the number of messages that the
/// readers received.
async fn run_room(address: SocketAddr, room: String) -> usize {
    let mut slow = join_slow_reader(address, &room).await;
    let mut participants =
        join_all((1..PARTICIPANTS_PER_ROOM).map(|number| join_room(address, &room, number))).await;
    let sending = participants.iter_mut().take(SENDERS).map(|one| async {
        for number in 0..MESSAGES {
            let id = format!("{}-{number}", one.id);
            one.send_json(
                &json!({"id": id, "kind": "chat", "payload": {"text": "x".repeat(1024)}}),
            )
            .await;
        }
    });
    join_all(sending).await;
    // The last message is sent after all others were received.
    let mut first = read_chat_ids(&mut participants[0], SENDERS * MESSAGES).await;
    participants[0]
        .send_json(&json!({"id": "end", "kind": "chat", "payload": {"text": "end"}}))
        .await;
    first.extend(read_chat_ids(&mut participants[0], 1).await);
    assert_eq!(first.last().unwrap(), "end");
    let reading =
        participants.iter_mut().skip(1).map(|one| read_chat_ids(one, SENDERS * MESSAGES + 1));
    let others = join_all(reading).await;
    for other in &others {
        assert_eq!(*other, first, "{room}: every participant receives the same order");
    }
    for sender in 1..=SENDERS {
        let prefix = format!("{room}-{sender}-");
        let own: Vec<&String> = first.iter().filter(|id| id.starts_with(&prefix)).collect();
        let expected: Vec<String> =
            (0..MESSAGES).map(|number| format!("{prefix}{number}")).collect();
        assert_eq!(
            own,
            expected.iter().collect::<Vec<_>>(),
            "{room}: in the order in which they were sent"
        );
    }
    assert_prefix_without_gap(&mut slow, &first, 1013).await;
    first.len() * (1 + others.len())
}

async fn join_room(address: SocketAddr, room: &str, number: usize) -> Client {
    let family = Family::ALL[number % Family::ALL.len()];
    let participant = Some(format!("{room}-{number}"));
    let options =
        JoinOptions { token: None, participant, ..JoinOptions::new(family, "unknown", room) };
    options.join(address).await.unwrap()
}

/// Joins and reads nothing after the welcome.
async fn join_slow_reader(address: SocketAddr, room: &str) -> Client {
    let path = format!("/ws?topic={room}&participant={room}-slow");
    let mut slow = Client::new(connect_with_small_buffer(address, &path).await, Family::Mcpx);
    slow.expect_welcome().await.unwrap();
    slow
}

/// Reads this number of chats and returns their ids in order. Other messages stay unread.
async fn read_chat_ids(client: &mut Client, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let chat = client.expect("chat", |_| true).await;
        ids.push(chat["id"].as_str().unwrap().to_owned());
    }
    ids
}

fn chat_id(text: &str) -> Option<String> {
    let message: Value = serde_json::from_str(text).unwrap();
    (message["kind"] == "chat").then(|| message["id"].as_str().unwrap().to_owned())
}

/// Asserts that the slow reader receives all messages, or a prefix of them and the close code.
async fn assert_prefix_without_gap(slow: &mut Client, all: &[String], code: u16) {
    let mut ids = Vec::new();
    while ids.len() < all.len() {
        match slow.next().await {
            Some(text) => ids.extend(chat_id(&text)),
            None => {
                // A late reader may find the connection dropped without a close frame.
                let (close_code, message) = slow.wait_closed().await;
                assert!(close_code == code || close_code == 1006, "{close_code} {message}");
                break;
            }
        }
    }
    assert_eq!(ids, all[..ids.len()]);
}

/// Sends `count` messages of `kilobytes` each. Returns the slow reader, the two other participants
/// and the message ids.
async fn fill_room(
    address: SocketAddr,
    count: usize,
    kilobytes: usize,
) -> (Client, [Client; 2], Vec<String>) {
    let slow = join_slow_reader(address, "lobby").await;
    let mut participants =
        [join_room(address, "lobby", 1).await, join_room(address, "lobby", 2).await];
    let all: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
    // In batches of ten, so that several messages are in flight at once.
    for ids in all.chunks(10) {
        for id in ids {
            let payload = json!({"text": "x".repeat(kilobytes * 1024)});
            participants[0].send_json(&json!({"id": id, "kind": "chat", "payload": payload})).await;
        }
        for one in &mut participants {
            assert_eq!(read_chat_ids(one, ids.len()).await, ids);
        }
    }
    (slow, participants, all)
}

/// A slow reader whose queue overflows is disconnected with a reason; the others do not wait.
#[tokio::test(flavor = "multi_thread")]
async fn slow_reader_is_disconnected_with_reason() {
    let fixture = RoomFixture::start().await;
    fixture.server.gateway.authenticator().replace(&Authenticator::allow_anonymous());
    // Far more than the send queue and the socket buffers hold.
    let (mut slow, [_, mut reader], all) = fill_room(fixture.server.address, 60, 512).await;
    assert_prefix_without_gap(&mut slow, &all, 1013).await;
    let is_slow = |it: &Value| it["payload"]["participant"]["id"] == "lobby-slow";
    let leave_message = reader.expect("system/presence", is_slow).await;
    assert_eq!(leave_message["payload"]["event"], "leave");
    fixture.stop().await;
}

/// Queued messages within the limit at shutdown: the slow reader receives a prefix of them and the
/// reason.
#[tokio::test(flavor = "multi_thread")]
async fn slow_reader_sees_no_gap_on_gateway_shutdown() {
    let fixture = RoomFixture::start().await;
    fixture.server.gateway.authenticator().replace(&Authenticator::allow_anonymous());
    let (mut slow, participants, all) = fill_room(fixture.server.address, 300, 30).await;
    let stopping = tokio::spawn(fixture.stop());
    for mut one in participants {
        assert_eq!(one.wait_closed().await.0, 1001);
    }
    assert_prefix_without_gap(&mut slow, &all, 1001).await;
    stopping.await.unwrap();
}
