//! Several clients in one room.

use serde_json::Value;

use super::client::{Client, Family};
use super::fixture::RoomFixture;

/// Several clients in one room.
pub(super) struct RoomClients {
    clients: Vec<Client>,
    markers_sent: usize,
}

impl RoomClients {
    /// Joins all clients and drains their presence messages.
    pub(super) async fn join_all(
        fixture: &RoomFixture,
        room: &str,
        participants: &[(&str, Family)],
    ) -> Self {
        let mut room_clients = Self { clients: Vec::new(), markers_sent: 0 };
        for (name, family) in participants {
            room_clients.clients.push(fixture.join(*family, name, room).await);
        }
        room_clients.drain(participants[0].0).await;
        room_clients
    }

    pub(super) fn client(&mut self, name: &str) -> &mut Client {
        self.clients.iter_mut().find(|one| one.id == name).unwrap()
    }

    pub(super) fn add(&mut self, client: Client) {
        self.clients.push(client);
    }

    /// Removes a client from the set.
    pub(super) fn take(&mut self, name: &str) -> Client {
        let at = self.clients.iter().position(|one| one.id == name).unwrap();
        self.clients.remove(at)
    }

    pub(super) async fn send(&mut self, name: &str, message: &Value) {
        self.client(name).send_json(message).await;
    }

    /// Sends a message and drains every client up to it.
    pub(super) async fn send_and_drain(&mut self, name: &str, message: &Value) {
        self.send(name, message).await;
        self.drain(name).await;
    }

    /// Discards all messages so far.
    pub(super) async fn drain(&mut self, name: &str) {
        self.drain_until_marker(name).await;
    }

    /// Asserts that no client has unread messages before a new marker.
    pub(super) async fn assert_no_other_messages(&mut self, name: &str, why: &str) {
        for (id, received) in self.drain_until_marker(name).await {
            assert!(received.is_empty(), "{why}: {id} received {received:#?}");
        }
    }

    /// Sends a marker and returns what each client read before it.
    async fn drain_until_marker(&mut self, name: &str) -> Vec<(String, Vec<String>)> {
        self.markers_sent += 1;
        let text = format!("mark {}", self.markers_sent);
        self.client(name).chat(&text).await;
        let mut received = Vec::new();
        for one in &mut self.clients {
            received.push((one.id.clone(), one.read_until_chat(&text).await));
        }
        received
    }
}
