//! The connections there are, and who leaves when there are too many.

use std::collections::HashMap;

use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::seat::Seat;

/// All connections of a server.
#[derive(Debug)]
pub(super) struct Room {
    /// Owns the connections, also those that are just leaving.
    tasks: JoinSet<()>,
    seats: HashMap<Id, (Seat, AbortHandle)>,
    limit: usize,
    epoch: Instant,
}

impl Room {
    pub(super) fn new(limit: usize) -> Self {
        Self { tasks: JoinSet::new(), seats: HashMap::new(), limit, epoch: Instant::now() }
    }

    /// Starts a connection on a seat of its own.
    pub(super) fn seat<F>(&mut self, connection: impl FnOnce(Seat) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let seat = Seat::new(self.epoch);
        let handle = self.tasks.spawn(connection(seat.clone()));
        self.seats.insert(handle.id(), (seat, handle));
    }

    /// Waits until a connection has ended; for ever where there is none.
    pub(super) async fn left(&mut self) {
        match self.tasks.join_next_with_id().await {
            Some(ended) => {
                self.seats.remove(&ended.map_or_else(|error| JoinError::id(&error), |(id, ())| id));
            }
            None => std::future::pending().await,
        }
    }

    /// Whether there is a seat for somebody else. If all are taken, the client that has owed a
    /// request for the longest time gives up its own; whoever is being served keeps it.
    pub(super) fn has_room(&mut self) -> bool {
        self.seats.len() < self.limit || self.send_one_away()
    }

    /// How many connections there are.
    pub(super) fn count(&self) -> usize {
        self.seats.len()
    }

    /// Everything that is still there, to be waited for.
    pub(super) fn into_tasks(self) -> JoinSet<()> {
        self.tasks
    }

    fn send_one_away(&mut self) -> bool {
        let waiting = self.seats.iter().filter_map(|(id, (seat, _))| Some((seat.waiting()?, *id)));
        let Some((seen, id)) = waiting.min_by_key(|(seen, _)| *seen) else { return false };
        if !self.seats[&id].0.give_away(seen) {
            return false;
        }
        tracing::debug!(limit = self.limit, "a client that sent no request makes room for another");
        if let Some((_, handle)) = self.seats.remove(&id) {
            handle.abort();
        }
        true
    }
}
