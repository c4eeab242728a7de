//! The way back into the pipeline: for a handler that calls on, and for a call that was left.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use tokio::runtime::Handle;

use super::Shared;
use super::call::Call;
use super::state::CallState;
use super::subscription::Subscription;
use crate::error::CallError;
use crate::handler::{CallContext, NestedCall, Nesting};
use crate::outcome::Outcome;

impl Nesting for Shared {
    fn execute(
        self: Arc<Self>,
        call: NestedCall<'_>,
    ) -> BoxFuture<'static, Result<Outcome, CallError>> {
        let call = Call::new(CallState::nested(self, call));
        call.map(|ended| ended.map_err(CallError::crossing)).boxed()
    }

    fn subscribe(
        self: Arc<Self>,
        call: NestedCall<'_>,
    ) -> BoxStream<'static, Result<Outcome, CallError>> {
        let values = Subscription::new(CallState::nested(self, call));
        values.map(|value| value.map_err(CallError::crossing)).boxed()
    }

    fn adopt(&self, runtime: &Handle, context: CallContext, mut rest: BoxFuture<'static, ()>) {
        let stop = self.stop.clone();
        let carried_on = async move {
            tokio::select! {
                biased;
                () = &mut rest => return,
                () = stop.cancelled() => context.abort(Some("the process is stopping".into())),
            }
            rest.await;
        };
        self.tasks.spawn_on(carried_on, runtime);
    }
}
