//! The streams there are, read or waiting for their clients to return.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolpost::Subscription;

use super::Terms;
use super::kept::Kept;
use super::live::{Item, Live, Next, Reader};
use crate::app::Gateway;
use crate::door::HttpDoorSettings;

/// How long a stream rests between two events that nobody takes and that push others out, so that one
/// without end costs nothing to speak of.
const REST: Duration = Duration::from_millis(10);

/// Streams by their ids.
#[derive(Debug)]
pub(crate) struct Streams {
    known: Mutex<HashMap<Box<str>, Known>>,
    /// Owns those that read for clients who have left; they end when the gateway stops.
    waiting: TaskTracker,
    settings: HttpDoorSettings,
}

struct Known {
    live: Arc<Live>,
    /// Since when nobody reads it.
    left: Option<Instant>,
}

/// What became of the stream that a client returns to.
pub(super) enum Returned {
    /// It goes on, and so many events are lost.
    To(Reader, u64),
    /// The client has seen its end.
    Complete,
    /// It is not there, or not for this client.
    Unknown,
}

impl Streams {
    pub(crate) fn new(settings: &HttpDoorSettings) -> Self {
        let (known, waiting) = (Mutex::default(), TaskTracker::new());
        Self { known, waiting, settings: settings.clone() }
    }

    /// Ends the streams of some identities, read or waiting, and says how many these were.
    pub(crate) fn dismiss(&self, is_over: &dyn Fn(&str) -> bool) -> usize {
        let ended: Vec<_> =
            self.lock().extract_if(|_, found| is_over(&found.live.terms.owner.id)).collect();
        for (_, found) in &ended {
            found.live.abort("who you are does not hold here any more");
        }
        ended.len()
    }

    /// Waits for those who wait; whoever calls this has told the gateway to stop.
    pub(crate) async fn drain(&self) {
        self.waiting.close();
        self.waiting.wait().await;
    }

    /// Makes a stream of a subscription, whose first item may be known; `None` without randomness.
    pub(super) fn begin(
        &self,
        terms: Terms,
        values: Subscription,
        first: Option<Item>,
    ) -> Option<Reader> {
        // Nobody guesses 16 random bytes.
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let id: Box<str> = HEXLOWER.encode(&random).into();
        let kept = Kept::new(self.settings.kept_events, self.settings.kept_bytes);
        let live = Live::new(id.clone(), terms, kept, values, first);
        let (reader, _) = live.read_behind(0)?;
        self.lock().insert(id, Known { live, left: None });
        Some(reader)
    }

    /// The stream of that id behind that event, if it is there for such terms.
    pub(super) fn take_up(&self, id: &str, number: u64, terms: &Terms) -> Returned {
        let mut known = self.lock();
        let found = known.get_mut(id).filter(|found| found.live.terms.are(terms));
        let Some(found) = found else { return Returned::Unknown };
        match found.live.read_behind(number) {
            Some((reader, lost)) => {
                found.left = None;
                Returned::To(reader, lost)
            }
            None => Returned::Complete,
        }
    }

    /// Somebody who read a stream has left, and may return for a while.
    pub(super) fn left(self: &Arc<Self>, gateway: &Gateway, reader: Reader) {
        let stopping = gateway.0.stopping.clone();
        let (Ok(runtime), false) = (Handle::try_current(), stopping.is_cancelled()) else {
            return self.end(&reader);
        };
        if self.settings.return_time.is_zero() {
            return self.end(&reader);
        }
        let Some(made_room) = self.note_left(&reader) else { return };
        for live in made_room {
            live.end();
        }
        let streams = Arc::clone(self);
        self.waiting.spawn_on(streams.wait(reader, stopping), &runtime);
    }

    /// Notes that nobody reads a stream, and takes out those that have to make room for it. `None` if
    /// somebody else reads it already.
    fn note_left(&self, reader: &Reader) -> Option<Vec<Arc<Live>>> {
        let mut known = self.lock();
        let mut made_room = Vec::new();
        let owner = &reader.live().terms.owner.id;
        for (most, of_one) in [(self.settings.waiting_of_one, true), (self.settings.waiting, false)]
        {
            let is_counted = |found: &Known| !of_one || found.live.terms.owner.id == *owner;
            while let Some(id) = longest_left(&known, most, is_counted) {
                made_room.extend(known.remove(&id).map(|found| found.live));
            }
        }
        let found = known.get_mut(&reader.live().id)?;
        if !reader.is_current() {
            return None;
        }
        found.left = Some(Instant::now());
        Some(made_room)
    }

    /// Reads for a client who has left, until he returns or the time is over.
    async fn wait(self: Arc<Self>, mut reader: Reader, stopping: CancellationToken) {
        let time = tokio::time::sleep(self.settings.return_time);
        tokio::pin!(time);
        let taken = reader.taken();
        loop {
            let next = tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                () = taken.cancelled() => return,
                () = &mut time => break,
                next = reader.next() => next,
            };
            let rest = match next {
                Next::Event(_) if reader.had_room() => Duration::ZERO,
                Next::Event(_) => REST,
                // What was kept is there until the time is over.
                Next::Over => self.settings.return_time,
                Next::Taken => return,
            };
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                () = taken.cancelled() => return,
                () = &mut time => break,
                () = pause(rest) => {}
            }
        }
        self.end(&reader);
    }

    /// Ends a stream, unless somebody else has taken it meanwhile.
    pub(super) fn end(&self, reader: &Reader) {
        let mut known = self.lock();
        if reader.is_current() {
            known.remove(&reader.live().id);
            drop(known);
            reader.live().end();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Others have their turn between two events, however fast these come.
async fn pause(rest: Duration) {
    if rest.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(rest).await;
    }
}

/// The stream that has waited the longest of those that count, if there are as many as there may be.
fn longest_left(
    known: &HashMap<Box<str>, Known>,
    most: usize,
    is_counted: impl Fn(&Known) -> bool,
) -> Option<Box<str>> {
    let waiting = known.iter().filter(|(_, found)| is_counted(found) && found.left.is_some());
    if waiting.clone().count() < most {
        return None;
    }
    waiting.min_by_key(|(_, found)| found.left).map(|(id, _)| id.clone())
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").field("left", &self.left).finish_non_exhaustive()
    }
}
