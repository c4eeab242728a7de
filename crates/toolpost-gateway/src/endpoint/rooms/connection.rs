//! The connection of one participant, from handshake to close.

use std::time::Duration;

use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message as WsMessage, Utf8Bytes};

use super::RoomsEndpoint;
use super::admission::{AdmissionError, RoomAdmission};
use super::join_params::JoinParams;
use crate::room::message::{self, Draft, MessageParseError};
use crate::room::{
    CloseReason, MessageReceiver, RoomConnection, RoomError, RoomInput, StreamFrame, channel,
};
use crate::server::TimeoutStream;

/// Interval between pings. A participant that is silent for three intervals is disconnected.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// Maximum time for the close handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Size in bytes at which queued messages are sent.
const MAX_BATCH_BYTES: usize = 256 * 1024;
/// Ratio of the read limit to the message limit. A message over the message limit is rejected with
/// an error; one over the read limit closes the connection.
const READ_LIMIT_FACTOR: usize = 4;

pub(super) async fn serve(
    endpoint: RoomsEndpoint,
    upgrading: OnUpgrade,
    params: JoinParams,
    admission: Option<RoomAdmission>,
) {
    let upgraded = match upgrading.await {
        Ok(upgraded) => upgraded,
        Err(error) => {
            return tracing::debug!(%error, "participant disconnected during the WebSocket handshake");
        }
    };
    let max = endpoint.rooms.largest_message_limit().saturating_mul(READ_LIMIT_FACTOR);
    let config = WebSocketConfig::default()
        .max_message_size(Some(max))
        .max_frame_size(Some(max))
        .read_buffer_size(16 * 1024);
    // With this crate's server, the TCP stream is used directly. With another server, the upgraded
    // connection may be wrapped.
    match upgraded.downcast::<TokioIo<TimeoutStream>>() {
        Ok(parts) => {
            let (stream, read) = (parts.io.into_inner().into_stream(), parts.read_buf.into());
            let socket =
                WebSocketStream::from_partially_read(stream, read, Role::Server, Some(config));
            run(&endpoint, socket.await, params, admission).await;
        }
        Err(upgraded) => {
            let stream = TokioIo::new(upgraded);
            let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config));
            run(&endpoint, socket.await, params, admission).await;
        }
    }
}

async fn run<S: AsyncRead + AsyncWrite + Unpin>(
    endpoint: &RoomsEndpoint,
    mut socket: WebSocketStream<S>,
    mut params: JoinParams,
    admission: Option<RoomAdmission>,
) {
    let (admission, first) = match admission {
        Some(admission) => (admission, None),
        None => match read_join_frame(endpoint, &mut socket, &mut params).await {
            Some(Ok(joined)) => joined,
            Some(Err(rejection)) => return reject_join(socket, rejection).await,
            None => return,
        },
    };
    let (sender, receiver) = channel();
    let max = endpoint.rooms.message_limit(admission.room.name());
    let room = admission.room.name().to_string();
    let id = admission.join.id.to_string();
    let room_connection = endpoint.rooms.join(admission.room, admission.join, sender).await;
    let participant = ParticipantConnection { room_connection, max_message_bytes: max, room, id };
    if let Some(text) = first {
        participant.handle_text(&text).await;
    }
    let (mut sink, mut stream) = socket.split();
    let close_reason = tokio::select! {
        // A disconnected participant gets no close frame, and a closed one is no longer read.
        close_reason = participant.receive_loop(&mut stream) => close_reason,
        () = send_loop(&mut sink, receiver) => None,
    };
    // Leave the room before the close handshake.
    drop(participant);
    if let (Some(close_reason), Ok(socket)) = (close_reason, stream.reunite(sink)) {
        close(socket, &close_reason).await;
    }
}

type JoinResult = Result<(RoomAdmission, Option<Utf8Bytes>), RoomError>;

/// Reads the join frame, which identifies the participant and the room. Without authentication, any
/// first message is sufficient.
async fn read_join_frame<S: AsyncRead + AsyncWrite + Unpin>(
    endpoint: &RoomsEndpoint,
    socket: &mut WebSocketStream<S>,
    params: &mut JoinParams,
) -> Option<JoinResult> {
    let auth_timeout = endpoint.auth_timeout;
    let text = tokio::select! {
        text = read_first_text(socket) => text?,
        () = tokio::time::sleep(auth_timeout) => {
            let error_message = "timed out waiting for join: {\"type\":\"join\",\"space\":…,\"token\":…}";
            return Some(Err(RoomError::new("unauthorized", error_message)));
        }
        () = endpoint.stopping.cancelled() => {
            return Some(Err(RoomError::new("unavailable", "the gateway is stopping")));
        }
    };
    let first = match message::parse_join(&text) {
        Some(Ok(join)) => {
            params.apply_join_frame(join);
            None
        }
        Some(Err(error)) => return Some(Err(error.into())),
        None if endpoint.authenticator.allows_anonymous() => {
            let from = Draft::parse(&text).ok().and_then(|draft| draft.from);
            params.participant = from.map(Into::into).or(params.participant.take());
            Some(text)
        }
        None => {
            let error_message =
                "the first frame must be {\"type\":\"join\",\"space\":…,\"token\":…}";
            return Some(Err(RoomError::new("unauthorized", error_message)));
        }
    };
    let room = params.room.clone().unwrap_or_else(|| crate::room::LOBBY.to_owned());
    let admission =
        RoomAdmission::admit(endpoint, &room, params).await.map_err(AdmissionError::into_rejection);
    Some(admission.map(|admission| (admission, first)))
}

async fn read_first_text<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
) -> Option<Utf8Bytes> {
    loop {
        match socket.next().await?.ok()? {
            WsMessage::Text(text) => return Some(text),
            WsMessage::Binary(bytes) => return Utf8Bytes::try_from(bytes).ok(),
            WsMessage::Close(_) => return None,
            _ => {}
        }
    }
}

/// Sends the error and closes the connection.
async fn reject_join<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: WebSocketStream<S>,
    rejection: RoomError,
) {
    tracing::info!(error = rejection.code, reason = rejection.message, "participant rejected");
    let code = match rejection.code {
        "unauthorized" => 4401,
        "unavailable" => 1013,
        _ => 4403,
    };
    let error_frame = json!({
        "protocol": "mew/v0.4",
        "id": format!("rejected-{}", toolpost::epoch_ms()),
        "ts": toolpost::timestamp(toolpost::epoch_ms()),
        "from": "system:gateway",
        "kind": "system/error",
        "payload": {
            "error": rejection.code,
            "message": rejection.message,
            "attempted_kind": "system/join",
        },
    });
    let closing = async {
        socket.feed(WsMessage::text(error_frame.to_string())).await?;
        let close_reason = CloseReason::new(code, rejection.message);
        socket.close(Some(close_frame(&close_reason))).await?;
        // Read the remaining frames of the client, otherwise it may never receive the close reason.
        while let Some(Ok(_)) = socket.next().await {}
        Ok::<_, Error>(())
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
}

/// The connection of a participant to a room.
struct ParticipantConnection {
    room_connection: RoomConnection,
    /// Maximum size of a message, in bytes.
    max_message_bytes: usize,
    room: String,
    id: String,
}

impl ParticipantConnection {
    /// Forwards messages to the room until the participant disconnects. Returns the close reason if
    /// the gateway closes the connection.
    async fn receive_loop<S>(
        &self,
        stream: &mut SplitStream<WebSocketStream<S>>,
    ) -> Option<CloseReason>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        loop {
            let next = tokio::time::timeout(3 * PING_INTERVAL, stream.next()).await;
            match next {
                Ok(Some(Ok(WsMessage::Text(text)))) => self.handle_text(&text).await,
                Ok(Some(Ok(WsMessage::Binary(bytes)))) => match Utf8Bytes::try_from(bytes) {
                    Ok(text) => self.handle_text(&text).await,
                    Err(_) => self.reject_text("a message must be UTF-8 text").await,
                },
                Ok(Some(Err(Error::Capacity(_)))) => {
                    let message = format!("a message has at most {} bytes", self.max_message_bytes);
                    return Some(CloseReason::new(1009, message));
                }
                Ok(Some(Ok(WsMessage::Close(_)) | Err(_)) | None) => return None,
                Ok(Some(Ok(_))) => {}
                Err(_) => {
                    tracing::debug!(id = self.id, "participant timed out");
                    return None;
                }
            }
        }
    }

    async fn handle_text(&self, text: &Utf8Bytes) {
        if text.len() > self.max_message_bytes {
            let Self { max_message_bytes: max, .. } = self;
            let error_message =
                format!("a message has at most {max} bytes, and this has {}", text.len());
            return self.reject(too_large(text, error_message)).await;
        }
        if let Some(frame) = message::parse_stream_frame(text) {
            let frame = frame
                .map(|(stream, _)| StreamFrame { stream: stream.into(), text: (**text).into() });
            return self
                .room_connection
                .send(|connection| RoomInput::Frame { connection, frame })
                .await;
        }
        // Some clients send a join frame although their token already identified them.
        if memchr::memmem::find(text.as_bytes(), b"join\"").is_some()
            && let Some(join) = message::parse_join(text)
        {
            return self.handle_repeated_join(join).await;
        }
        let draft = Draft::parse(text).map(Box::new);
        self.room_connection.send(|connection| RoomInput::Message { connection, draft }).await;
    }

    async fn handle_repeated_join(&self, join: Result<message::JoinFrame, MessageParseError>) {
        let differs = |requested: &Option<Box<str>>, own: &str| {
            requested.as_ref().is_some_and(|requested_name| &**requested_name != own)
        };
        match join {
            Ok(join)
                if differs(&join.participant, &self.id) || differs(&join.space, &self.room) =>
            {
                let error_message = format!("already joined as `{}` in `{}`", self.id, self.room);
                self.reject(MessageParseError {
                    code: "auth_violation",
                    ..MessageParseError::new(error_message)
                })
                .await;
            }
            Ok(_) => {}
            Err(error) => self.reject(error).await,
        }
    }

    async fn reject_text(&self, message: &str) {
        self.reject(MessageParseError::new(message)).await;
    }

    async fn reject(&self, error: MessageParseError) {
        self.room_connection
            .send(|connection| RoomInput::Message { connection, draft: Err(error) })
            .await;
    }
}

fn too_large(text: &str, error_message: String) -> MessageParseError {
    MessageParseError {
        code: "message_too_large",
        message: error_message,
        ..MessageParseError::from_text(text)
    }
}

/// Sends queued messages to a participant in batches, until either side closes the connection.
async fn send_loop<S>(
    sink: &mut SplitSink<WebSocketStream<S>, WsMessage>,
    mut receiver: MessageReceiver,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let closed = receiver.closed();
    let mut ping = tokio::time::interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = tokio::select! {
            biased;
            () = closed.cancelled() => break,
            text = receiver.recv() => match text {
                Some(text) => Some(text),
                None => break,
            },
            _ = ping.tick() => None,
        };
        let sending = send_batch(sink, &mut receiver, next);
        // After close, a participant that does not read is not awaited.
        let sent = tokio::select! {
            biased;
            sent = sending => Some(sent),
            () = closed.cancelled() => None,
        };
        match sent {
            Some(Ok(())) => {}
            Some(Err(_)) => return,
            None => {
                // Messages after one that was not sent are dropped.
                while receiver.try_recv().is_some() {}
                break;
            }
        }
    }
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, send_close(sink, receiver)).await;
}

async fn send_batch<S>(
    sink: &mut SplitSink<WebSocketStream<S>, WsMessage>,
    receiver: &mut MessageReceiver,
    first: Option<Utf8Bytes>,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some(first) = first else {
        return sink.send(WsMessage::Ping(Bytes::new())).await;
    };
    let mut bytes = first.len();
    sink.feed(WsMessage::Text(first)).await?;
    while bytes < MAX_BATCH_BYTES
        && let Some(text) = receiver.try_recv()
    {
        bytes += text.len();
        sink.feed(WsMessage::Text(text)).await?;
    }
    sink.flush().await
}

/// Sends the queued messages, if the close reason requires it, and the close frame.
async fn send_close<S>(
    sink: &mut SplitSink<WebSocketStream<S>, WsMessage>,
    mut receiver: MessageReceiver,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let reason = receiver.close_reason();
    while reason.flush_first
        && let Some(text) = receiver.try_recv()
    {
        if sink.feed(WsMessage::Text(text)).await.is_err() {
            return;
        }
    }
    let _ = sink.send(WsMessage::Close(Some(close_frame(&reason)))).await;
}

/// Closes the connection of a participant that is still sending. Its input is read and discarded,
/// since otherwise it might not receive the reason.
async fn close<S>(mut socket: WebSocketStream<S>, close_reason: &CloseReason)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let closing = async {
        socket.send(WsMessage::Close(Some(close_frame(close_reason)))).await?;
        let mut thrown_away = [0; 4 * 1024];
        while socket.get_mut().read(&mut thrown_away).await? > 0 {}
        Ok::<_, Error>(())
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
}

/// Builds a close frame. The reason is truncated to 123 bytes, the limit of WebSocket.
fn close_frame(close_reason: &CloseReason) -> CloseFrame {
    let reason = &close_reason.reason[..close_reason.reason.floor_char_boundary(123)];
    CloseFrame { code: CloseCode::from(close_reason.code), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The participant reads nothing until the connection closes. Messages that are queued then are
    /// not sent.
    #[tokio::test]
    async fn close_drops_messages_after_unsent_frame() {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let near = WebSocketStream::from_raw_socket(near, Role::Server, None).await;
        let mut far = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
        let (sender, receiver) = channel();
        for number in 0..200 {
            sender.send(format!("{number} {}", "x".repeat(10_000)).into());
        }
        let (mut sink, _stream) = near.split();
        let mut writing = std::pin::pin!(send_loop(&mut sink, receiver));
        assert!(futures::poll!(&mut writing).is_pending());
        sender.close(CloseReason::new(1001, "it is over"));
        let reading = async {
            let mut received = Vec::new();
            while let Some(Ok(WsMessage::Text(text))) = far.next().await {
                received.push(text.split(' ').next().unwrap().parse::<usize>().unwrap());
            }
            received
        };
        let ((), received) = futures::join!(writing, reading);
        assert!(!received.is_empty());
        assert_eq!(received, (0..received.len()).collect::<Vec<_>>());
    }
}
