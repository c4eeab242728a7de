//! A connection to a room: received messages, input lines and the end of the session.

use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Bytes, Message as Frame};
use toolpost_gateway::room::message::parse_stream_frame;

use super::super::super::signal::Signals;
use super::client::{self, CONNECT_TIMEOUT, RoomClient, RoomSocket};
use super::compose::{self, ComposedMessage};
use super::parse::{self, COMMANDS, ParsedLine};
use super::prompt::{InputLines, Screen};
use super::render;
use super::room_view::{self, RoomView};
use crate::arguments::JoinOptions;
use crate::error::CommandError;
use crate::output;

/// Interval between pings. The connection is considered lost after more than three intervals
/// without data from the gateway.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const MAX_PAGES: usize = 100;

enum SessionEnd {
    /// The user left.
    Quit,
    Failed(CommandError),
}

impl<E: Into<CommandError>> From<E> for SessionEnd {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

pub(super) struct RoomConnection<'a> {
    options: &'a JoinOptions,
    client: RoomClient<'a>,
    socket: RoomSocket,
    view: Arc<Mutex<RoomView>>,
    screen: Screen,
    last_error: Option<String>,
    is_joined: bool,
    /// Time of the last received frame, including pings and pongs.
    last_received: Instant,
    page_count: usize,
    /// Prefix of the message ids, unique per session.
    prefix: String,
    sent_count: u64,
}

impl<'a> RoomConnection<'a> {
    pub(super) fn new(
        options: &'a JoinOptions,
        client: RoomClient<'a>,
        socket: RoomSocket,
        view: Arc<Mutex<RoomView>>,
        screen: Screen,
    ) -> Self {
        Self {
            options,
            client,
            socket,
            view,
            screen,
            last_error: None,
            is_joined: false,
            last_received: Instant::now(),
            page_count: 0,
            prefix: format!("{:x}", toolpost::epoch_ms()),
            sent_count: 0,
        }
    }

    /// Receives messages and sends input lines until either side ends the session.
    pub(super) async fn run(
        mut self,
        mut lines: InputLines,
        stop: Signals,
    ) -> Result<(), CommandError> {
        let Err(end) = self.run_loop(&mut lines, stop).await;
        let _ = tokio::time::timeout(CONNECT_TIMEOUT, self.socket.close(None)).await;
        let is_failed_script = self.view.lock().has_failed && !self.screen.is_prompt();
        self.screen.close(&lines);
        match end {
            SessionEnd::Quit if is_failed_script => Err(CommandError::Reported),
            SessionEnd::Quit => Ok(()),
            SessionEnd::Failed(error) => Err(error),
        }
    }

    async fn run_loop(
        &mut self,
        lines: &mut InputLines,
        mut stop: Signals,
    ) -> Result<std::convert::Infallible, SessionEnd> {
        let mut ping = tokio::time::interval(PING_INTERVAL);
        let mut deadline = Some(Instant::now() + CONNECT_TIMEOUT);
        let mut has_ended = false;
        loop {
            // Without a prompt, every sent message must be acknowledged before the next line is read.
            let may_read = self.is_joined
                && !has_ended
                && (self.screen.is_prompt() || self.view.lock().unacknowledged.is_empty());
            tokio::select! {
                frame = self.socket.next() => self.handle_frame(frame).await?,
                line = lines.recv(), if may_read => match line {
                    Some(line) => self.handle_line(&line).await?,
                    // At a prompt, the end of input leaves the room. A script waits for its
                    // responses.
                    None if self.screen.is_prompt() => return Err(SessionEnd::Quit),
                    None => {
                        has_ended = true;
                        deadline = Some(Instant::now() + self.options.wait);
                    }
                },
                () = stop.next() => return Err(SessionEnd::Quit),
                () = sleep_until(deadline) => return Err(self.on_timeout(has_ended)),
                _ = ping.tick() => self.ping().await?,
            }
            if self.is_joined && !has_ended {
                deadline = None;
            }
            if has_ended && self.view.lock().is_idle() {
                return Err(SessionEnd::Quit);
            }
        }
    }

    async fn ping(&mut self) -> Result<(), CommandError> {
        if self.last_received.elapsed() > 3 * PING_INTERVAL {
            return Err(CommandError::Unreachable("the gateway stopped responding".to_owned()));
        }
        self.socket.send(Frame::Ping(Bytes::new())).await.map_err(connection_error)
    }

    fn on_timeout(&mut self, has_ended: bool) -> SessionEnd {
        if !has_ended {
            let message = "the gateway did not respond to the join request; pass a name with --as";
            return client::access_denied(message).into();
        }
        let mut view = self.view.lock();
        output::warning(&match view.pending_requests.len() {
            0 => "the gateway did not confirm every message in time".to_owned(),
            1 => "1 request timed out".to_owned(),
            more => format!("{more} requests timed out"),
        });
        view.has_failed = true;
        SessionEnd::Quit
    }

    async fn handle_frame<E: std::fmt::Display>(
        &mut self,
        frame: Option<Result<Frame, E>>,
    ) -> Result<(), CommandError> {
        self.last_received = Instant::now();
        let reason = match frame {
            Some(Ok(frame @ (Frame::Text(_) | Frame::Binary(_)))) => match frame.to_text() {
                Ok(text) => return self.handle_message(text).await,
                Err(_) => return Ok(()),
            },
            Some(Ok(Frame::Close(Some(close)))) if !close.reason.is_empty() => {
                output::sanitize(&close.reason).into_owned()
            }
            Some(Ok(Frame::Close(_))) | None => "the gateway closed the connection".to_owned(),
            Some(Ok(_)) => return Ok(()),
            Some(Err(error)) => error.to_string(),
        };
        Err(match self.is_joined {
            true => CommandError::Unreachable(reason),
            false => client::access_denied(&self.last_error.take().unwrap_or(reason)),
        })
    }

    async fn handle_message(&mut self, raw: &str) -> Result<(), CommandError> {
        if let Some(frame) = parse_stream_frame(raw) {
            if let Ok((stream, data)) = frame {
                self.screen.print_json(&json!({"stream": stream, "data": data}))?;
                self.screen.print_line(&render::frame(stream, data))?;
            }
            return Ok(());
        }
        let Ok(message) = serde_json::from_str::<Value>(raw) else { return Ok(()) };
        self.view.lock().apply(raw, &message);
        self.screen.print_raw_json(raw)?;
        self.render(&message)?;
        if message["kind"] == "system/error" {
            self.last_error = message["payload"]["message"].as_str().map(ToOwned::to_owned);
        }
        self.request_next_page(&message).await
    }

    fn render(&mut self, message: &Value) -> std::io::Result<()> {
        if message["kind"] == "system/welcome" {
            return self.handle_welcome(&message["payload"]);
        }
        // The prompt already shows the user's own chat lines.
        let is_own = message["from"].as_str() == self.view.lock().own_id.as_deref();
        if is_own && message["kind"] == "chat" && self.screen.is_prompt() {
            return Ok(());
        }
        self.print_message(message)
    }

    fn print_message(&mut self, message: &Value) -> std::io::Result<()> {
        render::message(message).map_or(Ok(()), |line| self.screen.print_line(&line))
    }

    fn handle_welcome(&mut self, payload: &Value) -> std::io::Result<()> {
        if self.is_joined {
            return self.screen.print_line(&render::capabilities_changed(payload));
        }
        self.is_joined = true;
        room_view::elements(&payload["history"])
            .try_for_each(|message| self.print_message(message))?;
        self.screen.print_line(&render::welcome(&self.options.room, payload))
    }

    async fn request_next_page(&mut self, message: &Value) -> Result<(), CommandError> {
        if message["kind"] != "mcp/response" || self.page_count >= MAX_PAGES {
            return Ok(());
        }
        let next = compose::next_page(message, self.view.lock().own_id.as_deref());
        let Some(outgoing) = next else { return Ok(()) };
        self.page_count += 1;
        self.send(outgoing).await
    }

    async fn send(&mut self, mut outgoing: ComposedMessage) -> Result<(), CommandError> {
        self.sent_count += 1;
        outgoing.id = format!("{}-{}", self.prefix, self.sent_count);
        self.view.lock().track_sent(&outgoing.id, outgoing.kind);
        self.socket.send(Frame::text(outgoing.to_json())).await.map_err(connection_error)
    }

    /// Handles a line of input. An invalid line sends nothing.
    async fn handle_line(&mut self, line: &str) -> Result<(), SessionEnd> {
        let parsed = parse::parse_line(line, &self.view.lock());
        match parsed {
            Ok(Some(ParsedLine::Send(outgoing))) => self.send(outgoing).await?,
            Ok(Some(ParsedLine::Participants)) => self.print_participants()?,
            Ok(Some(ParsedLine::History { max })) => self.print_history(max).await?,
            Ok(Some(ParsedLine::Help)) => self.print_help()?,
            Ok(Some(ParsedLine::Quit)) => return Err(SessionEnd::Quit),
            Ok(None) => {}
            Err(error_message) => self.report_error(&error_message)?,
        }
        Ok(())
    }

    fn report_error(&mut self, message: &str) -> std::io::Result<()> {
        if self.screen.is_prompt() {
            return self.screen.print_line(&output::sanitize(message));
        }
        output::error(message);
        self.view.lock().has_failed = true;
        Ok(())
    }

    fn print_help(&mut self) -> std::io::Result<()> {
        if self.screen.is_json() {
            output::notice("/help requires a terminal");
        }
        for (name, rest, what) in COMMANDS {
            self.screen.print_line(&format!("{:<50} {what}", format!("{name} {rest}")))?;
        }
        self.screen.print_line("Any other line is sent to the room. Tab completes names.")
    }

    fn print_participants(&mut self) -> std::io::Result<()> {
        let view = self.view.lock();
        let names: Vec<String> = view.participants.iter().chain(&view.own_id).cloned().collect();
        drop(view);
        self.screen.print_json(&json!({"participants": names}))?;
        self.screen.print_line(&output::sanitize(&names.join(", ")))
    }

    async fn print_history(&mut self, max: usize) -> Result<(), CommandError> {
        let messages = match self.client.history(max).await {
            Ok(messages) => messages,
            Err(CommandError::Call { error, .. }) => {
                return Ok(self.report_error(&error.to_string())?);
            }
            Err(CommandError::Unreachable(message)) => return Ok(self.report_error(&message)?),
            Err(other) => return Err(other),
        };
        for message in &messages {
            self.screen.print_json(message)?;
            self.print_message(message)?;
        }
        Ok(())
    }
}

fn connection_error(error: impl std::fmt::Display) -> CommandError {
    CommandError::Unreachable(format!("connection to the gateway lost: {error}"))
}

/// Resolves at the deadline; never, if there is none.
async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
