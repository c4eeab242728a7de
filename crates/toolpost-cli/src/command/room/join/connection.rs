//! A connection to a room: received messages, input lines and the end of the session.

use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Bytes, Message as Frame};
use toolpost_gateway::room::message::parse_stream_frame;

use super::super::super::signal::StopRequests;
use super::client::{self, CONNECT_TIMEOUT, RoomClient};
use super::parse::{self, COMMANDS, ParsedLine};
use super::prompt::{InputLines, Screen};
use super::room_view::{self, RoomView};
use super::{compose, connection_error, render};
use crate::arguments::JoinOptions;
use crate::error::CommandError;
use crate::output;

/// Interval between pings. The connection is considered lost after more than three intervals
/// without data from the gateway.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum number of pages to request of a list.
const MAX_PAGES: usize = 100;

/// Why the connection ended.
pub(super) enum DisconnectReason {
    /// The user left.
    Quit,
    /// The gateway rejected the connection.
    Rejected(String),
    /// The gateway closed the connection or stopped responding.
    Disconnected(String),
}

/// A connection to a room.
pub(super) struct RoomConnection<'a> {
    options: &'a JoinOptions,
    client: RoomClient,
    socket: WebSocketStream<TcpStream>,
    view: Arc<Mutex<RoomView>>,
    screen: Screen,
    /// Message of the last error from the gateway.
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
        client: RoomClient,
        socket: WebSocketStream<TcpStream>,
        view: Arc<Mutex<RoomView>>,
        screen: Screen,
    ) -> Self {
        let prefix = format!("{:x}", toolpost::epoch_ms());
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
            prefix,
            sent_count: 0,
        }
    }

    fn lock_view(&self) -> MutexGuard<'_, RoomView> {
        self.view.lock()
    }

    /// Receives messages and sends input lines until either side ends the session.
    pub(super) async fn run(
        &mut self,
        lines: &mut InputLines,
        mut stop: StopRequests,
    ) -> Result<DisconnectReason, CommandError> {
        let mut ping = tokio::time::interval(PING_INTERVAL);
        let mut deadline = Some(Instant::now() + CONNECT_TIMEOUT);
        let mut has_ended = false;
        loop {
            let may_read = self.is_joined && !has_ended && self.can_read_input();
            let end = tokio::select! {
                frame = self.socket.next() => self.handle_frame(frame).await?,
                line = lines.recv(), if may_read => match line {
                    Some(line) => self.handle_line(&line).await?,
                    None => {
                        has_ended = true;
                        deadline = Some(Instant::now() + self.options.wait);
                        self.on_input_end()
                    }
                },
                () = stop.next() => Some(DisconnectReason::Quit),
                () = sleep_until(deadline) => Some(self.on_timeout(has_ended)),
                _ = ping.tick() => self.ping().await?,
            };
            if self.is_joined && !has_ended {
                deadline = None;
            }
            if let Some(end) = end {
                return Ok(end);
            }
            if has_ended && self.lock_view().is_idle() {
                return Ok(DisconnectReason::Quit);
            }
        }
    }

    async fn ping(&mut self) -> Result<Option<DisconnectReason>, CommandError> {
        if self.last_received.elapsed() > 3 * PING_INTERVAL {
            return Ok(Some(DisconnectReason::Disconnected(
                "the gateway stopped responding".to_owned(),
            )));
        }
        self.socket.send(Frame::Ping(Bytes::new())).await.map_err(connection_error)?;
        Ok(None)
    }

    /// Whether the next line may be read. Without a prompt, every sent message must be acknowledged
    /// first.
    fn can_read_input(&self) -> bool {
        self.screen.is_prompt() || self.lock_view().is_acknowledged()
    }

    /// At a prompt, the end of input leaves the room. A script waits for its responses.
    fn on_input_end(&self) -> Option<DisconnectReason> {
        self.screen.is_prompt().then_some(DisconnectReason::Quit)
    }

    fn on_timeout(&mut self, has_ended: bool) -> DisconnectReason {
        if !has_ended {
            return DisconnectReason::Rejected(
                "the gateway did not admit this client; pass a name with --as".to_owned(),
            );
        }
        let message = match self.lock_view().pending_request_count() {
            0 => "the gateway did not confirm every message in time".to_owned(),
            1 => "a request was not answered in time".to_owned(),
            more => format!("{more} requests were not answered in time"),
        };
        output::warning(&message);
        self.lock_view().has_failed = true;
        DisconnectReason::Quit
    }

    async fn handle_frame<E: std::fmt::Display>(
        &mut self,
        frame: Option<Result<Frame, E>>,
    ) -> Result<Option<DisconnectReason>, CommandError> {
        self.last_received = Instant::now();
        let reason = match frame {
            Some(Ok(Frame::Text(text))) => return self.handle_message(&text).await,
            Some(Ok(Frame::Binary(bytes))) => {
                return match std::str::from_utf8(&bytes) {
                    Ok(text) => self.handle_message(text).await,
                    Err(_) => Ok(None),
                };
            }
            Some(Ok(Frame::Close(Some(close)))) if !close.reason.is_empty() => {
                output::sanitize(&close.reason).into_owned()
            }
            Some(Ok(Frame::Close(_))) | None => "the gateway closed the connection".to_owned(),
            Some(Ok(_)) => return Ok(None),
            Some(Err(error)) => error.to_string(),
        };
        let reason = self.last_error.take().filter(|_| !self.is_joined).unwrap_or(reason);
        Ok(Some(if self.is_joined {
            DisconnectReason::Disconnected(reason)
        } else {
            DisconnectReason::Rejected(reason)
        }))
    }

    /// Handles a text frame from the gateway.
    async fn handle_message(
        &mut self,
        raw: &str,
    ) -> Result<Option<DisconnectReason>, CommandError> {
        if let Some(frame) = parse_stream_frame(raw) {
            if let Ok((stream, data)) = frame {
                self.screen.print_json(&json!({"stream": stream, "data": data}))?;
                self.screen.print_line(&render::frame(stream, data))?;
            }
            return Ok(None);
        }
        let Ok(message) = serde_json::from_str::<Value>(raw) else { return Ok(None) };
        self.lock_view().apply(raw, &message);
        self.screen.print_raw_json(raw)?;
        self.render(&message)?;
        if message["kind"] == "system/error" {
            self.last_error = message["payload"]["message"].as_str().map(ToOwned::to_owned);
        }
        self.request_next_page(&message).await?;
        Ok(None)
    }

    fn render(&mut self, message: &Value) -> Result<(), CommandError> {
        if message["kind"] == "system/welcome" {
            return self.handle_welcome(&message["payload"]);
        }
        // The prompt already shows the user's own chat lines.
        let is_own = message["from"].as_str() == self.lock_view().own_id.as_deref();
        if is_own && message["kind"] == "chat" && self.screen.is_prompt() {
            return Ok(());
        }
        match render::message(message) {
            Some(line) => Ok(self.screen.print_line(&line)?),
            None => Ok(()),
        }
    }

    fn handle_welcome(&mut self, payload: &Value) -> Result<(), CommandError> {
        if self.is_joined {
            return Ok(self.screen.print_line(&render::capabilities_changed(payload))?);
        }
        self.is_joined = true;
        for line in room_view::elements(&payload["history"]).filter_map(render::message) {
            self.screen.print_line(&line)?;
        }
        Ok(self.screen.print_line(&render::welcome(&self.options.room, payload))?)
    }

    /// Requests the next page of a tool list, if there is one.
    async fn request_next_page(&mut self, message: &Value) -> Result<(), CommandError> {
        if message["kind"] != "mcp/response" || self.page_count >= MAX_PAGES {
            return Ok(());
        }
        let next = compose::next_page(message, self.lock_view().own_id.as_deref());
        let Some((participant, cursor)) = next else { return Ok(()) };
        self.page_count += 1;
        let outgoing = compose::list_tools(participant.to_owned(), Some(cursor), self.next_id());
        self.send(&outgoing).await
    }

    async fn send(&mut self, outgoing: &compose::ComposedMessage) -> Result<(), CommandError> {
        self.lock_view().track_sent(&outgoing.id, outgoing.kind);
        self.socket.send(Frame::text(outgoing.to_json())).await.map_err(connection_error)
    }

    fn next_id(&mut self) -> String {
        self.sent_count += 1;
        format!("{}-{}", self.prefix, self.sent_count)
    }

    /// Handles a line of input.
    async fn handle_line(&mut self, line: &str) -> Result<Option<DisconnectReason>, CommandError> {
        let typed = match parse::parse_line(line) {
            Ok(Some(typed)) => typed,
            Ok(None) => return Ok(None),
            Err(error_message) => return self.report_error(&error_message),
        };
        match typed {
            ParsedLine::Quit => return Ok(Some(DisconnectReason::Quit)),
            ParsedLine::Help => self.print_help()?,
            ParsedLine::Participants => self.print_participants()?,
            ParsedLine::History { max } => self.print_history(max).await?,
            typed => {
                let id = self.next_id();
                let outgoing = compose::compose(typed, &self.lock_view(), id);
                match outgoing {
                    Ok(Some(outgoing)) => self.send(&outgoing).await?,
                    Ok(None) => {}
                    Err(error_message) => return self.report_error(&error_message),
                }
            }
        }
        Ok(None)
    }

    /// Reports invalid input, of which nothing is sent.
    fn report_error(&mut self, message: &str) -> Result<Option<DisconnectReason>, CommandError> {
        if self.screen.is_prompt() {
            self.screen.print_line(&output::sanitize(message))?;
        } else {
            output::error(message);
            self.lock_view().has_failed = true;
        }
        Ok(None)
    }

    fn print_help(&mut self) -> std::io::Result<()> {
        if self.screen.is_json() {
            output::notice("the commands are listed by /help at a terminal");
        }
        for (name, rest, what) in COMMANDS {
            self.screen.print_line(&format!("{:<44} {what}", format!("{name} {rest}")))?;
        }
        self.screen.print_line("Any other line is sent to the room. Tab completes names.")
    }

    fn print_participants(&mut self) -> std::io::Result<()> {
        let mut names: Vec<String> = self.lock_view().participants.iter().cloned().collect();
        names.extend(self.lock_view().own_id.clone());
        self.screen.print_json(&json!({"participants": names}))?;
        self.screen.print_line(&output::sanitize(&names.join(", ")))
    }

    /// Prints earlier messages that the gateway still has.
    async fn print_history(&mut self, max: usize) -> Result<(), CommandError> {
        let messages = match self.client.history(max).await {
            Ok(messages) => messages,
            Err(CommandError::Call { error, .. }) => {
                return self.report_error(&error.to_string()).map(drop);
            }
            Err(CommandError::Unreachable(error_message)) => {
                return self.report_error(&error_message).map(drop);
            }
            Err(other) => return Err(other),
        };
        for message in &messages {
            self.screen.print_json(message)?;
            if let Some(line) = render::message(message) {
                self.screen.print_line(&line)?;
            }
        }
        Ok(())
    }

    /// Closes the connection and returns the result of the command.
    pub(super) async fn close(
        mut self,
        end: Result<DisconnectReason, CommandError>,
        input_lines: &InputLines,
    ) -> Result<(), CommandError> {
        let _ = tokio::time::timeout(CONNECT_TIMEOUT, self.socket.close(None)).await;
        let (is_prompt, has_failed) = (self.screen.is_prompt(), self.lock_view().has_failed);
        let is_json = self.screen.is_json();
        self.screen.close(input_lines);
        match end? {
            DisconnectReason::Quit if has_failed && !is_prompt => Err(CommandError::Reported),
            DisconnectReason::Quit => Ok(()),
            DisconnectReason::Rejected(reason) => Err(client::access_denied(&reason, is_json)),
            DisconnectReason::Disconnected(reason) => Err(CommandError::Unreachable(reason)),
        }
    }
}

/// Resolves at the deadline; never, if there is none.
async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
