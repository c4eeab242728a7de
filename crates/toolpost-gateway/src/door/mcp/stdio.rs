//! One client on a pair of streams, such as standard input and output: a message is a line.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use toolpost::Identity;
use toolpost::mcp::{Line, Lines};
use toolpost::view::Era;

use super::ask::{Ask, Asker, agreed};
use super::changes::Changes;
use super::era;
use super::inquiry::Questions;
use super::message::{self, Fault, Id, Message};
use super::outlet::Outlet;
use super::params::{self, Filter, Params};
use super::refused_call;
use super::session::Calls;
use super::settings::McpView;
use crate::app::Gateway;

/// How many messages wait to be written.
const WAITING: usize = 256;
/// How much is written at once.
const CHUNK: usize = 64 * 1024;
/// How long a client that left in time has to read what was answered.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a request waits for the end of another where too many are running. Not longer, since a
/// client that wants to cancel one is not heard meanwhile.
const ROOM: Duration = Duration::from_secs(1);

/// Serves until the client leaves or the gateway stops. What is running then may end, for as long
/// as the gateway drains; says until when that is.
pub(crate) async fn serve(
    gateway: &Gateway,
    reader: impl AsyncRead + Unpin + Send,
    writer: impl AsyncWrite + Unpin + Send + 'static,
    identity: Arc<Identity>,
    view: McpView,
) -> Instant {
    let (sender, messages) = mpsc::channel(WAITING);
    let gone = CancellationToken::new();
    let writing = AbortOnDropHandle::new(tokio::spawn(write(writer, messages, gone.clone())));
    let asker = Asker {
        door: "mcp",
        gateway: gateway.clone(),
        identity,
        view,
        era: Era::Legacy,
        level: Arc::default(),
        following: Some(Arc::default()),
        questions: None,
    };
    let mut client = Client {
        asker,
        sender,
        calls: Arc::default(),
        tasks: JoinSet::new(),
        listeners: HashMap::new(),
        stopping: gateway.0.stopping.child_token(),
    };
    tokio::select! {
        // Here and not between two lines: one that waits for room in the queue must not hold it up.
        () = gateway.0.stopping.cancelled() => {}
        () = client.read(reader) => {}
        () = gone.cancelled() => {}
    }
    let deadline = Instant::now() + gateway.0.settings.drain;
    tokio::select! {
        () = client.finish(deadline) => {}
        () = gone.cancelled() => {}
    }
    drop(client);
    // A client that does not read is not waited for.
    let last = deadline.max(Instant::now() + LAST_WORDS);
    if tokio::time::timeout_at(last, writing).await.is_err() {
        tracing::warn!("the client does not read what is written; it was left");
    }
    deadline
}

/// Writes messages, as many at once as are there.
async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<Vec<u8>>,
    gone: CancellationToken,
) {
    let _gone = gone.drop_guard();
    let mut chunk = Vec::new();
    while let Some(message) = messages.recv().await {
        add(&mut chunk, message);
        while chunk.len() < CHUNK
            && let Ok(message) = messages.try_recv()
        {
            add(&mut chunk, message);
        }
        let written = async {
            writer.write_all(&chunk).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            return tracing::debug!(%error, "the client does not read any more");
        }
        chunk.clear();
        chunk.shrink_to(CHUNK);
    }
}

fn add(chunk: &mut Vec<u8>, mut message: Vec<u8>) {
    message::flatten(&mut message);
    chunk.append(&mut message);
    chunk.push(b'\n');
}

struct Client {
    asker: Asker,
    sender: mpsc::Sender<Vec<u8>>,
    calls: Arc<Calls>,
    /// The requests that are being answered, and the streams of what changes.
    tasks: JoinSet<()>,
    /// The subscriptions by the ids of their requests.
    listeners: HashMap<Id, CancellationToken>,
    stopping: CancellationToken,
}

impl Client {
    async fn read(&mut self, reader: impl AsyncRead + Unpin) {
        let most = self.asker.gateway.0.settings.body_bytes;
        let mut lines = Lines::new(reader, most);
        loop {
            let line = tokio::select! {
                biased;
                Some(_) = self.tasks.join_next() => continue,
                line = lines.next() => line,
            };
            match line {
                Ok(Some(Line::Whole(line))) if line.trim_ascii().is_empty() => {}
                Ok(Some(Line::Whole(line))) => self.take(line).await,
                Ok(Some(Line::TooLong(long))) => {
                    let words = format!("a message has at most {most} bytes");
                    let fault = Fault::new(Fault::INVALID_REQUEST, words);
                    self.send(fault.write(message::id_in(&long.head).as_ref())).await;
                }
                Ok(None) => return,
                Err(error) => return tracing::debug!(%error, "the client cannot be read"),
            }
        }
    }

    /// Ends the streams and the questions, whose answers are not read any more, and waits for the
    /// requests.
    async fn finish(&mut self, deadline: Instant) {
        self.stopping.cancel();
        self.asker.questions.as_ref().inspect(|questions| questions.close());
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout_at(deadline, ended).await.is_err() {
            tracing::warn!(left = self.tasks.len(), "requests of a client that left were dropped");
        }
    }

    async fn take(&mut self, line: &[u8]) {
        match message::read(line) {
            Ok(Message::Request { id, method, params }) => {
                if let Err(fault) = self.request(&id, &method, params).await {
                    let Asker { gateway, identity, .. } = &self.asker;
                    Box::pin(refused_call::note(gateway, identity, (&method, params), &fault))
                        .await;
                    self.send(fault.write(Some(&id))).await;
                }
            }
            Ok(Message::Notification { method, params }) => self.note(&method, params),
            Ok(Message::Answer { id, said }) => {
                self.asker.questions.as_ref().inspect(|questions| questions.answer(&id, said));
            }
            Err((id, fault)) => self.send(fault.write(id.as_ref())).await,
        }
    }

    async fn request(
        &mut self,
        id: &Id,
        method: &str,
        raw: Option<&RawValue>,
    ) -> Result<(), Fault> {
        let params = Params::read(raw)?;
        let era = params.version().map_or(Ok(Era::Legacy), era_of)?;
        if era == Era::Modern {
            era::check_meta(&params)?;
        }
        let asker = Asker { era, ..self.asker.clone() };
        asker.find_source().await?;
        let most = self.asker.gateway.0.mcp.settings().in_flight;
        match (method, era) {
            ("initialize", Era::Legacy) => {
                self.asker.questions = Questions::of(raw);
                self.send(asker.welcome(id, agreed(raw))).await;
            }
            ("ping", Era::Legacy) => {
                let mut out = message::begin_result(id);
                out.extend_from_slice(b"{}}");
                self.send(out).await;
            }
            _ if !self.has_room(most).await => {
                let words = format!("{most} requests are running; wait for one of them to end");
                return Err(Fault::new(Fault::OVERLOADED, words));
            }
            ("subscriptions/listen", Era::Modern) => {
                let filter = Filter::read(raw, &self.asker.gateway.0.mcp.settings())?;
                self.listen(asker, filter, Some(id.clone()));
            }
            _ => {
                // The arguments of a call are in the params already, and may be large.
                let raw = raw.filter(|_| method != "tools/call").map(ToOwned::to_owned);
                let (id, method) = (id.clone(), method.to_owned());
                self.answer(Ask { asker, id, method, params, raw, hints: true, headers: None });
            }
        }
        Ok(())
    }

    /// Whether one more request may run; waits a moment for the end of another.
    async fn has_room(&mut self, most: usize) -> bool {
        while self.tasks.try_join_next().is_some() {}
        if self.tasks.len() >= most {
            let _ = tokio::time::timeout(ROOM, self.tasks.join_next()).await;
        }
        self.tasks.len() < most
    }

    fn answer(&mut self, ask: Ask) {
        let outlet = Outlet::new(ask.id.clone())
            .notes(Some(self.sender.clone()))
            .cancellable(Some(Arc::clone(&self.calls)));
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            let answer = ask.answer(outlet).await;
            if answer.is_wanted {
                // A client that is gone needs no answer.
                let _ = sender.send(answer.message.into_bytes()).await;
            }
        });
    }

    fn note(&mut self, method: &str, raw: Option<&RawValue>) {
        match method {
            "notifications/cancelled" => {
                let Some((id, reason)) = params::cancelled(raw) else { return };
                match self.listeners.remove(&id) {
                    Some(listener) => listener.cancel(),
                    None => self.calls.cancel(&id, &reason),
                }
            }
            "notifications/initialized" => self.listen(self.asker.clone(), Filter::ALL, None),
            _ => {}
        }
    }

    /// Tells the client what changes, until it cancels that; a client of before hears it once.
    fn listen(&mut self, asker: Asker, filter: Filter, id: Option<Id>) {
        self.listeners.retain(|_, listener| !listener.is_cancelled());
        let stopping = self.stopping.child_token();
        // The id of the one that needs none is no id.
        let key = id.clone().unwrap_or_else(Id::none);
        if let Some(before) = self.listeners.insert(key, stopping.clone()) {
            before.cancel();
        }
        let changes = Changes::new(asker, filter, id);
        let gateway = self.asker.gateway.clone();
        self.tasks.spawn(tell(gateway, changes, self.sender.clone(), stopping));
    }

    async fn send(&self, message: Vec<u8>) {
        // A client that is gone needs no answer.
        let _ = self.sender.send(message).await;
    }
}

async fn tell(
    gateway: Gateway,
    mut changes: Changes,
    sender: mpsc::Sender<Vec<u8>>,
    stopping: CancellationToken,
) {
    if changes.is_subscription() {
        if stopping.run_until_cancelled(changes.begin()).await.is_none() {
            return;
        }
        if sender.send(changes.acknowledgement()).await.is_err() {
            return;
        }
    }
    loop {
        let found = tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            found = changes.next() => found,
        };
        for message in found.into_iter().flatten() {
            if sender.send(message).await.is_err() {
                return;
            }
        }
    }
    if let Some(farewell) = changes.farewell().filter(|_| gateway.0.stopping.is_cancelled()) {
        let _ = sender.send(farewell).await;
    }
}

fn era_of(version: &str) -> Result<Era, Fault> {
    era::spoken(version).map(Era::of_version)
}
