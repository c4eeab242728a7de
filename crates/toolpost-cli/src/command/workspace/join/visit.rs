//! Somebody in a room: what he hears, what he types, and how it ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Bytes, Message as Frame};
use toolpost_gateway::room::message::stream_frame;

use super::super::super::signal::StopRequests;
use super::connect::{self, Door, PATIENCE};
use super::prompt::{Lines, Screen};
use super::scene::{self, Scene};
use super::typed::{self, COMMANDS, Typed};
use super::{lost, show, speech};
use crate::arguments::JoinOptions;
use crate::failure::Failure;
use crate::output;

/// How often we make sure that the gateway is there. One that was silent for more than three of them
/// is not.
const PING: Duration = Duration::from_secs(30);
/// How many pages of a list are asked for.
const MOST_PAGES: usize = 100;

/// How a visit ends.
pub(super) enum End {
    /// We left.
    Left,
    /// We were never let in.
    Refused(String),
    /// The gateway has gone, or has sent us away.
    Lost(String),
}

/// Somebody in a room.
pub(super) struct Visit<'a> {
    options: &'a JoinOptions,
    door: Door,
    socket: WebSocketStream<TcpStream>,
    scene: Arc<Mutex<Scene>>,
    screen: Screen,
    /// What the gateway said last about something that it refused.
    last_refusal: Option<String>,
    is_welcome: bool,
    /// When the gateway last said anything, were it only that it is there.
    last_heard: Instant,
    pages: usize,
    /// What our ids begin with, so that those of an earlier visit are not used again.
    prefix: String,
    counted: u64,
}

impl<'a> Visit<'a> {
    pub(super) fn new(
        options: &'a JoinOptions,
        door: Door,
        socket: WebSocketStream<TcpStream>,
        scene: Arc<Mutex<Scene>>,
        screen: Screen,
    ) -> Self {
        let prefix = format!("{:x}", toolpost::epoch_ms());
        Self {
            options,
            door,
            socket,
            scene,
            screen,
            last_refusal: None,
            is_welcome: false,
            last_heard: Instant::now(),
            pages: 0,
            prefix,
            counted: 0,
        }
    }

    fn scene(&self) -> MutexGuard<'_, Scene> {
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens and speaks until one side has enough.
    pub(super) async fn run(
        &mut self,
        lines: &mut Lines,
        mut stop: StopRequests,
    ) -> Result<End, Failure> {
        let mut ping = tokio::time::interval(PING);
        let mut deadline = Some(Instant::now() + PATIENCE);
        let mut has_ended = false;
        loop {
            let may_read = self.is_welcome && !has_ended && self.may_read();
            let end = tokio::select! {
                frame = self.socket.next() => self.frame(frame).await?,
                line = lines.recv(), if may_read => match line {
                    Some(line) => self.line(&line).await?,
                    None => {
                        has_ended = true;
                        deadline = Some(Instant::now() + self.options.wait);
                        self.at_end()
                    }
                },
                () = stop.next() => Some(End::Left),
                () = until(deadline) => Some(self.too_late(has_ended)),
                _ = ping.tick() => self.ping().await?,
            };
            if self.is_welcome && !has_ended {
                deadline = None;
            }
            if let Some(end) = end {
                return Ok(end);
            }
            if has_ended && self.scene().is_settled() {
                return Ok(End::Left);
            }
        }
    }

    async fn ping(&mut self) -> Result<Option<End>, Failure> {
        if self.last_heard.elapsed() > 3 * PING {
            return Ok(Some(End::Lost("the gateway is not heard any more".to_owned())));
        }
        self.socket.send(Frame::Ping(Bytes::new())).await.map_err(lost)?;
        Ok(None)
    }

    /// A script says one thing after another: what was said must be heard first.
    fn may_read(&self) -> bool {
        self.screen.is_prompt() || self.scene().is_heard()
    }

    /// Whoever types leaves by the end of input; a script waits for its answers.
    fn at_end(&self) -> Option<End> {
        self.screen.is_prompt().then_some(End::Left)
    }

    fn too_late(&mut self, has_ended: bool) -> End {
        if !has_ended {
            return End::Refused(
                "the gateway has not let us in; say who you are with --as".to_owned(),
            );
        }
        let words = match self.scene().open_requests() {
            0 => "the gateway did not say in time what became of all that was said".to_owned(),
            1 => "a request was not answered in time".to_owned(),
            more => format!("{more} requests were not answered in time"),
        };
        output::warning(&words);
        self.scene().has_failed = true;
        End::Left
    }

    async fn frame<E: std::fmt::Display>(
        &mut self,
        frame: Option<Result<Frame, E>>,
    ) -> Result<Option<End>, Failure> {
        self.last_heard = Instant::now();
        let words = match frame {
            Some(Ok(Frame::Text(text))) => return self.heard(&text).await,
            Some(Ok(Frame::Binary(bytes))) => {
                return match std::str::from_utf8(&bytes) {
                    Ok(text) => self.heard(text).await,
                    Err(_) => Ok(None),
                };
            }
            Some(Ok(Frame::Close(Some(close)))) if !close.reason.is_empty() => {
                output::harmless(&close.reason).into_owned()
            }
            Some(Ok(Frame::Close(_))) | None => "the gateway has ended the connection".to_owned(),
            Some(Ok(_)) => return Ok(None),
            Some(Err(error)) => error.to_string(),
        };
        let words = self.last_refusal.take().filter(|_| !self.is_welcome).unwrap_or(words);
        Ok(Some(if self.is_welcome { End::Lost(words) } else { End::Refused(words) }))
    }

    /// Something was said in the room.
    async fn heard(&mut self, written: &str) -> Result<Option<End>, Failure> {
        if let Some(frame) = stream_frame(written) {
            if let Ok((stream, data)) = frame {
                self.screen.json(&json!({"stream": stream, "data": data}))?;
                self.screen.line(&show::frame(stream, data))?;
            }
            return Ok(None);
        }
        let Ok(message) = serde_json::from_str::<Value>(written) else { return Ok(None) };
        self.scene().hear(written, &message);
        self.screen.as_it_came(written)?;
        self.show(&message)?;
        if message["kind"] == "system/error" {
            self.last_refusal = message["payload"]["message"].as_str().map(ToOwned::to_owned);
        }
        self.ask_on(&message).await?;
        Ok(None)
    }

    fn show(&mut self, message: &Value) -> Result<(), Failure> {
        if message["kind"] == "system/welcome" {
            return self.welcome(&message["payload"]);
        }
        // What somebody has just typed stands there already.
        let is_own = message["from"].as_str() == self.scene().me.as_deref();
        if is_own && message["kind"] == "chat" && self.screen.is_prompt() {
            return Ok(());
        }
        match show::message(message) {
            Some(line) => Ok(self.screen.line(&line)?),
            None => Ok(()),
        }
    }

    fn welcome(&mut self, payload: &Value) -> Result<(), Failure> {
        if self.is_welcome {
            return Ok(self.screen.line(&show::welcome_again(payload))?);
        }
        self.is_welcome = true;
        for line in scene::each(&payload["history"]).filter_map(show::message) {
            self.screen.line(&line)?;
        }
        Ok(self.screen.line(&show::welcome(&self.options.room, payload))?)
    }

    /// A list of tools that is longer than a page is asked for to its end.
    async fn ask_on(&mut self, message: &Value) -> Result<(), Failure> {
        if message["kind"] != "mcp/response" || self.pages >= MOST_PAGES {
            return Ok(());
        }
        let next = speech::next_page(message, self.scene().me.as_deref());
        let Some((who, cursor)) = next else { return Ok(()) };
        self.pages += 1;
        let speech = speech::list_tools(who.to_owned(), Some(cursor), self.next_id());
        self.say(&speech).await
    }

    async fn say(&mut self, speech: &speech::Speech) -> Result<(), Failure> {
        self.scene().sent(&speech.id, speech.kind);
        self.socket.send(Frame::text(speech.text())).await.map_err(lost)
    }

    fn next_id(&mut self) -> String {
        self.counted += 1;
        format!("{}-{}", self.prefix, self.counted)
    }

    /// A line was typed.
    async fn line(&mut self, line: &str) -> Result<Option<End>, Failure> {
        let typed = match typed::read(line) {
            Ok(Some(typed)) => typed,
            Ok(None) => return Ok(None),
            Err(words) => return self.wrong(&words),
        };
        match typed {
            Typed::Quit => return Ok(Some(End::Left)),
            Typed::Help => self.help()?,
            Typed::Who => self.who()?,
            Typed::History { most } => self.history(most).await?,
            typed => {
                let id = self.next_id();
                let speech = speech::of(typed, &self.scene(), id);
                match speech {
                    Ok(Some(speech)) => self.say(&speech).await?,
                    Ok(None) => {}
                    Err(words) => return self.wrong(&words),
                }
            }
        }
        Ok(None)
    }

    /// Nothing is sent that was not understood.
    fn wrong(&mut self, words: &str) -> Result<Option<End>, Failure> {
        if self.screen.is_prompt() {
            self.screen.line(&output::harmless(words))?;
        } else {
            output::error(words);
            self.scene().has_failed = true;
        }
        Ok(None)
    }

    fn help(&mut self) -> std::io::Result<()> {
        if self.screen.is_plain() {
            output::remark("the commands are listed by /help at a terminal");
        }
        for (name, rest, what) in COMMANDS {
            self.screen.line(&format!("{:<44} {what}", format!("{name} {rest}")))?;
        }
        self.screen.line("Anything else is said to everybody. Tab completes names.")
    }

    fn who(&mut self) -> std::io::Result<()> {
        let mut names: Vec<String> = self.scene().others.iter().cloned().collect();
        names.extend(self.scene().me.clone());
        self.screen.json(&json!({"participants": names}))?;
        self.screen.line(&output::harmless(&names.join(", ")))
    }

    /// What was said before, as far as the gateway still has it.
    async fn history(&mut self, most: usize) -> Result<(), Failure> {
        let messages = match self.door.history(most).await {
            Ok(messages) => messages,
            Err(Failure::Call { error, .. }) => return self.wrong(&error.to_string()).map(drop),
            Err(Failure::Unreachable(words)) => return self.wrong(&words).map(drop),
            Err(other) => return Err(other),
        };
        for message in &messages {
            self.screen.json(message)?;
            if let Some(line) = show::message(message) {
                self.screen.line(&line)?;
            }
        }
        Ok(())
    }

    /// Says goodbye, and what became of it.
    pub(super) async fn leave(
        mut self,
        end: Result<End, Failure>,
        asked: &Lines,
    ) -> Result<(), Failure> {
        let _ = tokio::time::timeout(PATIENCE, self.socket.close(None)).await;
        let (is_prompt, has_failed) = (self.screen.is_prompt(), self.scene().has_failed);
        let is_plain = self.screen.is_plain();
        self.screen.close(asked);
        match end? {
            End::Left if has_failed && !is_prompt => Err(Failure::Reported),
            End::Left => Ok(()),
            End::Refused(words) => Err(connect::denied(&words, is_plain)),
            End::Lost(words) => Err(Failure::Unreachable(words)),
        }
    }
}

/// Resolves when the time has come, if there is one.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
