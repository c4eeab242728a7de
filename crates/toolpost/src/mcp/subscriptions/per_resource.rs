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

/// A completed request: the resource, the method and the response.
type Completion = (Arc<str>, &'static str, Result<(), RequestError>);

struct Reconciler<'a> {
    subscriptions: &'a ResourceSubscriptions,
    session: &'a ClientSession,
    timeout: Duration,
    /// Whether each resource is subscribed; otherwise a request is in flight or waits for its retry.
    states: HashMap<Arc<str>, bool>,
    in_flight: FuturesUnordered<BoxFuture<'a, Completion>>,
    /// Retry delays.
    retries: FuturesUnordered<BoxFuture<'a, Arc<str>>>,
}

/// Subscribes to the requested resources and unsubscribes from the others; never completes.
pub(super) async fn run(
    subscriptions: &ResourceSubscriptions,
    session: &ClientSession,
    timeout: Duration,
) {
    let mut reconciler = Reconciler {
        subscriptions,
        session,
        timeout,
        states: HashMap::new(),
        in_flight: FuturesUnordered::new(),
        retries: FuturesUnordered::new(),
    };
    loop {
        reconciler.reconcile();
        tokio::select! {
            () = subscriptions.changed.notified() => {}
            () = subscriptions.resubscribe.notified() => {
                // Confirmed subscriptions are requested again.
                reconciler.states.retain(|_, is_subscribed| !*is_subscribed);
            }
            Some(done) = reconciler.in_flight.next() => reconciler.handle_completion(done),
            Some(uri) = reconciler.retries.next() => drop(reconciler.states.remove(&uri)),
        }
    }
}

impl<'a> Reconciler<'a> {
    /// Starts the missing requests, up to `MAX_IN_FLIGHT`.
    fn reconcile(&mut self) {
        let requested = self.subscriptions.uris();
        let unwanted = self.states.iter();
        let unwanted =
            unwanted.filter(|(uri, is_subscribed)| **is_subscribed && !requested.contains(*uri));
        let unwanted: Vec<_> = unwanted.map(|(uri, _)| Arc::clone(uri)).collect();
        let missing: Vec<_> =
            requested.into_iter().filter(|uri| !self.states.contains_key(uri)).collect();
        for uri in unwanted {
            self.start_request(uri, UNSUBSCRIBE);
        }
        for uri in missing {
            self.start_request(uri, SUBSCRIBE.name);
        }
    }

    fn start_request(&mut self, uri: Arc<str>, method: &'static str) {
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            return;
        }
        self.states.insert(Arc::clone(&uri), false);
        let (session, timeout) = (self.session, self.timeout);
        let request = async move {
            let params = [("uri", Param::Text(&uri))];
            let request = ClientRequest::new(method, &params, Timeouts::total(timeout));
            let response = session.request(&request).await.map(drop);
            (uri, method, response)
        };
        self.in_flight.push(request.boxed());
    }

    fn handle_completion(&mut self, (uri, method, response): Completion) {
        match response {
            _ if method == UNSUBSCRIBE => {
                if let Err(failure) = response {
                    let failure = failure.to_string();
                    tracing::debug!(failure, "failed to unsubscribe from resource");
                }
                self.states.remove(&uri);
            }
            Ok(()) => {
                self.subscriptions.confirm(&uri, true);
                self.states.insert(uri, true);
            }
            Err(failure) if failure.is_disconnect() => {
                if failure.was_not_sent() {
                    self.session.transport.mark_disconnected(&failure.to_string());
                }
                self.retry_after(uri, DISCONNECT_RETRY_DELAY);
            }
            Err(failure) => {
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
                uri
            }
            .boxed(),
        );
    }
}
