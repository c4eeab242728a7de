//! All streams, active or detached.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolpost::{Identity, Subscription};

use super::StreamBinding;
use super::active_stream::{ActiveStream, NextEvent, StreamItem, StreamReader};
use super::replay_buffer::ReplayBuffer;
use crate::auth::AccessEnd;
use crate::endpoint::settings::GatewaySettings;

/// Pause of a detached stream while its buffer overflows. Bounds the cost of the stream.
const OVERFLOW_PAUSE: Duration = Duration::from_millis(10);

/// All streams, by id.
#[derive(Debug)]
pub(in crate::endpoint::http) struct StreamRegistry {
    streams: Mutex<HashMap<Box<str>, StreamEntry>>,
    /// Tasks that read detached streams. They end when the gateway stops.
    detached_tasks: TaskTracker,
    pub(super) settings: Arc<GatewaySettings>,
    /// Canceled when the gateway stops. Ends all streams.
    pub(super) stopping: CancellationToken,
}

struct StreamEntry {
    stream: Arc<ActiveStream>,
    /// When the stream was detached; `None` while it has a reader.
    detached_at: Option<Instant>,
}

/// The result of resuming a stream.
pub(super) enum ResumeOutcome {
    /// The stream continues, with the number of lost events.
    Resumed(StreamReader, u64),
    /// The client has already received the last event.
    Complete,
    /// The stream does not exist or does not match the request.
    Unknown,
}

impl StreamRegistry {
    pub(in crate::endpoint::http) fn new(
        settings: Arc<GatewaySettings>,
        stopping: CancellationToken,
    ) -> Self {
        Self { streams: Mutex::default(), detached_tasks: TaskTracker::new(), settings, stopping }
    }

    /// Ends the streams of matching identities, active or detached, and returns their number.
    pub(in crate::endpoint::http) fn disconnect_identities(
        &self,
        is_ended: &dyn Fn(&Identity) -> bool,
        access_end: AccessEnd,
    ) -> usize {
        let ended: Vec<_> =
            self.lock().extract_if(|_, entry| is_ended(&entry.stream.binding.owner)).collect();
        for (_, entry) in &ended {
            entry.stream.abort(access_end.reason());
        }
        ended.len()
    }

    /// Waits for the tasks of detached streams, which end when the gateway stops.
    pub(in crate::endpoint::http) async fn drain(&self) {
        self.detached_tasks.close();
        self.detached_tasks.wait().await;
    }

    /// Creates a stream; `None` if the random number generator fails.
    pub(super) fn create(
        &self,
        binding: StreamBinding,
        values: Subscription,
        first: Option<StreamItem>,
    ) -> Option<StreamReader> {
        // A random id cannot be guessed.
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let id: Box<str> = HEXLOWER.encode(&random).into();
        let replay_buffer =
            ReplayBuffer::new(self.settings.http.replay_events, self.settings.http.replay_bytes);
        let active_stream = ActiveStream::new(id.clone(), binding, replay_buffer, values, first);
        let (reader, _) = active_stream.reader_after(0)?;
        self.lock().insert(id, StreamEntry { stream: active_stream, detached_at: None });
        Some(reader)
    }

    /// Resumes a stream after the given event, if caller, operation and response form match.
    pub(super) fn resume(&self, id: &str, number: u64, binding: &StreamBinding) -> ResumeOutcome {
        let mut streams = self.lock();
        let entry = streams.get_mut(id).filter(|entry| entry.stream.binding.matches(binding));
        let Some(entry) = entry else { return ResumeOutcome::Unknown };
        match entry.stream.reader_after(number) {
            Some((reader, lost)) => {
                entry.detached_at = None;
                ResumeOutcome::Resumed(reader, lost)
            }
            None => ResumeOutcome::Complete,
        }
    }

    /// Detaches a stream whose client has disconnected. It can be resumed within the resume window.
    pub(super) fn detach(self: &Arc<Self>, reader: StreamReader) {
        let (Ok(runtime), false) = (Handle::try_current(), self.stopping.is_cancelled()) else {
            return self.close(&reader);
        };
        if self.settings.http.resume_window.is_zero() {
            return self.close(&reader);
        }
        let Some(evicted) = self.mark_detached(&reader) else { return };
        for stream in evicted {
            stream.close();
        }
        let streams = Arc::clone(self);
        self.detached_tasks.spawn_on(streams.read_detached(reader), &runtime);
    }

    /// Marks a stream as detached and evicts others. `None` if another reader took over.
    fn mark_detached(&self, reader: &StreamReader) -> Option<Vec<Arc<ActiveStream>>> {
        let mut streams = self.lock();
        let mut evicted = Vec::new();
        let owner = &reader.stream.binding.owner;
        for (max, per_caller) in [
            (self.settings.http.max_detached_streams_per_caller, true),
            (self.settings.http.max_detached_streams, false),
        ] {
            let is_counted =
                |entry: &StreamEntry| !per_caller || entry.stream.binding.owner.is_same(owner);
            while let Some(id) = oldest_detached(&streams, max, is_counted) {
                evicted.extend(streams.remove(&id).map(|entry| entry.stream));
            }
        }
        let entry = streams.get_mut(&reader.stream.id)?;
        if !reader.is_current() {
            return None;
        }
        entry.detached_at = Some(Instant::now());
        Some(evicted)
    }

    /// Reads a detached stream until the client resumes it or the resume window ends.
    async fn read_detached(self: Arc<Self>, mut reader: StreamReader) {
        let superseded = reader.superseded.clone();
        let reading = async {
            loop {
                match reader.next().await {
                    NextEvent::Event(_) if reader.fit_in_buffer => tokio::task::yield_now().await,
                    NextEvent::Event(_) => tokio::time::sleep(OVERFLOW_PAUSE).await,
                    // The buffered events are kept until the resume window ends.
                    NextEvent::Ended => std::future::pending().await,
                    NextEvent::Superseded => return,
                }
            }
        };
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => {}
            () = superseded.cancelled() => return,
            () = tokio::time::sleep(self.settings.http.resume_window) => {}
            () = reading => return,
        }
        self.close(&reader);
    }

    /// Ends a stream, unless another reader has taken over.
    pub(super) fn close(&self, reader: &StreamReader) {
        let mut streams = self.lock();
        if reader.is_current() {
            streams.remove(&reader.stream.id);
            drop(streams);
            reader.stream.close();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, StreamEntry>> {
        self.streams.lock()
    }
}

/// Returns the longest detached stream of those counted, if there are at least `max`.
fn oldest_detached(
    streams: &HashMap<Box<str>, StreamEntry>,
    max: usize,
    is_counted: impl Fn(&StreamEntry) -> bool,
) -> Option<Box<str>> {
    let detached =
        streams.iter().filter(|(_, entry)| is_counted(entry) && entry.detached_at.is_some());
    if detached.clone().count() < max {
        return None;
    }
    detached.min_by_key(|(_, entry)| entry.detached_at).map(|(id, _)| id.clone())
}

toolpost::debug_fields!(entry: StreamEntry, detached_at = entry.detached_at);
