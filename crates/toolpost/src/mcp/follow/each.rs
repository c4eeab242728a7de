//! A server before 2026-07-28 is subscribed to one resource at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};

use super::{SUBSCRIBE, Watches};
use crate::mcp::ask::{Ask, Patience};
use crate::mcp::failure::Failure;
use crate::mcp::rpc::Param;
use crate::mcp::session::Session;

const UNSUBSCRIBE: &str = "resources/unsubscribe";
/// How many requests are under way at once.
const AT_ONCE: usize = 16;
/// When a server that was lost over a request is asked again, unless it is connected anew before.
const SOON: Duration = Duration::from_secs(1);
/// When a server that does not want to tell any more is asked again.
const LATER: Duration = Duration::from_secs(30);

/// Where the server stands with one resource.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    /// It was asked something, and has not answered; or it is to be asked again later.
    Waiting,
    Subscribed,
}

/// What came of something that was waited for.
enum Done {
    Subscribed(Arc<str>, Result<(), Failure>),
    /// It is free to be asked about this again.
    Free(Arc<str>),
}

struct Keeper<'a> {
    watches: &'a Watches,
    session: &'a Session,
    timeout: Duration,
    standing: HashMap<Arc<str>, Standing>,
    running: FuturesUnordered<BoxFuture<'a, Done>>,
    /// What is asked again later.
    pauses: FuturesUnordered<BoxFuture<'a, Done>>,
}

/// Subscribes to what is wanted and unsubscribes from the rest; never ends.
pub(super) async fn keep(watches: &Watches, session: &Session, timeout: Duration) {
    let (standing, running) = (HashMap::new(), FuturesUnordered::new());
    let pauses = FuturesUnordered::new();
    let mut keeper = Keeper { watches, session, timeout, standing, running, pauses };
    loop {
        keeper.ask();
        tokio::select! {
            () = watches.changed.notified() => {}
            () = watches.lapsed.notified() => keeper.begin_again(),
            Some(done) = keeper.running.next() => keeper.take(done),
            Some(done) = keeper.pauses.next() => keeper.take(done),
        }
    }
}

impl<'a> Keeper<'a> {
    /// Asks for what is missing, as far as there is room.
    fn ask(&mut self) {
        let wanted = self.watches.wanted();
        let unwanted = self
            .standing
            .iter()
            .filter(|(uri, standing)| **standing == Standing::Subscribed && !wanted.contains(*uri));
        let unwanted: Vec<_> = unwanted.map(|(uri, _)| Arc::clone(uri)).collect();
        let missing: Vec<_> =
            wanted.into_iter().filter(|uri| !self.standing.contains_key(uri)).collect();
        for uri in unwanted {
            self.begin(&uri, Self::unsubscribe);
        }
        for uri in missing {
            self.begin(&uri, Self::subscribe);
        }
    }

    /// Takes nothing of what was agreed on for granted.
    fn begin_again(&mut self) {
        self.standing.retain(|_, standing| *standing == Standing::Waiting);
    }

    fn begin(&mut self, uri: &Arc<str>, what: fn(&Self, Arc<str>) -> BoxFuture<'a, Done>) {
        if self.running.len() < AT_ONCE {
            self.standing.insert(Arc::clone(uri), Standing::Waiting);
            self.running.push(what(self, Arc::clone(uri)));
        }
    }

    fn subscribe(&self, uri: Arc<str>) -> BoxFuture<'a, Done> {
        let (session, timeout) = (self.session, self.timeout);
        async move {
            let answer = request(session, SUBSCRIBE, &uri, timeout).await;
            Done::Subscribed(uri, answer)
        }
        .boxed()
    }

    fn unsubscribe(&self, uri: Arc<str>) -> BoxFuture<'a, Done> {
        let (session, timeout) = (self.session, self.timeout);
        async move {
            if let Err(failure) = request(session, UNSUBSCRIBE, &uri, timeout).await {
                let failure = failure.to_string();
                tracing::debug!(failure, "the server goes on telling about a resource");
            }
            Done::Free(uri)
        }
        .boxed()
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Free(uri) => drop(self.standing.remove(&uri)),
            Done::Subscribed(uri, Ok(())) => {
                // Whoever was told before, by a server that was lost, may have missed something.
                self.watches.missed_one(&uri);
                self.watches.agreed(&uri);
                self.standing.insert(uri, Standing::Subscribed);
            }
            Done::Subscribed(uri, Err(failure)) if failure.is_loss() => {
                if failure.is_before_sending() {
                    self.session.lose(&failure.to_string());
                }
                self.again(uri, SOON);
            }
            Done::Subscribed(uri, Err(failure)) => {
                let words = failure.to_string();
                let error = failure.into_call_error(self.session.source());
                if self.watches.refused(&uri, &error) {
                    self.standing.remove(&uri);
                } else {
                    tracing::warn!(
                        source = self.session.source(),
                        failure = words,
                        "a resource is not followed any more"
                    );
                    self.again(uri, LATER);
                }
            }
        }
    }

    fn again(&mut self, uri: Arc<str>, pause: Duration) {
        self.pauses.push(
            async move {
                tokio::time::sleep(pause).await;
                Done::Free(uri)
            }
            .boxed(),
        );
    }
}

async fn request(
    session: &Session,
    method: &str,
    uri: &str,
    timeout: Duration,
) -> Result<(), Failure> {
    let params = [("uri", Param::Text(uri))];
    let ask = Ask::new(method, &params, Patience::of(timeout));
    session.request(&ask).await.map(drop)
}
