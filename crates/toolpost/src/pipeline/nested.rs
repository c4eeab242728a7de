//! Nested calls from handlers, and calls that continue after their caller disconnects.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use tokio::runtime::Handle;

use super::PipelineShared;
use super::call::Call;
use super::startup;
use super::state::CallState;
use super::subscription::Subscription;
use crate::error::CallError;
use crate::handler::{CallContext, NestedCall, NestedCaller};
use crate::outcome::Outcome;

impl NestedCaller for PipelineShared {
    fn call(
        self: Arc<Self>,
        call: NestedCall<'_>,
    ) -> BoxFuture<'static, Result<Outcome, CallError>> {
        let call = Call::new(CallState::nested(self, call));
        call.map(|result| result.map_err(CallError::into_nested)).boxed()
    }

    fn subscribe(
        self: Arc<Self>,
        call: NestedCall<'_>,
    ) -> BoxStream<'static, Result<Outcome, CallError>> {
        let values = Subscription::new(CallState::nested(self, call));
        values.map(|value| value.map_err(CallError::into_nested)).boxed()
    }

    fn wait_for_sources<'a>(
        &'a self,
        context: &'a CallContext,
        namespace: Option<&'a str>,
    ) -> BoxFuture<'a, ()> {
        startup::wait(self, context, namespace).boxed()
    }

    fn spawn_detached(
        &self,
        runtime: &Handle,
        context: CallContext,
        mut rest: BoxFuture<'static, ()>,
    ) {
        let stop = self.stop.clone();
        let detached = async move {
            tokio::select! {
                biased;
                () = &mut rest => return,
                () = stop.cancelled() => context.abort(Some("the process is shutting down".into())),
            }
            rest.await;
        };
        self.tasks.spawn_on(detached, runtime);
    }
}
