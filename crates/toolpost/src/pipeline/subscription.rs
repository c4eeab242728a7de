//! A subscription as a stream: the same stages, and the result stage for every value.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, Stream, StreamExt};

use super::call::Caller;
use super::dispatch::{self, Running};
use super::state::CallState;
use super::{audit, enter, limits, result, run};
use crate::error::CallError;
use crate::handler::AbortHandle;
use crate::outcome::Outcome;
use crate::spec::Kind;
use audit::Ending;

/// The values of a subscription, each an [`Outcome`]; an error is its last item.
///
/// # Cancellation
///
/// It starts when it is first polled. Dropping it cancels the handler, in a task that the pipeline
/// owns, and reaches audit-exit.
#[must_use = "a subscription does nothing until it is polled"]
pub struct Subscription {
    /// `None` once it has ended.
    running: Option<BoxStream<'static, Result<Outcome, CallError>>>,
    caller: Caller,
}

impl Subscription {
    pub(super) fn new(state: CallState) -> Self {
        let caller = Caller::of(&state);
        let running = match state.kind() {
            Some(Kind::Subscription) => futures::stream::unfold(Phase::Asked(state), step).boxed(),
            // A once operation has one value, or one error, and ends.
            _ => futures::stream::once(run(state)).boxed(),
        };
        Self { running: Some(running), caller }
    }

    /// Stops the subscription from somewhere else.
    pub fn abort_handle(&self) -> AbortHandle {
        self.caller.abort_handle()
    }
}

impl Stream for Subscription {
    type Item = Result<Outcome, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(running) = self.running.as_mut() else { return Poll::Ready(None) };
        let polled = running.as_mut().poll_next(cx);
        match polled {
            Poll::Ready(None) => self.running = None,
            // A consumer may also leave between two values.
            _ => self.caller.note_runtime(),
        }
        polled
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.caller.leave(running.for_each(|_| std::future::ready(())));
        }
    }
}

enum Phase {
    Asked(CallState),
    Streaming { call: CallState, running: Running, values: u64 },
    Ended,
}

type Step = Option<(Result<Outcome, CallError>, Phase)>;

async fn step(phase: Phase) -> Step {
    match phase {
        Phase::Asked(mut call) => match start(&mut call).await {
            Ok(running) => next(call, running, 0).await,
            Err(error) => fail(call, error).await,
        },
        Phase::Streaming { call, running, values } => next(call, running, values).await,
        Phase::Ended => None,
    }
}

async fn start(call: &mut CallState) -> Result<Running, CallError> {
    audit::enter(call).await?;
    let holds = enter(call).await?;
    dispatch::stream(call, holds)
}

async fn next(call: CallState, mut running: Running, values: u64) -> Step {
    let next = dispatch::next(&call, &mut running).await;
    if values == 0 || next.is_err() {
        limits::note(&call, &next);
    }
    let value = match next {
        Ok(Some(output)) => result::shape(&call, output),
        Ok(None) => {
            let unrecorded = audit::exit(&call, &Ending::Completed { values }).await.err()?;
            return Some((Err(call.settle(unrecorded)), Phase::Ended));
        }
        Err(error) => Err(error),
    };
    match value {
        Ok(outcome) => Some((Ok(outcome), Phase::Streaming { call, running, values: values + 1 })),
        Err(error) => {
            dispatch::wind_up_stream(&call, running);
            fail(call, error).await
        }
    }
}

async fn fail(call: CallState, error: CallError) -> Step {
    let failed = Err(call.settle(error));
    // It failed already, and that is what its consumer has to know.
    let _ = audit::exit(&call, &Ending::of(&failed)).await;
    Some((failed, Phase::Ended))
}
