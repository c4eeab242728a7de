//! Notifications about changed lists and about updates of subscribed resources.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolpost::Operation;
use toolpost::json_rpc::{self, RpcId};
use toolpost::view::{Listing, ProtocolGeneration};

use super::client::ClientContext;
use super::params::SubscriptionFilter;
use super::resource_subscriptions::ResourceSubscriptions;

/// Detects changes of the lists and resources visible to one client, and encodes the notifications.
#[derive(Debug)]
pub(crate) struct ChangeNotifier {
    client: ClientContext,
    filter: SubscriptionFilter,
    /// The id of the `subscriptions/listen` request, for clients of 2026-07-28.
    subscription_id: Option<RpcId>,
    /// The resource subscriptions of the client.
    subscriptions: Arc<ResourceSubscriptions>,
    catalog_changes: watch::Receiver<u64>,
    /// End of the debounce period, while changes are collected.
    debounce_until: Option<Instant>,
    lists: VisibleLists,
}

/// The lists that a client sees.
#[derive(Debug)]
struct VisibleLists {
    tools: Arc<Listing>,
    prompts: Vec<Arc<Operation>>,
    resources: Vec<Arc<Operation>>,
}

impl ChangeNotifier {
    pub(crate) fn new(
        client: ClientContext,
        filter: SubscriptionFilter,
        subscription_id: Option<RpcId>,
    ) -> Self {
        // Watch before reading the lists, so that no change is missed.
        let mut catalog_changes = client.service.pipeline.registry().watch_changes();
        catalog_changes.mark_unchanged();
        Self {
            lists: VisibleLists::new(&client),
            subscriptions: match &subscription_id {
                // Each subscription has its own resources; a legacy client has one set for all.
                None => client.state.as_ref().map(|state| Arc::clone(&state.subscriptions)),
                Some(_) => None,
            }
            .unwrap_or_default(),
            client,
            filter,
            subscription_id,
            catalog_changes,
            debounce_until: None,
        }
    }

    /// Whether the stream belongs to a `subscriptions/listen` request.
    pub(crate) fn is_subscription(&self) -> bool {
        self.subscription_id.is_some()
    }

    /// Subscribes to the requested resources and retains those that succeed.
    pub(crate) async fn subscribe_resources(&mut self) {
        let requested = std::mem::take(&mut self.filter.resource_subscriptions);
        self.filter.resource_subscriptions =
            self.subscriptions.subscribe_all(&self.client, requested).await;
    }

    /// Returns the messages for the client until `ended` is canceled or the gateway stops: the
    /// acknowledgment of a subscription, notifications, and the result of a subscription that the
    /// gateway ends.
    pub(crate) fn into_messages(
        self,
        ended: CancellationToken,
    ) -> impl Stream<Item = Vec<u8>> + Send {
        let stopping = self.client.service.stopping.clone();
        let first = self.is_subscription().then(|| self.acknowledgment());
        let rest =
            stream::unfold((Some(self), stopping, ended), async |(state, stopping, ended)| {
                let mut changes = state?;
                let (messages, changes) = tokio::select! {
                    biased;
                    () = stopping.cancelled() => (Vec::from_iter(changes.final_result()), None),
                    () = ended.cancelled() => return None,
                    found = changes.next() => (found?, Some(changes)),
                };
                Some((stream::iter(messages), (changes, stopping, ended)))
            });
        stream::iter(first).chain(rest.flatten())
    }

    /// Encodes the acknowledgment, the first notification of a subscription.
    fn acknowledgment(&self) -> Vec<u8> {
        self.notification("subscriptions/acknowledged", json!({"notifications": self.filter}))
    }

    /// Returns the result that ends a subscription which the gateway closes.
    fn final_result(&self) -> Option<Vec<u8>> {
        let id = self.subscription_id.as_ref()?;
        let result = json!({"resultType": "complete", "_meta": self.meta()});
        Some(json_rpc::encode_response(id.as_json(), Ok(result)).into_bytes())
    }

    /// Waits for changes and returns their notifications. It is cancel safe.
    async fn next(&mut self) -> Option<Vec<Vec<u8>>> {
        loop {
            let deadline = match self.debounce_until {
                Some(deadline) => deadline,
                None => {
                    tokio::select! {
                        changed = self.catalog_changes.changed() => changed.ok()?,
                        () = self.subscriptions.wait_for_update() => {}
                    }
                    // Changes occur in bursts: a source registers its operations one by one.
                    let debounce = self.client.service.settings().list_changed_debounce;
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
        let now = VisibleLists::new(&self.client);
        let before = std::mem::replace(&mut self.lists, now);
        let (now, filter) = (&self.lists, &self.filter);
        let changes = [
            (filter.tools_list_changed, before.tools.has_same_content(&now.tools), "tools"),
            (filter.prompts_list_changed, is_same(&before.prompts, &now.prompts), "prompts"),
            (
                filter.resources_list_changed,
                is_same(&before.resources, &now.resources),
                "resources",
            ),
        ];
        let changed = changes.iter().filter(|(is_requested, is_same, _)| *is_requested && !is_same);
        let notification =
            |list: &str| self.notification(&format!("{list}/list_changed"), json!({}));
        changed.map(|(_, _, list)| notification(list)).collect()
    }

    fn notification(&self, name: &str, mut params: Value) -> Vec<u8> {
        if self.client.generation == ProtocolGeneration::Modern {
            params["_meta"] = self.meta().into();
        }
        json_rpc::encode_request(None, &format!("notifications/{name}"), Some(params))
    }

    fn meta(&self) -> Map<String, Value> {
        let id =
            self.subscription_id.as_ref().and_then(|id| serde_json::from_str(id.as_json()).ok());
        let id = id.map(|id| ("io.modelcontextprotocol/subscriptionId".to_owned(), id));
        id.into_iter().collect()
    }
}

impl VisibleLists {
    fn new(client: &ClientContext) -> Self {
        Self {
            tools: client.tool_listing(),
            prompts: visible_operations(client, "prompts/"),
            resources: visible_operations(client, "resources/"),
        }
    }
}

/// Returns the visible operations whose MCP method starts with `part`.
fn visible_operations(client: &ClientContext, part: &str) -> Vec<Arc<Operation>> {
    let catalog = client.service.pipeline.registry().catalog();
    let is_visible = |operation: &&Arc<Operation>| {
        let source = client.view.source.as_deref();
        source.is_none_or(|source| operation.id().namespace() == source)
            && toolpost::mcp::method_of(operation.spec()).is_some_and(|name| name.starts_with(part))
            && client.can_call(operation)
    };
    catalog.list().iter().filter(is_visible).cloned().collect()
}

fn is_same(left: &[Arc<Operation>], right: &[Arc<Operation>]) -> bool {
    left.iter().map(Arc::as_ptr).eq(right.iter().map(Arc::as_ptr))
}
