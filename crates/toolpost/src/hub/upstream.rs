//! Another hub as a source: its operations are registered here under a name.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use serde::Deserialize;
use serde_json::{Value, json};

use super::register::{build_operations_off_thread, validate_name};
use super::spoke_registry::SpokeRoute;
use super::{Hub, HubInner, SpokeConfig};
use crate::connection::{Client, Connection, IncomingRequests, ReconnectSettings};
use crate::error::{CallError, ErrorCode};
use crate::json::error_message;
use crate::operation::{Operation, SourceKind};
use crate::source::{Source, SourceContext, SourceHooks, SourceInfo};
use crate::spec::HUB_META_KEY;
use crate::transport::{CloseReason, Connector};

/// Interval at which the operations of the upstream hub are listed again.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// Interval at which a drain checks for pending calls.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of concurrent spec requests.
const MAX_CONCURRENT_REQUESTS: usize = 32;

/// Another hub as a source: its `demo.add` becomes `name.demo.add`.
pub struct Upstream {
    hub: Arc<HubInner>,
    route: Arc<SpokeRoute>,
    connector: Box<dyn Connector>,
    settings: ReconnectSettings,
}

impl Upstream {
    /// Creates a source whose connections belong to `hub`.
    pub fn new(
        hub: &Hub,
        name: &str,
        connector: impl Connector,
        settings: ReconnectSettings,
    ) -> Self {
        let route = SpokeRoute::new(SourceKind::Hub, name);
        Self { hub: Arc::clone(&hub.0), route, connector: Box::new(connector), settings }
    }

    async fn connect(&self) -> Result<Client, String> {
        let channel = self.connector.connect().await.map_err(|error| error.to_string())?;
        let settings = self.settings.connection.clone();
        let (client, connection) = Connection::new(channel, IncomingRequests::Reject, settings);
        let id = self.hub.next_connection_id.fetch_add(1, Ordering::Relaxed);
        self.hub.spawn_connection(id, &client, connection, None);
        self.route.set_connection(id, client.clone());
        Ok(client)
    }

    async fn list_operations(
        &self,
        client: &Client,
        hooks: &SourceHooks,
    ) -> Result<Vec<Operation>, CallError> {
        let (name, max) = (self.name(), self.hub.settings.max_operations);
        validate_name(name)?;
        let ids = list_ids(client, max).await?;
        let specs: Vec<Value> = futures::stream::iter(ids)
            .map(|id| async move { fetch_spec(client, name, &id).await })
            .buffered(MAX_CONCURRENT_REQUESTS)
            .try_filter_map(|spec| std::future::ready(Ok(spec)))
            .try_collect()
            .await?;
        if specs.len() > max {
            return Err(CallError::overloaded(format!("it has more than {max} operations")));
        }
        let transform = hooks.transform.clone();
        let config = SpokeConfig { owner: None, timeout: hooks.timeout, transform };
        let route = Arc::clone(&self.route);
        let (operations, rejected) = build_operations_off_thread(route, config, specs).await?;
        for rejected in &rejected {
            let (operation, reason) = (&rejected.id, &rejected.reason);
            tracing::debug!(hub = name, operation, reason, "operation not imported");
        }
        Ok(operations)
    }

    /// Keeps the operations up to date until the connection is lost.
    async fn sync(&self, client: &Client, context: &mut SourceContext) -> Result<(), CallError> {
        while !client.is_closed() {
            let hooks = context.hooks().get();
            match self.list_operations(client, &hooks).await {
                Ok(operations) => {
                    context.publish(operations, SourceInfo::default(), |_, _| false).await;
                }
                Err(error) if context.info().is_none() => return Err(error),
                Err(error) => {
                    let hub = self.name();
                    tracing::warn!(hub, %error, "failed to list operations of upstream hub");
                }
            }
            tokio::select! {
                () = client.closed() => {}
                () = tokio::time::sleep(REFRESH_INTERVAL) => {}
                () = context.hooks_changed() => {}
            }
        }
        Ok(())
    }
}

impl Source for Upstream {
    fn name(&self) -> &str {
        &self.route.source.name
    }

    fn kind(&self) -> SourceKind {
        SourceKind::Hub
    }

    fn backoff(&self) -> (Duration, Duration) {
        (self.settings.min_backoff, self.settings.max_backoff)
    }

    async fn run(&mut self, context: &mut SourceContext) -> String {
        let client = match self.connect().await {
            Ok(client) => client,
            Err(reason) => return reason,
        };
        let failed = self.sync(&client, context).await.err();
        self.close();
        match (failed, client.close_reason()) {
            (Some(error), _) => error.to_string(),
            (None, Some(reason)) => reason.to_string(),
            (None, None) => "the connection was closed".to_owned(),
        }
    }

    async fn drain(&mut self) {
        let Ok(client) = self.route.client() else { return };
        while client.pending_count() > 0 && !client.is_closed() {
            tokio::time::sleep(DRAIN_POLL_INTERVAL).await;
        }
    }

    fn close(&mut self) {
        if let Some(client) = self.route.take_connection() {
            client.close(CloseReason::normal());
        }
    }
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

async fn list_ids(client: &Client, max: usize) -> Result<Vec<String>, CallError> {
    let mut ids = Vec::new();
    let mut input = json!({});
    loop {
        let page = client.call_json("hub.list", input).await?;
        let page: ListPage = serde_json::from_value(page.data).map_err(|error| {
            CallError::execution(format!(
                "the operation list of the upstream hub is invalid: {}",
                error_message(&error)
            ))
        })?;
        let foreign = page.operations.into_iter().map(|listed| listed.id);
        // Each gateway has its own built-in operations.
        ids.extend(foreign.filter(|id| !id.starts_with("hub.") && !id.starts_with("gateway.")));
        match page.next_cursor {
            // Stop at the limit, in case the upstream never returns a last page.
            Some(_) if ids.len() > max => return Ok(ids),
            Some(cursor) => input = json!({"cursor": cursor}),
            None => return Ok(ids),
        }
    }
}

/// Fetches the spec of one operation; `None` if it was removed or comes from a third hub.
async fn fetch_spec(client: &Client, name: &str, id: &str) -> Result<Option<Value>, CallError> {
    let mut spec = match client.call_json("hub.schema", json!({"id": id})).await {
        Ok(response) => response.data,
        Err(error) => {
            return match error.code() {
                ErrorCode::OperationNotFound | ErrorCode::AccessDenied => Ok(None),
                _ => Err(error),
            };
        }
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
    // The upstream hub enforces its own access control. Access on this hub is configured locally.
    members.insert("accessControl".to_owned(), json!({"requiredScopes": []}));
    // The hub that runs the operation requests the approval.
    members.remove("approval");
    Ok(Some(spec))
}
