//! A call in flight: what was asked, by whom, until when.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::Shared;
use super::request::CallRequest;
use super::seam::{CallView, Step};
use crate::access::Authority;
use crate::error::{CallError, CallProgress};
use crate::handler::{
    CallContext, Cancellation, ContextParts, Handler, Held, Lineage, NestedCall, ProgressSender,
    RequestId,
};
use crate::operation::Operation;
use crate::payload::Payload;
use crate::registry::Catalog;
use crate::spec::Kind;

pub(super) struct CallState {
    pub(super) shared: Arc<Shared>,
    target: Target,
    /// Taken by dispatch.
    pub(super) input: Option<Payload>,
    pub(super) authority: Authority,
    request_id: RequestId,
    parent_request_id: Option<RequestId>,
    door: &'static str,
    pub(super) cancellation: Cancellation,
    deadline: Option<Instant>,
    pub(super) idle_timeout: Option<Duration>,
    progress: ProgressSender,
    metadata: Option<Arc<Map<String, Value>>>,
    /// What the calls above hand down.
    pub(super) lineage: Lineage,
    /// When it began, where somebody writes that down.
    pub(super) began: Option<Instant>,
    pub(super) dispatched: bool,
}

enum Target {
    Found(Arc<Operation>),
    Missing(Box<str>),
}

impl Target {
    fn find(catalog: &Catalog, id: &str) -> Self {
        match catalog.get(id) {
            Some(operation) => Self::Found(Arc::clone(operation)),
            None => Self::Missing(id.into()),
        }
    }
}

impl CallState {
    pub(super) fn root(
        shared: &Arc<Shared>,
        request: CallRequest<'_>,
        authority: Authority,
    ) -> Self {
        let catalog = shared.registry.catalog();
        let target = Target::find(&catalog, request.operation);
        Self {
            shared: Arc::clone(shared),
            target,
            input: Some(request.input),
            authority,
            request_id: request.request_id.unwrap_or_else(RequestId::fresh),
            parent_request_id: request.parent_request_id,
            door: request.door,
            cancellation: Cancellation::root(),
            deadline: request.timeout.map(|timeout| Instant::now() + timeout),
            idle_timeout: request.idle_timeout,
            progress: request.progress,
            metadata: request.metadata,
            lineage: Lineage { depth: 0, held: None, snapshot: catalog },
            began: None,
            dispatched: false,
        }
    }

    /// A call out of a handler: trusted, part of its caller, with what is left of its time.
    pub(super) fn nested(shared: Arc<Shared>, call: NestedCall<'_>) -> Self {
        let caller = call.from.parts();
        let mut lineage = caller.lineage.clone();
        lineage.depth += 1;
        let target = match lineage.snapshot.downcast_ref::<Catalog>() {
            Some(catalog) => Target::find(catalog, call.operation),
            None => Target::Missing(call.operation.into()),
        };
        let own = call.timeout.map(|timeout| Instant::now() + timeout);
        Self {
            shared,
            target,
            input: Some(call.input),
            authority: Authority::trusted(caller.identity.clone()),
            request_id: RequestId::fresh(),
            parent_request_id: Some(caller.request_id.clone()),
            door: "local",
            cancellation: Cancellation::below(&caller.cancellation),
            deadline: own.into_iter().chain(caller.deadline).min(),
            idle_timeout: None,
            progress: ProgressSender::default(),
            metadata: caller.metadata.clone(),
            lineage,
            began: None,
            dispatched: false,
        }
    }

    /// The look-up, which comes before every stage.
    pub(super) fn operation(&self) -> Result<&Arc<Operation>, CallError> {
        match &self.target {
            Target::Found(operation) => Ok(operation),
            Target::Missing(id) => Err(CallError::operation_not_found(id)),
        }
    }

    pub(super) fn handler(&self) -> Result<Handler, CallError> {
        let operation = self.operation()?;
        operation.handler().cloned().ok_or_else(|| CallError::no_handler(operation.id().as_str()))
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        self.operation().ok().map(|operation| operation.spec().kind)
    }

    pub(super) fn view(&self) -> CallView<'_> {
        let operation = self.operation().ok().map(|operation| &**operation);
        CallView {
            request_id: &self.request_id,
            parent_request_id: self.parent_request_id.as_ref(),
            door: self.door,
            operation_id: match &self.target {
                Target::Found(operation) => operation.id().as_str(),
                Target::Missing(id) => id,
            },
            operation,
            identity: self.authority.identity().map(|identity| &**identity),
            trusted: self.authority.is_trusted(),
            input: self.input.as_ref(),
        }
    }

    /// What the handler is given; `held` is what this call itself holds, if anything.
    pub(super) fn context(&self, operation: &Operation, held: Option<Arc<Held>>) -> CallContext {
        let mut lineage = self.lineage.clone();
        if held.is_some() {
            lineage.held = held;
        }
        CallContext::new(ContextParts {
            operation: operation.id().clone(),
            request_id: self.request_id.clone(),
            parent_request_id: self.parent_request_id.clone(),
            identity: self.authority.identity().cloned(),
            deadline: self.deadline,
            cancellation: self.cancellation.clone(),
            progress: self.progress.clone(),
            metadata: self.metadata.clone(),
            nesting: Arc::<Shared>::clone(&self.shared),
            lineage,
        })
    }

    /// Fails if nobody wants the call any more.
    pub(super) fn ensure_wanted(&self) -> Result<(), CallError> {
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            self.cancellation.pass_deadline();
        }
        if self.cancellation.is_cancelled() {
            return Err(self.cancellation.error());
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

    /// Waits for `future` until the call is cancelled or its deadline passes.
    ///
    /// What is ready at once costs one poll. Whoever has to wait is asked first whether the call is
    /// still wanted, so that a cancelled call never ends as if nothing had happened.
    pub(super) async fn while_wanted<F: Future>(&self, future: F) -> Result<F::Output, CallError> {
        let mut future = std::pin::pin!(future);
        let first = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx)));
        if let Poll::Ready(output) = first.await {
            return Ok(output);
        }
        // Boxed, so that the calls which never wait do not carry the room for it.
        Box::pin(self.wait_while_wanted(future)).await
    }

    async fn wait_while_wanted<F: Future>(
        &self,
        future: Pin<&mut F>,
    ) -> Result<F::Output, CallError> {
        tokio::select! {
            biased;
            () = self.cancellation.token().cancelled() => Err(self.cancellation.error()),
            () = self.deadline_passed() => {
                self.cancellation.pass_deadline();
                Err(self.cancellation.error())
            }
            output = future => Ok(output),
        }
    }

    /// Starts the clock of a call that named no deadline. The clock is not read before somebody
    /// has to wait, so a call that is answered at once does not pay for it.
    async fn deadline_passed(&self) {
        match (self.deadline, self.kind()) {
            (Some(deadline), _) => tokio::time::sleep_until(deadline).await,
            (None, Some(Kind::Subscription)) => std::future::pending().await,
            (None, _) => tokio::time::sleep(self.shared.settings.call_timeout).await,
        }
    }

    /// Decides, once, what the error means for somebody who would call again.
    pub(super) fn settle(&self, error: CallError) -> CallError {
        let progress = match self.operation() {
            Ok(operation) => CallProgress {
                kind: operation.spec().kind,
                idempotent: operation.spec().idempotent,
                dispatched: self.dispatched,
            },
            Err(_) => CallProgress { kind: Kind::Query, idempotent: false, dispatched: false },
        };
        error.settled(progress)
    }
}
