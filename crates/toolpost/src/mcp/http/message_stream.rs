//! The HTTP+SSE transport of 2024-11-05: all messages of the server arrive on one event stream, whose
//! first event contains the URL for the messages of the client.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::HeaderMap;
use tokio::sync::oneshot;

use super::{HttpTransport, StreamCursor};
use crate::mcp::error::RequestError;

/// How long to wait for the stream and its first event.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

impl HttpTransport {
    /// Opens the message stream. An async task reads it until the transport is stopped; if the
    /// stream ends, the session ends. Returns false if the server has no such stream.
    pub(in crate::mcp) async fn open_message_stream(&self) -> Result<bool, RequestError> {
        let opening = tokio::time::timeout(OPEN_TIMEOUT, self.read_endpoint());
        let opened = opening.await.unwrap_or_else(|_| Err(missing_endpoint()));
        let (address, reading) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                tracing::debug!(source = self.source(), %error, "HTTP+SSE transport not available");
                return Ok(false);
            }
        };
        let url = self.0.url.join(&address).map_err(|error| {
            let message = format!("the server sent an invalid message URL: {error}");
            RequestError::InvalidResponse(message)
        })?;
        if url.origin() != self.0.url.origin() {
            // Messages contain the credentials of the source.
            return Err(RequestError::InvalidResponse(format!(
                "the message URL of the server has another origin: {}",
                url.origin().ascii_serialization()
            )));
        }
        let _ = self.0.message_url.set(url);
        let (http, stop) = (self.clone(), self.0.stop.clone());
        self.0.tasks.spawn(async move {
            let Some(ended) = stop.run_until_cancelled(reading).await else { return };
            let reason = match ended {
                Ok(()) => "the server closed its event stream".to_owned(),
                Err(failure) => format!("the event stream of the server broke: {failure}"),
            };
            http.0.dispatcher.pending.fail_all(&RequestError::disconnected(&*reason));
            http.mark_disconnected(&reason);
        });
        Ok(true)
    }

    /// Opens the stream and returns the data of its `endpoint` event and the future that reads on.
    async fn read_endpoint(
        &self,
    ) -> Result<(String, BoxFuture<'static, Result<(), RequestError>>), RequestError> {
        let response = self.get_event_stream(HeaderMap::new()).await?;
        let (sender, mut endpoint) = oneshot::channel();
        let http = self.clone();
        let mut reading = async move {
            let mut cursor = StreamCursor { endpoint: Some(sender), ..StreamCursor::default() };
            http.read_stream(response, &mut cursor, None).await
        }
        .boxed();
        tokio::select! {
            Ok(address) = &mut endpoint => Ok((address, reading)),
            ended = &mut reading => match endpoint.try_recv() {
                // One read returned the event and the end of the stream.
                Ok(address) => Ok((address, std::future::ready(ended).boxed())),
                Err(_) => Err(ended.err().unwrap_or_else(missing_endpoint)),
            },
        }
    }
}

fn missing_endpoint() -> RequestError {
    RequestError::InvalidResponse("the event stream has no `endpoint` event".to_owned())
}
