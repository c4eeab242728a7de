//! Requests that wait for their answers, and what is heard about them meanwhile.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ask::{Patience, after};
use super::failure::Failure;
use crate::handler::{LogLine, Progress, ProgressSender};

pub(super) type Answer = Result<Box<RawValue>, Failure>;

/// The requests that wait.
#[derive(Debug, Default)]
pub(super) struct Pending {
    last_id: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    calls: HashMap<u64, Entry>,
    /// Why nothing can wait any more.
    closed: Option<Failure>,
}

#[derive(Debug)]
struct Entry {
    answer: oneshot::Sender<Answer>,
    progress: ProgressSender,
    heard: Arc<Heard>,
}

/// One request that waits. Dropping it forgets the request.
#[derive(Debug)]
pub(super) struct Ticket<'a> {
    pub(super) id: u64,
    pub(super) answer: oneshot::Receiver<Answer>,
    pub(super) heard: Arc<Heard>,
    pending: &'a Pending,
}

/// When something was last heard about a request.
#[derive(Debug)]
pub(super) struct Heard {
    start: Instant,
    last_ms: AtomicU64,
}

impl Heard {
    fn now(&self) {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(elapsed, Ordering::Relaxed);
    }

    /// The moment at which the silence becomes longer than `patience`.
    fn patience_ends(&self, patience: Duration) -> Instant {
        let last = self.start + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        after(last, patience)
    }

    /// Waits until nothing was heard for a while, or until the end of all patience, and says which.
    pub(super) async fn too_long(&self, patience: Patience) -> Failure {
        let Patience { silence, until: end } = patience;
        loop {
            let next = self.patience_ends(silence).min(end);
            if next <= Instant::now() {
                break;
            }
            tokio::time::sleep_until(next).await;
        }
        Failure::TimedOut(if Instant::now() >= end {
            let allowed = end.saturating_duration_since(self.start);
            let tenths = (allowed.as_secs_f64() * 10.0).round();
            let waited = Duration::from_secs_f64(tenths / 10.0);
            format!("no answer within {waited:?}, which is the most that is allowed")
        } else {
            format!(
                "no answer and no sign of progress for {silence:?}, the `timeout` of the source"
            )
        })
    }
}

impl Pending {
    /// A request with a new id.
    pub(super) fn open(&self, progress: ProgressSender) -> Result<Ticket<'_>, Failure> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        let heard = Arc::new(Heard { start: Instant::now(), last_ms: AtomicU64::new(0) });
        let mut waiting = self.lock();
        if let Some(failure) = &waiting.closed {
            return Err(Failure::unreachable(failure.to_string()));
        }
        let entry = Entry { answer: sender, progress, heard: Arc::clone(&heard) };
        waiting.calls.insert(id, entry);
        Ok(Ticket { id, answer, heard, pending: self })
    }

    /// Whoever waits under this id gets the answer; whether somebody did.
    pub(super) fn answer(&self, id: u64, answer: Answer) -> bool {
        let entry = self.lock().calls.remove(&id);
        entry.is_some_and(|entry| entry.answer.send(answer).is_ok())
    }

    /// Whether somebody still waits under this id.
    pub(super) fn is_waiting(&self, id: u64) -> bool {
        self.lock().calls.contains_key(&id)
    }

    /// A `notifications/progress`.
    pub(super) fn progress(&self, params: &RawValue) {
        let Ok(report) = serde_json::from_str::<Report>(params.get()) else { return };
        let Some(id) = report.id() else { return };
        // The watcher is called outside the lock.
        let told = self.lock().calls.get(&id).map(|entry| {
            entry.heard.now();
            entry.progress.clone()
        });
        if let Some(told) = told {
            let Report { progress, total, message, .. } = report;
            let mut progress = Progress::new(progress);
            (progress.total, progress.message) = (total, message);
            told.send(progress);
        }
    }

    /// A line for the log of whoever waits under this id.
    pub(super) fn log(&self, id: u64, line: LogLine) {
        let told = self.lock().calls.get(&id).map(|entry| entry.progress.clone());
        if let Some(told) = told {
            told.log(line);
        }
    }

    /// Everybody who waits gets the same failure, and nobody can wait any more.
    pub(super) fn close(&self, failure: &Failure) {
        let calls = {
            let mut waiting = self.lock();
            waiting.closed.get_or_insert_with(|| failure.clone());
            std::mem::take(&mut waiting.calls)
        };
        for entry in calls.into_values() {
            let _ = entry.answer.send(Err(failure.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.pending.lock().calls.remove(&self.id);
    }
}

#[derive(Deserialize)]
struct Report {
    #[serde(rename = "progressToken")]
    token: serde_json::Value,
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

impl Report {
    fn id(&self) -> Option<u64> {
        self.token.as_u64().or_else(|| self.token.as_str()?.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[tokio::test]
    async fn an_answer_reaches_the_one_who_waits_and_only_once() {
        let pending = Pending::default();
        let ticket = pending.open(ProgressSender::default()).unwrap();
        let other = pending.open(ProgressSender::default()).unwrap();
        assert_ne!(ticket.id, other.id);
        assert!(pending.answer(ticket.id, Ok(raw("1"))));
        assert!(!pending.answer(ticket.id, Ok(raw("2"))));
        assert!(!pending.answer(99, Ok(raw("3"))));
        let mut ticket = ticket;
        assert_eq!((&mut ticket.answer).await.unwrap().unwrap().get(), "1");
        let gone = other.id;
        drop(other);
        assert!(!pending.answer(gone, Ok(raw("4"))));
    }

    #[tokio::test]
    async fn the_end_reaches_everybody() {
        let pending = Pending::default();
        let mut ticket = pending.open(ProgressSender::default()).unwrap();
        pending.close(&Failure::lost("gone"));
        assert!(matches!((&mut ticket.answer).await, Ok(Err(Failure::Lost { sent: true, .. }))));
        let late = pending.open(ProgressSender::default());
        assert!(matches!(late, Err(Failure::Lost { sent: false, .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_prolongs_up_to_a_hard_end() {
        let pending = Pending::default();
        let (sender, mut reports) = tokio::sync::mpsc::channel(8);
        let ticket = pending.open(ProgressSender::new(sender)).unwrap();
        let (silence, most) = (Duration::from_secs(10), Duration::from_secs(25));
        let heard = Arc::clone(&ticket.heard);
        let patience = Patience::new(silence, most);
        let waiting = tokio::spawn(async move { heard.too_long(patience).await.to_string() });
        for second in [6, 6, 6] {
            tokio::time::sleep(Duration::from_secs(second)).await;
            assert!(!waiting.is_finished());
            let text = format!(r#"{{"progressToken":{},"progress":1,"total":2}}"#, ticket.id);
            pending.progress(&raw(&text));
        }
        assert_eq!(reports.recv().await, Some(Progress::new(1.0).of(2.0)));
        assert!(waiting.await.unwrap().contains("the most that is allowed"));
        assert_eq!(ticket.heard.start.elapsed(), most);
        for odd in ["{}", "1", r#"{"progressToken":[],"progress":1}"#, r#"{"progressToken":1}"#] {
            pending.progress(&raw(odd));
        }
    }
}
