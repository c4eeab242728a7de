//! A server of 2026-07-28 or later is listened to, for all resources at once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{Watches, concerns};
use crate::error::CallError;
use crate::mcp::ask::{Ask, Patience};
use crate::mcp::failure::Failure;
use crate::mcp::rpc::Param;
use crate::mcp::session::Session;

/// The longest that is listened without asking again.
const LISTENING: Duration = Duration::from_secs(24 * 60 * 60);
/// How long is waited before a stream that broke off is asked for again: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The number of a request, which is known when it is sent; its acknowledgement is known by it.
pub(in crate::mcp) type Acknowledged = Arc<AtomicU64>;

/// A request that is being answered for as long as it is polled, and what it asks for.
struct Listening<'a> {
    uris: HashSet<Arc<str>>,
    stream: BoxFuture<'a, Failure>,
}

/// Listens for what is wanted; never ends.
pub(super) async fn keep(watches: &Watches, session: &Session, timeout: Duration) {
    let (mut current, mut pause) = (None::<Listening<'_>>, PAUSE.0);
    loop {
        let wanted = watches.wanted();
        if wanted.is_empty() {
            current = None;
        } else if current.as_ref().is_none_or(|current| current.uris != wanted) {
            let opening = open(watches, session, wanted, timeout);
            let opened = match &mut current {
                // The one of before is heard until the next one is there.
                Some(before) => tokio::select! {
                    opened = opening => opened,
                    failure = &mut before.stream => Err(failure),
                },
                None => opening.await,
            };
            match opened {
                Ok((listening, honored)) => {
                    // Only what comes without a gap is heard whole.
                    if current.is_none() {
                        watches.missed();
                    }
                    watches.settle(session.source(), &listening.uris, &honored);
                    (current, pause) = (Some(listening), PAUSE.0);
                }
                Err(failure) => {
                    current = None;
                    rest(session, &failure, &mut pause).await;
                }
            }
            continue;
        }
        let broken = match &mut current {
            None => std::future::pending().left_future(),
            Some(current) => (&mut current.stream).right_future(),
        };
        tokio::select! {
            () = watches.changed.notified() => {}
            failure = broken => {
                current = None;
                rest(session, &failure, &mut pause).await;
            }
        }
    }
}

async fn rest(session: &Session, failure: &Failure, pause: &mut Duration) {
    let (source, failure) = (session.source(), failure.to_string());
    tracing::debug!(source, failure, "listening to resources broke off");
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(PAUSE.1);
}

/// Begins to listen, and waits until the server says to what.
///
/// # Errors
///
/// It does not listen; whoever waited for its agreement knows.
async fn open<'a>(
    watches: &'a Watches,
    session: &'a Session,
    uris: HashSet<Arc<str>>,
    timeout: Duration,
) -> Result<(Listening<'a>, Vec<String>), Failure> {
    let (number, tell) = (Acknowledged::default(), oneshot::channel());
    watches.expect(&number, tell.0);
    let mut stream = listen(session, uris.iter().cloned().collect(), number).boxed();
    let opened = tokio::select! {
        biased;
        Ok(honored) = tell.1 => Ok(honored),
        failure = &mut stream => Err(failure),
        () = tokio::time::sleep(timeout) => {
            Err(Failure::TimedOut(format!("the server does not say within {timeout:?} what it tells about")))
        }
    };
    match opened {
        Ok(honored) => Ok((Listening { uris, stream }, honored)),
        Err(failure) if failure.is_loss() => Err(failure),
        Err(failure) => {
            let error = failure.clone().into_call_error(session.source());
            for uri in &uris {
                watches.refused(uri, &error);
            }
            Err(failure)
        }
    }
}

async fn listen(session: &Session, uris: Vec<Arc<str>>, number: Acknowledged) -> Failure {
    let uris: Vec<&str> = uris.iter().map(|uri| &**uri).collect();
    let wanted = json!({"resourceSubscriptions": uris});
    let params = [("notifications", Param::Value(&wanted))];
    let ask = Ask::new("subscriptions/listen", &params, Patience::of(LISTENING)).numbered(number);
    match session.request(&ask).await {
        Ok(_) => Failure::lost("the server ended the stream"),
        Err(failure) => failure,
    }
}

impl Watches {
    fn expect(&self, number: &Acknowledged, tell: oneshot::Sender<Vec<String>>) {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        *listening = Some((Arc::clone(number), tell));
    }

    /// The server says what it will tell about on the stream of a request. `about` is the request
    /// whose stream it came on, where each has its own.
    pub(in crate::mcp) fn acknowledged(&self, about: Option<u64>, params: &RawValue) {
        let said: Said = serde_json::from_str(params.get()).unwrap_or_default();
        let number = about.or(said.meta.subscription);
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |(expected, _): &mut (Acknowledged, _)| {
            number == Some(expected.load(Ordering::Relaxed))
        };
        if let Some((_, tell)) = listening.take_if(is_it) {
            let _ = tell.send(said.notifications.resource_subscriptions);
        }
    }

    /// Tells everybody what became of his wish.
    fn settle(&self, source: &str, uris: &HashSet<Arc<str>>, honored: &[String]) {
        for uri in uris {
            if honored.iter().any(|one| concerns(uri, one)) {
                self.agreed(uri);
                continue;
            }
            let words = format!("`{source}` does not tell when this resource changes");
            if !self.refused(uri, &CallError::execution(words)) {
                tracing::warn!(source, "a resource is not followed any more");
            }
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    notifications: Honored,
    #[serde(rename = "_meta")]
    meta: Meta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Honored {
    resource_subscriptions: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    subscription: Option<u64>,
}
