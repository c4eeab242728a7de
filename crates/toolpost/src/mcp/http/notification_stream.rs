//! The stream on which a legacy server sends messages that are not related to a request.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Response};

use tokio::sync::oneshot;

use super::{
    DEFAULT_RESUME_DELAY, HttpTransport, LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER,
    StreamCursor, insert_header, is_event_stream,
};
use crate::mcp::error::RequestError;
use crate::mcp::protocol_version::ProtocolProfile;

/// How long the handshake waits for the stream to open. Notifications sent before that are lost.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum delay between two attempts to open the stream.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

impl HttpTransport {
    /// Listens in an async task until listening is stopped. Returns after the first attempt to open
    /// the stream, or after `OPEN_TIMEOUT`. The task ends if the server does not offer the stream.
    pub(in crate::mcp) async fn open_notification_stream(&self, protocol: ProtocolProfile) {
        if self.0.message_url.get().is_some() {
            // Notifications arrive on the message stream.
            return;
        }
        let (http, stop) = (self.clone(), self.0.stop_listening.clone());
        let (opened_sender, opened) = oneshot::channel();
        self.0.tasks.spawn(async move {
            stop.run_until_cancelled(http.run_notification_stream(&protocol, opened_sender)).await;
        });
        let _ = tokio::time::timeout(OPEN_TIMEOUT, opened).await;
    }

    async fn run_notification_stream(
        &self,
        protocol: &ProtocolProfile,
        opened_sender: oneshot::Sender<()>,
    ) {
        let (mut cursor, mut pause, mut opened_sender) =
            (StreamCursor::default(), DEFAULT_RESUME_DELAY, Some(opened_sender));
        let mut was_open = false;
        loop {
            let opened = self.open_stream(protocol, &cursor).await;
            opened_sender.take().map(|opened_sender| opened_sender.send(()));
            match opened {
                Ok(response) => {
                    pause = DEFAULT_RESUME_DELAY;
                    if std::mem::replace(&mut was_open, true) {
                        // Notifications sent while the stream was closed are lost.
                        self.0.dispatcher.message_handler.tools_changed.notify_one();
                        self.0.dispatcher.message_handler.subscriptions.resubscribe_all();
                    }
                    if let Err(failure) = self.read_stream(response, &mut cursor, None).await {
                        let (source, failure) =
                            (self.0.dispatcher.message_handler.source(), failure.to_string());
                        tracing::debug!(source, failure, "notification stream disconnected");
                    }
                }
                Err(RequestError::Disconnected { .. }) => pause = (pause * 2).min(MAX_RETRY_DELAY),
                Err(RequestError::SessionNotFound { .. }) => {
                    return self.mark_disconnected("the server dropped the session");
                }
                // The server does not offer the stream.
                Err(
                    RequestError::HttpStatus { status: 400..=499, .. }
                    | RequestError::InvalidResponse(_),
                ) => return,
                Err(_) => pause = (pause * 2).min(MAX_RETRY_DELAY),
            }
            tokio::time::sleep(cursor.retry.unwrap_or(pause).max(pause)).await;
        }
    }

    /// Opens the event stream and resumes it after the last event id, if there is one.
    pub(super) async fn open_stream(
        &self,
        protocol: &ProtocolProfile,
        cursor: &StreamCursor,
    ) -> Result<Response, RequestError> {
        let mut headers = HeaderMap::new();
        insert_header(&mut headers, PROTOCOL_VERSION_HEADER, &protocol.version)?;
        if !cursor.last_event_id.is_empty() {
            insert_header(&mut headers, LAST_EVENT_ID_HEADER, &cursor.last_event_id)?;
        }
        self.get_event_stream(headers).await
    }

    /// Sends GET with additional headers. The response is an event stream.
    pub(super) async fn get_event_stream(
        &self,
        additional: HeaderMap,
    ) -> Result<Response, RequestError> {
        let mut headers = self.0.common_headers();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.extend(additional);
        let response = self.0.send(Method::GET, headers, None).await?;
        match is_event_stream(&response) {
            true => Ok(response),
            false => Err(RequestError::InvalidResponse(
                "the server did not respond with an event stream".to_owned(),
            )),
        }
    }
}
