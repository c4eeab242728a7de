//! The resources that one client follows, and what it has not been told about them yet.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::Stream;
use futures::future::join_all;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use toolpost::{Authority, Subscription};

use super::json_rpc::JsonRpcError;
use super::request::ClientContext;

/// The longest address that is followed, in bytes.
const MAX_URI_BYTES: usize = 4 * 1024;
/// How many changes of one resource are taken at once: a source that never rests must not keep those
/// of others waiting.
const MAX_UPDATES_PER_POLL: usize = 32;

/// What one client follows; gone with it. Nothing runs for a client that does not listen: changes wait
/// at their source, and are one when it comes back.
#[derive(Debug, Default)]
pub(super) struct ResourceSubscriptions {
    state: Mutex<SubscriptionState>,
    /// Told when there is something new to follow.
    added: Notify,
}

#[derive(Debug, Default)]
struct SubscriptionState {
    active: HashMap<ResourceKey, ActiveSubscription>,
    /// What has changed since the client was told.
    pending_updates: BTreeSet<ResourceKey>,
}

/// What a client calls a resource: an address, and the source that it asked for alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct ResourceKey {
    source: Option<Arc<str>>,
    uri: Arc<str>,
}

/// A resource that is followed.
struct ActiveSubscription {
    updates: Subscription,
    /// The operation behind it, which the client must be allowed to see.
    operation: String,
    /// One of the permits shared by all clients.
    _permit: OwnedSemaphorePermit,
}

impl std::fmt::Debug for ActiveSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActiveSubscription")
            .field("operation", &self.operation)
            .finish_non_exhaustive()
    }
}

impl ResourceSubscriptions {
    /// Follows a resource from now on; returns when its source has agreed.
    pub(super) async fn subscribe(
        &self,
        client: &ClientContext,
        uri: &str,
    ) -> Result<(), JsonRpcError> {
        if uri.len() > MAX_URI_BYTES {
            let message = format!("a resource URI is limited to {MAX_URI_BYTES} bytes");
            return Err(JsonRpcError::invalid_params(message));
        }
        let key = ResourceKey::new(client, uri);
        if self.refresh_and_contains(&key) {
            return Ok(());
        }
        self.check_client_limit(client)?;
        let permit = acquire_permit(client)?;
        let caller = Authority::untrusted(Some(Arc::clone(&client.identity)));
        let (operation, changes) = client.passthrough(&caller, None).subscribe(uri).await?;
        // Others may have come while the source was asked.
        self.check_client_limit(client)?;
        self.lock()
            .active
            .insert(key, ActiveSubscription { updates: changes, operation, _permit: permit });
        self.added.notify_one();
        Ok(())
    }

    /// Follows what can be followed, and gives that; the rest is not for this client to have.
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

    /// Follows a resource no more.
    pub(super) fn unsubscribe(&self, client: &ClientContext, uri: &str) {
        let key = ResourceKey::new(client, uri);
        let mut state = self.lock();
        state.pending_updates.remove(&key);
        state.active.remove(&key);
    }

    /// Follows nothing any more.
    pub(super) fn clear(&self) {
        *self.lock() = SubscriptionState::default();
    }

    /// Waits until something has changed that the client was not told.
    ///
    /// # Cancellation
    ///
    /// Nothing is lost when it is dropped.
    pub(super) async fn wait_for_update(&self) {
        loop {
            tokio::select! {
                () = poll_fn(|cx| self.lock().poll_updates(cx)) => return,
                () = self.added.notified() => {}
            }
        }
    }

    /// What has changed since, as the client calls it, as far as the client may still see it.
    pub(super) fn take_updates(&self, client: &ClientContext) -> Vec<Arc<str>> {
        let mut state = self.lock();
        // Whoever waits next looks again, so that nobody needs to be woken for this.
        let _ = state.poll_updates(&mut Context::from_waker(Waker::noop()));
        let catalog = client.gateway.pipeline().registry().catalog();
        let is_visible = |key: &ResourceKey| {
            let operation = state.active.get(key).map(|subscription| &*subscription.operation);
            let operation = operation.and_then(|operation| catalog.get(operation));
            operation.is_some_and(|operation| {
                operation.spec().access_control.is_callable_by(Some(&client.identity))
            })
        };
        let visible = state.pending_updates.iter().filter(|key| is_visible(key));
        let visible = visible.map(|key| Arc::clone(&key.uri)).collect();
        state.pending_updates.clear();
        visible
    }

    /// Whether something is followed already, and has not ended meanwhile.
    fn refresh_and_contains(&self, key: &ResourceKey) -> bool {
        let mut state = self.lock();
        let _ = state.poll_updates(&mut Context::from_waker(Waker::noop()));
        // Whoever waits was to be woken, and has to look again for that.
        self.added.notify_one();
        state.active.contains_key(key)
    }

    fn check_client_limit(&self, client: &ClientContext) -> Result<(), JsonRpcError> {
        let max = client.gateway.0.mcp.settings().max_resource_subscriptions_per_client;
        if self.lock().active.len() < max {
            return Ok(());
        }
        let message = format!(
            "subscription limit reached: {max} resources per client; unsubscribe from one first"
        );
        Err(JsonRpcError::new(JsonRpcError::OVERLOADED, message))
    }

    fn lock(&self) -> MutexGuard<'_, SubscriptionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SubscriptionState {
    /// Takes note of what has changed; ready if that is something.
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

fn acquire_permit(client: &ClientContext) -> Result<OwnedSemaphorePermit, JsonRpcError> {
    let permits = Arc::clone(&client.gateway.0.mcp.subscription_permits);
    permits.try_acquire_owned().map_err(|_| {
        let max = client.gateway.0.mcp.settings().max_resource_subscriptions;
        let message = format!("subscription limit reached: {max} resources in total");
        JsonRpcError::new(JsonRpcError::OVERLOADED, message)
    })
}
