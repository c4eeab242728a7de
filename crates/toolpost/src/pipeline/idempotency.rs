//! idempotency: a call with a key that was already used gets the first outcome instead of running.

use super::hooks::{CallView, HookResult};
use super::input;
use super::state::CallState;
use crate::error::{CallError, ErrorCode};
use crate::outcome::Outcome;
use crate::schema::Issue;
use crate::spec::OperationKind;

/// Maximum length of a key in bytes.
const MAX_KEY_BYTES: usize = 255;

/// Stores the outcomes of calls with an idempotency key.
pub trait Idempotency: Send + Sync + 'static {
    /// Claims the key of a call, for its identity and its operation. The input in the view is
    /// parsed and has its defaults.
    ///
    /// While another call holds the claim, the result is pending. A key that was used with another
    /// input fails with `IDEMPOTENCY_CONFLICT`.
    fn claim(&self, call: &CallView<'_>, key: &str) -> HookResult<IdempotencyClaim>;
}

/// Result of claiming an idempotency key.
pub enum IdempotencyClaim {
    /// The call runs and holds the claim.
    Run(Box<dyn IdempotentRun>),
    /// The first call has ended. The call does not run.
    Replay(StoredResult),
}

/// The result of an earlier call with the same key.
#[derive(Debug)]
pub struct StoredResult {
    /// The outcome or the error of the first call.
    pub result: Result<Outcome, CallError>,
    /// The id of the first call at the audit sink.
    pub first_call: Option<u64>,
}

/// A call that holds the claim of its key. Dropping it releases the claim, as does a call that is
/// dropped before it was dispatched.
pub trait IdempotentRun: Send + Sync {
    /// Called before the handler runs. An error rejects the call: a call that cannot be recorded
    /// does not run.
    fn dispatch(&mut self) -> HookResult<()>;

    /// Stores the result of the call. The response waits for a [`HookResult::Pending`]. An error
    /// replaces the response.
    fn complete(self: Box<Self>, result: &Result<Outcome, CallError>) -> HookResult<()>;

    /// Releases the claim without a result. The next call with the key runs.
    fn release(self: Box<Self>);
}

/// The claim of a call in flight, and the call whose result it repeats.
#[derive(Default)]
pub(super) struct IdempotencyState {
    run: Option<Box<dyn IdempotentRun>>,
    pub(super) first_call: Option<u64>,
}

/// Claims the key of the call, if it has one. Returns the result of the first call if there is one.
pub(super) async fn claim(call: &mut CallState) -> Option<Result<Outcome, CallError>> {
    // A call that is forwarded passes its key on to the target.
    if call.context.idempotency_key().is_none() || call.operation().is_ok_and(|o| o.spec().forwards)
    {
        return None;
    }
    match Box::pin(claim_key(call)).await {
        Ok(IdempotencyClaim::Run(run)) => {
            call.idempotency.get_or_insert_default().run = Some(run);
            None
        }
        Ok(IdempotencyClaim::Replay(StoredResult { result, first_call })) => {
            call.idempotency.get_or_insert_default().first_call = first_call;
            Some(match result {
                Ok(outcome) => Ok(outcome.into_replayed()),
                Err(error) => Err(error.into_replayed()),
            })
        }
        Err(rejected) => Some(Err(rejected)),
    }
}

async fn claim_key(call: &mut CallState) -> Result<IdempotencyClaim, CallError> {
    let key = call.context.idempotency_key().unwrap_or_default();
    check_key(key)?;
    let Some(store) = call.shared.idempotency.clone() else {
        return Err(invalid_key(
            "this process does not store idempotency keys; call through a gateway",
        ));
    };
    if let Some(payload) = &mut call.input {
        input::parse(payload)?;
    }
    let key = call.context.idempotency_key().unwrap_or_default();
    let claim = store.claim(&call.view(), key);
    call.await_hook(claim).await
}

/// Rejects a subscription with a key, because a stream has no single outcome.
pub(super) fn reject_subscription(call: &CallState) -> Result<(), CallError> {
    let is_subscription = call.kind() == Some(OperationKind::Subscription);
    match call.context.idempotency_key() {
        Some(_) if is_subscription => {
            Err(invalid_key("a subscription cannot have an idempotency key"))
        }
        _ => Ok(()),
    }
}

/// Records that the handler is about to run.
pub(super) async fn dispatch(call: &mut CallState) -> Result<(), CallError> {
    let run = call.idempotency.as_mut().and_then(|state| state.run.as_mut());
    let Some(run) = run else { return Ok(()) };
    let recorded = run.dispatch();
    call.await_hook(recorded).await.map_err(CallError::not_sent)
}

/// Stores the result of the call, or releases its claim if the call can be repeated safely.
pub(super) async fn complete(
    call: &mut CallState,
    result: &Result<Outcome, CallError>,
) -> Result<(), CallError> {
    let run = call.idempotency.as_mut().and_then(|state| state.run.take());
    let Some(run) = run else { return Ok(()) };
    if !is_final(call, result) {
        run.release();
        return Ok(());
    }
    // Not cancellable: the result of a dispatched call must be stored.
    match run.complete(result) {
        HookResult::Ready(stored) => stored,
        HookResult::Pending(stored) => stored.await,
    }
}

/// Whether a repeated call must get this result. Cancellation is not the result of a call that can
/// run again safely: the caller may have lost its connection.
fn is_final(call: &CallState, result: &Result<Outcome, CallError>) -> bool {
    let Err(error) = result else { return true };
    let is_canceled = *error.code() == ErrorCode::Aborted && !error.may_have_run();
    call.dispatched && !error.is_retryable() && !is_canceled
}

fn check_key(key: &str) -> Result<(), CallError> {
    let is_valid = (1..=MAX_KEY_BYTES).contains(&key.len())
        && key.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    match is_valid {
        true => Ok(()),
        false => Err(invalid_key("an idempotency key has 1 to 255 printable ASCII characters")),
    }
}

fn invalid_key(message: &'static str) -> CallError {
    CallError::validation(message, &[Issue::new("", message)])
}
