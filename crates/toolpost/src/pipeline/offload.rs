//! Runs schema work: small work at once, large work on a blocking thread.
//!
//! Work starts on the async worker with a low budget. If that is exceeded, the value is unchanged,
//! and the work starts again on a blocking thread. A few threads do such work at a time; it stops
//! when the call is canceled or its deadline passes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tokio::sync::Semaphore;

use super::state::CallState;
use crate::error::CallError;
use crate::schema::{Exceeded, Normalized, RepairError, WorkLimits};

/// Limits large work to the number of processors, because it does not wait for anything.
static LARGE_WORK: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Arc::new(Semaphore::new(processors))
});

/// The result of schema work. An error leaves the value unchanged.
pub(super) type SchemaResult = Result<Normalized, RepairError>;

/// Runs `work` on a value, with limits that depend on where it runs.
///
/// # Cancellation
///
/// If the call is canceled, the work stops and the error of the cancellation is returned. The value
/// is unchanged.
pub(super) async fn run(
    call: &CallState,
    value: &mut Value,
    work: impl Fn(&mut Value, WorkLimits<'_>) -> SchemaResult + Send + 'static,
) -> Result<SchemaResult, CallError> {
    match work(value, WorkLimits::INLINE) {
        Err(RepairError::Exceeded(Exceeded::Steps(_) | Exceeded::Memory(_))) => {
            Box::pin(run_large(call, value, work)).await
        }
        done => Ok(done),
    }
}

async fn run_large(
    call: &CallState,
    value: &mut Value,
    work: impl Fn(&mut Value, WorkLimits<'_>) -> SchemaResult + Send + 'static,
) -> Result<SchemaResult, CallError> {
    let permit = call.until_canceled(Arc::clone(&LARGE_WORK).acquire_owned()).await?;
    let stop = StopOnDrop::default();
    let (mut moved, is_stopped) = (value.take(), Arc::clone(&stop.0));
    let mut running = tokio::task::spawn_blocking(move || {
        let is_canceled = || is_stopped.load(Ordering::Relaxed);
        let done = work(&mut moved, WorkLimits::VALUE.until(&is_canceled));
        drop(permit);
        (moved, done)
    });
    let finished = call.until_canceled(&mut running).await;
    let (finished, canceled) = match finished {
        Ok(finished) => (finished, None),
        Err(canceled) => {
            // The work ends at its next check, and returns the value.
            stop.0.store(true, Ordering::Relaxed);
            (running.await, Some(canceled))
        }
    };
    let (returned, done) = finished
        .map_err(|error| CallError::unknown("the value cannot be validated").with_cause(error))?;
    *value = returned;
    canceled.map_or(Ok(done), Err)
}

/// Stops the work when the call is dropped.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
