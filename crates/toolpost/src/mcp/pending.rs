//! Requests that wait for their answers, and what is heard about them meanwhile.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::ask::{Ask, Patience, after};
use super::failure::Failure;
use crate::handler::{LogLine, Progress, ProgressSender, Respondent};

/// How many questions of a server about one request are open at once.
const MOST_QUESTIONS: usize = 16;

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

impl Waiting {
    fn only_errand(&self) -> Option<u64> {
        let mut errands = self.calls.iter().filter(|(_, entry)| entry.is_errand);
        errands.next().filter(|_| errands.next().is_none()).map(|(id, _)| *id)
    }
}

#[derive(Debug)]
struct Entry {
    answer: oneshot::Sender<Answer>,
    progress: ProgressSender,
    heard: Arc<Heard>,
    /// Whether it is made for somebody who called.
    is_errand: bool,
    /// Who can be asked about it.
    respondent: Option<Respondent>,
    /// What is being asked; it ends with the request.
    questions: Vec<AbortOnDropHandle<()>>,
}

/// Whom a question of a server is for.
#[derive(Debug)]
pub(super) struct Asked {
    /// The request that it is about.
    pub(super) id: u64,
    pub(super) respondent: Respondent,
    heard: Arc<Heard>,
}

impl Asked {
    /// While a question is open, the server is not the one who is silent.
    pub(super) async fn waiting<F: Future>(self, answering: F) -> F::Output {
        self.heard.questions.fetch_add(1, Ordering::Relaxed);
        let _closed = Closed(self.heard);
        answering.await
    }
}

/// Takes note that a question is not open any more.
struct Closed(Arc<Heard>);

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.now();
        self.0.questions.fetch_sub(1, Ordering::Relaxed);
    }
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
    /// How many questions of the server are open.
    questions: AtomicU64,
}

impl Heard {
    fn now(&self) {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(elapsed, Ordering::Relaxed);
    }

    /// The moment at which the silence becomes longer than `patience`.
    fn patience_ends(&self, patience: Duration) -> Instant {
        let last = match self.questions.load(Ordering::Relaxed) {
            0 => self.start + Duration::from_millis(self.last_ms.load(Ordering::Relaxed)),
            _ => Instant::now(),
        };
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
    pub(super) fn open(&self, ask: &Ask<'_>) -> Result<Ticket<'_>, Failure> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        let heard = Arc::new(Heard {
            start: Instant::now(),
            last_ms: AtomicU64::new(0),
            questions: AtomicU64::new(0),
        });
        let mut waiting = self.lock();
        if let Some(failure) = &waiting.closed {
            return Err(Failure::unreachable(failure.to_string()));
        }
        let entry = Entry {
            answer: sender,
            progress: ask.progress.clone().unwrap_or_default(),
            heard: Arc::clone(&heard),
            is_errand: ask.is_errand(),
            respondent: ask.respondent.cloned(),
            questions: Vec::new(),
        };
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

    /// Who is behind the request that a question of the server is about. One that came without a
    /// request is about the only one that is made for somebody; if there are several, it could be
    /// about any of them, and nobody is asked what another's call needs.
    ///
    /// # Errors
    ///
    /// Too much is asked about that request already.
    pub(super) fn asked(&self, about: Option<u64>) -> Result<Option<Asked>, String> {
        let mut waiting = self.lock();
        let id = about.or_else(|| waiting.only_errand());
        let entry = id.and_then(|id| waiting.calls.get_mut(&id));
        let Some((id, entry)) = id.zip(entry) else { return Ok(None) };
        entry.questions.retain(|question| !question.is_finished());
        if entry.questions.len() >= MOST_QUESTIONS {
            return Err(format!("{MOST_QUESTIONS} questions are open already"));
        }
        let heard = Arc::clone(&entry.heard);
        Ok(entry.respondent.clone().map(|respondent| Asked { id, respondent, heard }))
    }

    /// Runs what asks somebody about a request, for as long as the request waits.
    pub(super) fn run(&self, id: u64, asking: impl Future<Output = ()> + Send + 'static) {
        if let Some(entry) = self.lock().calls.get_mut(&id) {
            entry.questions.push(AbortOnDropHandle::new(tokio::spawn(asking)));
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

    fn ask(progress: ProgressSender) -> Ask<'static> {
        let mut ask = Ask::new("tools/call", &[], Patience::of(Duration::ZERO));
        ask.progress = Some(progress);
        ask
    }

    #[tokio::test]
    async fn an_answer_reaches_the_one_who_waits_and_only_once() {
        let pending = Pending::default();
        let ticket = pending.open(&ask(ProgressSender::default())).unwrap();
        let other = pending.open(&ask(ProgressSender::default())).unwrap();
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
        let mut ticket = pending.open(&ask(ProgressSender::default())).unwrap();
        pending.close(&Failure::lost("gone"));
        assert!(matches!((&mut ticket.answer).await, Ok(Err(Failure::Lost { sent: true, .. }))));
        let late = pending.open(&ask(ProgressSender::default()));
        assert!(matches!(late, Err(Failure::Lost { sent: false, .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_prolongs_up_to_a_hard_end() {
        let pending = Pending::default();
        let (sender, mut reports) = tokio::sync::mpsc::channel(8);
        let ticket = pending.open(&ask(ProgressSender::new(sender))).unwrap();
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

    #[tokio::test(start_paused = true)]
    async fn while_a_question_is_open_the_server_is_not_the_silent_one() {
        let pending = Pending::default();
        let somebody = Respondent::Returning(Arc::default());
        let mut asking = ask(ProgressSender::default());
        asking.respondent = Some(&somebody);
        let ticket = pending.open(&asking).unwrap();
        let heard = Arc::clone(&ticket.heard);
        let patience = Patience::new(Duration::from_secs(10), Duration::from_secs(100));
        let waiting = tokio::spawn(async move { heard.too_long(patience).await.to_string() });
        let asked = pending.asked(None).unwrap().unwrap();
        asked.waiting(tokio::time::sleep(Duration::from_secs(50))).await;
        assert!(!waiting.is_finished());
        assert!(waiting.await.unwrap().contains("no sign of progress"));
        assert!(ticket.heard.start.elapsed() < Duration::from_secs(80));

        // So much is asked at once, and no more; and nothing where it could be about another.
        for _ in 0..MOST_QUESTIONS {
            assert!(pending.asked(Some(ticket.id)).unwrap().is_some());
            pending.run(ticket.id, std::future::pending());
        }
        assert!(pending.asked(Some(ticket.id)).unwrap_err().contains("open already"));
        let other = pending.open(&asking).unwrap();
        assert!(pending.asked(None).unwrap().is_none());
        assert_eq!(pending.asked(Some(other.id)).unwrap().unwrap().id, other.id);
    }
}
