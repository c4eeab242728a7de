//! limits: whether there is room for one more call, at the door and at its source.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::seam::{CallView, Step};
use super::state::CallState;
use crate::error::{CallError, ErrorCode};

/// Decides how much is too much, beyond what [`Settings`](super::Settings) bound.
pub trait Limits: Send + Sync + 'static {
    /// Before anything else is looked at: lets the call in until the permit is dropped, or refuses it
    /// with `OVERLOADED`. Whoever may not call is refused after this, so nobody should wait here.
    fn admit(&self, call: &CallView<'_>) -> Step<Permit>;

    /// Just before the handler runs: gives the call a place at its source, lets it wait for one, or
    /// refuses it. A call inside another one that holds a place must not wait: the two would wait for
    /// each other.
    fn place(&self, call: &CallView<'_>) -> Step<Permit> {
        let _ = call;
        Step::Now(Ok(Permit::default()))
    }

    /// How the source did, after so much time. Of a stream, its first value or its end.
    fn ended(&self, call: &CallView<'_>, health: Health, took: Duration) {
        let _ = (call, health, took);
    }
}

/// What the end of a call says about the source that it was sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// It is there: it answered, if only with an error of its own.
    Present,
    /// It was lost over the call.
    Lost,
    /// It did not answer in the time that there was.
    Late,
    /// Nothing was sent, or nobody waited.
    Unknown,
}

impl Health {
    fn of<T>(result: &Result<T, CallError>) -> Self {
        let Err(error) = result else { return Self::Present };
        match error.code() {
            _ if error.is_before_sending() || error.is_crossed() => Self::Unknown,
            ErrorCode::Unavailable => Self::Lost,
            ErrorCode::Timeout => Self::Late,
            ErrorCode::Aborted => Self::Unknown,
            _ => Self::Present,
        }
    }
}

/// Room for one call, given back when it is dropped.
#[derive(Default)]
pub struct Permit {
    place: Option<OwnedSemaphorePermit>,
    _other: Option<Box<dyn Send>>,
}

impl Permit {
    /// Holds anything whose drop gives the room back.
    pub fn holding(guard: impl Send + 'static) -> Self {
        Self { place: None, _other: Some(Box::new(guard)) }
    }

    /// Whether something is held.
    fn holds_place(&self) -> bool {
        self.place.is_some()
    }
}

/// One of a counted number of places, which costs no allocation.
impl From<OwnedSemaphorePermit> for Permit {
    fn from(place: OwnedSemaphorePermit) -> Self {
        Self { place: Some(place), _other: None }
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit").field("place", &self.place.is_some()).finish_non_exhaustive()
    }
}

/// Everything that a call holds while it is let in.
pub(super) struct Admission {
    _permit: Permit,
    _place: Place,
}

pub(super) async fn admit(call: &CallState) -> Result<Admission, CallError> {
    let settings = &call.shared.settings;
    if call.context.depth() > settings.nesting {
        return Err(CallError::overloaded(format!(
            "calls are nested deeper than {}; is this operation calling itself?",
            settings.nesting
        ))
        .with_limit("nesting"));
    }
    let place = call.shared.concurrency.enter(call.context.depth())?;
    let permit = match &call.shared.limits {
        Some(limits) => {
            let step = limits.admit(&call.view());
            call.wait_for(step).await?
        }
        None => Permit::default(),
    };
    Ok(Admission { _permit: permit, _place: place })
}

/// A place at the source, just before dispatch: nobody holds one who still waits for something else.
pub(super) async fn place(call: &CallState) -> Result<Permit, CallError> {
    let Some(limits) = &call.shared.limits else { return Ok(Permit::default()) };
    let step = limits.place(&call.view());
    let permit = call.wait_for(step).await?;
    if permit.holds_place() {
        call.context.take_place();
    }
    Ok(permit)
}

/// Tells how the source did.
pub(super) fn note<T>(call: &CallState, result: &Result<T, CallError>) {
    let (Some(limits), Some(since)) = (&call.shared.limits, call.dispatched_at) else { return };
    limits.ended(&call.view(), Health::of(result), Instant::now() - since);
}

/// Counts the calls in flight. It refuses and never queues. What is called from inside a call is
/// counted and not refused: it belongs to a call that was let in.
pub(super) struct Concurrency {
    in_flight: Arc<AtomicUsize>,
    /// Those of them that are inside others.
    nested: Arc<AtomicUsize>,
    most: usize,
}

struct Place {
    in_flight: Arc<AtomicUsize>,
    nested: Option<Arc<AtomicUsize>>,
}

impl Concurrency {
    pub(super) fn new(most: usize) -> Self {
        Self { in_flight: Arc::default(), nested: Arc::default(), most }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    fn enter(&self, depth: u32) -> Result<Place, CallError> {
        let is_nested = depth > 0;
        if is_nested {
            self.nested.fetch_add(1, Ordering::Relaxed);
        }
        let nested = is_nested.then(|| Arc::clone(&self.nested));
        let place = Place { in_flight: Arc::clone(&self.in_flight), nested };
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        if is_nested || before.saturating_sub(self.nested.load(Ordering::Relaxed)) < self.most {
            return Ok(place);
        }
        let message = format!("{} calls are in flight, which is the limit", self.most);
        Err(CallError::overloaded(message).with_limit("calls").with_retry_after(SOON))
    }
}

/// When to come again where nobody can know it.
pub(super) const SOON: Duration = Duration::from_secs(1);

impl Drop for Place {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Some(nested) = &self.nested {
            nested.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
