//! What clients are told when there are other tools, prompts or resources than before, and when a
//! resource that they follow has changed.

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

/// Follows what one client sees.
#[derive(Debug)]
pub(super) struct ChangeNotifier {
    client: ClientContext,
    filter: SubscriptionFilter,
    /// The request that the notifications belong to, from 2026-07-28 on.
    subscription_id: Option<JsonRpcId>,
    /// The resources that the client follows.
    subscriptions: Arc<ResourceSubscriptions>,
    catalog_changes: watch::Receiver<u64>,
    /// Until when changes that were seen are gathered.
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
        // Before looking, so that nothing changes unseen in between.
        let mut catalog_changes = client.gateway.pipeline().registry().watch_changes();
        catalog_changes.mark_unchanged();
        Self {
            tools: client.tool_listing(),
            prompts: visible_operations(&client, "prompts/"),
            resources: visible_operations(&client, "resources/"),
            subscriptions: match &subscription_id {
                // Each subscription has what it asked for, and a client of before has one for all.
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

    /// Whether a request of the client is behind it.
    pub(super) fn is_subscription(&self) -> bool {
        self.subscription_id.is_some()
    }

    /// Follows the resources that the subscription asks for, as far as that can be done.
    pub(super) async fn subscribe_resources(&mut self) {
        let requested = std::mem::take(&mut self.filter.resource_subscriptions);
        self.filter.resource_subscriptions =
            self.subscriptions.subscribe_all(&self.client, requested).await;
    }

    /// The notification that a subscription begins with.
    pub(super) fn acknowledgment(&self) -> Vec<u8> {
        let notifications = self.filter.acknowledged();
        self.notification("subscriptions/acknowledged", json!({"notifications": notifications}))
    }

    /// The result that a subscription ends with when it is not the client who ends it.
    pub(super) fn final_result(&self) -> Option<Vec<u8>> {
        let id = self.subscription_id.as_ref()?;
        let mut out = json_rpc::start_result(id);
        let meta = self.meta();
        let result = json!({"resultType": "complete", "_meta": meta});
        out.extend_from_slice(result.to_string().as_bytes());
        out.push(b'}');
        Some(out)
    }

    /// Waits for the next changes and gives their notifications; nothing when there will be none.
    ///
    /// # Cancellation
    ///
    /// Nothing is lost when it is dropped: a change that was seen is remembered.
    pub(super) async fn next(&mut self) -> Option<Vec<Vec<u8>>> {
        loop {
            let deadline = match self.debounce_until {
                Some(deadline) => deadline,
                None => {
                    tokio::select! {
                        changed = self.catalog_changes.changed() => changed.ok()?,
                        () = self.subscriptions.wait_for_update() => {}
                    }
                    // Changes come in flocks: a source registers its operations one by one.
                    let debounce = self.client.gateway.0.mcp.settings().list_changed_debounce;
                    *self.debounce_until.insert(Instant::now() + debounce)
                }
            };
            tokio::time::sleep_until(deadline).await;
            self.debounce_until = None;
            let mut messages = self.resource_updates();
            // What the select saw is still to be looked at, and so is what came since.
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

/// The operations behind one part of the protocol. A source replaces them when its own list changed.
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
