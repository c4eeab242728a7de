//! limits: checks the concurrency limits of the endpoint and the source.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::hooks::{CallView, HookResult};
use super::state::CallState;
use crate::error::{CallError, ErrorCode, Limit};

/// Admission control beyond the limits of [`PipelineSettings`](super::PipelineSettings).
pub trait Limits: Send + Sync + 'static {
    /// Admits a call until the permit is dropped, or rejects it with `OVERLOADED`. Runs before the
    /// access check, so implementations should not wait here.
    fn admit(&self, call: &CallView<'_>) -> HookResult<Permit>;

    /// Acquires a permit of the source just before the handler runs: grants it, waits for one, or
    /// rejects the call. A nested call whose ancestor holds a permit must not wait, because that
    /// can deadlock.
    fn acquire_source(&self, call: &CallView<'_>) -> HookResult<Permit> {
        let _ = call;
        HookResult::Ready(Ok(Permit::default()))
    }

    /// Reports how the source responded, and how long after dispatch. For a stream, called for its
    /// first value (or its end, if it has no values) and for an error that ends it.
    fn record_result(&self, call: &CallView<'_>, signal: SourceSignal, took: Duration) {
        let _ = (call, signal, took);
    }
}

/// What the result of a call indicates about the health of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceSignal {
    /// The source responded, possibly with an error.
    Alive,
    /// The connection to the source was lost.
    Disconnected,
    /// The source did not respond in time.
    TimedOut,
    /// No indication: nothing was sent, the call was canceled, or the error is from a nested call.
    Unknown,
}

impl SourceSignal {
    fn from_result<T>(result: &Result<T, CallError>) -> Self {
        let Err(error) = result else { return Self::Alive };
        match error.code() {
            _ if error.was_not_sent() || error.is_nested() => Self::Unknown,
            ErrorCode::Unavailable => Self::Disconnected,
            ErrorCode::Timeout => Self::TimedOut,
            ErrorCode::Aborted => Self::Unknown,
            _ => Self::Alive,
        }
    }
}

/// Permission for one call to run, released on drop.
#[derive(Default)]
pub struct Permit {
    semaphore_permit: Option<OwnedSemaphorePermit>,
    _guard: Option<Box<dyn Send>>,
}

impl Permit {
    /// Creates a permit from a guard whose drop releases the capacity.
    pub fn new(guard: impl Send + 'static) -> Self {
        Self { semaphore_permit: None, _guard: Some(Box::new(guard)) }
    }

    /// Adds a guard, which is dropped with the permit.
    #[must_use]
    pub fn with_guard(mut self, guard: impl Send + 'static) -> Self {
        self._guard = Some(match self._guard.take() {
            Some(before) => Box::new((before, guard)),
            None => Box::new(guard),
        });
        self
    }

    /// Whether the permit holds a semaphore permit.
    fn is_held(&self) -> bool {
        self.semaphore_permit.is_some()
    }
}

/// Wraps a semaphore permit without an allocation.
impl From<OwnedSemaphorePermit> for Permit {
    fn from(permit: OwnedSemaphorePermit) -> Self {
        Self { semaphore_permit: Some(permit), _guard: None }
    }
}

debug_fields!(permit: Permit, is_held = permit.is_held());

/// The permits that a call holds from admission until it ends.
pub(super) struct Admission {
    _permit: Permit,
    _inflight: InflightGuard,
}

pub(super) async fn admit(call: &CallState) -> Result<Admission, CallError> {
    let settings = &call.shared.settings;
    if call.context.depth() > settings.max_nesting {
        return Err(CallError::overloaded(format!(
            "calls are nested deeper than {} levels; check whether the operation calls itself",
            settings.max_nesting
        ))
        .with_limit(Limit::Nesting));
    }
    let inflight_guard = call.shared.concurrency.acquire(call.context.depth())?;
    let permit = match &call.shared.limits {
        Some(limits) => {
            let hook_result = limits.admit(&call.view());
            call.await_hook(hook_result).await?
        }
        None => Permit::default(),
    };
    Ok(Admission { _permit: permit, _inflight: inflight_guard })
}

/// Acquires the source permit. This is the last step before dispatch, so a call that holds a permit
/// waits for nothing else.
pub(super) async fn acquire_source(call: &CallState) -> Result<Permit, CallError> {
    let Some(limits) = &call.shared.limits else { return Ok(Permit::default()) };
    let hook_result = limits.acquire_source(&call.view());
    let permit = call.await_hook(hook_result).await?;
    if permit.is_held() {
        call.context.mark_source_permit_held();
    }
    Ok(permit)
}

/// Reports the result of the source to the limits.
pub(super) fn record_result<T>(call: &CallState, result: &Result<T, CallError>) {
    let (Some(limits), Some(since)) = (&call.shared.limits, call.dispatched_at) else { return };
    limits.record_result(&call.view(), SourceSignal::from_result(result), Instant::now() - since);
}

/// Limits the number of calls in flight. Calls over the limit are rejected, not queued. Nested
/// calls are counted but never rejected, because they belong to an admitted call.
pub(super) struct ConcurrencyLimit {
    in_flight: Arc<AtomicUsize>,
    /// The number of nested calls among those in flight.
    nested: Arc<AtomicUsize>,
    max: usize,
}

struct InflightGuard {
    in_flight: Arc<AtomicUsize>,
    nested: Option<Arc<AtomicUsize>>,
}

impl ConcurrencyLimit {
    pub(super) fn new(max: usize) -> Self {
        Self { in_flight: Arc::default(), nested: Arc::default(), max }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    fn acquire(&self, depth: u32) -> Result<InflightGuard, CallError> {
        let is_nested = depth > 0;
        if is_nested {
            self.nested.fetch_add(1, Ordering::Relaxed);
        }
        let nested = is_nested.then(|| Arc::clone(&self.nested));
        let guard = InflightGuard { in_flight: Arc::clone(&self.in_flight), nested };
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        if is_nested || before.saturating_sub(self.nested.load(Ordering::Relaxed)) < self.max {
            return Ok(guard);
        }
        let message = format!("call limit reached: {} in flight", self.max);
        Err(CallError::overloaded(message)
            .with_limit(Limit::Calls)
            .with_retry_after(DEFAULT_RETRY_AFTER))
    }
}

/// The retry delay if no better estimate is known.
pub(super) const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

impl Drop for InflightGuard {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Some(nested) = &self.nested {
            nested.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
