//! Another hub as a source: its operations are registered here under a name.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{FutureExt, StreamExt, TryStreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Hub, HubInner};
use crate::connection::{Client, ConnectionStatus, ReconnectSettings, ReconnectingClient};
use crate::error::{CallError, ErrorCode};
use crate::spec::HUB_META_KEY;
use crate::transport::Connector;

/// Interval at which the operations of the upstream hub are listed again.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// Interval at which [`Upstream::drain`] checks for pending calls.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of concurrent spec requests.
const MAX_CONCURRENT_REQUESTS: usize = 32;

/// A connection to another hub whose operations are registered in this hub. Dropping it closes the
/// connection.
#[derive(Debug)]
pub struct Upstream {
    client: ReconnectingClient,
    /// Canceled by [`Upstream::drain`]. Stops the refresh, so that a successor keeps the name.
    replaced: CancellationToken,
}

impl Upstream {
    /// Connects to another hub and registers the operations that it lists under `name`: its
    /// `demo.add` becomes `name.demo.add`.
    pub fn start(
        hub: &Hub,
        name: &str,
        connector: impl Connector,
        settings: ReconnectSettings,
    ) -> Self {
        let (inner, name) = (Arc::downgrade(&hub.0), name.to_owned());
        let replaced = CancellationToken::new();
        let until = replaced.clone();
        let on_connect = Arc::new(move |client: Client| {
            let (inner, name, until) = (inner.clone(), name.clone(), until.clone());
            async move {
                let inner = inner.upgrade().ok_or_else(|| CallError::unavailable("no hub"))?;
                let connection_id = inner.next_connection_id.fetch_add(1, Ordering::Relaxed);
                import_operations(&inner, &name, connection_id, &client).await?;
                inner.track_connection(connection_id, &client, None);
                inner.tasks.clone().spawn(sync_operations(
                    inner,
                    name,
                    connection_id,
                    client,
                    until,
                ));
                Ok(())
            }
            .boxed()
        });
        Self {
            client: ReconnectingClient::start_with_on_connect(
                connector, None, on_connect, settings,
            ),
            replaced,
        }
    }

    /// Returns a receiver of the connection status.
    pub fn status(&self) -> watch::Receiver<ConnectionStatus> {
        self.client.status()
    }

    /// Waits up to `timeout` for pending calls, then disconnects. Does not affect another upstream
    /// that has taken over the name.
    pub async fn drain(self, timeout: Duration) {
        self.replaced.cancel();
        let Some(client) = self.client.client() else { return };
        let idle = async {
            while client.pending_count() > 0 && !client.is_closed() {
                tokio::time::sleep(DRAIN_POLL_INTERVAL).await;
            }
        };
        let _ = tokio::time::timeout(timeout, idle).await;
    }
}

/// Refreshes the operations periodically, and marks them offline when the connection is lost.
async fn sync_operations(
    inner: Arc<HubInner>,
    name: String,
    connection_id: u64,
    client: Client,
    replaced: CancellationToken,
) {
    while !client.is_closed() {
        tokio::select! {
            () = client.closed() => {}
            () = tokio::time::sleep(REFRESH_INTERVAL), if !replaced.is_cancelled() => {
                if replaced.is_cancelled() {
                    continue;
                }
                if let Err(error) = import_operations(&inner, &name, connection_id, &client).await {
                    tracing::warn!(hub = name, %error, "failed to list operations of upstream hub");
                }
            }
        }
    }
    inner.connections().remove(&connection_id);
    inner.take_offline(connection_id);
}

async fn import_operations(
    inner: &Arc<HubInner>,
    name: &str,
    connection_id: u64,
    client: &Client,
) -> Result<(), CallError> {
    let ids = list_operations(client, inner.settings.max_operations).await?;
    let specs: Vec<Value> = futures::stream::iter(ids)
        .map(|id| async move { fetch_spec(client, name, &id).await })
        .buffered(MAX_CONCURRENT_REQUESTS)
        .try_filter_map(|spec| std::future::ready(Ok(spec)))
        .try_collect()
        .await?;
    // The operator of this hub configured the upstream, so the name is registered without an
    // identity.
    let registered = inner.register_spoke(name, "", connection_id, client, specs).await?;
    for rejected in &registered.refused {
        let (operation, reason) = (&rejected.id, &rejected.reason);
        tracing::debug!(hub = name, operation, reason, "operation not imported");
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListPage {
    operations: Vec<ListItem>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct ListItem {
    id: String,
}

async fn list_operations(client: &Client, max: usize) -> Result<Vec<String>, CallError> {
    let mut ids = Vec::new();
    let mut input = json!({});
    loop {
        let page = client.call_json("hub.list", input).await?;
        let page: ListPage = serde_json::from_value(page.data).map_err(|error| {
            CallError::execution(format!(
                "the operation list of the upstream hub is invalid: {error}"
            ))
        })?;
        let foreign = page.operations.into_iter().map(|listed| listed.id);
        ids.extend(foreign.filter(|id| !is_builtin(id)));
        match page.next_cursor {
            // Stops at the limit, in case the upstream's list never ends.
            Some(_) if ids.len() > max => return Ok(ids),
            Some(cursor) => input = json!({"cursor": cursor}),
            None => return Ok(ids),
        }
    }
}

/// Whether an operation belongs to the other gateway's own `hub` or `gateway` namespace. These are
/// not imported, because each gateway has its own.
fn is_builtin(id: &str) -> bool {
    id.starts_with("hub.") || id.starts_with("gateway.")
}

/// Whether a listed operation was removed or is no longer accessible.
fn is_not_found_or_denied(error: &CallError) -> bool {
    matches!(error.code(), ErrorCode::OperationNotFound | ErrorCode::AccessDenied)
}

/// Fetches the spec of one operation. Returns `None` if it was removed meanwhile or comes from a
/// third hub.
async fn fetch_spec(client: &Client, name: &str, id: &str) -> Result<Option<Value>, CallError> {
    let mut spec = match client.call_json("hub.schema", json!({"id": id})).await {
        Ok(response) => response.data,
        Err(error) if is_not_found_or_denied(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if spec.get("_meta").is_some_and(|meta| meta.get(HUB_META_KEY).is_some()) {
        return Ok(None);
    }
    let Some(members) = spec.as_object_mut() else { return Ok(None) };
    // A `_meta` that is not an object is rejected later, when the spec is parsed.
    let meta = members.entry("_meta").or_insert_with(|| json!({}));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert(HUB_META_KEY.to_owned(), name.into());
    }
    // The other hub enforces its own access control; access here is configured here.
    members.insert("accessControl".to_owned(), json!({"requiredScopes": []}));
    // Approval is requested by the hub that runs the operation.
    members.remove("approval");
    Ok(Some(spec))
}
