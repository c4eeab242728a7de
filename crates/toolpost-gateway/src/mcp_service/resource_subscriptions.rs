//! The resource subscriptions of one client and their pending updates.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::Stream;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use toolpost::Subscription;
use toolpost::json_rpc::RpcError;

use super::client::ClientContext;
use super::passthrough::Passthrough;

/// Maximum length of a subscribed URI, in bytes.
const MAX_URI_BYTES: usize = 4 * 1024;
/// Maximum number of updates of one resource per poll, so that a busy source does not delay others.
const MAX_UPDATES_PER_POLL: usize = 32;

/// The resource subscriptions of one client. No task runs for a client without a stream: updates
/// stay queued at their source and are merged into one when the client reconnects.
#[derive(Debug, Default)]
pub(super) struct ResourceSubscriptions {
    state: Mutex<SubscriptionState>,
    /// Notified when the subscriptions must be polled again.
    added: Notify,
}

#[derive(Debug, Default)]
struct SubscriptionState {
    active: HashMap<ResourceKey, ActiveSubscription>,
    /// Resources that have updates since the last notification.
    pending_updates: BTreeSet<ResourceKey>,
}

/// Identifies a resource for a client: the URI, and the source selected by the client's view.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct ResourceKey {
    source: Option<Arc<str>>,
    uri: Arc<str>,
}

/// A subscription to one resource.
struct ActiveSubscription {
    updates: Subscription,
    /// Updates are sent only while the client can call this operation.
    operation: String,
    /// One of the permits shared by all clients.
    _permit: OwnedSemaphorePermit,
}

toolpost::debug_fields!(active: ActiveSubscription, operation = active.operation);

impl ResourceSubscriptions {
    /// Subscribes to a resource. Returns after the source has accepted the subscription.
    pub(super) async fn subscribe(
        &self,
        client: &ClientContext,
        uri: &str,
    ) -> Result<(), RpcError> {
        if uri.len() > MAX_URI_BYTES {
            let message = format!("a resource URI is limited to {MAX_URI_BYTES} bytes");
            return Err(RpcError::invalid_params(message));
        }
        let key = ResourceKey::new(client, uri);
        if self.refresh_and_contains(&key) {
            return Ok(());
        }
        self.check_client_limit(client)?;
        let permits = Arc::clone(&client.service.subscription_permits);
        let permit = permits.try_acquire_owned().map_err(|_| {
            let max = client.service.settings().max_resource_subscriptions;
            let message = format!("subscription limit reached: {max} resources in total");
            RpcError::new(RpcError::OVERLOADED, message)
        })?;
        let passing = Passthrough { client, client_channel: None, metadata: None, approval: None };
        let (operation, changes) = passing.subscribe(uri).await?;
        // Other subscriptions may have been added meanwhile.
        self.check_client_limit(client)?;
        self.state
            .lock()
            .active
            .insert(key, ActiveSubscription { updates: changes, operation, _permit: permit });
        self.added.notify_one();
        Ok(())
    }

    /// Subscribes to each URI and returns those that were accepted. Others are logged and skipped.
    pub(super) async fn subscribe_all(
        &self,
        client: &ClientContext,
        uris: Vec<String>,
    ) -> Vec<String> {
        let subscribing =
            uris.into_iter().map(async |uri| match self.subscribe(client, &uri).await {
                Ok(()) => Some(uri),
                Err(rpc_error) => {
                    tracing::debug!(reason = rpc_error.message, "resource subscription rejected");
                    None
                }
            });
        join_all(subscribing).await.into_iter().flatten().collect()
    }

    /// Unsubscribes from a resource.
    pub(super) fn unsubscribe(&self, client: &ClientContext, uri: &str) {
        let key = ResourceKey::new(client, uri);
        let mut state = self.state.lock();
        state.pending_updates.remove(&key);
        state.active.remove(&key);
    }

    /// Removes all subscriptions.
    pub(super) fn clear(&self) {
        *self.state.lock() = SubscriptionState::default();
    }

    /// Waits until there is an update to report to the client. It is cancel safe.
    pub(super) async fn wait_for_update(&self) {
        loop {
            tokio::select! {
                () = poll_fn(|cx| self.state.lock().poll_updates(cx)) => return,
                () = self.added.notified() => {}
            }
        }
    }

    /// Takes the pending updates and returns their URIs as the client names them. Updates that the
    /// client can no longer access are dropped.
    pub(super) fn take_updates(&self, client: &ClientContext) -> Vec<Arc<str>> {
        let mut state = self.state.lock();
        // No waker is needed, because the next wait polls again.
        let _ = state.poll_updates(&mut Context::from_waker(Waker::noop()));
        let catalog = client.service.pipeline.registry().catalog();
        let is_visible = |key: &ResourceKey| {
            let operation = state.active.get(key).map(|subscription| &*subscription.operation);
            let operation = operation.and_then(|operation| catalog.get(operation));
            operation.is_some_and(|operation| client.can_call(operation))
        };
        let visible = state.pending_updates.iter().filter(|key| is_visible(key));
        let visible = visible.map(|key| Arc::clone(&key.uri)).collect();
        state.pending_updates.clear();
        visible
    }

    /// Removes ended subscriptions, then returns whether the key is still subscribed.
    fn refresh_and_contains(&self, key: &ResourceKey) -> bool {
        let mut state = self.state.lock();
        let _ = state.poll_updates(&mut Context::from_waker(Waker::noop()));
        // This poll replaced the waker of a waiting task, which must poll again.
        self.added.notify_one();
        state.active.contains_key(key)
    }

    fn check_client_limit(&self, client: &ClientContext) -> Result<(), RpcError> {
        let max = client.service.settings().max_resource_subscriptions_per_client;
        if self.state.lock().active.len() < max {
            return Ok(());
        }
        let message = format!(
            "subscription limit reached: {max} resources per client; unsubscribe from one first"
        );
        Err(RpcError::new(RpcError::OVERLOADED, message))
    }
}

impl SubscriptionState {
    /// Collects updates and removes ended subscriptions. Ready if an update is pending.
    fn poll_updates(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let updated = &mut self.pending_updates;
        self.active.retain(|key, subscription| {
            for _ in 0..MAX_UPDATES_PER_POLL {
                match Pin::new(&mut subscription.updates).poll_next(cx) {
                    Poll::Ready(Some(Ok(_))) => drop(updated.insert(key.clone())),
                    Poll::Ready(Some(Err(error))) => {
                        tracing::debug!(%error, "resource subscription ended");
                        return false;
                    }
                    Poll::Ready(None) => return false,
                    Poll::Pending => break,
                }
            }
            true
        });
        if self.pending_updates.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl ResourceKey {
    fn new(client: &ClientContext, uri: &str) -> Self {
        Self { source: client.view.source.clone(), uri: uri.into() }
    }
}
