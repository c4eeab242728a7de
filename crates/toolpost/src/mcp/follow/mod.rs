//! The resources of a server that somebody follows: who wants to hear of which, whatever session there
//! is.
//!
//! | file | holds |
//! |---|---|
//! | `operation` | `resources/subscribe` as an operation that streams |
//! | `each` | a server before 2026-07-28 is subscribed to each resource |
//! | `together` | a later one is listened to for all of them |

mod each;
mod operation;
mod together;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot, watch};

use super::session::Session;
use super::settings::McpSettings;
use super::speech::Era;
use crate::error::CallError;

pub(super) use operation::{SUBSCRIBE, handler, spec};
pub(super) use together::Acknowledged;

/// How many resources of one server are followed.
const MOST: usize = 1_000;
/// The longest address that is followed, in bytes.
const LONGEST: usize = 4 * 1024;

/// What is followed of one source. It outlives the sessions: a new one takes over what was wanted.
#[derive(Debug, Default)]
pub(super) struct Watches {
    known: Mutex<HashMap<Arc<str>, watch::Sender<News>>>,
    /// Told when something is wanted that was not, or is not wanted any more.
    changed: Notify,
    /// Told when the server may have forgotten what it was asked for.
    lapsed: Notify,
    /// The request to listen that is waiting for its acknowledgement.
    listening: Mutex<Option<(Acknowledged, oneshot::Sender<Vec<String>>)>>,
}

/// What is known of a resource. Only the latest is kept, so that whoever reads slowly misses nothing
/// that still matters.
#[derive(Debug, Clone)]
enum News {
    /// The server has not agreed yet; it may have told of a change already.
    Asked { is_updated: bool },
    /// The server tells of changes, and has told of so many.
    Told(u64),
    /// There will be no more news.
    Over(CallError),
}

/// Somebody who follows a resource. Dropping it ends that, and with the last one the server is told.
#[derive(Debug)]
struct Watcher {
    watches: Arc<Watches>,
    uri: Arc<str>,
    news: watch::Receiver<News>,
    /// How many changes were told to him.
    seen: u64,
}

impl Watches {
    /// Follows a resource.
    fn join(self: &Arc<Self>, uri: &str) -> Result<Watcher, CallError> {
        if uri.len() > LONGEST {
            let words =
                format!("the address of a resource that is followed has at most {LONGEST} bytes");
            return Err(CallError::validation(words, &[]));
        }
        let mut known = self.lock();
        let (uri, news) = match known.get_key_value(uri) {
            Some((uri, news)) => (Arc::clone(uri), news.subscribe()),
            None if known.len() >= MOST => {
                let words =
                    format!("{MOST} resources of this source are followed, which is the limit");
                return Err(CallError::overloaded(words));
            }
            None => {
                let (sender, news) = watch::channel(News::Asked { is_updated: false });
                let uri = Arc::<str>::from(uri);
                known.insert(Arc::clone(&uri), sender);
                self.changed.notify_one();
                (uri, news)
            }
        };
        let seen = match &*news.borrow() {
            News::Told(times) => *times,
            _ => 0,
        };
        Ok(Watcher { watches: Arc::clone(self), uri, news, seen })
    }

    fn wanted(&self) -> HashSet<Arc<str>> {
        self.lock().keys().cloned().collect()
    }

    /// The server tells of changes from now on.
    fn agreed(&self, uri: &str) {
        self.tell(uri, |news| match news {
            News::Asked { is_updated } => Some(News::Told(u64::from(*is_updated))),
            _ => None,
        });
    }

    /// The server will not tell of changes. Whoever was told of some before goes on waiting, since it
    /// may change its mind; says whether nobody is left.
    fn refused(&self, uri: &str, error: &CallError) -> bool {
        let mut known = self.lock();
        let is_asked =
            known.get(uri).is_none_or(|news| matches!(*news.borrow(), News::Asked { .. }));
        if is_asked && let Some(news) = known.remove(uri) {
            news.send_replace(News::Over(error.clone()));
        }
        is_asked
    }

    /// The server says that a resource has changed, or one inside of it.
    pub(super) fn updated(&self, uri: &str) {
        for (watched, news) in &*self.lock() {
            if concerns(watched, uri) {
                news.send_if_modified(News::update);
            }
        }
    }

    /// The server was not heard for a while, and may be another by now: it is asked again for all that is
    /// wanted, and whoever follows something is told then.
    pub(super) fn lapse(&self) {
        self.lapsed.notify_one();
    }

    /// The server was not heard for a while, so that anything may have changed.
    fn missed(&self) {
        for news in self.lock().values() {
            news.send_if_modified(|news| matches!(news, News::Told(_)) && news.update());
        }
    }

    /// As [`Watches::missed`], about one resource.
    fn missed_one(&self, uri: &str) {
        self.tell(uri, |news| match news {
            News::Told(times) => Some(News::Told(times + 1)),
            _ => None,
        });
    }

    /// Ends it for everybody.
    pub(super) fn close(&self, error: &CallError) {
        for (_, news) in self.lock().drain() {
            news.send_replace(News::Over(error.clone()));
        }
    }

    fn tell(&self, uri: &str, next: impl FnOnce(&News) -> Option<News>) {
        if let Some(news) = self.lock().get(uri) {
            news.send_if_modified(|news| next(news).map(|next| *news = next).is_some());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, watch::Sender<News>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl News {
    /// Takes note of a change; says whether that is news.
    fn update(&mut self) -> bool {
        match self {
            Self::Asked { is_updated } => *is_updated = true,
            Self::Told(times) => *times += 1,
            Self::Over(_) => return false,
        }
        true
    }
}

impl Watcher {
    /// Waits until the server has agreed.
    async fn agreed(&mut self) -> Result<(), CallError> {
        let settled = self.news.wait_for(|news| !matches!(news, News::Asked { .. })).await;
        match settled.as_deref() {
            Ok(News::Over(error)) => Err(error.clone()),
            Ok(_) => Ok(()),
            Err(_) => Err(closed()),
        }
    }

    /// Waits until the resource has changed, once or many times.
    async fn updated(&mut self) -> Result<(), CallError> {
        let seen = self.seen;
        let news = self.news.wait_for(|news| match news {
            News::Asked { .. } => false,
            News::Told(times) => *times > seen,
            News::Over(_) => true,
        });
        match news.await.as_deref() {
            Ok(News::Told(times)) => self.seen = *times,
            Ok(News::Over(error)) => return Err(error.clone()),
            _ => return Err(closed()),
        }
        Ok(())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut known = self.watches.lock();
        // One receiver is this watcher's own, which is dropped after this.
        let is_last = known.get(&self.uri).is_some_and(|news| {
            news.receiver_count() <= 1 && self.news.same_channel(&news.subscribe())
        });
        if is_last {
            known.remove(&self.uri);
            self.watches.changed.notify_one();
        }
    }
}

/// Sees to it that a server tells of what is wanted, for as long as it is polled.
pub(super) async fn keep(watches: Arc<Watches>, session: Arc<Session>, settings: Arc<McpSettings>) {
    let timeout = settings.timeout;
    match session.peer.speech.era {
        _ if !session.peer.tells_of_resources() => std::future::pending().await,
        Era::Legacy => each::keep(&watches, &session, timeout).await,
        Era::Modern => together::keep(&watches, &session, timeout).await,
    }
}

fn closed() -> CallError {
    CallError::unavailable("the source was closed")
}

/// Whether a change of one address is a change of another: of the same, or of what it stands in. Some
/// servers write an address with a slash at its end.
fn concerns(watched: &str, updated: &str) -> bool {
    let rest = updated.strip_prefix(watched.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_change_concerns_the_address_and_what_it_stands_in() {
        for (watched, updated, expected) in [
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
            assert_eq!(concerns(watched, updated), expected, "{watched} {updated}");
        }
    }

    #[test]
    fn what_comes_before_the_agreement_is_told_after_it_and_the_last_one_ends_it() {
        let watches = Arc::new(Watches::default());
        let (mut one, mut two) = (watches.join("a:b").unwrap(), watches.join("a:b").unwrap());
        assert!(one.agreed().now_or_never().is_none());
        watches.updated("a:b");
        watches.agreed("a:b");
        for watcher in [&mut one, &mut two] {
            watcher.agreed().now_or_never().unwrap().unwrap();
            watcher.updated().now_or_never().unwrap().unwrap();
            assert!(watcher.updated().now_or_never().is_none());
        }
        let mut late = watches.join("a:b").unwrap();
        late.agreed().now_or_never().unwrap().unwrap();
        assert!(late.updated().now_or_never().is_none(), "it was not there then");
        for _ in 0..1_000 {
            watches.updated("a:b");
        }
        one.updated().now_or_never().unwrap().unwrap();
        assert!(one.updated().now_or_never().is_none(), "many changes are told as one");
        drop((one, two));
        assert_eq!(watches.wanted().len(), 1);
        drop(late);
        assert_eq!(watches.wanted().len(), 0);
    }

    #[test]
    fn a_refusal_is_for_those_who_wait_and_there_are_bounds() {
        let watches = Arc::new(Watches::default());
        let mut waiting = watches.join("a:b").unwrap();
        let mut told = watches.join("a:c").unwrap();
        watches.agreed("a:c");
        let no = CallError::execution("no");
        assert!(watches.refused("a:b", &no) && !watches.refused("a:c", &no));
        assert_eq!(waiting.agreed().now_or_never().unwrap().unwrap_err().message(), "no");
        assert!(told.updated().now_or_never().is_none());
        // One that comes after a refusal asks anew, and is not ended by those of before.
        let again = watches.join("a:b").unwrap();
        drop(waiting);
        assert_eq!(watches.wanted().len(), 2);
        watches.close(&closed());
        assert!(told.updated().now_or_never().unwrap().is_err());
        drop(again);

        let all: Vec<_> = (0..MOST).map(|n| watches.join(&format!("a:{n}")).unwrap()).collect();
        assert!(watches.join("a:0").is_ok());
        assert_eq!(watches.join("a:b").unwrap_err().code().as_str(), "OVERLOADED");
        assert!(watches.join(&"a".repeat(LONGEST + 1)).is_err());
        drop(all);
        assert!(watches.wanted().is_empty());
    }
}
