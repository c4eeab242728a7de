//! Some people in one room, who can be made to listen all at once.

use serde_json::Value;

use super::client::{Client, Family};
use super::world::World;

/// Some people in one room.
pub(super) struct Cast {
    people: Vec<Client>,
    settled: usize,
}

impl Cast {
    /// Everybody has come, and has heard of everybody.
    pub(super) async fn meet(world: &World, room: &str, people: &[(&str, Family)]) -> Self {
        let mut cast = Self { people: Vec::new(), settled: 0 };
        for (who, family) in people {
            cast.people.push(world.join(*family, who, room).await);
        }
        cast.settle(people[0].0).await;
        cast
    }

    pub(super) fn one(&mut self, who: &str) -> &mut Client {
        self.people.iter_mut().find(|one| one.id == who).unwrap()
    }

    pub(super) fn add(&mut self, client: Client) {
        self.people.push(client);
    }

    /// Takes somebody out, who then does what he does alone.
    pub(super) fn take(&mut self, who: &str) -> Client {
        let at = self.people.iter().position(|one| one.id == who).unwrap();
        self.people.remove(at)
    }

    pub(super) async fn say(&mut self, who: &str, message: &Value) {
        self.one(who).say(message).await;
    }

    /// Says something, and waits until everybody has heard it and what came before.
    pub(super) async fn say_and_settle(&mut self, who: &str, message: &Value) {
        self.say(who, message).await;
        self.settle(who).await;
    }

    /// Whatever was heard so far does not matter any more.
    pub(super) async fn settle(&mut self, who: &str) {
        self.mark(who).await;
    }

    /// Nobody has heard anything that was not asked for, and everybody hears what this one says next.
    pub(super) async fn nothing_else(&mut self, who: &str, why: &str) {
        for (id, heard) in self.mark(who).await {
            assert!(heard.is_empty(), "{why}: {id} heard {heard:#?}");
        }
    }

    /// Somebody says something; what everybody had heard before it.
    async fn mark(&mut self, who: &str) -> Vec<(String, Vec<String>)> {
        self.settled += 1;
        let text = format!("mark {}", self.settled);
        self.one(who).chat(&text).await;
        let mut heard = Vec::new();
        for one in &mut self.people {
            heard.push((one.id.clone(), one.until_chat(&text).await));
        }
        heard
    }
}
