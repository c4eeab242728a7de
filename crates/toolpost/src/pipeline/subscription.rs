//! Subscriptions as streams. They run through the same stages as calls; the result stage runs for
//! every value.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, Stream, StreamExt};
use tokio::sync::watch;

use super::call::Caller;
use super::dispatch::{self, RunningStream};
use super::state::CallState;
use super::{access, acquire, audit, check, idempotency, limits, result, run, startup};
use crate::error::CallError;
use crate::handler::AbortHandle;
use crate::outcome::Outcome;
use crate::spec::OperationKind;
use audit::AuditOutcome;

/// The values of a subscription, each an [`Outcome`]. An error is the last item.
///
/// # Cancellation
///
/// The subscription starts when it is first polled. Dropping it cancels the handler in an async
/// task owned by the pipeline, and its end is recorded in the audit log.
#[must_use = "a subscription does nothing until it is polled"]
pub struct Subscription {
    /// `None` once the stream has ended.
    running: Option<Values>,
    caller: Caller,
}

impl Subscription {
    pub(super) fn new(state: CallState) -> Self {
        let caller = Caller::new(&state);
        let running = match state.may_wait_for_source {
            true => futures::stream::once(resolved_values(state)).flatten().boxed(),
            false => values(state),
        };
        Self { running: Some(running), caller }
    }

    /// Returns a handle that aborts the subscription.
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
            // Captured after every poll, because the stream may be dropped between two values.
            _ => self.caller.capture_runtime(),
        }
        polled
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.caller.detach(running.for_each(|_| std::future::ready(())));
        }
    }
}

type Values = BoxStream<'static, Result<Outcome, CallError>>;

/// Waits for the source of the operation, and returns its values.
async fn resolved_values(mut state: CallState) -> Values {
    startup::wait_for_operation(&mut state).await;
    values(state)
}

fn values(state: CallState) -> Values {
    match state.kind() {
        Some(OperationKind::Subscription) => {
            futures::stream::unfold(SubscriptionPhase::NotStarted(state), advance).boxed()
        }
        // A query or mutation yields one value or one error.
        _ => futures::stream::once(run(state)).boxed(),
    }
}

/// Numbers of a running subscription.
#[derive(Default, Clone, Copy)]
struct StreamCounts {
    values: u64,
    warnings: u64,
}

enum SubscriptionPhase {
    NotStarted(CallState),
    Streaming(StreamingCall),
    Ended,
}

/// A subscription that yields values.
struct StreamingCall {
    call: CallState,
    running: RunningStream,
    counts: StreamCounts,
    /// Changes of the registry, which may take the access away.
    changes: watch::Receiver<u64>,
}

type StreamStep = Option<(Result<Outcome, CallError>, SubscriptionPhase)>;

async fn advance(phase: SubscriptionPhase) -> StreamStep {
    match phase {
        SubscriptionPhase::NotStarted(mut call) => match start(&mut call).await {
            Ok(running) => {
                let mut changes = call.shared.registry.watch_changes();
                // Access may have changed since the call took its snapshot of the catalog.
                changes.mark_changed();
                let counts = StreamCounts::default();
                next_outcome(StreamingCall { call, running, counts, changes }).await
            }
            Err(error) => fail(call, error).await,
        },
        SubscriptionPhase::Streaming(streaming) => next_outcome(streaming).await,
        SubscriptionPhase::Ended => None,
    }
}

async fn start(call: &mut CallState) -> Result<RunningStream, CallError> {
    audit::enter(call).await?;
    let admission = check(call).await?;
    idempotency::reject_subscription(call)?;
    let guards = acquire(call, admission).await?;
    dispatch::open_stream(call, guards)
}

async fn next_outcome(streaming: StreamingCall) -> StreamStep {
    let StreamingCall { call, mut running, mut counts, mut changes } = streaming;
    let next = match access::check_changes(&call, &mut changes) {
        Ok(()) => tokio::select! {
            biased;
            next = dispatch::next_value(&call, &mut running) => next,
            revoked = access::wait_for_revocation(&call, &mut changes) => Err(revoked),
        },
        Err(revoked) => Err(revoked),
    };
    if counts.values == 0 || next.is_err() {
        limits::record_result(&call, &next);
    }
    let value = match next {
        Ok(Some(output)) => result::build_outcome(&call, output).await,
        Ok(None) => {
            let StreamCounts { values, warnings } = counts;
            let ended = AuditOutcome::Completed { values, warnings };
            let unrecorded = audit::exit(&call, &ended).await.err()?;
            return Some((Err(call.finalize_error(unrecorded)), SubscriptionPhase::Ended));
        }
        Err(error) => Err(error),
    };
    match value {
        Ok(outcome) => {
            counts.values += 1;
            counts.warnings += outcome.warnings().len() as u64;
            let streaming = StreamingCall { call, running, counts, changes };
            Some((Ok(outcome), SubscriptionPhase::Streaming(streaming)))
        }
        Err(error) => {
            dispatch::shutdown_stream(&call, running);
            fail(call, error).await
        }
    }
}

async fn fail(call: CallState, error: CallError) -> StreamStep {
    let failed = Err(call.finalize_error(error));
    // The subscription failed already; its consumer gets that error, not the audit error.
    let _ = audit::exit(&call, &AuditOutcome::from_result(&failed)).await;
    Some((failed, SubscriptionPhase::Ended))
}
