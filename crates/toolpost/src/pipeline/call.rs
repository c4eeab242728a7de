//! A call as a future, and how it continues when the future is dropped.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;

use super::run;
use super::state::CallState;
use crate::error::CallError;
use crate::handler::{AbortHandle, CallContext};
use crate::outcome::Outcome;

/// A call as a future. The first poll starts it.
///
/// # Cancellation
///
/// Dropping the future means that the caller disconnected. The call then continues in an async task
/// owned by the pipeline: a query, or a call that was not dispatched yet, is canceled immediately;
/// a mutation runs to completion. In both cases the call reaches audit-exit. To stop a mutation,
/// abort it.
#[must_use = "a call does nothing until it is awaited"]
pub struct Call {
    /// `None` once the call has completed.
    running: Option<BoxFuture<'static, Result<Outcome, CallError>>>,
    caller: Caller,
}

/// The waiting side of a call or subscription.
pub(super) struct Caller {
    context: CallContext,
    /// The runtime to continue on after a drop. Set when the first poll returns pending.
    runtime: Option<Handle>,
}

impl Call {
    pub(super) fn new(state: CallState) -> Self {
        let caller = Caller::new(&state);
        Self { running: Some(Box::pin(run(state))), caller }
    }

    /// Returns a handle that aborts the call.
    pub fn abort_handle(&self) -> AbortHandle {
        self.caller.abort_handle()
    }
}

impl Future for Call {
    type Output = Result<Outcome, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Taken out during the poll, so that a future that panics is not resumed on drop.
        let mut running = self.running.take().expect("a call is not polled after completion");
        let polled = running.as_mut().poll(cx);
        if polled.is_pending() {
            self.running = Some(running);
            self.caller.capture_runtime();
        }
        polled
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.caller.detach(async { drop(running.await) });
        }
    }
}

impl Caller {
    pub(super) fn new(state: &CallState) -> Self {
        Self { context: state.context.clone(), runtime: None }
    }

    pub(super) fn abort_handle(&self) -> AbortHandle {
        AbortHandle::new(self.context.clone())
    }

    pub(super) fn capture_runtime(&mut self) {
        if self.runtime.is_none() {
            self.runtime = Handle::try_current().ok();
        }
    }

    /// Moves the rest of the call to an async task of the pipeline. Does nothing if the call was
    /// never pending.
    pub(super) fn detach(&mut self, rest: impl Future<Output = ()> + Send + 'static) {
        let Some(runtime) = self.runtime.take() else { return };
        self.context.cancel_by_disconnect();
        self.context.nested_caller().spawn_detached(&runtime, self.context.clone(), rest.boxed());
    }
}
