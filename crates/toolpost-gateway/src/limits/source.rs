//! The limits of one source: permits, queue and circuit breaker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use toolpost::{BreakerState, CallError, CallView, HookResult, Limit, Permit, SourceSignal};

use super::circuit_breaker::Breaker;
use super::resizable_semaphore::ResizableSemaphore;
use super::settings::SourceLimits;
use super::{DEFAULT_RETRY_AFTER, limit_error};

/// Enforces the limits of one source.
#[derive(Debug)]
pub(crate) struct SourceLimiter {
    name: Box<str>,
    settings: SourceLimits,
    semaphore: Arc<ResizableSemaphore>,
    queue_len: Arc<AtomicUsize>,
    breaker: Option<Arc<Breaker>>,
}

impl SourceLimiter {
    pub(super) fn new(name: &str, settings: SourceLimits) -> Self {
        let semaphore = ResizableSemaphore::new(settings.concurrency);
        let breaker = settings.breaker.map(|limits| Arc::new(Breaker::new(limits)));
        Self { name: name.into(), settings, semaphore, queue_len: Arc::default(), breaker }
    }

    /// Returns a limiter with the new settings, or `None` if they are the same. Running and queued
    /// calls stay counted. The breaker keeps its state if its settings are the same.
    pub(super) fn with_settings(&self, settings: &SourceLimits) -> Option<Self> {
        if self.settings == *settings {
            return None;
        }
        self.semaphore.resize(settings.concurrency);
        let breaker = match self.settings.breaker == settings.breaker {
            true => self.breaker.clone(),
            false => settings.breaker.map(|limits| Arc::new(Breaker::new(limits))),
        };
        Some(Self {
            name: self.name.clone(),
            settings: settings.clone(),
            semaphore: Arc::clone(&self.semaphore),
            queue_len: Arc::clone(&self.queue_len),
            breaker,
        })
    }

    /// Returns the number of queued calls.
    pub(crate) fn queued(&self) -> usize {
        self.queue_len.load(Ordering::Relaxed)
    }

    /// Returns the state of the circuit breaker; closed if the source has none.
    pub(crate) fn breaker_state(&self) -> BreakerState {
        self.breaker.as_ref().map_or(BreakerState::Closed, |breaker| breaker.state())
    }

    pub(super) fn record(&self, signal: SourceSignal, took: Duration) {
        let Some(breaker) = &self.breaker else { return };
        match breaker.record(signal, took, Instant::now) {
            Some(BreakerState::Open) => {
                tracing::warn!(source = &*self.name, "circuit breaker opened");
            }
            Some(_) => tracing::info!(source = &*self.name, "circuit breaker closed"),
            None => {}
        }
    }

    /// Returns a permit immediately or after a bounded wait. A nested call shares the permit that
    /// an ancestor holds for this source. A nested call whose ancestor holds a permit of another
    /// source does not wait, since the two could deadlock.
    pub(super) fn acquire(self: &Arc<Self>, call: &CallView<'_>) -> HookResult<Permit> {
        // Checked first, so that no call queues for a source whose circuit breaker is open.
        if let Some(retry_after) =
            self.breaker.as_ref().and_then(|breaker| breaker.retry_after(Instant::now))
        {
            return HookResult::Ready(Err(self.breaker_open_error(retry_after)));
        }
        if call.depth() > 0 && call.ancestor_holds_permit_of(&self.name) {
            return HookResult::Ready(Ok(Permit::default()));
        }
        if let Some(permit) = self.semaphore.try_acquire() {
            return HookResult::Ready(self.admit(permit));
        }
        let SourceLimits { concurrency, queue, .. } = self.settings;
        let name = &self.name;
        let rejection = if call.depth() > 0 && call.ancestor_holds_source_permit() {
            let message = format!(
                "concurrency limit of `{name}` reached: {concurrency} running; nested calls are not \
                 queued"
            );
            limit_error(Limit::SourceCalls, message, DEFAULT_RETRY_AFTER)
        } else if let Some(slot) = QueueSlot::enter(&self.queue_len, queue) {
            return HookResult::Pending(Box::pin(Arc::clone(self).wait_for_permit(slot)));
        } else {
            let message =
                format!("queue limit of `{name}` reached: {concurrency} running, {queue} queued");
            limit_error(Limit::SourceQueue, message, DEFAULT_RETRY_AFTER)
        };
        HookResult::Ready(Err(rejection))
    }

    async fn wait_for_permit(self: Arc<Self>, slot: QueueSlot) -> Result<Permit, CallError> {
        let queue_wait = self.settings.queue_wait;
        let permit = tokio::time::timeout(queue_wait, self.semaphore.acquire()).await;
        drop(slot);
        if let Ok(Some(permit)) = permit {
            return self.admit(permit);
        }
        let seconds = queue_wait.as_secs_f64();
        let message =
            format!("the call was queued for `{}` for {seconds} s without starting", self.name);
        Err(limit_error(Limit::QueueWait, message, DEFAULT_RETRY_AFTER))
    }

    /// Checks the circuit breaker after a permit is acquired.
    fn admit(&self, permit: OwnedSemaphorePermit) -> Result<Permit, CallError> {
        match self.breaker.as_ref().map_or(Ok(()), |breaker| breaker.admit(Instant::now)) {
            Ok(()) => Ok(permit.into()),
            Err(retry_after) => Err(self.breaker_open_error(retry_after)),
        }
    }

    fn breaker_open_error(&self, retry_after: Duration) -> CallError {
        let message = format!("the circuit breaker of `{}` is open", self.name);
        let error = CallError::unavailable(message).not_sent().with_limit(Limit::Breaker);
        error.with_retry_after(retry_after)
    }
}

/// A queued call.
struct QueueSlot(Arc<AtomicUsize>);

impl QueueSlot {
    fn enter(waiting: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        let joined = Self(Arc::clone(waiting));
        (waiting.fetch_add(1, Ordering::Relaxed) < max).then_some(joined)
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
