//! Operations that run somewhere else: the handler hands the call to whoever is behind a name.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};

use super::slot::Slot;
use crate::connection::Behalf;
use crate::error::{CallError, HandlerError};
use crate::handler::{CallContext, Handler, OnceHandler, Output, ProgressSender, StreamHandler};
use crate::payload::Payload;
use crate::pipeline::CallRequest;
use crate::spec::Kind;

/// Where a call goes, and under which id it is known there.
pub(super) struct Forward {
    pub(super) slot: Arc<Slot>,
    pub(super) operation: String,
    pub(super) timeout: Option<Duration>,
}

impl Forward {
    pub(super) fn handler(self, kind: Kind) -> Handler {
        match kind {
            Kind::Subscription => Handler::Stream(Arc::new(self)),
            Kind::Query | Kind::Mutation => Handler::Once(Arc::new(self)),
        }
    }

    /// The same request as the far end gets it, with the shorter of what is left of the time and
    /// what the operator allows.
    fn request<'a>(
        &'a self,
        context: &CallContext,
        input: Payload,
        allowed: Option<Duration>,
    ) -> CallRequest<'a> {
        let request = CallRequest::new(&self.operation, input)
            .request_id(context.request_id().clone())
            .shared_metadata(context.shared_metadata());
        match context.remaining().into_iter().chain(allowed).min() {
            Some(timeout) => request.timeout(timeout),
            None => request,
        }
    }
}

impl OnceHandler for Forward {
    fn call(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxFuture<'static, Result<Output, HandlerError>> {
        let client = match self.slot.client() {
            Ok(client) => client,
            Err(error) => return std::future::ready(Err(error.into())).boxed(),
        };
        let reports = context.clone();
        let progress = ProgressSender::from_fn(move |progress| reports.report(progress));
        let request = self.request(&context, input, self.timeout).progress(progress);
        let calling = client.call_for(request, Some(Behalf(context.shared_identity())));
        let slot = Arc::clone(&self.slot);
        async move {
            tokio::select! {
                biased;
                answer = calling => {
                    Ok(Output::Relayed(answer.map_err(|error| slot.name_loss(&client, error))?))
                }
                // Dropping the call tells the far end.
                () = context.cancelled() => {
                    Err(CallError::aborted("the call was canceled").into())
                }
            }
        }
        .boxed()
    }
}

impl StreamHandler for Forward {
    fn subscribe(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxStream<'static, Result<Output, HandlerError>> {
        let client = match self.slot.client() {
            Ok(client) => client,
            Err(error) => {
                return futures::stream::once(std::future::ready(Err(error.into()))).boxed();
            }
        };
        // The operator bounds calls; a stream may go on for as long as its consumer wants.
        let request = self.request(&context, input, None);
        let values = client.subscribe_for(request, Some(Behalf(context.shared_identity())));
        let until_cancelled = async move { context.cancelled().await };
        let slot = Arc::clone(&self.slot);
        values
            .map(move |value| {
                Ok(Output::Relayed(value.map_err(|error| slot.name_loss(&client, error))?))
            })
            .take_until(until_cancelled.boxed())
            .boxed()
    }
}
