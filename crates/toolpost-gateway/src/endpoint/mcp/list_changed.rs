//! Notifications about changed lists of tools, prompts and resources, and about updates of
//! subscribed resources.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use toolpost::Operation;
use toolpost::view::{Listing, ProtocolGeneration};

use super::json_rpc::{self, JsonRpcId};
use super::params::SubscriptionFilter;
use super::request::ClientContext;
use super::resource_subscriptions::ResourceSubscriptions;

/// Detects changes of the lists and resources visible to one client, and encodes the notifications.
#[derive(Debug)]
pub(super) struct ChangeNotifier {
    client: ClientContext,
    filter: SubscriptionFilter,
    /// The id of the `subscriptions/listen` request, for clients of 2026-07-28.
    subscription_id: Option<JsonRpcId>,
    /// The resource subscriptions of the client.
    subscriptions: Arc<ResourceSubscriptions>,
    catalog_changes: watch::Receiver<u64>,
    /// End of the debounce period, while changes are collected.
    debounce_until: Option<Instant>,
    tools: Arc<Listing>,
    prompts: Vec<Arc<Operation>>,
    resources: Vec<Arc<Operation>>,
}

impl ChangeNotifier {
    pub(super) fn new(
        client: ClientContext,
        filter: SubscriptionFilter,
        subscription_id: Option<JsonRpcId>,
    ) -> Self {
        // Watch before reading the lists, so that no change is missed.
        let mut catalog_changes = client.gateway.pipeline().registry().watch_changes();
        catalog_changes.mark_unchanged();
        Self {
            tools: client.tool_listing(),
            prompts: visible_operations(&client, "prompts/"),
            resources: visible_operations(&client, "resources/"),
            subscriptions: match &subscription_id {
                // Each subscription has its own resources; a legacy client has one set for all.
                None => client.subscriptions.clone().unwrap_or_default(),
                Some(_) => Arc::default(),
            },
            client,
            filter,
            subscription_id,
            catalog_changes,
            debounce_until: None,
        }
    }

    /// Whether the stream belongs to a `subscriptions/listen` request.
    pub(super) fn is_subscription(&self) -> bool {
        self.subscription_id.is_some()
    }

    /// Subscribes to the requested resources and retains those that succeed.
    pub(super) async fn subscribe_resources(&mut self) {
        let requested = std::mem::take(&mut self.filter.resource_subscriptions);
        self.filter.resource_subscriptions =
            self.subscriptions.subscribe_all(&self.client, requested).await;
    }

    /// Encodes the acknowledgment, the first notification of a subscription.
    pub(super) fn acknowledgment(&self) -> Vec<u8> {
        let notifications = self.filter.acknowledged();
        self.notification("subscriptions/acknowledged", json!({"notifications": notifications}))
    }

    /// Returns the result that ends a subscription which the gateway closes.
    pub(super) fn final_result(&self) -> Option<Vec<u8>> {
        let id = self.subscription_id.as_ref()?;
        let mut out = json_rpc::start_result(id);
        let meta = self.meta();
        let result = json!({"resultType": "complete", "_meta": meta});
        out.extend_from_slice(result.to_string().as_bytes());
        out.push(b'}');
        Some(out)
    }

    /// Waits for changes and returns their notifications; `None` if there are no more changes.
    ///
    /// # Cancellation
    ///
    /// This method is cancel safe: a detected change is not lost.
    pub(super) async fn next(&mut self) -> Option<Vec<Vec<u8>>> {
        loop {
            let deadline = match self.debounce_until {
                Some(deadline) => deadline,
                None => {
                    tokio::select! {
                        changed = self.catalog_changes.changed() => changed.ok()?,
                        () = self.subscriptions.wait_for_update() => {}
                    }
                    // Changes occur in bursts: a source registers its operations one by one.
                    let debounce = self.client.gateway.0.mcp.settings().list_changed_debounce;
                    *self.debounce_until.insert(Instant::now() + debounce)
                }
            };
            tokio::time::sleep_until(deadline).await;
            self.debounce_until = None;
            let mut messages = self.resource_updates();
            // The lists are compared next, which covers the detected change and any later ones.
            self.catalog_changes.mark_unchanged();
            messages.extend(self.list_changes());
            if !messages.is_empty() {
                return Some(messages);
            }
        }
    }

    fn resource_updates(&self) -> Vec<Vec<u8>> {
        let updated = self.subscriptions.take_updates(&self.client).into_iter();
        updated.map(|uri| self.notification("resources/updated", json!({"uri": &*uri}))).collect()
    }

    fn list_changes(&mut self) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        let tools = self.client.tool_listing();
        if !self.tools.has_same_content(&tools) && self.filter.tools_list_changed {
            messages.push(self.notification("tools/list_changed", json!({})));
        }
        self.tools = tools;
        let prompts = visible_operations(&self.client, "prompts/");
        if !same_operations(&prompts, &self.prompts) && self.filter.prompts_list_changed {
            messages.push(self.notification("prompts/list_changed", json!({})));
        }
        self.prompts = prompts;
        let resources = visible_operations(&self.client, "resources/");
        if !same_operations(&resources, &self.resources) && self.filter.resources_list_changed {
            messages.push(self.notification("resources/list_changed", json!({})));
        }
        self.resources = resources;
        messages
    }

    fn notification(&self, name: &str, mut params: Value) -> Vec<u8> {
        if self.client.generation == ProtocolGeneration::Modern {
            params["_meta"] = self.meta().into();
        }
        json_rpc::encode_notification(&format!("notifications/{name}"), &params)
    }

    fn meta(&self) -> Map<String, Value> {
        let id =
            self.subscription_id.as_ref().and_then(|id| serde_json::from_str(id.as_json()).ok());
        let id = id.map(|id| ("io.modelcontextprotocol/subscriptionId".to_owned(), id));
        id.into_iter().collect()
    }
}

/// Returns the visible operations whose MCP method starts with `part`. A source replaces its
/// operations when its list changes.
fn visible_operations(client: &ClientContext, part: &str) -> Vec<Arc<Operation>> {
    let catalog = client.gateway.pipeline().registry().catalog();
    let is_visible = |operation: &&Arc<Operation>| {
        let source = client.view.source.as_deref();
        source.is_none_or(|source| operation.id().namespace() == source)
            && toolpost::mcp::method_of(operation.spec()).is_some_and(|name| name.starts_with(part))
            && operation.spec().access_control.is_callable_by(Some(&client.identity))
    };
    catalog.list().iter().filter(is_visible).cloned().collect()
}

fn same_operations(left: &[Arc<Operation>], right: &[Arc<Operation>]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| Arc::ptr_eq(left, right))
}
