//! A call as a future, and what happens to it when nobody waits for it any more.

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

/// A call, started by its first poll and run by whoever awaits it.
///
/// # Cancellation
///
/// Dropping it says that the caller went away. The call is then carried on in a task that the
/// pipeline owns: a query, or a call that was not dispatched yet, is canceled and ends at once; a
/// mutation runs to its end. Either way it reaches audit-exit. To stop a mutation, abort it.
#[must_use = "a call does nothing until it is awaited"]
pub struct Call {
    /// `None` once it has answered.
    running: Option<BoxFuture<'static, Result<Outcome, CallError>>>,
    caller: Caller,
}

/// Whoever is waiting for a call or a subscription.
pub(super) struct Caller {
    context: CallContext,
    /// Where to carry on; known once the first poll found that there is something to wait for.
    runtime: Option<Handle>,
}

impl Call {
    pub(super) fn new(state: CallState) -> Self {
        let caller = Caller::new(&state);
        Self { running: Some(Box::pin(run(state))), caller }
    }

    /// Stops the call from somewhere else.
    pub fn abort_handle(&self) -> AbortHandle {
        self.caller.abort_handle()
    }
}

impl Future for Call {
    type Output = Result<Outcome, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Taken out while it is polled: one that panics must not be carried on.
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

    /// Hands what is still running to the pipeline. What was never polled was never started.
    pub(super) fn detach(&mut self, rest: impl Future<Output = ()> + Send + 'static) {
        let Some(runtime) = self.runtime.take() else { return };
        self.context.cancel_by_disconnect();
        self.context.nested_caller().spawn_detached(&runtime, self.context.clone(), rest.boxed());
    }
}
