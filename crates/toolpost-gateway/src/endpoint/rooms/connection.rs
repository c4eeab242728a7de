//! The connection of one participant, from handshake to close.

use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use toolpost::shares::SharePermit;
use toolpost::transport::{CloseHandle, CloseReason, DataFrame, TextSocket, Utf8Bytes, WsSettings};

use super::RoomsEndpoint;
use super::admission::{AdmissionError, RoomAdmission};
use super::join_params::JoinParams;
use crate::endpoint::websocket;
use crate::room::message::{self, BaseKind, Draft, MessageParseError, Protocol, RejectionCode};
use crate::room::{
    DisconnectCause, GATEWAY_PARTICIPANT, RoomConnection, RoomError, RoomInput, StreamFrame,
    channel,
};
use crate::server::upgraded_stream;

/// Interval between pings. A participant that is silent for three intervals is disconnected.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// Ratio of the read limit to the message limit. A message over the message limit is rejected with
/// an error; one over the read limit closes the connection.
const READ_LIMIT_FACTOR: usize = 4;

pub(super) async fn serve(
    endpoint: RoomsEndpoint,
    upgrading: OnUpgrade,
    params: JoinParams,
    admission: Option<RoomAdmission>,
    mut permit: SharePermit,
) {
    let upgraded = match upgrading.await {
        Ok(upgraded) => upgraded,
        Err(error) => {
            return tracing::debug!(%error, "participant disconnected during the WebSocket handshake");
        }
    };
    let mut settings = WsSettings::default();
    settings.max_frame_bytes =
        endpoint.rooms.largest_message_limit().saturating_mul(READ_LIMIT_FACTOR);
    settings.ping_interval = PING_INTERVAL;
    settings.max_silent_intervals = 3;
    let (stream, buffered) = upgraded_stream(upgraded);
    let socket = TextSocket::accept(stream, buffered, settings).await;
    run(&endpoint, &socket, params, admission, &mut permit).await;
}

async fn run<S: AsyncRead + AsyncWrite + Unpin>(
    endpoint: &RoomsEndpoint,
    socket: &TextSocket<S>,
    mut params: JoinParams,
    admission: Option<RoomAdmission>,
    permit: &mut SharePermit,
) {
    let (admission, first) = match admission {
        Some(admission) => (admission, None),
        None => match read_join_frame(endpoint, socket, &mut params).await {
            Ok(joined) => joined,
            Err(JoinFailure::Rejected(rejection)) => return reject_join(socket, rejection).await,
            Err(JoinFailure::Closed(reason)) => return close(socket, None, reason).await,
        },
    };
    if let Err(error) = websocket::assign(permit, &admission.join.identity) {
        return close(socket, None, CloseReason::overloaded(error.to_string())).await;
    }
    let (sender, receiver) = channel();
    let max_message_bytes = endpoint.rooms.message_limit(admission.room.name());
    let room = admission.room.name().to_string();
    let id = admission.join.id.to_string();
    let room_connection = endpoint.rooms.join(admission.room, admission.join, sender).await;
    let participant = ParticipantConnection { room_connection, max_message_bytes, room, id };
    let close_handle = receiver.close_handle();
    let receiving = async {
        tokio::select! {
            reason = participant.receive_loop(socket, first) => close_handle.close(reason),
            () = close_handle.closed() => {}
        }
        // Leave the room before the closing handshake.
        drop(participant);
    };
    tokio::join!(receiving, socket.run(receiver, || false, &close_handle));
}

/// Why a connection ends before it joins a room.
enum JoinFailure {
    Rejected(RoomError),
    /// The client closed the connection, or sent an invalid frame.
    Closed(CloseReason),
}

impl From<CloseReason> for JoinFailure {
    fn from(reason: CloseReason) -> Self {
        Self::Closed(reason)
    }
}

impl From<RoomError> for JoinFailure {
    fn from(rejection: RoomError) -> Self {
        Self::Rejected(rejection)
    }
}

/// Reads the join frame, which identifies the participant and the room. Without authentication, any
/// first message is sufficient.
async fn read_join_frame<S: AsyncRead + AsyncWrite + Unpin>(
    endpoint: &RoomsEndpoint,
    socket: &TextSocket<S>,
    params: &mut JoinParams,
) -> Result<(RoomAdmission, Option<Utf8Bytes>), JoinFailure> {
    let auth_timeout = endpoint.auth_timeout;
    let text = tokio::select! {
        text = read_first_text(socket) => text?,
        () = tokio::time::sleep(auth_timeout) => {
            let error_message = "timed out waiting for join: {\"type\":\"join\",\"space\":…,\"token\":…}";
            return Err(RejectionCode::Unauthorized.error(error_message).into());
        }
        () = endpoint.stopping.cancelled() => {
            return Err(RejectionCode::Unavailable.error("the gateway is stopping").into());
        }
    };
    let first = match message::parse_join(&text) {
        Some(Ok(join)) => {
            params.apply_join_frame(join);
            None
        }
        Some(Err(error)) => return Err(RoomError::from(error).into()),
        None if endpoint.authenticator.allows_anonymous() => {
            let from = Draft::parse(&text).ok().and_then(|draft| draft.from);
            params.participant = from.map(Into::into).or(params.participant.take());
            Some(text)
        }
        None => {
            let error_message =
                "the first frame must be {\"type\":\"join\",\"space\":…,\"token\":…}";
            return Err(RejectionCode::Unauthorized.error(error_message).into());
        }
    };
    let room = params.room.clone().unwrap_or_else(|| crate::room::LOBBY.to_owned());
    let admission =
        RoomAdmission::admit(endpoint, &room, params).await.map_err(AdmissionError::into_rejection);
    Ok((admission?, first))
}

async fn read_first_text<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &TextSocket<S>,
) -> Result<Utf8Bytes, JoinFailure> {
    match socket.recv().await? {
        DataFrame::Text(text) => Ok(text),
        DataFrame::Binary(bytes) => {
            Utf8Bytes::try_from(bytes).map_err(|_| RoomError::from(not_utf8()).into())
        }
    }
}

fn not_utf8() -> MessageParseError {
    MessageParseError::invalid("a message must be UTF-8 text")
}

/// Sends the error and closes the connection.
async fn reject_join<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &TextSocket<S>,
    rejection: RoomError,
) {
    let (error, message) = (rejection.code.as_str(), &rejection.message);
    tracing::info!(error, reason = message, "participant rejected");
    let now = toolpost::epoch_ms();
    let error_frame = json!({
        "protocol": Protocol::default().as_str(),
        "id": format!("rejected-{now}"),
        "ts": toolpost::timestamp(now),
        "from": GATEWAY_PARTICIPANT,
        "kind": BaseKind::SystemError.as_str(),
        "payload": {
            "error": error,
            "message": message,
            "attempted_kind": BaseKind::SystemJoin.as_str(),
        },
    });
    let error_frame = Utf8Bytes::from(error_frame.to_string());
    close(socket, Some(error_frame), DisconnectCause::Rejected(rejection).into()).await;
}

/// Sends the last message, if there is one, and completes the closing handshake.
async fn close<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &TextSocket<S>,
    last: Option<Utf8Bytes>,
    reason: CloseReason,
) {
    let close_handle = CloseHandle::default();
    close_handle.close(reason);
    socket.run(futures::stream::iter(last), || false, &close_handle).await;
}

struct ParticipantConnection {
    room_connection: RoomConnection,
    /// Maximum size of a message, in bytes.
    max_message_bytes: usize,
    room: String,
    id: String,
}

impl ParticipantConnection {
    /// Forwards messages to the room, beginning with `first`. Returns why the connection ends.
    async fn receive_loop<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        socket: &TextSocket<S>,
        first: Option<Utf8Bytes>,
    ) -> CloseReason {
        if let Some(text) = first {
            self.handle_text(&text).await;
        }
        loop {
            match socket.recv().await {
                Ok(DataFrame::Text(text)) => self.handle_text(&text).await,
                Ok(DataFrame::Binary(bytes)) => match Utf8Bytes::try_from(bytes) {
                    Ok(text) => self.handle_text(&text).await,
                    Err(_) => self.reject(not_utf8()).await,
                },
                Err(reason) if reason.code == CloseReason::TOO_LARGE => {
                    let max_bytes = self.max_message_bytes;
                    return DisconnectCause::MessageTooLarge { max_bytes }.into();
                }
                Err(reason) => return reason,
            }
        }
    }

    async fn handle_text(&self, text: &Utf8Bytes) {
        if text.len() > self.max_message_bytes {
            let Self { max_message_bytes: max, .. } = self;
            let error_message =
                format!("a message has at most {max} bytes, and this has {}", text.len());
            let error = MessageParseError::new(RejectionCode::MessageTooLarge, error_message);
            return self.reject(error.with_source(text)).await;
        }
        if let Some(frame) = message::parse_stream_frame(text) {
            let frame = frame
                .map(|(stream, _)| StreamFrame { stream: stream.into(), text: (**text).into() });
            let frame = |connection| RoomInput::Frame { connection, frame };
            return self.room_connection.send(frame).await;
        }
        // Some clients send a join frame although their token already identified them.
        if memchr::memmem::find(text.as_bytes(), b"join\"").is_some()
            && let Some(join) = message::parse_join(text)
        {
            return self.handle_repeated_join(join).await;
        }
        self.send_draft(Draft::parse(text)).await;
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
                let code = RejectionCode::AuthViolation;
                self.reject(MessageParseError::new(code, error_message)).await;
            }
            Ok(_) => {}
            Err(error) => self.reject(error).await,
        }
    }

    async fn reject(&self, error: MessageParseError) {
        self.send_draft(Err(error)).await;
    }

    async fn send_draft(&self, draft: Result<Draft, MessageParseError>) {
        let draft = draft.map(Box::new);
        self.room_connection.send(|connection| RoomInput::Message { connection, draft }).await;
    }
}
