//! The stream on which a server before 2026-07-28 says things that belong to no request.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Response};

use tokio::sync::oneshot;

use super::{Http, LAST_EVENT, Place, RESUME, VERSION, insert, is_stream};
use crate::mcp::failure::Failure;
use crate::mcp::speech::Speech;

/// How long the rest waits for the stream to be open: what a server says before is lost.
const OPENING: Duration = Duration::from_secs(2);
/// The longest time between two attempts to open the stream.
const LONGEST: Duration = Duration::from_secs(30);

impl Http {
    /// Listens in a task until the connection is stopped; returns when the stream is open, or known
    /// not to be. A server that has no such stream says so, and that is that.
    pub(in crate::mcp) async fn listen(&self, speech: Speech) {
        let (http, stop) = (self.clone(), self.0.stop_listening.clone());
        let (tell, opened) = oneshot::channel();
        self.0.tasks.spawn(async move {
            stop.run_until_cancelled(http.keep_listening(&speech, tell)).await;
        });
        let _ = tokio::time::timeout(OPENING, opened).await;
    }

    async fn keep_listening(&self, speech: &Speech, tell: oneshot::Sender<()>) {
        let (mut place, mut pause, mut tell) = (Place::default(), RESUME, Some(tell));
        let mut was_open = false;
        loop {
            let opened = self.open_stream(speech, &place).await;
            tell.take().map(|tell| tell.send(()));
            match opened {
                Ok(response) => {
                    pause = RESUME;
                    if std::mem::replace(&mut was_open, true) {
                        // Whatever changed meanwhile was not heard.
                        self.0.switch.inbox.tools_changed.notify_one();
                        self.0.switch.inbox.watches.lapse();
                    }
                    if let Err(failure) = self.read_stream(response, &mut place, None).await {
                        let (source, failure) = (self.0.switch.inbox.source(), failure.to_string());
                        tracing::debug!(source, failure, "the stream of notifications broke off");
                    }
                }
                Err(Failure::Lost { .. }) => pause = (pause * 2).min(LONGEST),
                Err(Failure::SessionGone { .. }) => {
                    return self.lose("the server forgot our session");
                }
                // There is no such stream.
                Err(Failure::Refused { status: 400..=499, .. } | Failure::Unusable(_)) => return,
                Err(_) => pause = (pause * 2).min(LONGEST),
            }
            tokio::time::sleep(place.retry.unwrap_or(pause).max(pause)).await;
        }
    }

    /// Opens the stream, from behind the last event of before.
    pub(super) async fn open_stream(
        &self,
        speech: &Speech,
        place: &Place,
    ) -> Result<Response, Failure> {
        let mut headers = self.0.common_headers();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        insert(&mut headers, VERSION, &speech.version)?;
        if !place.last_event.is_empty() {
            insert(&mut headers, LAST_EVENT, &place.last_event)?;
        }
        let response = self.0.send(Method::GET, headers, None).await?;
        match is_stream(&response) {
            true => Ok(response),
            false => Err(Failure::Unusable("the server answered with no stream".to_owned())),
        }
    }
}
