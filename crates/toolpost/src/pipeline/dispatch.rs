//! dispatch: runs the handler until it returns or the call is canceled.

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
use crate::handler::{Handler, HandlerOutput};
use crate::payload::Payload;
use crate::spec::OperationKind;

/// Permits and locks held until the handler has ended, even if the response was sent earlier.
pub(super) type Guards = Option<(Admission, Permit, Option<Box<LockGuard>>)>;

/// A running stream and the guards it holds.
pub(super) struct RunningStream {
    values: BoxStream<'static, Result<HandlerOutput, HandlerError>>,
    guards: Guards,
}

pub(super) async fn call_handler(
    call: &mut CallState,
    guards: &mut Guards,
) -> Result<HandlerOutput, CallError> {
    let input = mark_dispatched(call);
    let Handler::Once(handler) = call.handler()? else {
        return Err(kind_mismatch(call, "is a subscription; subscribe to it"));
    };
    if call.kind() == Some(OperationKind::Mutation) {
        call.context.detach_from_caller();
    }
    let context = call.context.clone();
    let started = catch_unwind(AssertUnwindSafe(|| handler.call(context, input)));
    let mut running = match started {
        Ok(future) => AssertUnwindSafe(future).catch_unwind(),
        Err(panic) => return Err(panic_error(call, &*panic)),
    };
    let allowed = call.operation()?.policy().timeout;
    let result = match allowed {
        None => call.until_canceled(&mut running).await,
        Some(allowed) => call.until_canceled_or_timeout(allowed, &mut running).await,
    };
    match result {
        Ok(result) => handler_result(call, result),
        Err(canceled) => {
            shutdown_handler(call, running.map(drop).boxed(), std::mem::take(guards));
            Err(canceled)
        }
    }
}

pub(super) fn open_stream(
    call: &mut CallState,
    guards: Guards,
) -> Result<RunningStream, CallError> {
    let input = mark_dispatched(call);
    let Handler::Stream(handler) = call.handler()? else {
        return Err(kind_mismatch(call, "is not a subscription; call it"));
    };
    let context = call.context.clone();
    match catch_unwind(AssertUnwindSafe(|| handler.subscribe(context, input))) {
        Ok(values) => Ok(RunningStream { values, guards }),
        Err(panic) => Err(panic_error(call, &*panic)),
    }
}

fn kind_mismatch(call: &CallState, what: &str) -> CallError {
    CallError::validation(format!("{} {what}", call.context.operation()), &[]).not_sent()
}

/// Returns the next value of a stream, or `None` at its end.
pub(super) async fn next_value(
    call: &CallState,
    running: &mut RunningStream,
) -> Result<Option<HandlerOutput>, CallError> {
    call.ensure_active()?;
    let next = AssertUnwindSafe(running.values.next()).catch_unwind();
    let next = call.until_canceled(with_timeout(call.idle_timeout, next)).await?;
    let Some(result) = next else {
        call.context.cancel_by_deadline();
        return Err(CallError::timeout("the subscription exceeded its idle timeout"));
    };
    match result {
        Ok(None) => Ok(None),
        Ok(Some(value)) => handler_result(call, Ok(value)).map(Some),
        Err(panic) => Err(panic_error(call, &*panic)),
    }
}

/// Signals cancellation to a stream that is no longer read. The stream is polled up to its next
/// value only: a stream that yields after the signal is safe to drop, and one that is always ready
/// would never stop.
pub(super) fn shutdown_stream(call: &CallState, running: RunningStream) {
    call.context.abort(None);
    let RunningStream { values, guards } = running;
    let next = AssertUnwindSafe(values.into_future()).catch_unwind();
    shutdown_handler(call, next.map(drop).boxed(), guards);
}

/// Polls a canceled handler until it ends or the grace period passes. The caller does not wait for
/// this; the next call in an exclusive queue does.
fn shutdown_handler(call: &CallState, mut rest: BoxFuture<'static, ()>, guards: Guards) {
    if (&mut rest).now_or_never().is_some() {
        return;
    }
    let (grace, request_id) = (call.shared.settings.cancel_grace, call.view().request_id.clone());
    call.shared.tasks.spawn(async move {
        if tokio::time::timeout(grace, rest).await.is_err() {
            tracing::warn!(%request_id, "handler ignored cancellation and was dropped");
        }
        drop(guards);
    });
}

/// Marks the call as dispatched and takes its input. From this point on the call may have had an
/// effect.
fn mark_dispatched(call: &mut CallState) -> Payload {
    call.dispatched = true;
    call.dispatched_at = call.shared.is_timed().then(Instant::now);
    call.input.take().unwrap_or_else(Payload::empty_object)
}

fn handler_result(
    call: &CallState,
    result: Result<Result<HandlerOutput, HandlerError>, Box<dyn Any + Send>>,
) -> Result<HandlerOutput, CallError> {
    match result {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => {
            let declared = &call.operation()?.spec().error_schemas;
            Err(error.into_call_error(declared.iter().map(|error| error.code.as_str())))
        }
        Err(panic) => Err(panic_error(call, &*panic)),
    }
}

/// Returns an error without the panic message, which is only logged.
fn panic_error(call: &CallState, panic: &(dyn Any + Send)) -> CallError {
    let panic_message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("non-string panic payload");
    let view = call.view();
    tracing::error!(request_id = %view.request_id, operation = view.operation_id, panic_message, "handler panicked");
    CallError::execution("the handler of the operation panicked")
}

async fn with_timeout<F: Future>(limit: Option<Duration>, future: F) -> Option<F::Output> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}
