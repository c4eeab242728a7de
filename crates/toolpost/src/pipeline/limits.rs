//! limits: whether there is room for one more call, at the endpoint and at its source.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::hooks::{CallView, HookResult};
use super::state::CallState;
use crate::error::{CallError, ErrorCode};

/// Decides how much is too much, beyond what [`PipelineSettings`](super::PipelineSettings) bound.
pub trait Limits: Send + Sync + 'static {
    /// Before anything else is looked at: lets the call in until the permit is dropped, or refuses it
    /// with `OVERLOADED`. Whoever may not call is refused after this, so nobody should wait here.
    fn admit(&self, call: &CallView<'_>) -> HookResult<Permit>;

    /// Just before the handler runs: gives the call a place at its source, lets it wait for one, or
    /// refuses it. A call inside another one that holds a place must not wait: the two would wait for
    /// each other.
    fn acquire_source(&self, call: &CallView<'_>) -> HookResult<Permit> {
        let _ = call;
        HookResult::Ready(Ok(Permit::default()))
    }

    /// How the source did, after so much time. Of a stream, its first value or its end.
    fn record_result(&self, call: &CallView<'_>, signal: SourceSignal, took: Duration) {
        let _ = (call, signal, took);
    }
}

/// What the end of a call says about the source that it was sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceSignal {
    /// It is there: it answered, if only with an error of its own.
    Alive,
    /// It was lost over the call.
    Disconnected,
    /// It did not answer in the time that there was.
    TimedOut,
    /// Nothing was sent, or nobody waited.
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

/// Room for one call, given back when it is dropped.
#[derive(Default)]
pub struct Permit {
    semaphore_permit: Option<OwnedSemaphorePermit>,
    _guard: Option<Box<dyn Send>>,
}

impl Permit {
    /// Holds anything whose drop gives the room back.
    pub fn new(guard: impl Send + 'static) -> Self {
        Self { semaphore_permit: None, _guard: Some(Box::new(guard)) }
    }

    /// Whether something is held.
    fn is_held(&self) -> bool {
        self.semaphore_permit.is_some()
    }
}

/// One of a counted number of places, which costs no allocation.
impl From<OwnedSemaphorePermit> for Permit {
    fn from(permit: OwnedSemaphorePermit) -> Self {
        Self { semaphore_permit: Some(permit), _guard: None }
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit")
            .field("semaphore_permit", &self.semaphore_permit.is_some())
            .finish_non_exhaustive()
    }
}

/// Everything that a call holds while it is let in.
pub(super) struct Admission {
    _permit: Permit,
    _inflight: InflightGuard,
}

pub(super) async fn admit(call: &CallState) -> Result<Admission, CallError> {
    let settings = &call.shared.settings;
    if call.context.depth() > settings.max_nesting {
        return Err(CallError::overloaded(format!(
            "calls are nested deeper than {}; is this operation calling itself?",
            settings.max_nesting
        ))
        .with_limit("nesting"));
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

/// A place at the source, just before dispatch: nobody holds one who still waits for something else.
pub(super) async fn acquire_source(call: &CallState) -> Result<Permit, CallError> {
    let Some(limits) = &call.shared.limits else { return Ok(Permit::default()) };
    let hook_result = limits.acquire_source(&call.view());
    let permit = call.await_hook(hook_result).await?;
    if permit.is_held() {
        call.context.mark_source_permit_held();
    }
    Ok(permit)
}

/// Tells how the source did.
pub(super) fn record_result<T>(call: &CallState, result: &Result<T, CallError>) {
    let (Some(limits), Some(since)) = (&call.shared.limits, call.dispatched_at) else { return };
    limits.record_result(&call.view(), SourceSignal::from_result(result), Instant::now() - since);
}

/// Counts the calls in flight. It refuses and never queues. What is called from inside a call is
/// counted and not refused: it belongs to a call that was let in.
pub(super) struct ConcurrencyLimit {
    in_flight: Arc<AtomicUsize>,
    /// Those of them that are inside others.
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
        let message = format!("{} calls are in flight, which is the limit", self.max);
        Err(CallError::overloaded(message)
            .with_limit("calls")
            .with_retry_after(DEFAULT_RETRY_AFTER))
    }
}

/// When to come again where nobody can know it.
pub(super) const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

impl Drop for InflightGuard {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Some(nested) = &self.nested {
            nested.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
