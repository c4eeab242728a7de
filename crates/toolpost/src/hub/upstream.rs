//! Another hub as a source: what it offers can be called here, under a name.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{FutureExt, StreamExt, TryStreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Hub, Inner};
use crate::connection::{Client, Session, SessionSettings, Status};
use crate::error::{CallError, ErrorCode};
use crate::link::Connector;
use crate::spec::FROM_HUB;

/// How often the list of the other hub is read again.
const RENEWAL: Duration = Duration::from_secs(30);

/// How soon is looked whether calls have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How many specs are asked for at a time.
const ASKED_AT_ONCE: usize = 32;

/// A connection to another hub, whose operations stand in this one's registry. Dropping it ends it.
#[derive(Debug)]
pub struct Upstream {
    session: Session,
    /// Set when another one has its name, so that this one does not take it back.
    retired: CancellationToken,
}

impl Upstream {
    /// Offers what another hub offers to our identity there: its `demo.add` is `name.demo.add` here.
    pub fn start(
        hub: &Hub,
        name: &str,
        connector: impl Connector,
        settings: SessionSettings,
    ) -> Self {
        let (inner, name) = (Arc::downgrade(&hub.0), name.to_owned());
        let retired = CancellationToken::new();
        let until = retired.clone();
        let greeting = Arc::new(move |client: Client| {
            let (inner, name, until) = (inner.clone(), name.clone(), until.clone());
            async move {
                let inner = inner.upgrade().ok_or_else(|| CallError::unavailable("no hub"))?;
                let number = inner.next_peer.fetch_add(1, Ordering::Relaxed);
                take_over(&inner, &name, number, &client).await?;
                inner.keep(number, &client, None);
                inner.tasks.clone().spawn(follow(inner, name, number, client, until));
                Ok(())
            }
            .boxed()
        });
        Self { session: Session::greeting(connector, None, greeting, settings), retired }
    }

    /// Where the connection stands, now and whenever that changes.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.session.status()
    }

    /// Waits for the calls that are on their way through it, for as long as `patience`, and ends it.
    /// Another one that has taken its name over is not disturbed.
    pub async fn retire(self, patience: Duration) {
        self.retired.cancel();
        let Some(client) = self.session.client() else { return };
        let idle = async {
            while client.pending_count() > 0 && !client.is_closed() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let _ = tokio::time::timeout(patience, idle).await;
    }
}

/// Reads the list again from time to time, and takes the operations offline when the link is lost.
async fn follow(
    inner: Arc<Inner>,
    name: String,
    number: u64,
    client: Client,
    retired: CancellationToken,
) {
    while !client.is_closed() {
        tokio::select! {
            () = client.closed() => {}
            () = tokio::time::sleep(RENEWAL), if !retired.is_cancelled() => {
                if retired.is_cancelled() {
                    continue;
                }
                if let Err(error) = take_over(&inner, &name, number, &client).await {
                    tracing::warn!(hub = name, %error, "the list of the other hub was not read");
                }
            }
        }
    }
    inner.peers().remove(&number);
    inner.take_offline(number);
}

async fn take_over(
    inner: &Arc<Inner>,
    name: &str,
    number: u64,
    client: &Client,
) -> Result<(), CallError> {
    let ids = listed(client, inner.settings.operations).await?;
    let specs: Vec<Value> = futures::stream::iter(ids)
        .map(|id| async move { spec(client, name, &id).await })
        .buffered(ASKED_AT_ONCE)
        .try_filter_map(|spec| std::future::ready(Ok(spec)))
        .try_collect()
        .await?;
    // The operator of this hub named the other one, so the name is the operator's.
    let registered = inner.install(name, "", number, client, specs).await?;
    for refused in &registered.refused {
        let (operation, reason) = (&refused.id, &refused.reason);
        tracing::debug!(hub = name, operation, reason, "not taken over");
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    operations: Vec<Listed>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
}

async fn listed(client: &Client, most: usize) -> Result<Vec<String>, CallError> {
    let mut ids = Vec::new();
    let mut input = json!({});
    loop {
        let page = client.execute("hub.list", input).await?;
        let page: Page = serde_json::from_value(page.data)
            .map_err(|error| CallError::execution(format!("the list cannot be read: {error}")))?;
        let foreign = page.operations.into_iter().map(|listed| listed.id);
        ids.extend(foreign.filter(|id| !is_about_itself(id)));
        match page.next_cursor {
            // A list without an end is not read to it.
            Some(_) if ids.len() > most => return Ok(ids),
            Some(cursor) => input = json!({"cursor": cursor}),
            None => return Ok(ids),
        }
    }
}

/// Whether an operation is how the other gateway is asked about itself, or run; each has its own.
fn is_about_itself(id: &str) -> bool {
    id.starts_with("hub.") || id.starts_with("gateway.")
}

/// Whether an operation that was listed a moment ago is not for us any more.
fn is_gone(error: &CallError) -> bool {
    matches!(error.code(), ErrorCode::OperationNotFound | ErrorCode::AccessDenied)
}

/// The spec of one operation; one that vanished in between or came from a third hub is left out.
async fn spec(client: &Client, name: &str, id: &str) -> Result<Option<Value>, CallError> {
    let mut spec = match client.execute("hub.schema", json!({"id": id})).await {
        Ok(answer) => answer.data,
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if spec.get("_meta").is_some_and(|meta| meta.get(FROM_HUB).is_some()) {
        return Ok(None);
    }
    let Some(members) = spec.as_object_mut() else { return Ok(None) };
    // A `_meta` that is none is left for whoever reads the spec to refuse.
    let meta = members.entry("_meta").or_insert_with(|| json!({}));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert(FROM_HUB.to_owned(), name.into());
    }
    // Who may call it there was decided there; who may call it here is decided here.
    members.insert("accessControl".to_owned(), json!({"requiredScopes": []}));
    // Somebody has to agree where it runs, and is asked there.
    members.remove("approval");
    Ok(Some(spec))
}
