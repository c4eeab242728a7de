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

use super::ask::Asker;
use super::message::Fault;

/// The longest address that is followed, in bytes.
const LONGEST: usize = 4 * 1024;
/// How many changes of one resource are taken at once: a source that never rests must not keep those
/// of others waiting.
const AT_ONCE: usize = 32;

/// What one client follows; gone with it. Nothing runs for a client that does not listen: changes wait
/// at their source, and are one when it comes back.
#[derive(Debug, Default)]
pub(super) struct Following {
    state: Mutex<State>,
    /// Told when there is something new to follow.
    added: Notify,
}

#[derive(Debug, Default)]
struct State {
    followed: HashMap<Key, Followed>,
    /// What has changed since the client was told.
    updated: BTreeSet<Key>,
}

/// What a client calls a resource: an address, and the source that it asked for alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    source: Option<Arc<str>>,
    uri: Arc<str>,
}

/// A resource that is followed.
struct Followed {
    changes: Subscription,
    /// The operation behind it, which the client must be allowed to see.
    operation: String,
    /// One of the places of all clients together.
    _place: OwnedSemaphorePermit,
}

impl std::fmt::Debug for Followed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Followed").field("operation", &self.operation).finish_non_exhaustive()
    }
}

impl Following {
    /// Follows a resource from now on; returns when its source has agreed.
    pub(super) async fn follow(&self, asker: &Asker, uri: &str) -> Result<(), Fault> {
        if uri.len() > LONGEST {
            let words = format!("an address that is followed has at most {LONGEST} bytes");
            return Err(Fault::invalid_params(words));
        }
        let key = Key::new(asker, uri);
        if self.has(&key) {
            return Ok(());
        }
        self.room(asker)?;
        let place = place(asker)?;
        let caller = Authority::outside(Some(Arc::clone(&asker.identity)));
        let (operation, changes) = asker.passing(&caller, None).follow(uri).await?;
        // Others may have come while the source was asked.
        self.room(asker)?;
        self.lock().followed.insert(key, Followed { changes, operation, _place: place });
        self.added.notify_one();
        Ok(())
    }

    /// Follows what can be followed, and gives that; the rest is not for this client to have.
    pub(super) async fn follow_all(&self, asker: &Asker, uris: Vec<String>) -> Vec<String> {
        let following = uris.into_iter().map(async |uri| match self.follow(asker, &uri).await {
            Ok(()) => Some(uri),
            Err(fault) => {
                tracing::debug!(reason = fault.message, "a resource is not followed");
                None
            }
        });
        join_all(following).await.into_iter().flatten().collect()
    }

    /// Follows a resource no more.
    pub(super) fn leave(&self, asker: &Asker, uri: &str) {
        let key = Key::new(asker, uri);
        let mut state = self.lock();
        state.updated.remove(&key);
        state.followed.remove(&key);
    }

    /// Follows nothing any more.
    pub(super) fn clear(&self) {
        *self.lock() = State::default();
    }

    /// Waits until something has changed that the client was not told.
    ///
    /// # Cancellation
    ///
    /// Nothing is lost when it is dropped.
    pub(super) async fn updated(&self) {
        loop {
            tokio::select! {
                () = poll_fn(|cx| self.lock().poll(cx)) => return,
                () = self.added.notified() => {}
            }
        }
    }

    /// What has changed since, as the client calls it, as far as the client may still see it.
    pub(super) fn take(&self, asker: &Asker) -> Vec<Arc<str>> {
        let mut state = self.lock();
        // Whoever waits next looks again, so that nobody needs to be woken for this.
        let _ = state.poll(&mut Context::from_waker(Waker::noop()));
        let catalog = asker.gateway.pipeline().registry().catalog();
        let is_seen = |key: &Key| {
            let operation = state.followed.get(key).map(|followed| &*followed.operation);
            let operation = operation.and_then(|operation| catalog.get(operation));
            operation.is_some_and(|operation| {
                operation.spec().access_control.admits(Some(&asker.identity))
            })
        };
        let seen = state.updated.iter().filter(|key| is_seen(key));
        let seen = seen.map(|key| Arc::clone(&key.uri)).collect();
        state.updated.clear();
        seen
    }

    /// Whether something is followed already, and has not ended meanwhile.
    fn has(&self, key: &Key) -> bool {
        let mut state = self.lock();
        let _ = state.poll(&mut Context::from_waker(Waker::noop()));
        // Whoever waits was to be woken, and has to look again for that.
        self.added.notify_one();
        state.followed.contains_key(key)
    }

    fn room(&self, asker: &Asker) -> Result<(), Fault> {
        let most = asker.gateway.0.mcp.settings().followed_by_one;
        if self.lock().followed.len() < most {
            return Ok(());
        }
        let words = format!("{most} resources are followed, which is the limit; leave one first");
        Err(Fault::new(Fault::OVERLOADED, words))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes note of what has changed; ready if that is something.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let updated = &mut self.updated;
        self.followed.retain(|key, followed| {
            for _ in 0..AT_ONCE {
                match Pin::new(&mut followed.changes).poll_next(cx) {
                    Poll::Ready(Some(Ok(_))) => drop(updated.insert(key.clone())),
                    Poll::Ready(Some(Err(error))) => {
                        tracing::debug!(%error, "a resource is not followed any more");
                        return false;
                    }
                    Poll::Ready(None) => return false,
                    Poll::Pending => break,
                }
            }
            true
        });
        if self.updated.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Key {
    fn new(asker: &Asker, uri: &str) -> Self {
        Self { source: asker.view.source.clone(), uri: uri.into() }
    }
}

fn place(asker: &Asker) -> Result<OwnedSemaphorePermit, Fault> {
    let places = Arc::clone(&asker.gateway.0.mcp.followed);
    places.try_acquire_owned().map_err(|_| {
        let most = asker.gateway.0.mcp.settings().followed;
        let words = format!("{most} resources are followed by all clients, which is the limit");
        Fault::new(Fault::OVERLOADED, words)
    })
}
