//! Many people in many rooms, and in each somebody who does not read: the others get everything, once
//! and in one order, and he gets no part of it as if it were all.

use std::net::SocketAddr;

use futures::future::join_all;
use serde_json::{Value, json};
use toolpost_gateway::auth::Authenticator;

use super::client::{Client, Family, Joining, dial_narrowly};
use super::world::World;

const ROOMS: usize = 50;
/// In each room, the one who does not read included.
const PEOPLE: usize = 20;
const SENDERS: usize = 4;
/// Of each sender.
const MESSAGES: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_participants_hear_everything_once_and_in_one_order() {
    let world = World::start().await;
    world.running.gateway.authenticator().replace(&Authenticator::open());
    let address = world.running.address;
    let rooms = (0..ROOMS).map(|number| tokio::spawn(talk(address, format!("room-{number}"))));
    let mut heard = 0;
    for room in join_all(rooms).await {
        heard += room.unwrap();
    }
    assert_eq!(heard, ROOMS * (PEOPLE - 1) * (SENDERS * MESSAGES + 1));
    world.stop().await;
}

/// Everybody comes, some talk, and all but one listen; how many messages these heard.
async fn talk(address: SocketAddr, room: String) -> usize {
    let mut slow = be_slow(address, &room).await;
    let mut people = join_all((1..PEOPLE).map(|number| come(address, &room, number))).await;
    let talking = people.iter_mut().take(SENDERS).map(|one| async {
        for number in 0..MESSAGES {
            let id = format!("{}-{number}", one.id);
            one.say(&json!({"id": id, "kind": "chat", "payload": {"text": "x".repeat(1024)}}))
                .await;
        }
    });
    join_all(talking).await;
    // The last word is said by one who has heard all the others.
    let mut first = heard(&mut people[0], SENDERS * MESSAGES).await;
    people[0].say(&json!({"id": "end", "kind": "chat", "payload": {"text": "end"}})).await;
    first.extend(heard(&mut people[0], 1).await);
    assert_eq!(first.last().unwrap(), "end");
    let listening = people.iter_mut().skip(1).map(|one| heard(one, SENDERS * MESSAGES + 1));
    let others = join_all(listening).await;
    for other in &others {
        assert_eq!(*other, first, "{room}: everybody hears the same in the same order");
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
    is_served_without_gap(&mut slow, &first, 1013).await;
    first.len() * (1 + others.len())
}

async fn come(address: SocketAddr, room: &str, number: usize) -> Client {
    let family = Family::ALL[number % Family::ALL.len()];
    let participant = Some(format!("{room}-{number}"));
    let joining = Joining { token: None, participant, ..Joining::new(family, "nobody", room) };
    joining.enter(address).await.unwrap()
}

/// Comes in, and reads nothing behind his welcome.
async fn be_slow(address: SocketAddr, room: &str) -> Client {
    let path = format!("/ws?topic={room}&participant={room}-slow");
    let mut slow = Client::on(dial_narrowly(address, &path).await, Family::Mcpx);
    slow.be_welcomed().await.unwrap();
    slow
}

/// The ids of so many chats, in the order in which they come.
async fn heard(client: &mut Client, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let text = client.next().await.unwrap_or_else(|| panic!("{} heard {ids:?}", client.id));
        ids.extend(chat_id(&text));
    }
    ids
}

fn chat_id(text: &str) -> Option<String> {
    let message: Value = serde_json::from_str(text).unwrap();
    (message["kind"] == "chat").then(|| message["id"].as_str().unwrap().to_owned())
}

/// Begins to read: everything is there, or the beginning of it and a goodbye that says so.
async fn is_served_without_gap(slow: &mut Client, all: &[String], code: u16) {
    let mut ids = Vec::new();
    while ids.len() < all.len() {
        match slow.next().await {
            Some(text) => ids.extend(chat_id(&text)),
            None => {
                // Whoever begins to read too late finds the connection cut.
                let (told, words) = slow.closed().await;
                assert!(told == code || told == 1006, "{told} {words}");
                break;
            }
        }
    }
    assert_eq!(ids, all[..ids.len()]);
}

/// One who does not read, two who do, and what was said: so many messages of so many kilobytes.
async fn much_is_said(
    address: SocketAddr,
    count: usize,
    kilobytes: usize,
) -> (Client, [Client; 2], Vec<String>) {
    let slow = be_slow(address, "lobby").await;
    let mut people = [come(address, "lobby", 1).await, come(address, "lobby", 2).await];
    let all: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
    // Ten by ten, so that several are on their way to him at once.
    for ids in all.chunks(10) {
        for id in ids {
            let payload = json!({"text": "x".repeat(kilobytes * 1024)});
            people[0].say(&json!({"id": id, "kind": "chat", "payload": payload})).await;
        }
        for one in &mut people {
            assert_eq!(heard(one, ids.len()).await, ids);
        }
    }
    (slow, people, all)
}

/// More than is kept for anybody: he is let go with the reason, and the others do not wait for him.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_leaves_too_much_unread_is_let_go_and_told_why() {
    let world = World::start().await;
    world.running.gateway.authenticator().replace(&Authenticator::open());
    // Much more than is kept for him, and what is on its way.
    let (mut slow, [_, mut reader], all) = much_is_said(world.running.address, 60, 512).await;
    is_served_without_gap(&mut slow, &all, 1013).await;
    let is_slow = |it: &Value| it["payload"]["participant"]["id"] == "lobby-slow";
    let left = reader.expect("system/presence", is_slow).await;
    assert_eq!(left["payload"]["event"], "leave");
    world.stop().await;
}

/// Less than is kept for him waits when the gateway stops: he gets the beginning of it and the reason.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_much_unread_when_the_gateway_stops_is_shown_no_gap() {
    let world = World::start().await;
    world.running.gateway.authenticator().replace(&Authenticator::open());
    let (mut slow, people, all) = much_is_said(world.running.address, 300, 30).await;
    let stopping = tokio::spawn(world.stop());
    for mut one in people {
        assert_eq!(one.closed().await.0, 1001);
    }
    is_served_without_gap(&mut slow, &all, 1001).await;
    stopping.await.unwrap();
}
