//! A server on the network: every message is a POST, and every answer a document or a stream.

mod access;
mod listen;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Url};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::access::Access;
use super::ask::Ask;
use super::failure::Failure;
use super::header;
use super::pending::Answer;
use super::rpc;
use super::settings::{HttpSettings, McpSettings};
use super::source::SourceHooks;
use super::speech::{Era, Speech};
use super::switch::{Reply, Switch};
use crate::direct::Direct;
use crate::sse::SseDecoder;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

const NO_ANSWER: &str = "the server ended its answer before the result";

/// What is read of the body of a refusal.
const REFUSAL_BYTES: usize = 64 * 1024;
/// What is set aside for a body before any of it is there.
const MOST_AT_ONCE: u64 = 1024 * 1024;
/// How long the end of a stream is waited for once the answer is there, so that the connection can be
/// used again.
const CODA: Duration = Duration::from_millis(20);
/// A server that wants to be asked again at once is asked a little later.
const LEAST_RESUME: Duration = Duration::from_millis(100);
/// How many messages that nobody waits for are under way at once, and for how long each may be.
const ASIDES: usize = 16;
const ASIDE: Duration = Duration::from_secs(5);
/// How many answers to questions of the server wait for their turn; more are lost.
const ANSWERS: usize = 256;
/// How long is waited before a stream that broke off is asked for again, unless the server says.
const RESUME: Duration = Duration::from_secs(1);

/// The connection to a server on the network. Cloning it shares everything.
#[derive(Debug, Clone)]
pub(super) struct Http(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: reqwest::Client,
    /// The short way, where there is one.
    direct: Option<Direct>,
    url: Url,
    headers: HeaderMap,
    access: Access,
    /// What a server before 2026-07-28 knows us by.
    session: OnceLock<HeaderValue>,
    /// The protocol version, once it is agreed on.
    version: OnceLock<HeaderValue>,
    switch: Switch,
    most_bytes: usize,
    over: watch::Sender<Option<String>>,
    stop: CancellationToken,
    /// Canceled when the server's own words are of no interest any more.
    stop_listening: CancellationToken,
    tasks: TaskTracker,
    /// Room for messages that nobody waits for.
    asides: Arc<Semaphore>,
    /// Room for answers to questions of the server.
    answers: Arc<Semaphore>,
}

impl Http {
    /// Prepares a connection; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// A header is none.
    pub(super) fn start(
        settings: &McpSettings,
        http: &HttpSettings,
        hooks: &SourceHooks,
        switch: Switch,
        tasks: &TaskTracker,
    ) -> Result<Self, Failure> {
        let clients =
            access::clients(&http.url).map_err(|error| Failure::unreachable(error.to_string()));
        let [client, aside] = clients?;
        let access = Access::new(aside, http, hooks);
        let stop = CancellationToken::new();
        Ok(Self(Arc::new(Inner {
            client,
            direct: Direct::to(&http.url, access::CONNECTING),
            url: http.url.clone(),
            headers: access::headers(http)?,
            access,
            session: OnceLock::new(),
            version: OnceLock::new(),
            switch,
            most_bytes: settings.message_bytes,
            over: watch::Sender::new(None),
            stop_listening: stop.child_token(),
            stop,
            tasks: tasks.clone(),
            asides: Arc::new(Semaphore::new(ASIDES)),
            answers: Arc::new(Semaphore::new(ANSWERS)),
        })))
    }

    /// Sends a request and waits for its answer. Dropping it tells the server in the way of its era.
    pub(super) async fn ask(&self, speech: &Speech, ask: &Ask<'_>) -> Answer {
        let mut ticket = self.0.switch.pending.open(ask)?;
        let text = ask.text(ticket.id, speech)?;
        let heard = ticket.heard.clone();
        let mut cancel = Cancel { http: self, speech, id: ticket.id, is_due: false };
        cancel.is_due = ask.is_cancellable() && speech.era == Era::Legacy;
        let id = ticket.id;
        let answered = tokio::select! {
            biased;
            exchanged = self.exchange(speech, ask, text, id) => match exchanged {
                // Whoever takes the answer out of the ticket is the only one who could.
                Ok(()) => ticket.answer.try_recv().unwrap_or_else(|_| Err(no_answer())),
                Err(failure) => ticket.answer.try_recv().unwrap_or(Err(failure)),
            },
            answer = &mut ticket.answer => answer.unwrap_or_else(|_| Err(no_answer())),
            failure = heard.too_long(ask.patience) => return Err(failure),
        };
        cancel.is_due = false;
        answered
    }

    /// One request with everything that comes back for it.
    async fn exchange(
        &self,
        speech: &Speech,
        ask: &Ask<'_>,
        text: String,
        id: u64,
    ) -> Result<(), Failure> {
        let headers = self.request_headers(speech, ask)?;
        let response = self.0.send(Method::POST, headers, Some(text)).await?;
        if ask.method == "initialize"
            && let Some(session) = response.headers().get(SESSION)
        {
            let _ = self.0.session.set(session.clone());
        }
        if is_stream(&response) {
            return self.follow(speech, response, id).await;
        }
        let body = self.0.body(response).await?;
        self.take(&body, Some(id))
    }

    /// Reads a stream; if it breaks off before the answer, and the server gave it a number, asks for
    /// the rest of it.
    async fn follow(&self, speech: &Speech, response: Response, id: u64) -> Result<(), Failure> {
        let mut place = Place::default();
        let mut read = self.read_stream(response, &mut place, Some(id)).await;
        while self.0.switch.pending.is_waiting(id) {
            let can_be_resumed = speech.era == Era::Legacy && !place.last_event.is_empty();
            let is_broken = read.as_ref().err().is_none_or(Failure::is_loss);
            if !(can_be_resumed && is_broken) {
                return read.and(Err(no_answer()));
            }
            tokio::time::sleep(place.retry.unwrap_or(RESUME).max(LEAST_RESUME)).await;
            // Whatever becomes of this, the request itself was sent.
            let resumed = self.open_stream(speech, &place).await;
            let response =
                resumed.map_err(|failure| Failure::lost(format!("{NO_ANSWER}; {failure}")))?;
            read = self.read_stream(response, &mut place, Some(id)).await;
        }
        Ok(())
    }

    /// Hands on every message of a stream until it ends, or until the answer to `id` was one of them.
    async fn read_stream(
        &self,
        mut response: Response,
        place: &mut Place,
        id: Option<u64>,
    ) -> Result<(), Failure> {
        let mut decoder = SseDecoder::with_limit(self.0.most_bytes);
        loop {
            let is_answered = id.is_some_and(|id| !self.0.switch.pending.is_waiting(id));
            let next = response.chunk();
            let chunk = match is_answered {
                true => tokio::time::timeout(CODA, next).await.unwrap_or(Ok(None)),
                false => next.await,
            };
            let chunk = match chunk {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(()),
                Err(error) => return Err(Failure::lost(chain(&error))),
            };
            let fed = decoder.feed(&chunk, |event| {
                if event.event == "message" && !event.data.is_empty() {
                    self.take_event(&event.data, id);
                }
            });
            place.advance(&decoder);
            if fed.is_err() {
                return Err(Failure::too_large(self.0.most_bytes + 1, self.0.most_bytes));
            }
        }
    }

    fn take_event(&self, text: &str, about: Option<u64>) {
        if let Err(failure) = self.take(text, about) {
            let (source, failure) = (self.0.switch.inbox.source(), failure.to_string());
            tracing::warn!(source, failure, "an event that is no message");
        }
    }

    fn take(&self, text: &str, about: Option<u64>) -> Result<(), Failure> {
        let reply = || -> Reply {
            let http = self.clone();
            Box::new(move |text| http.post_answer(text))
        };
        self.0.switch.take(text, about, &reply).map_err(|error| {
            let said: String = text.chars().take(200).collect();
            Failure::Unusable(format!("the server answered with something else: {error}: {said}"))
        })
    }

    /// Sends a message that nobody waits for, in a task.
    fn post_aside(&self, text: String) {
        let Ok(room) = Arc::clone(&self.0.asides).try_acquire_owned() else {
            let source = self.0.switch.inbox.source();
            return tracing::debug!(source, "the server does not take what it is told");
        };
        let http = self.clone();
        self.0.tasks.spawn(async move { http.post_alone(text, room).await });
    }

    /// Sends what the server wants to know. It waits for that, so this waits for room.
    fn post_answer(&self, text: String) {
        let Ok(answering) = Arc::clone(&self.0.answers).try_acquire_owned() else {
            let source = self.0.switch.inbox.source();
            return tracing::debug!(source, "the server asks more than it listens");
        };
        let http = self.clone();
        self.0.tasks.spawn(async move {
            let room = Arc::clone(&http.0.asides).acquire_owned();
            if let Ok(Ok(room)) = tokio::time::timeout(ASIDE, room).await {
                http.post_alone(text, room).await;
            }
            drop(answering);
        });
    }

    async fn post_alone(&self, text: String, room: OwnedSemaphorePermit) {
        let mut headers = self.0.common_headers();
        if let Some(version) = self.0.version.get() {
            headers.insert(VERSION, version.clone());
        }
        let sending = self.0.send(Method::POST, headers, Some(text));
        if let Ok(Err(failure)) = tokio::time::timeout(ASIDE, sending).await {
            let (source, failure) = (self.0.switch.inbox.source(), failure.to_string());
            tracing::debug!(source, failure, "a message was not taken");
        }
        drop(room);
    }

    /// Sends a notification.
    pub(super) async fn notify(&self, speech: &Speech, method: &str) -> Result<(), Failure> {
        let text = rpc::write(None, method, &[], speech.meta()).unwrap_or_default();
        let mut headers = self.0.common_headers();
        insert(&mut headers, VERSION, &speech.version)?;
        if let Some(version) = headers.get(VERSION) {
            let _ = self.0.version.set(version.clone());
        }
        self.0.send(Method::POST, headers, Some(text)).await.map(drop)
    }

    fn request_headers(&self, speech: &Speech, ask: &Ask<'_>) -> Result<HeaderMap, Failure> {
        let mut headers = self.0.common_headers();
        // Before the handshake no version is agreed on.
        if ask.method != "initialize" {
            insert(&mut headers, VERSION, &speech.version)?;
        }
        if speech.era == Era::Modern {
            insert(&mut headers, HeaderName::from_static("mcp-method"), ask.method)?;
            if let Some(subject) = ask.subject {
                let subject = header::encode(subject);
                insert(&mut headers, HeaderName::from_static("mcp-name"), &subject)?;
            }
            for (name, value) in &ask.headers {
                let name = HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| Failure::Unusable(format!("`{name}` is no header")))?;
                insert(&mut headers, name, value)?;
            }
        }
        Ok(headers)
    }

    /// Resolves when the connection is not to be used any more, with words about it.
    pub(super) async fn over(&self) -> String {
        let mut over = self.0.over.subscribe();
        let said = over.wait_for(Option::is_some).await.ok().and_then(|words| words.clone());
        said.unwrap_or_else(|| "the connection was closed".to_owned())
    }

    /// Says that the server is not there any more.
    pub(super) fn lose(&self, words: &str) {
        self.0.over.send_if_modified(|over| {
            let is_news = over.is_none();
            over.get_or_insert_with(|| words.to_owned());
            is_news
        });
    }

    /// Lets what is under way come to its end, and begins nothing new.
    pub(super) fn retire(&self) {
        self.0.stop_listening.cancel();
    }

    /// Ends the session at the server and everything that is under way.
    pub(super) fn stop(&self) {
        if self.0.stop.is_cancelled() {
            return;
        }
        self.0.stop.cancel();
        self.lose("the connection was closed");
        self.0.switch.pending.close(&Failure::lost("the connection was closed"));
        // A runtime that is dropped has no time for a farewell.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let http = self.clone();
        self.0.tasks.spawn(async move {
            if http.0.session.get().is_some() {
                let deleting = http.0.send(Method::DELETE, http.0.common_headers(), None);
                // A server that keeps sessions for ever may well refuse this.
                let _ = tokio::time::timeout(Duration::from_secs(2), deleting).await;
            }
            http.0.access.close().await;
        });
    }
}

impl Inner {
    fn common_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, accept);
        if let Some(session) = self.session.get() {
            headers.insert(SESSION, session.clone());
        }
        headers
    }

    /// Sends, with access asked for if the server wants it, and refuses whatever is no success.
    async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Option<String>,
    ) -> Result<Response, Failure> {
        // It may be sent more than once.
        let body = body.map(Bytes::from);
        let request = || {
            let mut request = reqwest::Request::new(method.clone(), self.url.clone());
            // Set whole, since a builder would look each of them up and put it in again.
            *request.headers_mut() = headers.clone();
            *request.body_mut() = body.clone().map(reqwest::Body::from);
            RequestBuilder::from_parts(self.client.clone(), request)
        };
        let response = self.access.send(request, self.direct.as_ref()).await?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status => {
                let refused = refusal(status.as_u16(), response).await;
                let forgotten = self.session.get().and_then(|_| refused.forgotten_session());
                Err(forgotten.unwrap_or(refused.failure))
            }
        }
    }

    async fn body(&self, response: Response) -> Result<String, Failure> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or("nothing that is named").to_owned();
        let status = response.status();
        let body = limited(response, self.most_bytes).await?;
        if body.is_empty() {
            return Err(Failure::Unusable(format!("the server answered {status} with nothing")));
        }
        if !kind.contains("json") {
            let message = format!("the server answered with {kind} instead of JSON");
            return Err(Failure::Unusable(message));
        }
        String::from_utf8(body)
            .map_err(|_| Failure::Unusable("the answer of the server is not UTF-8".to_owned()))
    }
}

/// An answer that is none of success.
struct Refusal {
    failure: Failure,
    /// Whether it is the answer to the request itself, and not only to the HTTP around it.
    answers_request: bool,
}

async fn refusal(status: u16, response: Response) -> Refusal {
    let body = limited(response, REFUSAL_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body).into_owned();
    let (mut error, mut answers_request) = (None, false);
    let _ = rpc::read(&text, &mut |message| {
        if let rpc::Message::Response { answer: Err(said), id } = message {
            error = Some(Box::new(said));
            answers_request = id.is_some();
        }
    });
    let mut words: String = match text.trim_start().starts_with('<') {
        true => without_tags(&text).chars().take(200).collect(),
        false => text.trim().chars().take(500).collect(),
    };
    if matches!(status, 404 | 405) && error.is_none() {
        words.push_str("; is this the address of an MCP endpoint? Many end with /mcp");
    }
    Refusal { failure: Failure::Refused { status, error, words }, answers_request }
}

impl Refusal {
    /// That the server does not know our session any more, if that is what it says. Many a server
    /// says with 400 what it should say with 404; then it is only likely.
    fn forgotten_session(&self) -> Option<Failure> {
        let Failure::Refused { status, error, words } = &self.failure else { return None };
        let said = error.as_deref().map_or(words, |error| &error.message).to_ascii_lowercase();
        let phrases = ["session id", "session not found", "valid session", "unknown session"];
        let says_so = phrases.iter().any(|phrase| said.contains(phrase));
        match status {
            404 if says_so || !self.answers_request => {
                Some(Failure::SessionGone { is_certain: true })
            }
            400 if says_so && !self.answers_request => {
                Some(Failure::SessionGone { is_certain: false })
            }
            _ => None,
        }
    }
}

/// The words of a page for people.
fn without_tags(page: &str) -> String {
    let pieces = page.split('<').map(|piece| piece.split_once('>').map_or("", |(_, text)| text));
    let words: Vec<&str> = pieces.flat_map(str::split_whitespace).collect();
    words.join(" ")
}

/// How far a stream was read, over all its connections.
#[derive(Debug, Default)]
struct Place {
    last_event: String,
    retry: Option<Duration>,
}

impl Place {
    fn advance(&mut self, decoder: &SseDecoder) {
        if self.last_event != decoder.last_event_id() && !decoder.last_event_id().is_empty() {
            decoder.last_event_id().clone_into(&mut self.last_event);
        }
        self.retry = decoder.retry().or(self.retry);
    }
}

/// Tells a server before 2026-07-28 that nobody waits any more; a later one sees that its stream was
/// closed.
struct Cancel<'a> {
    http: &'a Http,
    speech: &'a Speech,
    id: u64,
    is_due: bool,
}

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        if !self.is_due {
            return;
        }
        if let Ok(text) = self.speech.cancellation(self.id) {
            self.http.post_aside(text);
        }
    }
}

fn no_answer() -> Failure {
    Failure::lost(NO_ANSWER)
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), Failure> {
    let value = HeaderValue::from_str(value)
        .map_err(|_| Failure::Unusable(format!("a value that cannot stand in `{name}`")))?;
    headers.insert(name, value);
    Ok(())
}

async fn limited(mut response: Response, most: usize) -> Result<Vec<u8>, Failure> {
    // What the server says of the length is no reason to take more than a little at once.
    let announced = response.content_length().map_or(0, |bytes| bytes.min(MOST_AT_ONCE));
    let mut body = Vec::with_capacity(announced as usize);
    while let Some(chunk) = response.chunk().await.map_err(|error| Failure::lost(chain(&error)))? {
        if body.len() + chunk.len() > most {
            return Err(Failure::too_large(body.len() + chunk.len(), most));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// What went wrong with its reasons, without the address, which may hold a secret.
fn chain(error: &dyn std::error::Error) -> String {
    let mut reasons = Vec::new();
    let mut next = error.source();
    while let Some(reason) = next {
        reasons.push(reason.to_string());
        next = reason.source();
    }
    reasons.pop().unwrap_or_else(|| "the connection broke".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::rpc::RpcError;

    #[test]
    fn only_words_about_the_session_are_taken_for_its_end() {
        let rows = [
            (404, None, "not found", false, Some(true)),
            (404, Some("Session not found"), "", false, Some(true)),
            (404, Some("Session not found"), "", true, Some(true)),
            (404, Some("there is no such tool"), "", true, None),
            (400, Some("Bad Request: No valid session ID provided"), "", false, Some(false)),
            (400, None, "Invalid or missing session ID", false, Some(false)),
            (400, Some("payment done, but the browser session crashed"), "", true, None),
            (400, Some("payment done, but the browser session crashed"), "", false, None),
            (400, Some("which session id?"), "", true, None),
            (500, Some("Session not found"), "", false, None),
        ];
        for (status, message, words, answers_request, expected) in rows {
            let error = message.map(|message| Box::new(RpcError::new(-32000, message)));
            let words = words.to_owned();
            let failure = Failure::Refused { status, error, words };
            let refusal = Refusal { failure, answers_request };
            let forgotten = refusal.forgotten_session().map(|failure| failure.is_before_sending());
            assert_eq!(forgotten, expected, "{status} {message:?} {answers_request}");
        }
    }

    #[test]
    fn the_words_of_a_page_are_those_that_people_see() {
        let page = "<!DOCTYPE html>\n<html><body>\n<h1>Bad   gateway</h1></body></html>";
        assert_eq!(without_tags(page), "Bad gateway");
        assert_eq!(without_tags("<"), "");
    }
}
