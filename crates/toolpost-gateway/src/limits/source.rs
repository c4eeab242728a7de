//! The places at one source, who waits for them, and whether it is left alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use toolpost::{CallError, CallView, Health, Permit, Step};

use super::breaker::{Breaker, Turn};
use super::places::Places;
use super::settings::SourceLimits;
use super::{SOON, refused};

/// The way to one source.
#[derive(Debug)]
pub(crate) struct SourceGate {
    name: Box<str>,
    settings: SourceLimits,
    places: Arc<Places>,
    waiting: Arc<AtomicUsize>,
    breaker: Option<Arc<Breaker>>,
}

impl SourceGate {
    pub(super) fn new(name: &str, settings: SourceLimits) -> Self {
        let places = Places::new(settings.concurrency);
        let breaker = settings.breaker.map(|limits| Arc::new(Breaker::new(limits)));
        Self { name: name.into(), settings, places, waiting: Arc::default(), breaker }
    }

    /// The way to the same source with these numbers, if they are others: who runs and who waits there
    /// counts, and so does how the source did where its breaker is the same.
    pub(super) fn with(&self, settings: &SourceLimits) -> Option<Self> {
        if self.settings == *settings {
            return None;
        }
        self.places.resize(settings.concurrency);
        let breaker = match self.settings.breaker == settings.breaker {
            true => self.breaker.clone(),
            false => settings.breaker.map(|limits| Arc::new(Breaker::new(limits))),
        };
        let (name, settings) = (self.name.clone(), settings.clone());
        let (places, waiting) = (Arc::clone(&self.places), Arc::clone(&self.waiting));
        Some(Self { name, settings, places, waiting, breaker })
    }

    /// How many calls wait for a place.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether it is left alone for now.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.breaker.as_ref().is_some_and(|breaker| breaker.is_open())
    }

    pub(super) fn note(&self, health: Health, took: Duration) {
        let Some(breaker) = &self.breaker else { return };
        match breaker.note(health, took, Instant::now) {
            Some(Turn::Opened) => {
                let source = &*self.name;
                tracing::warn!(source, "the source failed again and again, and is left alone");
            }
            Some(Turn::Closed) => tracing::info!(source = &*self.name, "the source is back"),
            None => {}
        }
    }

    /// A place at once, or after a bounded wait. Whoever is inside of a call that has one here shares
    /// it, and whoever is inside of a call that has one elsewhere does not wait: the two might wait
    /// for each other.
    pub(super) fn place(&self, call: &CallView<'_>) -> Step<Permit> {
        // Looked at first, so that nobody queues for a source that is left alone.
        if let Some(wait) = self.breaker.as_ref().and_then(|it| it.closed_for(Instant::now)) {
            return Step::Now(Err(left_alone(&self.name, wait)));
        }
        if call.depth() > 0 && call.is_inside_place_of(&self.name) {
            return Step::Now(Ok(Permit::default()));
        }
        if let Some(place) = self.places.try_take() {
            return Step::Now(enter(&self.name, self.breaker.as_deref(), place));
        }
        let SourceLimits { concurrency, queue, .. } = self.settings;
        if call.depth() > 0 && call.is_inside_a_place() {
            let message = format!(
                "{concurrency} calls of `{}` are running, which is the limit, and a call inside \
                 another one does not wait",
                self.name
            );
            return Step::Now(Err(refused("source_calls", message, SOON)));
        }
        match Waiting::join(&self.waiting, queue) {
            Some(waiting) => Step::Later(Box::pin(self.wait(waiting))),
            None => Step::Now(Err(self.full())),
        }
    }

    fn full(&self) -> CallError {
        let SourceLimits { concurrency, queue, .. } = self.settings;
        let message = format!(
            "{concurrency} calls of `{}` are running and {queue} are waiting, which is the limit",
            self.name
        );
        refused("source_queue", message, SOON)
    }

    fn wait(
        &self,
        waiting: Waiting,
    ) -> impl Future<Output = Result<Permit, CallError>> + Send + 'static {
        let (name, patience) = (self.name.clone(), self.settings.queue_wait);
        let (places, breaker) = (Arc::clone(&self.places), self.breaker.clone());
        async move {
            let place = tokio::time::timeout(patience, places.take()).await;
            drop(waiting);
            match place {
                Ok(Some(place)) => enter(&name, breaker.as_deref(), place),
                _ => {
                    let message =
                        format!("no place at `{name}` was free for {} s", patience.as_secs_f64());
                    Err(refused("queue_wait", message, SOON))
                }
            }
        }
    }
}

/// The last question before a call goes out.
fn enter(
    name: &str,
    breaker: Option<&Breaker>,
    place: OwnedSemaphorePermit,
) -> Result<Permit, CallError> {
    match breaker.map_or(Ok(()), |breaker| breaker.admit(Instant::now)) {
        Ok(()) => Ok(place.into()),
        Err(wait) => Err(left_alone(name, wait)),
    }
}

fn left_alone(name: &str, wait: Duration) -> CallError {
    let message = format!("`{name}` failed again and again, and is left alone for a while");
    CallError::unavailable(message).before_sending().with_limit("breaker").with_retry_after(wait)
}

/// One who waits.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn join(waiting: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let joined = Self(Arc::clone(waiting));
        (waiting.fetch_add(1, Ordering::Relaxed) < most).then_some(joined)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
