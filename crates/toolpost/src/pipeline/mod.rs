//! The call pipeline, from the endpoint to the response.
//!
//! Every call goes through the same stages in the same order, each in its own file: lookup, which
//! waits for a source that is starting (`startup`), then
//! **audit-enter → limits → access → input → idempotency → approval → lock → dispatch → result →
//! audit-exit**.
//! The source permit is acquired last, before dispatch. A call rejected at any stage still reaches
//! audit-exit.

mod access;
mod approval;
mod audit;
mod binary_hint;
mod call;
mod dispatch;
mod hooks;
mod idempotency;
mod input;
mod limits;
mod lock;
mod nested;
mod observer;
mod offload;
mod request;
mod result;
mod startup;
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
pub use hooks::{CallView, Endpoint, HookResult};
pub use idempotency::{Idempotency, IdempotencyClaim, IdempotentRun, StoredResult};
pub use limits::{Limits, Permit, SourceSignal};
pub use observer::{CallTimes, Observer};
pub use request::CallRequest;
pub use subscription::Subscription;

use limits::ConcurrencyLimit;
use lock::ExclusiveLocks;
use state::CallState;

/// Runs the operations of a registry. Clones share the same pipeline.
///
/// Requires a Tokio runtime: a call that is dropped before it completes continues in an async task
/// owned by the pipeline.
#[derive(Clone)]
pub struct Pipeline(Arc<PipelineShared>);

struct PipelineShared {
    registry: Registry,
    settings: PipelineSettings,
    audit: Option<Arc<dyn AuditSink>>,
    limits: Option<Arc<dyn Limits>>,
    idempotency: Option<Arc<dyn Idempotency>>,
    approval: Option<Arc<dyn ApprovalGate>>,
    observer: Option<Arc<dyn Observer>>,
    concurrency: ConcurrencyLimit,
    locks: ExclusiveLocks,
    /// Async tasks that outlive their caller: detached calls and canceled handlers.
    /// [`Pipeline::drain`] waits for them.
    tasks: TaskTracker,
    /// Canceled when a drain reaches its deadline.
    stop: CancellationToken,
}

/// A started call or subscription.
pub(crate) enum StartedCall {
    Call(Call),
    Stream(Subscription),
}

/// Limits and timeouts of a pipeline.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PipelineSettings {
    /// Maximum number of calls and subscriptions in flight; more are rejected with `OVERLOADED`.
    pub max_concurrent_calls: usize,
    /// Maximum number of calls waiting for one exclusive operation; more are rejected with
    /// `OVERLOADED`.
    pub max_exclusive_queue: usize,
    /// Maximum nesting depth of calls. A deeper call fails with `OVERLOADED`, which stops infinite
    /// recursion.
    pub max_nesting: u32,
    /// Default deadline of a call that specifies none. Subscriptions have no default deadline.
    pub call_timeout: Duration,
    /// How long a canceled handler may keep running before it is dropped.
    pub cancel_grace: Duration,
    /// Maximum time that a call waits for its source while that is starting.
    pub source_wait: Duration,
    /// Maximum time that a list or a search waits while any source is starting.
    pub startup_wait: Duration,
}

impl Default for PipelineSettings {
    fn default() -> Self {
        Self {
            max_concurrent_calls: 10_000,
            max_exclusive_queue: 64,
            max_nesting: 32,
            call_timeout: Duration::from_secs(300),
            cancel_grace: Duration::from_secs(5),
            source_wait: Duration::from_secs(60),
            startup_wait: Duration::from_secs(10),
        }
    }
}

/// Runs a call through all stages.
///
/// Not an `async fn`, because that would store the call twice in the future.
#[expect(clippy::manual_async_fn, reason = "an async fn holds its argument twice")]
fn run(mut call: CallState) -> impl Future<Output = Result<Outcome, CallError>> + Send {
    async move {
        if call.may_wait_for_source {
            Box::pin(startup::wait_for_operation(&mut call)).await;
        }
        let result = match audit::enter(&mut call).await {
            Ok(()) => run_stages(&mut call).await,
            Err(rejected) => Err(rejected),
        };
        let result = result.map_err(|error| call.finalize_error(error));
        let result = match idempotency::complete(&mut call, &result).await {
            Err(unrecorded) if result.is_ok() => Err(call.finalize_error(unrecorded)),
            _ => result,
        };
        match audit::exit(&call, &AuditOutcome::from_result(&result)).await {
            Err(unrecorded) if result.is_ok() => Err(call.finalize_error(unrecorded)),
            _ => result,
        }
    }
}

async fn run_stages(call: &mut CallState) -> Result<Outcome, CallError> {
    let admission = check(call).await?;
    if let Some(result) = idempotency::claim(call).await {
        return result;
    }
    let mut guards = acquire(call, admission).await?;
    idempotency::dispatch(call).await?;
    let output = dispatch::call_handler(call, &mut guards).await;
    limits::record_result(call, &output);
    result::build_outcome(call, output?).await
}

/// Runs the stages that check a call or subscription.
async fn check(call: &mut CallState) -> Result<limits::Admission, CallError> {
    let admission = limits::admit(call).await?;
    if call.kind().is_none() {
        // It may have been canceled while it waited for its source.
        call.ensure_active()?;
    }
    call.handler()?;
    access::check(call)?;
    input::check(call).await?;
    Ok(admission)
}

/// Runs the stages between the checks and dispatch, for calls and subscriptions.
async fn acquire(
    call: &mut CallState,
    admission: limits::Admission,
) -> Result<dispatch::Guards, CallError> {
    approval::wait_for_approval(call).await?;
    let lock = match call.operation()?.spec().exclusive {
        // Boxed to keep the future of other calls small.
        true => Some(Box::pin(lock::acquire(call)).await?),
        false => None,
    };
    let source_permit = limits::acquire_source(call).await?;
    call.ensure_active()?;
    Ok(Some((admission, source_permit, lock)))
}

impl Pipeline {
    /// Creates a pipeline with the default settings and no hooks.
    pub fn new(registry: Registry) -> Self {
        Self::builder(registry).build()
    }

    /// Returns a builder for the settings and hooks of a pipeline.
    pub fn builder(registry: Registry) -> PipelineBuilder {
        let settings = PipelineSettings::default();
        PipelineBuilder(PipelineShared {
            registry,
            audit: None,
            limits: None,
            idempotency: None,
            approval: None,
            observer: None,
            concurrency: ConcurrencyLimit::new(settings.max_concurrent_calls),
            locks: ExclusiveLocks::new(settings.max_exclusive_queue),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            settings,
        })
    }

    /// Returns the registry of the operations that this pipeline runs.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// Returns the limits and timeouts of calls.
    pub fn settings(&self) -> &PipelineSettings {
        &self.0.settings
    }

    /// Calls an operation without an access check; every other stage runs as for [`Pipeline::call`].
    ///
    /// # Errors
    ///
    /// Returns the error of the call.
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels a query; a mutation that was dispatched runs to completion.
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

    /// Like [`Pipeline::call_trusted`], with Rust types for input and output.
    ///
    /// # Errors
    ///
    /// Returns the error of the call, or an error if the input cannot be serialized or the output
    /// does not match its type.
    #[doc(alias = "execute_as")]
    pub async fn call_trusted_as<T: DeserializeOwned>(
        &self,
        operation: &str,
        input: impl Serialize,
    ) -> Result<Envelope<T>, CallError> {
        let outcome = self.trusted_call(operation, Payload::from_serialize(&input)?).await?;
        outcome.envelope.into_typed().map_err(|error| output_mismatch(operation, &error))
    }

    /// Subscribes to an operation without an access check. The subscription starts when the stream
    /// is first polled.
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

    /// Calls an operation with the given authority. All endpoints call operations through this
    /// method.
    pub fn call(&self, request: CallRequest<'_>, authority: Authority) -> Call {
        Call::new(CallState::root(&self.0, request, authority))
    }

    /// Records a call that an endpoint rejected before it entered the pipeline, and counts it
    /// against the caller's limits. Returns the limit error if a limit rejects the call as well.
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
            // Journal errors are logged.
            Err(_) => None,
        };
        let _ = audit::exit(&call, &AuditOutcome::Failed(rejected.as_ref().unwrap_or(error))).await;
        rejected
    }

    /// Starts a subscription with the given authority. A query or mutation yields its single value
    /// and completes.
    pub fn start_subscription(
        &self,
        request: CallRequest<'_>,
        authority: Authority,
    ) -> Subscription {
        Subscription::new(CallState::root(&self.0, request, authority))
    }

    /// Starts a call or a subscription, depending on the kind of the operation.
    pub(crate) fn start(&self, request: CallRequest<'_>, authority: Authority) -> StartedCall {
        Self::start_state(CallState::root(&self.0, request, authority))
    }

    /// Like [`Pipeline::start`], but a subscription also gets the default call timeout, for callers
    /// that wait for a single value.
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

    /// Returns the number of calls and subscriptions in flight.
    pub fn in_flight(&self) -> usize {
        self.0.concurrency.in_flight()
    }

    /// Waits for calls that outlived their caller, and aborts those still running at the deadline.
    /// Returns whether all of them completed in time.
    ///
    /// New calls are not rejected; close the endpoints before draining.
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

/// Builder for a [`Pipeline`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct PipelineBuilder(PipelineShared);

impl PipelineBuilder {
    /// Sets the limits and timeouts.
    pub fn settings(mut self, settings: PipelineSettings) -> Self {
        self.0.concurrency = ConcurrencyLimit::new(settings.max_concurrent_calls);
        self.0.locks = ExclusiveLocks::new(settings.max_exclusive_queue);
        self.0.settings = settings;
        self
    }

    /// Sets the audit sink.
    pub fn audit(mut self, audit: impl AuditSink) -> Self {
        self.0.audit = Some(Arc::new(audit));
        self
    }

    /// Sets limits that apply in addition to the settings.
    pub fn limits(mut self, limits: Arc<dyn Limits>) -> Self {
        self.0.limits = Some(limits);
        self
    }

    /// Sets the store of the outcomes of calls with an idempotency key. Without it, such calls are
    /// rejected.
    pub fn idempotency(mut self, idempotency: impl Idempotency) -> Self {
        self.0.idempotency = Some(Arc::new(idempotency));
        self
    }

    /// Sets the gate that decides which calls need approval.
    pub fn approval(mut self, approval: impl ApprovalGate) -> Self {
        self.0.approval = Some(Arc::new(approval));
        self
    }

    /// Sets an observer, which cannot affect calls.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.0.observer = Some(observer);
        self
    }

    /// Builds the pipeline.
    pub fn build(self) -> Pipeline {
        Pipeline(Arc::new(self.0))
    }
}

debug_fields!(pipeline: Pipeline, in_flight = pipeline.in_flight());
