//! The state of a call in flight.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::PipelineShared;
use super::approval::Approval;
use super::hooks::{CallView, Endpoint, HookResult};
use super::idempotency::IdempotencyState;
use super::request::CallRequest;
use crate::access::Authority;
use crate::error::{CallError, RetryContext};
use crate::handler::{
    CallContext, CallStart, Handler, NestedAuthority, NestedCall, RequestId, deadline_after,
};
use crate::operation::Operation;
use crate::payload::Payload;
use crate::registry::{Catalog, ResolvedOperation, Viewer};
use crate::spec::OperationKind;
use crate::trace::{CallSpan, TRACE_PARENT};

/// Minimum interval between checks of a paused deadline.
const MIN_TIMER_INTERVAL: Duration = Duration::from_millis(50);

pub(super) struct CallState {
    pub(super) shared: Arc<PipelineShared>,
    pub(super) context: CallContext,
    /// `None` if no such operation exists; the context has the requested id.
    target: Option<Arc<Operation>>,
    /// Whether the operation is looked up again after its source has started.
    pub(super) may_wait_for_source: bool,
    /// The input, until dispatch takes it.
    pub(super) input: Option<Payload>,
    /// A copy of the input for the audit sink, if defaults were filled in.
    filled_input: Option<Box<Payload>>,
    /// Whether the access check is skipped. Determined only by the type of the authority.
    pub(super) trusted: bool,
    endpoint: Endpoint,
    pub(super) idle_timeout: Option<Duration>,
    /// Start time, if the call is timed.
    pub(super) started_at: Option<Instant>,
    /// Time of dispatch, if the call is timed.
    pub(super) dispatched_at: Option<Instant>,
    /// The id of the call at the audit sink.
    pub(super) audit_id: Option<u64>,
    /// The approval of the call, if one was given.
    pub(super) approval: Option<Box<Approval>>,
    pub(super) dispatched: bool,
    /// Present once the call has claimed its idempotency key. Boxed, because most calls have none.
    pub(super) idempotency: Option<Box<IdempotencyState>>,
    /// The trace spans of the call, if it is traced.
    span: Option<Box<CallSpan>>,
}

/// Looks up an operation and returns its id in shared form.
fn resolve(catalog: Option<&Catalog>, id: &str) -> (Option<Arc<Operation>>, Arc<str>) {
    let found = catalog.and_then(|catalog| catalog.get(id)).cloned();
    let id = found.as_ref().map_or_else(|| id.into(), |operation| operation.id().to_shared());
    (found, id)
}

type Metadata = Option<Arc<Map<String, Value>>>;

impl PipelineShared {
    /// Starts the spans of a call and returns the metadata for its children. Without spans, the
    /// trace context is passed on unchanged.
    fn start_span(
        &self,
        metadata: Metadata,
        operation: Option<&Operation>,
    ) -> (Option<Box<CallSpan>>, Metadata) {
        let span =
            self.observer.as_ref().and_then(|seen| seen.span(metadata.as_deref(), operation));
        let Some(span) = span else { return (None, metadata) };
        let mut child_metadata = metadata.map(Arc::unwrap_or_clone).unwrap_or_default();
        child_metadata.insert(TRACE_PARENT.to_owned(), span.child_context().to_string().into());
        (Some(span), Some(Arc::new(child_metadata)))
    }

    /// Whether an audit sink, an observer or limits need timing.
    pub(super) fn is_timed(&self) -> bool {
        self.audit.is_some() || self.observer.is_some() || self.limits.is_some()
    }
}

impl CallState {
    pub(super) fn root(
        shared: &Arc<PipelineShared>,
        request: CallRequest<'_>,
        authority: Authority,
    ) -> Self {
        let has_catalog = request.catalog.is_some();
        let (catalog, target, operation) = match request.resolved {
            Some(ResolvedOperation { catalog, operation }) => {
                let id = operation.id().to_shared();
                (catalog, Some(operation), id)
            }
            None => {
                let catalog = request.catalog.unwrap_or_else(|| shared.registry.catalog());
                let (target, id) = resolve(Some(&catalog), request.operation);
                (catalog, target, id)
            }
        };
        let (trusted, identity) = authority.into_parts();
        let (span, metadata) = shared.start_span(request.metadata, target.as_deref());
        let start = CallStart {
            operation,
            request_id: request.request_id.unwrap_or_else(RequestId::generate),
            parent_request_id: request.parent_request_id,
            identity,
            deadline: request.timeout.and_then(deadline_after),
            progress: request.progress,
            client_channel: request.client_channel,
            metadata,
            attached: request.attached,
            idempotency_key: request.idempotency_key,
        };
        let nested_caller: Arc<PipelineShared> = Arc::clone(shared);
        let context = CallContext::new(nested_caller, catalog, start, None);
        let mut call = Self::new(Arc::clone(shared), context, target, request.input, trusted, span);
        call.may_wait_for_source &= !has_catalog;
        call.endpoint = request.endpoint;
        call.idle_timeout = request.idle_timeout;
        call.approval = request.approval.map(Box::new);
        call
    }

    /// Creates the state of a nested call. It is trusted unless it is made with the permissions of
    /// the original caller.
    pub(super) fn nested(shared: Arc<PipelineShared>, call: NestedCall<'_>) -> Self {
        let catalog = call.from.snapshot().downcast_ref::<Catalog>();
        let (target, operation) = resolve(catalog, call.operation);
        let (span, metadata) = shared.start_span(call.from.shared_metadata(), target.as_deref());
        let context = CallContext::nested(&call, operation, metadata);
        let trusted = call.authority == NestedAuthority::Trusted;
        let call = Self::new(shared, context, target, call.input, trusted, span);
        call.set_effective_kind();
        call
    }

    /// Reports the kind of the target to the call that forwards to it, if there is one.
    fn set_effective_kind(&self) {
        if let (false, Some(target), Some(caller)) =
            (self.trusted, &self.target, self.context.caller())
        {
            caller.set_effective_kind(target.spec().kind, target.spec().idempotent);
        }
    }

    /// Looks up the operation in the current snapshot of the call.
    pub(super) fn resolve_again(&mut self) {
        let catalog = self.context.snapshot().downcast_ref::<Catalog>();
        self.target = resolve(catalog, self.context.operation()).0;
        self.set_effective_kind();
    }

    fn new(
        shared: Arc<PipelineShared>,
        context: CallContext,
        target: Option<Arc<Operation>>,
        input: Payload,
        trusted: bool,
        span: Option<Box<CallSpan>>,
    ) -> Self {
        Self {
            shared,
            context,
            may_wait_for_source: target.is_none(),
            target,
            input: Some(input),
            filled_input: None,
            trusted,
            endpoint: Endpoint::Local,
            idle_timeout: None,
            started_at: None,
            dispatched_at: None,
            audit_id: None,
            approval: None,
            dispatched: false,
            idempotency: None,
            span,
        }
    }

    /// Returns the operation, or the not-found error.
    pub(super) fn operation(&self) -> Result<&Arc<Operation>, CallError> {
        self.target.as_ref().ok_or_else(|| {
            let id = self.context.operation();
            match self.context.snapshot().downcast_ref::<Catalog>() {
                Some(catalog) => catalog.not_found_error(id, self.viewer()),
                None => CallError::operation_not_found(id),
            }
        })
    }

    pub(super) fn viewer(&self) -> Viewer<'_> {
        match self.context.identity() {
            None if self.trusted => Viewer::Process,
            identity => Viewer::External(identity),
        }
    }

    pub(super) fn handler(&self) -> Result<&Handler, CallError> {
        let operation = self.operation()?;
        operation.handler().ok_or_else(|| CallError::no_handler(operation.id().as_str()))
    }

    pub(super) fn kind(&self) -> Option<OperationKind> {
        self.target.as_ref().map(|operation| operation.spec().kind)
    }

    /// Keeps a copy of the input for the audit sink, which has only seen it without its defaults.
    pub(super) fn record_filled_input(&mut self) {
        if self.shared.audit.is_some() {
            self.filled_input = self.input.clone().map(Box::new);
        }
    }

    pub(super) fn view(&self) -> CallView<'_> {
        CallView {
            request_id: self.context.request_id(),
            parent_request_id: self.context.parent_request_id(),
            endpoint: self.endpoint,
            operation_id: self.context.operation(),
            operation: self.target.as_deref(),
            identity: self.context.identity(),
            trusted: self.trusted,
            progress: self.context.progress(),
            input: self.input.as_ref(),
            filled_input: self.filled_input.as_deref(),
            metadata: self.context.metadata(),
            span: self.span.as_deref(),
            context: &self.context,
            audit_id: self.audit_id,
            approval: self.approval.as_deref(),
            first_call: self.idempotency.as_ref().and_then(|state| state.first_call),
        }
    }

    /// Fails if the call is canceled or its deadline has passed.
    pub(super) fn ensure_active(&self) -> Result<(), CallError> {
        if self.context.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
            self.context.cancel_by_deadline();
        }
        if self.context.is_canceled() {
            return Err(self.context.cancellation_error());
        }
        Ok(())
    }

    /// Waits for a hook until the call is canceled or its deadline passes.
    pub(super) async fn await_hook<T>(&self, result: HookResult<T>) -> Result<T, CallError> {
        match result {
            HookResult::Ready(result) => result,
            HookResult::Pending(future) => self.until_canceled(future).await?,
        }
    }

    /// Waits for `future` until the call is canceled or its deadline passes.
    ///
    /// A future that is ready at once costs one poll. While waiting, cancellation is checked before
    /// the future, so a canceled call never completes successfully.
    pub(super) async fn until_canceled<F: Future>(
        &self,
        future: F,
    ) -> Result<F::Output, CallError> {
        let mut future = std::pin::pin!(future);
        let first = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx)));
        if let Poll::Ready(output) = first.await {
            return Ok(output);
        }
        self.start_deadline();
        // Boxed to keep the future small for calls that never wait.
        Box::pin(self.poll_until_canceled(None, future)).await
    }

    /// Like [`CallState::until_canceled`], but also limited to `allowed`, the timeout configured in
    /// this process.
    pub(super) async fn until_canceled_or_timeout<F: Future>(
        &self,
        allowed: Duration,
        future: F,
    ) -> Result<F::Output, CallError> {
        let future = std::pin::pin!(future);
        self.start_deadline();
        Box::pin(self.poll_until_canceled(deadline_after(allowed), future)).await
    }

    /// Polls `future` until it is ready, the call is canceled, or a deadline passes. Polls manually,
    /// because `select!` would store each future twice and tens of thousands of calls may be
    /// waiting.
    async fn poll_until_canceled<F: Future + ?Sized>(
        &self,
        allowed: Option<Instant>,
        mut future: Pin<&mut F>,
    ) -> Result<F::Output, CallError> {
        let deadline = || allowed.into_iter().chain(self.context.deadline()).min();
        let mut canceled = std::pin::pin!(self.context.token().cancelled());
        let mut timer = std::pin::pin!(deadline().map(tokio::time::sleep_until));
        std::future::poll_fn(|cx| {
            if canceled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(self.context.cancellation_error()));
            }
            while let Some(mut sleep) = timer.as_mut().as_pin_mut() {
                if sleep.as_mut().poll(cx).is_pending() {
                    break;
                }
                let now = Instant::now();
                match deadline() {
                    // The deadline was paused and is now later.
                    Some(later) if later > now => sleep.reset(later.max(now + MIN_TIMER_INTERVAL)),
                    _ => {
                        self.context.cancel_by_deadline();
                        return Poll::Ready(Err(self.context.cancellation_error()));
                    }
                }
            }
            future.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// Starts the default deadline if the call has none. Called only when the call has to wait, so
    /// a call that completes immediately does not read the clock.
    pub(super) fn start_deadline(&self) -> Option<Instant> {
        match self.kind() {
            Some(OperationKind::Subscription) => self.context.deadline(),
            _ => self.context.deadline_or_start_default(self.shared.settings.call_timeout),
        }
    }

    /// Determines whether the error is safe to retry, given the operation and whether it was
    /// dispatched.
    pub(super) fn finalize_error(&self, error: CallError) -> CallError {
        let progress = match &self.target {
            Some(operation) => {
                let spec = operation.spec();
                let as_declared = (spec.kind, spec.idempotent);
                let (kind, idempotent) = self.context.effective_kind().unwrap_or(as_declared);
                RetryContext { kind, idempotent, dispatched: self.dispatched }
            }
            None => {
                RetryContext { kind: OperationKind::Query, idempotent: false, dispatched: false }
            }
        };
        error.finalize(progress)
    }
}
