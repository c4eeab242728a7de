//! dispatch: the handler runs, until it answers or nobody wants the answer.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use tokio::time::Instant;

use super::limits::{Admission, Permit};
use super::lock::LockGuard;
use super::state::CallState;
use crate::error::{CallError, HandlerError};
use crate::handler::{Handler, Output};
use crate::payload::Payload;
use crate::spec::Kind;

/// Held until the handler has really ended, also when its caller was answered long ago.
#[derive(Default)]
pub(super) struct Holds {
    _admission: Option<Admission>,
    _place: Option<Permit>,
    _lock: Option<Box<LockGuard>>,
}

impl Holds {
    pub(super) fn new(admission: Admission, lock: Option<Box<LockGuard>>, place: Permit) -> Self {
        Self { _admission: Some(admission), _place: Some(place), _lock: lock }
    }
}

/// A stream in progress and what it holds.
pub(super) struct Running {
    values: BoxStream<'static, Result<Output, HandlerError>>,
    holds: Holds,
}

pub(super) async fn once(call: &mut CallState, holds: &mut Holds) -> Result<Output, CallError> {
    let input = begin(call);
    let Handler::Once(handler) = call.handler()? else {
        return Err(wrong_consumer(call, "is a subscription; subscribe to it"));
    };
    if call.kind() == Some(Kind::Mutation) {
        call.context.outlive_caller();
    }
    let context = call.context.clone();
    let started = catch_unwind(AssertUnwindSafe(|| handler.call(context, input)));
    let mut running = match started {
        Ok(future) => AssertUnwindSafe(future).catch_unwind(),
        Err(panic) => return Err(panicked(call, &*panic)),
    };
    let allowed = call.operation()?.policy().timeout;
    let ended = match allowed {
        None => call.while_wanted(&mut running).await,
        Some(allowed) => call.while_wanted_for(allowed, &mut running).await,
    };
    match ended {
        Ok(ended) => ending(call, ended),
        Err(cancelled) => {
            wind_up(call, running.map(drop).boxed(), std::mem::take(holds));
            Err(cancelled)
        }
    }
}

pub(super) fn stream(call: &mut CallState, holds: Holds) -> Result<Running, CallError> {
    let input = begin(call);
    let Handler::Stream(handler) = call.handler()? else {
        return Err(wrong_consumer(call, "answers once; call it"));
    };
    let context = call.context.clone();
    match catch_unwind(AssertUnwindSafe(|| handler.subscribe(context, input))) {
        Ok(values) => Ok(Running { values, holds }),
        Err(panic) => Err(panicked(call, &*panic)),
    }
}

fn wrong_consumer(call: &CallState, what: &str) -> CallError {
    CallError::validation(format!("{} {what}", call.context.operation()), &[]).before_sending()
}

/// The next value of a stream; `None` is its end.
pub(super) async fn next(
    call: &CallState,
    running: &mut Running,
) -> Result<Option<Output>, CallError> {
    call.ensure_wanted()?;
    let next = AssertUnwindSafe(running.values.next()).catch_unwind();
    let next = call.while_wanted(within(call.idle_timeout, next)).await?;
    let Some(ended) = next else {
        call.context.pass_deadline();
        return Err(CallError::timeout("the subscription was silent for too long"));
    };
    match ended {
        Ok(None) => Ok(None),
        Ok(Some(value)) => ending(call, Ok(value)).map(Some),
        Err(panic) => Err(panicked(call, &*panic)),
    }
}

/// Lets a stream that nobody reads any more notice it. It is polled to its next value and no
/// further: one that still yields after the signal is at a safe place to be dropped, and one that is
/// always ready would never stop.
pub(super) fn wind_up_stream(call: &CallState, running: Running) {
    call.context.abort(None);
    let Running { values, holds } = running;
    let next = AssertUnwindSafe(values.into_future()).catch_unwind();
    wind_up(call, next.map(drop).boxed(), holds);
}

/// Polls a canceled handler on until it has noticed, for a bounded time. The caller does not wait
/// for this; whoever is next in an exclusive queue does.
fn wind_up(call: &CallState, mut rest: BoxFuture<'static, ()>, holds: Holds) {
    if (&mut rest).now_or_never().is_some() {
        return;
    }
    let (patience, request_id) = (call.shared.settings.wind_up, call.view().request_id.clone());
    call.shared.tasks.spawn(async move {
        if tokio::time::timeout(patience, rest).await.is_err() {
            tracing::warn!(%request_id, "the handler ignored its cancellation and was dropped");
        }
        drop(holds);
    });
}

/// From here on the call may have had an effect.
fn begin(call: &mut CallState) -> Payload {
    call.dispatched = true;
    call.dispatched_at = call.shared.is_timed().then(Instant::now);
    call.input.take().unwrap_or_else(Payload::empty_object)
}

fn ending(
    call: &CallState,
    ended: Result<Result<Output, HandlerError>, Box<dyn Any + Send>>,
) -> Result<Output, CallError> {
    match ended {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => {
            let declared = &call.operation()?.spec().error_schemas;
            Err(error.into_call_error(declared.iter().map(|error| error.code.as_str())))
        }
        Err(panic) => Err(panicked(call, &*panic)),
    }
}

/// The caller learns that it was a panic; what it said is for the log, since it may hold anything.
fn panicked(call: &CallState, panic: &(dyn Any + Send)) -> CallError {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("something that is not text");
    let view = call.view();
    tracing::error!(request_id = %view.request_id, operation = view.operation_id, said, "handler panicked");
    CallError::execution("the handler of the operation panicked")
}

async fn within<F: Future>(limit: Option<Duration>, future: F) -> Option<F::Output> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}
