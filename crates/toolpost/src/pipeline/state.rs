//! A call in flight: what was asked, by whom, until when.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::Shared;
use super::approval::Approval;
use super::request::CallRequest;
use super::seam::{CallView, Step};
use crate::access::Authority;
use crate::error::{CallError, CallProgress};
use crate::handler::{
    Beginning, CallContext, Handler, NestedCall, NestedStanding, RequestId, from_now,
};
use crate::operation::Operation;
use crate::payload::Payload;
use crate::registry::{Asker, Catalog};
use crate::spec::Kind;
use crate::trace::{CallSpan, TRACE_PARENT};

/// How soon a deadline that stands still is looked at again.
const SOONEST_ALARM: Duration = Duration::from_millis(50);

pub(super) struct CallState {
    pub(super) shared: Arc<Shared>,
    pub(super) context: CallContext,
    target: Target,
    /// Taken by dispatch.
    pub(super) input: Option<Payload>,
    /// Whether access is not checked; decided by the type of the authority and by nothing else.
    pub(super) trusted: bool,
    door: &'static str,
    pub(super) idle_timeout: Option<Duration>,
    /// When it began, where somebody writes that down.
    pub(super) began: Option<Instant>,
    /// When its handler was entered, where somebody writes that down.
    pub(super) dispatched_at: Option<Instant>,
    /// How whoever writes it down knows it again.
    pub(super) mark: Option<u64>,
    /// Whose word it had to wait for.
    pub(super) approval: Option<Box<Approval>>,
    pub(super) dispatched: bool,
    /// Its spans, where it is recorded.
    span: Option<Box<CallSpan>>,
}

enum Target {
    Found(Arc<Operation>),
    /// Nothing of that id; the context knows which was asked for.
    Missing,
}

impl Target {
    /// The look-up, and the id in the form that is kept.
    fn find(catalog: Option<&Catalog>, id: &str) -> (Self, Arc<str>) {
        match catalog.and_then(|catalog| catalog.get(id)) {
            Some(operation) => (Self::Found(Arc::clone(operation)), operation.id().to_shared()),
            None => (Self::Missing, id.into()),
        }
    }
}

type Metadata = Option<Arc<Map<String, Value>>>;

impl Shared {
    /// The spans of a call that begins, and its metadata: whatever it causes stands below it. Where
    /// nobody records calls, a trace passes as it came.
    fn traced(&self, metadata: Metadata, target: &Target) -> (Option<Box<CallSpan>>, Metadata) {
        let operation = match target {
            Target::Found(operation) => Some(&**operation),
            Target::Missing => None,
        };
        let span =
            self.observer.as_ref().and_then(|seen| seen.span(metadata.as_deref(), operation));
        let Some(span) = span else { return (None, metadata) };
        let mut below = metadata.map(Arc::unwrap_or_clone).unwrap_or_default();
        below.insert(TRACE_PARENT.to_owned(), span.below().to_string().into());
        (Some(span), Some(Arc::new(below)))
    }

    /// Whether anybody wants to know how long things take.
    pub(super) fn is_timed(&self) -> bool {
        self.audit.is_some() || self.observer.is_some() || self.limits.is_some()
    }
}

impl CallState {
    pub(super) fn root(
        shared: &Arc<Shared>,
        request: CallRequest<'_>,
        authority: Authority,
    ) -> Self {
        let catalog = shared.registry.catalog();
        let (target, operation) = Target::find(Some(&catalog), request.operation);
        let (trusted, identity) = authority.into_parts();
        let (span, metadata) = shared.traced(request.metadata, &target);
        let beginning = Beginning {
            operation,
            request_id: request.request_id.unwrap_or_else(RequestId::fresh),
            parent_request_id: request.parent_request_id,
            identity,
            deadline: request.timeout.and_then(from_now),
            progress: request.progress,
            respondent: request.respondent,
            metadata,
            attached: request.attached,
        };
        let nesting: Arc<Shared> = Arc::clone(shared);
        Self {
            shared: Arc::clone(shared),
            context: CallContext::root(nesting, catalog, beginning),
            target,
            input: Some(request.input),
            trusted,
            door: request.door,
            idle_timeout: request.idle_timeout,
            began: None,
            dispatched_at: None,
            mark: None,
            approval: None,
            dispatched: false,
            span,
        }
    }

    /// A call out of a handler: trusted because its caller is running, unless it acts as somebody
    /// else.
    pub(super) fn nested(shared: Arc<Shared>, call: NestedCall<'_>) -> Self {
        let catalog = call.from.snapshot().downcast_ref::<Catalog>();
        let (target, operation) = Target::find(catalog, call.operation);
        let (span, metadata) = shared.traced(call.from.shared_metadata(), &target);
        Self {
            shared,
            context: CallContext::below(&call, operation, metadata),
            target,
            input: Some(call.input),
            trusted: call.standing == NestedStanding::Trusted,
            door: "local",
            idle_timeout: None,
            began: None,
            dispatched_at: None,
            mark: None,
            approval: None,
            dispatched: false,
            span,
        }
    }

    /// The look-up, which comes before every stage.
    pub(super) fn operation(&self) -> Result<&Arc<Operation>, CallError> {
        match &self.target {
            Target::Found(operation) => Ok(operation),
            Target::Missing => Err(self.missing()),
        }
    }

    fn missing(&self) -> CallError {
        let id = self.context.operation();
        match self.context.snapshot().downcast_ref::<Catalog>() {
            Some(catalog) => catalog.missing(id, self.asker()),
            None => CallError::operation_not_found(id),
        }
    }

    pub(super) fn asker(&self) -> Asker<'_> {
        match self.context.identity() {
            None if self.trusted => Asker::Process,
            identity => Asker::Outside(identity),
        }
    }

    pub(super) fn handler(&self) -> Result<&Handler, CallError> {
        let operation = self.operation()?;
        operation.handler().ok_or_else(|| CallError::no_handler(operation.id().as_str()))
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        self.operation().ok().map(|operation| operation.spec().kind)
    }

    pub(super) fn view(&self) -> CallView<'_> {
        CallView {
            request_id: self.context.request_id(),
            parent_request_id: self.context.parent_request_id(),
            door: self.door,
            operation_id: self.context.operation(),
            operation: self.operation().ok().map(|operation| &**operation),
            identity: self.context.identity(),
            trusted: self.trusted,
            progress: self.context.progress(),
            input: self.input.as_ref(),
            metadata: self.context.metadata(),
            span: self.span.as_deref(),
            context: &self.context,
            mark: self.mark,
            approval: self.approval.as_deref(),
        }
    }

    /// Fails if nobody wants the call any more.
    pub(super) fn ensure_wanted(&self) -> Result<(), CallError> {
        if self.context.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
            self.context.pass_deadline();
        }
        if self.context.is_cancelled() {
            return Err(self.context.cancellation_error());
        }
        Ok(())
    }

    /// Waits for a seam while the call is wanted.
    pub(super) async fn wait_for<T>(&self, step: Step<T>) -> Result<T, CallError> {
        match step {
            Step::Now(result) => result,
            Step::Later(future) => self.while_wanted(future).await?,
        }
    }

    /// Waits for `future` until the call is canceled or its deadline passes.
    ///
    /// What is ready at once costs one poll. Whoever has to wait is asked first whether the call is
    /// still wanted, so that a canceled call never ends as if nothing had happened.
    pub(super) async fn while_wanted<F: Future>(&self, future: F) -> Result<F::Output, CallError> {
        let mut future = std::pin::pin!(future);
        let first = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx)));
        if let Poll::Ready(output) = first.await {
            return Ok(output);
        }
        self.started_deadline();
        // Boxed, so that the calls which never wait do not carry the room for it.
        Box::pin(self.wait_while_wanted(None, future)).await
    }

    /// As [`CallState::while_wanted`], and no longer than the operator of this process allows.
    pub(super) async fn while_wanted_for<F: Future>(
        &self,
        allowed: Duration,
        future: F,
    ) -> Result<F::Output, CallError> {
        let future = std::pin::pin!(future);
        self.started_deadline();
        Box::pin(self.wait_while_wanted(from_now(allowed), future)).await
    }

    /// Polled by hand, because there may be ten thousands that wait, and `select!` would hold each
    /// of the futures twice.
    async fn wait_while_wanted<F: Future + ?Sized>(
        &self,
        allowed: Option<Instant>,
        mut future: Pin<&mut F>,
    ) -> Result<F::Output, CallError> {
        let deadline = || allowed.into_iter().chain(self.context.deadline()).min();
        let mut cancelled = std::pin::pin!(self.context.token().cancelled());
        let mut alarm = std::pin::pin!(deadline().map(tokio::time::sleep_until));
        std::future::poll_fn(|cx| {
            if cancelled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(self.context.cancellation_error()));
            }
            while let Some(mut rung) = alarm.as_mut().as_pin_mut() {
                if rung.as_mut().poll(cx).is_pending() {
                    break;
                }
                let now = Instant::now();
                match deadline() {
                    // It stood still for a time.
                    Some(later) if later > now => rung.reset(later.max(now + SOONEST_ALARM)),
                    _ => {
                        self.context.pass_deadline();
                        return Poll::Ready(Err(self.context.cancellation_error()));
                    }
                }
            }
            future.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// Starts the clock of a call that named no deadline. The clock is not read before somebody
    /// has to wait, so a call that is answered at once does not pay for it.
    pub(super) fn started_deadline(&self) -> Option<Instant> {
        match self.kind() {
            Some(Kind::Subscription) => self.context.deadline(),
            _ => self.context.deadline_or(self.shared.settings.call_timeout),
        }
    }

    /// Decides, once, what the error means for somebody who would call again.
    pub(super) fn settle(&self, error: CallError) -> CallError {
        let progress = match self.operation() {
            Ok(operation) => {
                let spec = operation.spec();
                let as_declared = (spec.kind, spec.idempotent);
                let (kind, idempotent) = self.context.acting_as().unwrap_or(as_declared);
                CallProgress { kind, idempotent, dispatched: self.dispatched }
            }
            Err(_) => CallProgress { kind: Kind::Query, idempotent: false, dispatched: false },
        };
        error.settled(progress)
    }
}
