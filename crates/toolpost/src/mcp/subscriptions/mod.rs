//! Resource subscriptions of a source, which outlive its sessions.
//!
//! | file | contents |
//! |---|---|
//! | `operation` | `resources/subscribe` as an operation that streams |
//! | `per_resource` | servers before 2026-07-28: `resources/subscribe` for each resource |
//! | `listen_stream` | later servers: one `subscriptions/listen` stream for all resources |

mod listen_stream;
mod operation;
mod per_resource;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot, watch};

use super::protocol_version::ProtocolGeneration;
use super::session::ClientSession;
use super::source_handle::SourceHandle;
use crate::error::CallError;

pub(super) use listen_stream::ListenRequestId;
pub(super) use operation::handler;

/// Maximum number of subscribed resources per server.
const MAX_SUBSCRIPTIONS: usize = 1_000;
/// Maximum length of a subscribed URI in bytes.
const MAX_URI_BYTES: usize = 4 * 1024;

/// The subscribed resources of one source; each new session subscribes to them again.
#[derive(Debug, Default)]
pub(super) struct ResourceSubscriptions {
    by_uri: Mutex<HashMap<Arc<str>, watch::Sender<SubscriptionState>>>,
    /// Notified when a resource is added or removed.
    changed: Notify,
    /// Notified when the server may have lost its subscriptions.
    resubscribe: Notify,
    /// The listen request that waits for its acknowledgment.
    pending_listen: Mutex<Option<(ListenRequestId, oneshot::Sender<Vec<String>>)>>,
}

/// State of a subscription. Only the latest state is stored, so slow subscribers skip older ones.
#[derive(Debug, Clone)]
enum SubscriptionState {
    /// The server has not confirmed the subscription; it may have sent an update already.
    Pending { is_updated: bool },
    /// The server sends updates. Holds the number of updates so far.
    Active(u64),
    /// The subscription ended with this error.
    Closed(CallError),
}

/// A subscriber of a resource. Dropping the last one unsubscribes from the server.
#[derive(Debug)]
struct Subscriber {
    subscriptions: Arc<ResourceSubscriptions>,
    uri: Arc<str>,
    state: watch::Receiver<SubscriptionState>,
    /// Number of updates this subscriber has seen.
    seen_updates: u64,
}

impl ResourceSubscriptions {
    /// Subscribes to a resource.
    fn subscribe(self: &Arc<Self>, uri: &str) -> Result<Subscriber, CallError> {
        if uri.len() > MAX_URI_BYTES {
            let message =
                format!("the URI of a subscribed resource is limited to {MAX_URI_BYTES} bytes");
            return Err(CallError::validation(message, &[]));
        }
        let mut known = self.lock();
        let (uri, news) = match known.get_key_value(uri) {
            Some((uri, news)) => (Arc::clone(uri), news.subscribe()),
            None if known.len() >= MAX_SUBSCRIPTIONS => {
                let message = format!(
                    "subscription limit reached: {MAX_SUBSCRIPTIONS} resources of this source"
                );
                return Err(CallError::overloaded(message));
            }
            None => {
                let (sender, news) =
                    watch::channel(SubscriptionState::Pending { is_updated: false });
                let uri = Arc::<str>::from(uri);
                known.insert(Arc::clone(&uri), sender);
                self.changed.notify_one();
                (uri, news)
            }
        };
        let seen = match &*news.borrow() {
            SubscriptionState::Active(times) => *times,
            _ => 0,
        };
        Ok(Subscriber { subscriptions: Arc::clone(self), uri, state: news, seen_updates: seen })
    }

    fn uris(&self) -> HashSet<Arc<str>> {
        self.lock().keys().cloned().collect()
    }

    /// Handles a confirmed subscription. Updates may have been missed before the confirmation.
    fn confirm(&self, uri: &str, may_have_missed: bool) {
        if let Some(state) = self.lock().get(uri) {
            state.send_if_modified(|state| match state {
                SubscriptionState::Pending { is_updated } => {
                    *state = SubscriptionState::Active(u64::from(*is_updated));
                    true
                }
                _ => may_have_missed && state.mark_updated(),
            });
        }
    }

    /// Handles a rejected subscription. Subscribers of an active subscription keep waiting, because
    /// the server may accept it later. Returns whether the subscription was not active.
    fn reject(&self, uri: &str, error: &CallError) -> bool {
        let mut known = self.lock();
        let is_pending = known
            .get(uri)
            .is_none_or(|state| matches!(*state.borrow(), SubscriptionState::Pending { .. }));
        if is_pending && let Some(state) = known.remove(uri) {
            state.send_replace(SubscriptionState::Closed(error.clone()));
        }
        is_pending
    }

    /// Handles an update of a resource or of one below it.
    pub(super) fn notify_updated(&self, uri: &str) {
        for (subscribed, news) in &*self.lock() {
            if uri_covers(subscribed, uri) {
                news.send_if_modified(SubscriptionState::mark_updated);
            }
        }
    }

    /// Requests all subscriptions again after the notification stream was interrupted, because the
    /// server may have lost them. Subscribers are notified once each is confirmed.
    pub(super) fn resubscribe_all(&self) {
        self.resubscribe.notify_one();
    }

    /// Marks all active subscriptions as updated, because updates may have been missed.
    fn mark_all_updated(&self) {
        for state in self.lock().values() {
            state.send_if_modified(|state| {
                matches!(state, SubscriptionState::Active(_)) && state.mark_updated()
            });
        }
    }

    /// Closes all subscriptions.
    pub(super) fn close(&self, error: &CallError) {
        for (_, news) in self.lock().drain() {
            news.send_replace(SubscriptionState::Closed(error.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, watch::Sender<SubscriptionState>>> {
        self.by_uri.lock()
    }
}

impl SubscriptionState {
    /// Records an update; returns whether the state changed.
    fn mark_updated(&mut self) -> bool {
        match self {
            Self::Pending { is_updated } => *is_updated = true,
            Self::Active(times) => *times += 1,
            Self::Closed(_) => return false,
        }
        true
    }
}

impl Subscriber {
    /// Waits until the server has confirmed the subscription.
    async fn wait_confirmed(&mut self) -> Result<(), CallError> {
        let resolved =
            self.state.wait_for(|state| !matches!(state, SubscriptionState::Pending { .. })).await;
        match resolved.as_deref() {
            Ok(SubscriptionState::Closed(error)) => Err(error.clone()),
            Ok(_) => Ok(()),
            Err(_) => Err(closed_error()),
        }
    }

    /// Waits for an update; several updates since the last call count as one.
    async fn wait_updated(&mut self) -> Result<(), CallError> {
        let seen = self.seen_updates;
        let state = self.state.wait_for(|state| match state {
            SubscriptionState::Pending { .. } => false,
            SubscriptionState::Active(times) => *times > seen,
            SubscriptionState::Closed(_) => true,
        });
        match state.await.as_deref() {
            Ok(SubscriptionState::Active(times)) => self.seen_updates = *times,
            Ok(SubscriptionState::Closed(error)) => return Err(error.clone()),
            _ => return Err(closed_error()),
        }
        Ok(())
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let mut known = self.subscriptions.lock();
        // The count includes the receiver of this subscriber, which is dropped later.
        let is_last = known.get(&self.uri).is_some_and(|state| {
            state.receiver_count() <= 1 && self.state.same_channel(&state.subscribe())
        });
        if is_last {
            known.remove(&self.uri);
            self.subscriptions.changed.notify_one();
        }
    }
}

/// Keeps the subscriptions of a server up to date while it is polled.
pub(super) async fn maintain(handle: Arc<SourceHandle>, session: Arc<ClientSession>) {
    let (subscriptions, timeout) = (&handle.subscriptions, handle.settings.timeout);
    match session.server.protocol.generation {
        _ if !session.server.supports_resource_subscribe() => std::future::pending().await,
        ProtocolGeneration::Legacy => per_resource::run(subscriptions, &session, timeout).await,
        ProtocolGeneration::Modern => listen_stream::run(subscriptions, &session, timeout).await,
    }
}

fn closed_error() -> CallError {
    CallError::unavailable("the source was closed")
}

/// Whether an updated URI is the subscribed one, with or without a slash, or below it.
fn uri_covers(subscribed: &str, updated: &str) -> bool {
    let rest = updated.strip_prefix(subscribed.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn uri_covers_same_and_child_uris() {
        for (subscribed, updated, expected) in [
            ("a://b", "a://b", true),
            ("a://b", "a://b/", true),
            ("a://b/", "a://b", true),
            ("a://b", "a://b/c", true),
            ("a://b/", "a://b/c", true),
            ("a://b", "a://b#c", true),
            ("a://b", "a://bc", false),
            ("a://b/c", "a://b", false),
            ("a://b", "", false),
        ] {
            assert_eq!(uri_covers(subscribed, updated), expected, "{subscribed} {updated}");
        }
    }

    #[test]
    fn subscription_keeps_early_update_ends_with_last_subscriber() {
        let subscriptions = Arc::new(ResourceSubscriptions::default());
        let (mut one, mut two) =
            (subscriptions.subscribe("a:b").unwrap(), subscriptions.subscribe("a:b").unwrap());
        assert!(one.wait_confirmed().now_or_never().is_none());
        subscriptions.notify_updated("a:b");
        subscriptions.confirm("a:b", false);
        for subscriber in [&mut one, &mut two] {
            subscriber.wait_confirmed().now_or_never().unwrap().unwrap();
            subscriber.wait_updated().now_or_never().unwrap().unwrap();
            assert!(subscriber.wait_updated().now_or_never().is_none());
        }
        let mut late = subscriptions.subscribe("a:b").unwrap();
        late.wait_confirmed().now_or_never().unwrap().unwrap();
        assert!(late.wait_updated().now_or_never().is_none(), "it was not there then");
        for _ in 0..1_000 {
            subscriptions.notify_updated("a:b");
        }
        one.wait_updated().now_or_never().unwrap().unwrap();
        assert!(one.wait_updated().now_or_never().is_none(), "several changes are reported as one");
        drop((one, two));
        assert_eq!(subscriptions.uris().len(), 1);
        drop(late);
        assert_eq!(subscriptions.uris().len(), 0);
    }

    #[test]
    fn subscription_reject_fails_only_pending_and_enforces_limits() {
        let subscriptions = Arc::new(ResourceSubscriptions::default());
        let mut waiting = subscriptions.subscribe("a:b").unwrap();
        let mut confirmed = subscriptions.subscribe("a:c").unwrap();
        subscriptions.confirm("a:c", false);
        let no = CallError::execution("no");
        assert!(subscriptions.reject("a:b", &no) && !subscriptions.reject("a:c", &no));
        assert_eq!(waiting.wait_confirmed().now_or_never().unwrap().unwrap_err().message(), "no");
        assert!(confirmed.wait_updated().now_or_never().is_none());
        // A new subscription after a rejection is independent of the earlier subscribers.
        let again = subscriptions.subscribe("a:b").unwrap();
        drop(waiting);
        assert_eq!(subscriptions.uris().len(), 2);
        subscriptions.close(&closed_error());
        assert!(confirmed.wait_updated().now_or_never().unwrap().is_err());
        drop(again);

        let all: Vec<_> = (0..MAX_SUBSCRIPTIONS)
            .map(|n| subscriptions.subscribe(&format!("a:{n}")).unwrap())
            .collect();
        assert!(subscriptions.subscribe("a:0").is_ok());
        assert_eq!(subscriptions.subscribe("a:b").unwrap_err().code().as_str(), "OVERLOADED");
        assert!(subscriptions.subscribe(&"a".repeat(MAX_URI_BYTES + 1)).is_err());
        drop(all);
        assert!(subscriptions.uris().is_empty());
    }
}
