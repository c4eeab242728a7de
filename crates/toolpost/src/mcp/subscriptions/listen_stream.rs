//! Resource subscriptions from 2026-07-28 on: one `subscriptions/listen` request for all.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{ResourceSubscriptions, uri_covers};
use crate::error::CallError;
use crate::mcp::error::RequestError;
use crate::mcp::request::{ClientRequest, Timeouts};
use crate::mcp::rpc::Param;
use crate::mcp::session::ClientSession;

/// Maximum duration of a listen request, which is then sent again.
const MAX_LISTEN: Duration = Duration::from_secs(24 * 60 * 60);
/// Initial and maximum delay before a broken stream is opened again.
const RECONNECT_DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The id of a listen request, set when it is sent; matches the acknowledgment to it.
pub(in crate::mcp) type ListenRequestId = Arc<AtomicU64>;

/// An open listen request, which must be polled, and the URIs it covers.
struct ListenStream<'a> {
    uris: HashSet<Arc<str>>,
    stream: BoxFuture<'a, RequestError>,
}

/// Keeps a stream open for the subscribed resources; never completes.
pub(super) async fn run(
    subscriptions: &ResourceSubscriptions,
    session: &ClientSession,
    timeout: Duration,
) {
    let (mut current, mut pause) = (None::<ListenStream<'_>>, RECONNECT_DELAYS.0);
    loop {
        let requested_uris = subscriptions.uris();
        if requested_uris.is_empty() {
            current = None;
        } else if current.as_ref().is_none_or(|current| current.uris != requested_uris) {
            let opening = open_stream(subscriptions, session, requested_uris, timeout);
            let opened = match &mut current {
                // The previous stream is read until the new one is open.
                Some(before) => tokio::select! {
                    opened = opening => opened,
                    failure = &mut before.stream => Err(failure),
                },
                None => opening.await,
            };
            match opened {
                Ok((listening, honored)) => {
                    // After a gap, updates may have been missed.
                    if current.is_none() {
                        subscriptions.mark_all_updated();
                    }
                    subscriptions.apply_acknowledged(session.source(), &listening.uris, &honored);
                    (current, pause) = (Some(listening), RECONNECT_DELAYS.0);
                }
                Err(failure) => {
                    current = None;
                    back_off(session, &failure, &mut pause).await;
                }
            }
            continue;
        }
        let stream_failure = match &mut current {
            None => std::future::pending().left_future(),
            Some(current) => (&mut current.stream).right_future(),
        };
        tokio::select! {
            () = subscriptions.changed.notified() => {}
            failure = stream_failure => {
                current = None;
                back_off(session, &failure, &mut pause).await;
            }
        }
    }
}

async fn back_off(session: &ClientSession, failure: &RequestError, pause: &mut Duration) {
    let (source, failure) = (session.source(), failure.to_string());
    tracing::debug!(source, failure, "resource update stream disconnected");
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(RECONNECT_DELAYS.1);
}

/// Opens a stream and waits for the acknowledgment.
///
/// # Errors
///
/// Returns an error if the stream cannot be opened. Pending subscribers receive it too, unless
/// it is a disconnect.
async fn open_stream<'a>(
    subscriptions: &'a ResourceSubscriptions,
    session: &'a ClientSession,
    uris: HashSet<Arc<str>>,
    timeout: Duration,
) -> Result<(ListenStream<'a>, Vec<String>), RequestError> {
    let (request_id, ack_channel) = (ListenRequestId::default(), oneshot::channel());
    subscriptions.expect_acknowledgment(&request_id, ack_channel.0);
    let mut stream = listen(session, uris.iter().cloned().collect(), request_id).boxed();
    let opened = tokio::select! {
        biased;
        Ok(honored) = ack_channel.1 => Ok(honored),
        failure = &mut stream => Err(failure),
        () = tokio::time::sleep(timeout) => {
            Err(RequestError::TimedOut(format!("the server did not acknowledge the subscriptions within {timeout:?}")))
        }
    };
    match opened {
        Ok(honored) => Ok((ListenStream { uris, stream }, honored)),
        Err(failure) if failure.is_disconnect() => Err(failure),
        Err(failure) => {
            let error = failure.clone().into_call_error(session.source());
            for uri in &uris {
                subscriptions.reject(uri, &error);
            }
            Err(failure)
        }
    }
}

async fn listen(
    session: &ClientSession,
    uris: Vec<Arc<str>>,
    request_id: ListenRequestId,
) -> RequestError {
    let uris: Vec<&str> = uris.iter().map(|uri| &**uri).collect();
    let notifications = json!({"resourceSubscriptions": uris});
    let params = [("notifications", Param::Value(&notifications))];
    let mut request =
        ClientRequest::new("subscriptions/listen", &params, Timeouts::total(MAX_LISTEN));
    request.request_id = Some(request_id);
    match session.request(&request).await {
        Ok(_) => RequestError::disconnected("the server ended the stream"),
        Err(failure) => failure,
    }
}

impl ResourceSubscriptions {
    fn expect_acknowledgment(
        &self,
        request_id: &ListenRequestId,
        ack_sender: oneshot::Sender<Vec<String>>,
    ) {
        let mut listening = self.pending_listen.lock();
        *listening = Some((Arc::clone(request_id), ack_sender));
    }

    /// Handles the acknowledgment of a listen request. `explicit_id` is the request whose stream it
    /// arrived on, if each request has its own stream.
    pub(in crate::mcp) fn handle_acknowledged(&self, explicit_id: Option<u64>, params: &RawValue) {
        let acknowledged_params: AcknowledgedParams =
            serde_json::from_str(params.get()).unwrap_or_default();
        let request_id = explicit_id.or(acknowledged_params.meta.subscription);
        let mut listening = self.pending_listen.lock();
        let matches_request = |(expected, _): &mut (ListenRequestId, _)| {
            request_id == Some(expected.load(Ordering::Relaxed))
        };
        if let Some((_, ack_sender)) = listening.take_if(matches_request) {
            let _ = ack_sender.send(acknowledged_params.notifications.resource_subscriptions);
        }
    }

    /// Confirms or rejects each subscription.
    fn apply_acknowledged(&self, source: &str, uris: &HashSet<Arc<str>>, honored: &[String]) {
        for uri in uris {
            if honored.iter().any(|one| uri_covers(uri, one)) {
                self.confirm(uri, false);
                continue;
            }
            let message = format!("`{source}` does not send updates for this resource");
            if !self.reject(uri, &CallError::execution(message)) {
                tracing::warn!(source, "resource subscription lost");
            }
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AcknowledgedParams {
    notifications: HonoredNotifications,
    #[serde(rename = "_meta")]
    meta: AcknowledgedMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HonoredNotifications {
    resource_subscriptions: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AcknowledgedMeta {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    subscription: Option<u64>,
}
