//! Following a resource as an operation: a value when the server has agreed, and one for every change.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use serde::Deserialize;
use serde_json::{Map, json};

use super::{Watcher, Watches};
use crate::error::{CallError, HandlerError};
use crate::handler::{Handler, Output};
use crate::mcp::desk::Desk;
use crate::mcp::method::METHOD_META;
use crate::payload::Payload;
use crate::schema::Schema;
use crate::spec::{Kind, OperationId, OperationSpec};

/// The method, and the name of the operation.
pub(in crate::mcp) const SUBSCRIBE: &str = "resources/subscribe";

const DESCRIPTION: &str = "Follows a resource of the server: a value when the server has agreed \
    (`subscribed`), and one whenever the resource has changed since (`updated`).";

pub(in crate::mcp) fn spec(source: &str) -> OperationSpec {
    let id = OperationId::new(source, SUBSCRIBE).or_else(|_| OperationId::new("mcp", SUBSCRIBE));
    let mut spec = OperationSpec::new(&id.expect("the names are plain"), Kind::Subscription);
    spec.description = DESCRIPTION.to_owned();
    spec.tags = vec!["mcp".to_owned()];
    spec.meta = Some(Map::from_iter([(METHOD_META.to_owned(), SUBSCRIBE.into())]));
    let input =
        json!({"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]});
    spec.input_schema = Schema::new(input).expect("an object is a schema");
    spec
}

pub(in crate::mcp) fn handler(desk: &Arc<Desk>) -> Handler {
    let (watches, timeout) = (Arc::clone(&desk.watches), desk.timeout());
    Handler::stream_fn(move |context, input| {
        let values = values(&watches, input, timeout);
        values.take_until(async move { context.cancelled().await })
    })
}

type Values = BoxStream<'static, Result<Output, HandlerError>>;

fn values(watches: &Arc<Watches>, input: Payload, timeout: Duration) -> Values {
    #[derive(Deserialize)]
    struct Input {
        uri: String,
    }
    let input = input.into_typed::<Input>();
    let joined = input
        .map_err(|error| CallError::validation(error.to_string(), &[]).before_sending())
        .and_then(|input| watches.join(&input.uri));
    match joined {
        Err(error) => stream::iter([Err(error.into())]).boxed(),
        Ok(watcher) => {
            let begin = Some((watcher, Step::Agree(timeout)));
            stream::unfold(begin, async |state| {
                let (mut watcher, step) = state?;
                let value = step.take(&mut watcher).await;
                let next = value.is_ok().then_some((watcher, Step::Update));
                Some((value.map_err(HandlerError::from), next))
            })
            .boxed()
        }
    }
}

enum Step {
    /// The server has so long to agree.
    Agree(Duration),
    Update,
}

impl Step {
    async fn take(self, watcher: &mut Watcher) -> Result<Output, CallError> {
        let state = match self {
            Self::Agree(timeout) => {
                let agreed = tokio::time::timeout(timeout, watcher.agreed()).await;
                agreed.unwrap_or_else(|_| {
                    let words = format!("the server has not agreed within {timeout:?}");
                    Err(CallError::timeout(words))
                })?;
                "subscribed"
            }
            Self::Update => {
                watcher.updated().await?;
                "updated"
            }
        };
        Ok(Output::Data(json!({"state": state, "uri": &*watcher.uri}).into()))
    }
}
