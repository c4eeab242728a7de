//! The subscription operation for resources: a value for the confirmation and each update.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use serde::Deserialize;
use serde_json::json;

use super::{ResourceSubscriptions, Subscriber};
use crate::error::{CallError, HandlerError};
use crate::handler::{Handler, HandlerOutput};
use crate::mcp::source_handle::SourceHandle;
use crate::payload::Payload;

pub(in crate::mcp) fn handler(handle: &Arc<SourceHandle>) -> Handler {
    let (subscriptions, timeout) = (Arc::clone(&handle.subscriptions), handle.timeout());
    Handler::stream_fn(move |context, input| {
        let values = subscription_stream(&subscriptions, input, timeout);
        values.take_until(async move { context.canceled().await })
    })
}

fn subscription_stream(
    subscriptions: &Arc<ResourceSubscriptions>,
    input: Payload,
    timeout: Duration,
) -> BoxStream<'static, Result<HandlerOutput, HandlerError>> {
    #[derive(Deserialize)]
    struct SubscribeInput {
        uri: String,
    }
    let subscribed = input
        .into_typed::<SubscribeInput>()
        .map_err(|error| CallError::validation(error.to_string(), &[]).not_sent())
        .and_then(|input| subscriptions.subscribe(&input.uri));
    let begin = Some((subscribed, Some(timeout)));
    stream::unfold(begin, async |state| {
        let (subscribed, confirm_timeout) = state?;
        let mut subscriber = match subscribed {
            Ok(subscriber) => subscriber,
            Err(error) => return Some((Err(error.into()), None)),
        };
        let value = next_value(&mut subscriber, confirm_timeout).await;
        let next = value.is_ok().then_some((Ok(subscriber), None));
        Some((value.map_err(HandlerError::from), next))
    })
    .boxed()
}

/// Waits for the confirmation, if it has a timeout, or else for an update.
async fn next_value(
    subscriber: &mut Subscriber,
    confirm_timeout: Option<Duration>,
) -> Result<HandlerOutput, CallError> {
    let state = match confirm_timeout {
        Some(timeout) => {
            let confirmed = tokio::time::timeout(timeout, subscriber.wait_confirmed()).await;
            confirmed.unwrap_or_else(|_| {
                let message =
                    format!("the server did not confirm the subscription within {timeout:?}");
                Err(CallError::timeout(message))
            })?;
            "subscribed"
        }
        None => {
            subscriber.wait_updated().await?;
            "updated"
        }
    };
    Ok(HandlerOutput::Data(json!({"state": state, "uri": &*subscriber.uri}).into()))
}
