//! The way from a handler back into the pipeline.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};

use super::Shared;
use super::call::Call;
use super::state::CallState;
use super::subscription::Subscription;
use crate::envelope::Envelope;
use crate::error::CallError;
use crate::handler::{NestedCall, Nesting};
use crate::payload::Payload;

impl Nesting for Shared {
    fn execute(
        self: Arc<Self>,
        call: NestedCall<'_>,
    ) -> BoxFuture<'static, Result<Envelope<Payload>, CallError>> {
        let call = Call::new(CallState::nested(self, call));
        async { Ok(call.await?.envelope) }.boxed()
    }

    fn subscribe(
        self: Arc<Self>,
        call: NestedCall<'_>,
    ) -> BoxStream<'static, Result<Envelope<Payload>, CallError>> {
        let values = Subscription::new(CallState::nested(self, call));
        values.map(|value| Ok(value?.envelope)).boxed()
    }
}
