//! The life of a call, from the endpoint to the answer.
//!
//! Every path goes through the same stages in the same order, each in a file of its own:
//! look-up, then **audit-enter → limits → access → input → approval → lock → dispatch → result →
//! audit-exit**. The permit of the source is acquired last, before dispatch. A call rejected at any stage still reaches audit-exit.

mod access;
mod approval;
mod audit;
mod call;
mod dispatch;
mod hooks;
mod input;
mod limits;
mod lock;
mod nested;
mod observer;
mod request;
mod result;
mod state;
mod subscription;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::Authority;
use crate::envelope::Envelope;
use crate::error::CallError;
use crate::outcome::Outcome;
use crate::payload::{Payload, PayloadError};
use crate::registry::Registry;
use crate::spec::OperationKind;

pub use approval::{Approval, ApprovalGate};
pub use audit::{AuditEntry, AuditOutcome, AuditSink};
pub use call::Call;
pub use hooks::{CallView, HookResult};
pub use limits::{Limits, Permit, SourceSignal};
pub use observer::{CallTimes, Observer};
pub use request::CallRequest;
pub use subscription::Subscription;

use limits::ConcurrencyLimit;
use lock::ExclusiveLocks;
use state::CallState;

/// Runs the operations of a registry. Cloning it shares everything.
///
/// Needs a tokio runtime: a call that is dropped before its end is carried on in a task that the
/// pipeline owns.
#[derive(Clone)]
pub struct Pipeline(Arc<PipelineShared>);

struct PipelineShared {
    registry: Registry,
    settings: PipelineSettings,
    audit: Option<Arc<dyn AuditSink>>,
    limits: Option<Arc<dyn Limits>>,
    approval: Option<Arc<dyn ApprovalGate>>,
    observer: Option<Arc<dyn Observer>>,
    concurrency: ConcurrencyLimit,
    locks: ExclusiveLocks,
    /// Owns what outlives its caller: abandoned calls and handlers that are winding up.
    /// [`Pipeline::drain`] waits for it.
    tasks: TaskTracker,
    /// Set when a drain has run out of patience.
    stop: CancellationToken,
}

/// A call of an operation of either kind.
pub(crate) enum StartedCall {
    Call(Call),
    Stream(Subscription),
}

/// The numbers that bound a pipeline.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PipelineSettings {
    /// How many calls and subscriptions may be in flight; more are refused as `OVERLOADED`.
    pub max_concurrent_calls: usize,
    /// How many calls may wait for one exclusive operation; more are refused as `OVERLOADED`.
    pub max_exclusive_queue: usize,
    /// How deep calls may nest; deeper ones fail, since it is a loop.
    pub max_nesting: u32,
    /// The deadline of a call that names none. Subscriptions have none unless they name it.
    pub call_timeout: Duration,
    /// How long a canceled handler may take to notice before it is dropped.
    pub cancel_grace: Duration,
}

impl Default for PipelineSettings {
    fn default() -> Self {
        Self {
            max_concurrent_calls: 10_000,
            max_exclusive_queue: 64,
            max_nesting: 32,
            call_timeout: Duration::from_secs(300),
            cancel_grace: Duration::from_secs(5),
        }
    }
}

/// The life of a call on one screen; the stages have their reasons in their own files.
///
/// Not an `async fn`, which would hold the call twice: a call is moved as little as possible.
#[expect(clippy::manual_async_fn, reason = "an async fn holds its argument twice")]
fn run(mut call: CallState) -> impl Future<Output = Result<Outcome, CallError>> + Send {
    async move {
        let result = match audit::enter(&mut call).await {
            Ok(()) => run_stages(&mut call).await,
            Err(rejected) => Err(rejected),
        };
        let result = result.map_err(|error| call.finalize_error(error));
        match audit::exit(&call, &AuditOutcome::from_result(&result)).await {
            Err(unrecorded) if result.is_ok() => Err(call.finalize_error(unrecorded)),
            _ => result,
        }
    }
}

async fn run_stages(call: &mut CallState) -> Result<Outcome, CallError> {
    let mut guards = prepare(call).await?;
    let output = dispatch::call_handler(call, &mut guards).await;
    limits::record_result(call, &output);
    result::build_outcome(call, output?)
}

/// Everything before dispatch, the same for calls and subscriptions.
async fn prepare(call: &mut CallState) -> Result<dispatch::Guards, CallError> {
    let admission = limits::admit(call).await?;
    call.handler()?;
    access::check(call)?;
    input::check(call)?;
    approval::wait_for_approval(call).await?;
    let lock = lock::acquire(call).await?;
    let source_permit = limits::acquire_source(call).await?;
    call.ensure_active()?;
    Ok(dispatch::Guards::new(admission, lock, source_permit))
}

impl Pipeline {
    /// A pipeline with the default settings and no seams filled.
    pub fn new(registry: Registry) -> Self {
        Self::builder(registry).build()
    }

    /// A pipeline whose settings and seams are to be chosen.
    pub fn builder(registry: Registry) -> PipelineBuilder {
        PipelineBuilder {
            registry,
            settings: PipelineSettings::default(),
            audit: None,
            limits: None,
            approval: None,
            observer: None,
        }
    }

    /// The operations that this pipeline runs.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// Calls an operation without an access check; every other stage runs as for [`Pipeline::call`].
    ///
    /// # Errors
    ///
    /// Whatever the call fails with.
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels a query; a mutation that was dispatched runs to its end.
    ///
    /// # Examples
    ///
    /// ```
    /// # use toolpost::{HandlerError, Operation, Pipeline, Registry};
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let registry = Registry::new();
    /// let length = async |text: String| Ok::<_, HandlerError>(text.len());
    /// registry.register(Operation::query("text.length", length).build().unwrap()).unwrap();
    ///
    /// let pipeline = Pipeline::new(registry);
    /// let envelope = pipeline.call_trusted("text.length", json!("hello")).await.unwrap();
    /// assert_eq!(envelope.data, 5);
    /// # }
    /// ```
    #[doc(alias = "execute")]
    pub async fn call_trusted(
        &self,
        operation: &str,
        input: impl Into<Payload>,
    ) -> Result<Envelope<Value>, CallError> {
        let outcome = self.trusted_call(operation, input.into()).await?;
        outcome.envelope.into_value().map_err(|error| output_mismatch(operation, &error))
    }

    /// As [`Pipeline::call_trusted`], with Rust types on both sides.
    ///
    /// # Errors
    ///
    /// Whatever the call fails with, and when one of the types does not fit.
    #[doc(alias = "execute_as")]
    pub async fn call_trusted_as<T: DeserializeOwned>(
        &self,
        operation: &str,
        input: impl Serialize,
    ) -> Result<Envelope<T>, CallError> {
        let outcome = self.trusted_call(operation, Payload::from_serialize(&input)?).await?;
        outcome.envelope.into_typed().map_err(|error| output_mismatch(operation, &error))
    }

    /// The trusted path to the values of a subscription; it starts when it is first polled.
    pub fn subscribe(
        &self,
        operation: &str,
        input: impl Into<Payload>,
    ) -> BoxStream<'static, Result<Envelope<Value>, CallError>> {
        let request = CallRequest::new(operation, input);
        let id = operation.to_owned();
        self.start_subscription(request, Authority::trusted(None))
            .map(move |item| {
                item?.envelope.into_value().map_err(|error| output_mismatch(&id, &error))
            })
            .boxed()
    }

    /// A call on somebody's authority; this is what every endpoint uses.
    pub fn call(&self, request: CallRequest<'_>, authority: Authority) -> Call {
        Call::new(CallState::root(&self.0, request, authority))
    }

    /// Writes down a call that a endpoint refused before it became one, and counts it as one of its
    /// caller's. Gives what to say instead where a limit would not have let it in.
    pub async fn record_rejected(
        &self,
        request: CallRequest<'_>,
        authority: Authority,
        error: &CallError,
    ) -> Option<CallError> {
        let PipelineShared { audit, limits, observer, .. } = &*self.0;
        if audit.is_none() && limits.is_none() && observer.is_none() {
            return None;
        }
        let mut call = CallState::root(&self.0, request, authority);
        let rejected = match audit::enter(&mut call).await {
            Ok(()) => {
                limits::admit(&call).await.err().map(|rejected| call.finalize_error(rejected))
            }
            // What is wrong with the journal is said in the log.
            Err(_) => None,
        };
        let _ = audit::exit(&call, &AuditOutcome::Failed(rejected.as_ref().unwrap_or(error))).await;
        rejected
    }

    /// A subscription on somebody's authority; a once operation gives its one value and ends.
    pub fn start_subscription(
        &self,
        request: CallRequest<'_>,
        authority: Authority,
    ) -> Subscription {
        Subscription::new(CallState::root(&self.0, request, authority))
    }

    /// Starts what the operation is, for those who do not know it.
    pub(crate) fn start(&self, request: CallRequest<'_>, authority: Authority) -> StartedCall {
        Self::start_state(CallState::root(&self.0, request, authority))
    }

    /// As [`Pipeline::start`], for those who want one value and wait for it as for an answer.
    pub(crate) fn start_single(
        &self,
        request: CallRequest<'_>,
        authority: Authority,
    ) -> StartedCall {
        let state = CallState::root(&self.0, request, authority);
        if state.kind() == Some(OperationKind::Subscription) {
            state.context.deadline_or_start_default(self.0.settings.call_timeout);
        }
        Self::start_state(state)
    }

    fn start_state(state: CallState) -> StartedCall {
        match state.kind() {
            Some(OperationKind::Subscription) => StartedCall::Stream(Subscription::new(state)),
            _ => StartedCall::Call(Call::new(state)),
        }
    }

    /// How many calls and subscriptions are in flight.
    pub fn in_flight(&self) -> usize {
        self.0.concurrency.in_flight()
    }

    /// Waits for what has outlived its caller, aborts what is left at the deadline, and says
    /// whether the deadline was met.
    ///
    /// New calls are not refused here: whoever drains closes the endpoints first.
    pub async fn drain(&self, deadline: Duration) -> bool {
        let PipelineShared { tasks, stop, settings, .. } = &*self.0;
        tasks.close();
        if tokio::time::timeout(deadline, tasks.wait()).await.is_ok() {
            return true;
        }
        tracing::warn!(remaining = tasks.len(), "drain deadline passed; aborting remaining calls");
        stop.cancel();
        let _ = tokio::time::timeout(settings.cancel_grace, tasks.wait()).await;
        false
    }

    fn trusted_call(&self, operation: &str, input: Payload) -> Call {
        self.call(CallRequest::new(operation, input), Authority::trusted(None))
    }
}

fn output_mismatch(operation: &str, error: &PayloadError) -> CallError {
    let message = format!("the output of {operation} does not have the expected shape: {error}");
    CallError::execution(message)
}

/// Chooses the settings and fills the seams of a pipeline.
#[must_use = "a builder does nothing until `build` is called"]
pub struct PipelineBuilder {
    registry: Registry,
    settings: PipelineSettings,
    audit: Option<Arc<dyn AuditSink>>,
    limits: Option<Arc<dyn Limits>>,
    approval: Option<Arc<dyn ApprovalGate>>,
    observer: Option<Arc<dyn Observer>>,
}

impl PipelineBuilder {
    /// The numbers that bound it.
    pub fn settings(mut self, settings: PipelineSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Who writes down what happens.
    pub fn audit(mut self, audit: impl AuditSink) -> Self {
        self.audit = Some(Arc::new(audit));
        self
    }

    /// Who decides how much is too much, beyond the settings.
    pub fn limits(mut self, limits: Arc<dyn Limits>) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Who decides which calls need a person's word.
    pub fn approval(mut self, approval: impl ApprovalGate) -> Self {
        self.approval = Some(Arc::new(approval));
        self
    }

    /// Who watches, without a say.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Puts it together.
    pub fn build(self) -> Pipeline {
        Pipeline(Arc::new(PipelineShared {
            registry: self.registry,
            audit: self.audit,
            limits: self.limits,
            approval: self.approval,
            observer: self.observer,
            concurrency: ConcurrencyLimit::new(self.settings.max_concurrent_calls),
            locks: ExclusiveLocks::new(self.settings.max_exclusive_queue),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            settings: self.settings,
        }))
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}
