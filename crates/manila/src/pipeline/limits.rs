//! limits: whether there is room for one more call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::seam::{CallView, Step};
use super::state::CallState;
use crate::error::CallError;

/// Decides how much is too much, beyond what [`Settings`](super::Settings) bound.
pub trait Limits: Send + Sync + 'static {
    /// Lets the call in until the permit is dropped, lets it wait, or refuses it with
    /// `OVERLOADED`.
    fn admit(&self, call: &CallView<'_>) -> Step<Permit>;
}

/// Room for one call, given back when it is dropped.
#[derive(Default)]
pub struct Permit(Option<Box<dyn Send>>);

impl Permit {
    /// Holds anything whose drop gives the room back.
    pub fn holding(guard: impl Send + 'static) -> Self {
        Self(Some(Box::new(guard)))
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Permit").field(&self.0.is_some()).finish()
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
        )));
    }
    let place = call.shared.concurrency.enter()?;
    let permit = match &call.shared.limits {
        Some(limits) => {
            let step = limits.admit(&call.view());
            call.wait_for(step).await?
        }
        None => Permit::default(),
    };
    Ok(Admission { _permit: permit, _place: place })
}

/// Counts the calls in flight. It refuses and never queues: nested calls hold places while they
/// ask for more, and would wait for each other.
pub(super) struct Concurrency {
    in_flight: Arc<AtomicUsize>,
    most: usize,
}

struct Place(Arc<AtomicUsize>);

impl Concurrency {
    pub(super) fn new(most: usize) -> Self {
        Self { in_flight: Arc::default(), most }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    fn enter(&self) -> Result<Place, CallError> {
        let place = Place(Arc::clone(&self.in_flight));
        if self.in_flight.fetch_add(1, Ordering::Relaxed) < self.most {
            return Ok(place);
        }
        Err(CallError::overloaded(format!("{} calls are in flight, which is the limit", self.most)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
