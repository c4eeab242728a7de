//! Handlers that forward calls to the connection behind a spoke name.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};

use super::spoke_registry::SpokeRoute;
use crate::connection::OnBehalfOf;
use crate::error::{CallError, HandlerError};
use crate::handler::{
    CallContext, Handler, HandlerOutput, OnceHandler, ProgressSender, StreamHandler,
};
use crate::payload::Payload;
use crate::pipeline::CallRequest;
use crate::spec::OperationKind;

/// Forwards calls over a route, under the operation id used by the remote peer.
pub(super) struct ForwardHandler {
    pub(super) route: Arc<SpokeRoute>,
    pub(super) operation: String,
    pub(super) timeout: Option<Duration>,
}

impl ForwardHandler {
    pub(super) fn into_handler(self, kind: OperationKind) -> Handler {
        match kind {
            OperationKind::Subscription => Handler::Stream(Arc::new(self)),
            OperationKind::Query | OperationKind::Mutation => Handler::Once(Arc::new(self)),
        }
    }

    /// Builds the request for the peer. Its timeout is the remaining time, at most `allowed`.
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

impl OnceHandler for ForwardHandler {
    fn call(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxFuture<'static, Result<HandlerOutput, HandlerError>> {
        let client = match self.route.client() {
            Ok(client) => client,
            Err(error) => return std::future::ready(Err(error.into())).boxed(),
        };
        let reports = context.clone();
        let progress = ProgressSender::from_fn(move |progress| reports.report(progress));
        let request = self.request(&context, input, self.timeout).progress(progress);
        let client_call =
            client.call_on_behalf(request, Some(OnBehalfOf(context.shared_identity())));
        let route = Arc::clone(&self.route);
        async move {
            tokio::select! {
                biased;
                response = client_call => {
                    Ok(HandlerOutput::Forwarded(response.map_err(|error| route.attribute_disconnect(&client, error))?))
                }
                // Dropping the client call sends the cancellation to the remote peer.
                () = context.canceled() => {
                    Err(CallError::aborted("the call was canceled").into())
                }
            }
        }
        .boxed()
    }
}

impl StreamHandler for ForwardHandler {
    fn subscribe(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxStream<'static, Result<HandlerOutput, HandlerError>> {
        let client = match self.route.client() {
            Ok(client) => client,
            Err(error) => {
                return futures::stream::once(std::future::ready(Err(error.into()))).boxed();
            }
        };
        // The operator's timeout applies to calls only; a stream has no time limit.
        let request = self.request(&context, input, None);
        let values =
            client.subscribe_on_behalf(request, Some(OnBehalfOf(context.shared_identity())));
        let until_canceled = async move { context.canceled().await };
        let route = Arc::clone(&self.route);
        values
            .map(move |value| {
                Ok(HandlerOutput::Forwarded(
                    value.map_err(|error| route.attribute_disconnect(&client, error))?,
                ))
            })
            .take_until(until_canceled.boxed())
            .boxed()
    }
}
