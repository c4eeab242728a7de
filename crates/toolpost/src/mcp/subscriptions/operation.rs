//! The subscription operation for resources: one value when the server has confirmed, and one per
//! update.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use serde::Deserialize;
use serde_json::{Map, json};

use super::{ResourceSubscriptions, Subscriber};
use crate::error::{CallError, HandlerError};
use crate::handler::{Handler, HandlerOutput};
use crate::mcp::method::METHOD_META;
use crate::mcp::source_handle::SourceHandle;
use crate::payload::Payload;
use crate::schema::Schema;
use crate::spec::{OperationId, OperationKind, OperationSpec};

/// Name of the method and of the operation.
pub(in crate::mcp) const SUBSCRIBE_METHOD: &str = "resources/subscribe";

const DESCRIPTION: &str = "Subscribes to a resource of the server: a value when the server has confirmed \
    (`subscribed`), and one whenever the resource has changed since (`updated`).";

pub(in crate::mcp) fn spec(source: &str) -> OperationSpec {
    let id = OperationId::new(source, SUBSCRIBE_METHOD)
        .or_else(|_| OperationId::new("mcp", SUBSCRIBE_METHOD));
    let mut spec =
        OperationSpec::new(&id.expect("the names are plain"), OperationKind::Subscription);
    spec.description = DESCRIPTION.to_owned();
    spec.tags = vec!["mcp".to_owned()];
    spec.meta = Some(Map::from_iter([(METHOD_META.to_owned(), SUBSCRIBE_METHOD.into())]));
    let input =
        json!({"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]});
    spec.input_schema = Schema::new(input).expect("an object is a schema");
    spec
}

pub(in crate::mcp) fn handler(handle: &Arc<SourceHandle>) -> Handler {
    let (subscriptions, timeout) = (Arc::clone(&handle.subscriptions), handle.timeout());
    Handler::stream_fn(move |context, input| {
        let values = subscription_stream(&subscriptions, input, timeout);
        values.take_until(async move { context.canceled().await })
    })
}

type SubscriptionStream = BoxStream<'static, Result<HandlerOutput, HandlerError>>;

fn subscription_stream(
    subscriptions: &Arc<ResourceSubscriptions>,
    input: Payload,
    timeout: Duration,
) -> SubscriptionStream {
    #[derive(Deserialize)]
    struct SubscribeInput {
        uri: String,
    }
    let input = input.into_typed::<SubscribeInput>();
    let subscribed = input
        .map_err(|error| CallError::validation(error.to_string(), &[]).not_sent())
        .and_then(|input| subscriptions.subscribe(&input.uri));
    match subscribed {
        Err(error) => stream::iter([Err(error.into())]).boxed(),
        Ok(subscriber) => {
            let begin = Some((subscriber, SubscriptionStep::Confirm(timeout)));
            stream::unfold(begin, async |state| {
                let (mut subscriber, step) = state?;
                let value = step.wait(&mut subscriber).await;
                let next = value.is_ok().then_some((subscriber, SubscriptionStep::Update));
                Some((value.map_err(HandlerError::from), next))
            })
            .boxed()
        }
    }
}

enum SubscriptionStep {
    /// Waits for the confirmation, up to this timeout.
    Confirm(Duration),
    Update,
}

impl SubscriptionStep {
    async fn wait(self, subscriber: &mut Subscriber) -> Result<HandlerOutput, CallError> {
        let state = match self {
            Self::Confirm(timeout) => {
                let confirmed = tokio::time::timeout(timeout, subscriber.wait_confirmed()).await;
                confirmed.unwrap_or_else(|_| {
                    let message =
                        format!("the server did not confirm the subscription within {timeout:?}");
                    Err(CallError::timeout(message))
                })?;
                "subscribed"
            }
            Self::Update => {
                subscriber.wait_updated().await?;
                "updated"
            }
        };
        Ok(HandlerOutput::Data(json!({"state": state, "uri": &*subscriber.uri}).into()))
    }
}
