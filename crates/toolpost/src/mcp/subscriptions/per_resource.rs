//! Resource subscriptions of servers before 2026-07-28: one request per resource.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};

use super::ResourceSubscriptions;
use crate::mcp::error::RequestError;
use crate::mcp::method::SUBSCRIBE;
use crate::mcp::request::{ClientRequest, Timeouts};
use crate::mcp::rpc::Param;
use crate::mcp::session::ClientSession;

const UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Maximum number of concurrent requests.
const MAX_IN_FLIGHT: usize = 16;
/// Delay before a request is retried after a disconnect, unless the server is reconnected first.
const DISCONNECT_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Delay before an active subscription that the server rejected is requested again.
const REJECTION_RETRY_DELAY: Duration = Duration::from_secs(30);

/// State of one resource at the server.
#[derive(Debug, PartialEq, Eq)]
enum ResourceState {
    /// A request is in flight or waits for its retry.
    Pending,
    Subscribed,
}

/// Result of a completed request or retry delay.
enum RequestCompletion {
    Subscribed(Arc<str>, Result<(), RequestError>),
    /// The resource can be requested again.
    Released(Arc<str>),
}

struct Reconciler<'a> {
    subscriptions: &'a ResourceSubscriptions,
    session: &'a ClientSession,
    timeout: Duration,
    states: HashMap<Arc<str>, ResourceState>,
    in_flight: FuturesUnordered<BoxFuture<'a, RequestCompletion>>,
    /// Retry delays.
    retries: FuturesUnordered<BoxFuture<'a, RequestCompletion>>,
}

/// Subscribes to the requested resources and unsubscribes from the others; never completes.
pub(super) async fn run(
    subscriptions: &ResourceSubscriptions,
    session: &ClientSession,
    timeout: Duration,
) {
    let (state, in_flight) = (HashMap::new(), FuturesUnordered::new());
    let retries = FuturesUnordered::new();
    let mut reconciler =
        Reconciler { subscriptions, session, timeout, states: state, in_flight, retries };
    loop {
        reconciler.reconcile();
        tokio::select! {
            () = subscriptions.changed.notified() => {}
            () = subscriptions.resubscribe.notified() => reconciler.reset(),
            Some(done) = reconciler.in_flight.next() => reconciler.handle_completion(done),
            Some(done) = reconciler.retries.next() => reconciler.handle_completion(done),
        }
    }
}

impl<'a> Reconciler<'a> {
    /// Starts the missing requests, up to `MAX_IN_FLIGHT`.
    fn reconcile(&mut self) {
        let requested = self.subscriptions.uris();
        let unwanted = self.states.iter().filter(|(uri, state)| {
            **state == ResourceState::Subscribed && !requested.contains(*uri)
        });
        let unwanted: Vec<_> = unwanted.map(|(uri, _)| Arc::clone(uri)).collect();
        let missing: Vec<_> =
            requested.into_iter().filter(|uri| !self.states.contains_key(uri)).collect();
        for uri in unwanted {
            self.start_request(&uri, Self::unsubscribe);
        }
        for uri in missing {
            self.start_request(&uri, Self::subscribe);
        }
    }

    /// Forgets confirmed subscriptions, so that they are requested again.
    fn reset(&mut self) {
        self.states.retain(|_, state| *state == ResourceState::Pending);
    }

    fn start_request(
        &mut self,
        uri: &Arc<str>,
        what: fn(&Self, Arc<str>) -> BoxFuture<'a, RequestCompletion>,
    ) {
        if self.in_flight.len() < MAX_IN_FLIGHT {
            self.states.insert(Arc::clone(uri), ResourceState::Pending);
            self.in_flight.push(what(self, Arc::clone(uri)));
        }
    }

    fn subscribe(&self, uri: Arc<str>) -> BoxFuture<'a, RequestCompletion> {
        let (session, timeout) = (self.session, self.timeout);
        async move {
            let response = send_request(session, SUBSCRIBE.name, &uri, timeout).await;
            RequestCompletion::Subscribed(uri, response)
        }
        .boxed()
    }

    fn unsubscribe(&self, uri: Arc<str>) -> BoxFuture<'a, RequestCompletion> {
        let (session, timeout) = (self.session, self.timeout);
        async move {
            if let Err(failure) = send_request(session, UNSUBSCRIBE, &uri, timeout).await {
                let failure = failure.to_string();
                tracing::debug!(failure, "failed to unsubscribe from resource");
            }
            RequestCompletion::Released(uri)
        }
        .boxed()
    }

    fn handle_completion(&mut self, done: RequestCompletion) {
        match done {
            RequestCompletion::Released(uri) => drop(self.states.remove(&uri)),
            RequestCompletion::Subscribed(uri, Ok(())) => {
                // If the subscription was active before a disconnect, updates may have been missed.
                self.subscriptions.mark_updated(&uri);
                self.subscriptions.confirm(&uri);
                self.states.insert(uri, ResourceState::Subscribed);
            }
            RequestCompletion::Subscribed(uri, Err(failure)) if failure.is_disconnect() => {
                if failure.was_not_sent() {
                    self.session.transport.mark_disconnected(&failure.to_string());
                }
                self.retry_after(uri, DISCONNECT_RETRY_DELAY);
            }
            RequestCompletion::Subscribed(uri, Err(failure)) => {
                let failure_text = failure.to_string();
                let error = failure.into_call_error(self.session.source());
                if self.subscriptions.reject(&uri, &error) {
                    self.states.remove(&uri);
                } else {
                    tracing::warn!(
                        source = self.session.source(),
                        failure = failure_text,
                        "resource subscription lost"
                    );
                    self.retry_after(uri, REJECTION_RETRY_DELAY);
                }
            }
        }
    }

    fn retry_after(&mut self, uri: Arc<str>, pause: Duration) {
        self.retries.push(
            async move {
                tokio::time::sleep(pause).await;
                RequestCompletion::Released(uri)
            }
            .boxed(),
        );
    }
}

async fn send_request(
    session: &ClientSession,
    method: &str,
    uri: &str,
    timeout: Duration,
) -> Result<(), RequestError> {
    let params = [("uri", Param::Text(uri))];
    let request = ClientRequest::new(method, &params, Timeouts::total(timeout));
    session.request(&request).await.map(drop)
}
