//! One participant: from the handshake to the goodbye.

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
use tokio_tungstenite::tungstenite::{Bytes, Error, Message as Wired, Utf8Bytes};

use super::asked::Asked;
use super::ticket::{Denied, Ticket};
use crate::app::Gateway;
use crate::room::message::{self, Draft, ReadError};
use crate::room::{Frame, Goodbye, Inlet, Input, Place, Refusal, way};
use crate::server::Wire;

/// How often a ping is sent. Whoever was silent for more than three of them is gone.
const PING: Duration = Duration::from_secs(20);
/// How long a goodbye may take.
const FAREWELL: Duration = Duration::from_secs(5);
/// How much is gathered before it is sent.
const TOGETHER: usize = 256 * 1024;
/// How many times larger than a message what is read may be; so whoever sends too much is told, and
/// whoever sends much more is let go.
const READ_AHEAD: usize = 4;

pub(super) async fn serve(
    gateway: Gateway,
    upgrading: OnUpgrade,
    asked: Asked,
    ticket: Option<Ticket>,
) {
    let upgraded = match upgrading.await {
        Ok(upgraded) => upgraded,
        Err(error) => return tracing::debug!(%error, "a participant left during its handshake"),
    };
    let most = gateway.0.workspace.largest_message().saturating_mul(READ_AHEAD);
    let config = WebSocketConfig::default()
        .max_message_size(Some(most))
        .max_frame_size(Some(most))
        .read_buffer_size(16 * 1024);
    // Our own server gives its socket back; inside another one there may be layers around it.
    match upgraded.downcast::<TokioIo<Wire>>() {
        Ok(parts) => {
            let (stream, read) = (parts.io.into_inner().into_stream(), parts.read_buf.into());
            let socket =
                WebSocketStream::from_partially_read(stream, read, Role::Server, Some(config));
            run(&gateway, socket.await, asked, ticket).await;
        }
        Err(upgraded) => {
            let stream = TokioIo::new(upgraded);
            let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config));
            run(&gateway, socket.await, asked, ticket).await;
        }
    }
}

async fn run<S: AsyncRead + AsyncWrite + Unpin>(
    gateway: &Gateway,
    mut socket: WebSocketStream<S>,
    mut asked: Asked,
    ticket: Option<Ticket>,
) {
    let (ticket, first) = match ticket {
        Some(ticket) => (ticket, None),
        None => match introduced(gateway, &mut socket, &mut asked).await {
            Some(Ok(introduced)) => introduced,
            Some(Err(refusal)) => return refuse(socket, refusal).await,
            None => return,
        },
    };
    let (outlet, inlet) = way();
    let most = gateway.0.workspace.message_bytes(ticket.room.name());
    let room = ticket.room.name().to_string();
    let id = ticket.newcomer.id.to_string();
    let place = gateway.0.workspace.enter(ticket.room, ticket.newcomer, outlet).await;
    let participant = Participant { place, most, room, id };
    if let Some(text) = first {
        participant.say(&text).await;
    }
    let (mut sink, mut stream) = socket.split();
    let goodbye = tokio::select! {
        // Whoever has left needs no goodbye, and whoever is sent away is not heard.
        goodbye = participant.listen(&mut stream) => goodbye,
        () = write(&mut sink, inlet) => None,
    };
    // The room hears of it at once.
    drop(participant);
    if let (Some(goodbye), Ok(socket)) = (goodbye, stream.reunite(sink)) {
        hang_up(socket, &goodbye).await;
    }
}

type Introduced = Result<(Ticket, Option<Utf8Bytes>), Refusal>;

/// Waits for a first frame that says who comes, and where. At an open gateway any message says enough.
async fn introduced<S: AsyncRead + AsyncWrite + Unpin>(
    gateway: &Gateway,
    socket: &mut WebSocketStream<S>,
    asked: &mut Asked,
) -> Option<Introduced> {
    let patience = gateway.0.settings.introduction;
    let text = tokio::select! {
        text = first_text(socket) => text?,
        () = tokio::time::sleep(patience) => {
            let words = "no join came in time: {\"type\":\"join\",\"space\":…,\"token\":…}";
            return Some(Err(Refusal::new("unauthorized", words)));
        }
        () = gateway.0.stopping.cancelled() => {
            return Some(Err(Refusal::new("unavailable", "the gateway is stopping")));
        }
    };
    let first = match message::join(&text) {
        Some(Ok(join)) => {
            asked.joined(join);
            None
        }
        Some(Err(error)) => return Some(Err(error.into())),
        None if gateway.authenticator().is_open() => {
            let from = Draft::read(&text).ok().and_then(|draft| draft.from);
            asked.participant = from.map(Into::into).or(asked.participant.take());
            Some(text)
        }
        None => {
            let words = "the first frame must be {\"type\":\"join\",\"space\":…,\"token\":…}";
            return Some(Err(Refusal::new("unauthorized", words)));
        }
    };
    let room = asked.room.clone().unwrap_or_else(|| crate::room::LOBBY.to_owned());
    let ticket = Ticket::issue(gateway, &room, asked).await.map_err(Denied::refusal);
    Some(ticket.map(|ticket| (ticket, first)))
}

async fn first_text<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
) -> Option<Utf8Bytes> {
    loop {
        match socket.next().await?.ok()? {
            Wired::Text(text) => return Some(text),
            Wired::Binary(bytes) => return Utf8Bytes::try_from(bytes).ok(),
            Wired::Close(_) => return None,
            _ => {}
        }
    }
}

/// Says why, and hangs up.
async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: WebSocketStream<S>,
    refusal: Refusal,
) {
    tracing::info!(error = refusal.error, reason = refusal.message, "a participant was refused");
    let code = match refusal.error {
        "unauthorized" => 4401,
        "unavailable" => 1013,
        _ => 4403,
    };
    let told = json!({
        "protocol": "mew/v0.4",
        "id": format!("refused-{}", toolpost::epoch_ms()),
        "ts": toolpost::timestamp(toolpost::epoch_ms()),
        "from": "system:gateway",
        "kind": "system/error",
        "payload": {
            "error": refusal.error,
            "message": refusal.message,
            "attempted_kind": "system/join",
        },
    });
    let saying = async {
        socket.feed(Wired::text(told.to_string())).await?;
        let goodbye = Goodbye::new(code, refusal.message);
        socket.close(Some(frame_of(&goodbye))).await?;
        // What the far end had under way is read: otherwise it might never see the reason.
        while let Some(Ok(_)) = socket.next().await {}
        Ok::<_, Error>(())
    };
    let _ = tokio::time::timeout(FAREWELL, saying).await;
}

/// Somebody who is in a room.
struct Participant {
    place: Place,
    /// The largest message in bytes.
    most: usize,
    room: String,
    id: String,
}

impl Participant {
    /// Hands on what is said, until there is nobody any more, or somebody who has to be told why not.
    async fn listen<S>(&self, stream: &mut SplitStream<WebSocketStream<S>>) -> Option<Goodbye>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        loop {
            let next = tokio::time::timeout(3 * PING, stream.next()).await;
            match next {
                Ok(Some(Ok(Wired::Text(text)))) => self.say(&text).await,
                Ok(Some(Ok(Wired::Binary(bytes)))) => match Utf8Bytes::try_from(bytes) {
                    Ok(text) => self.say(&text).await,
                    Err(_) => self.refused("a message is text in UTF-8").await,
                },
                Ok(Some(Err(Error::Capacity(_)))) => {
                    let words = format!("a message has at most {} bytes", self.most);
                    return Some(Goodbye::new(1009, words));
                }
                Ok(Some(Ok(Wired::Close(_)) | Err(_)) | None) => return None,
                Ok(Some(Ok(_))) => {}
                Err(_) => {
                    tracing::debug!(id = self.id, "a participant is not there any more");
                    return None;
                }
            }
        }
    }

    async fn say(&self, text: &Utf8Bytes) {
        if text.len() > self.most {
            let Self { most, .. } = self;
            let words = format!("a message has at most {most} bytes, and this has {}", text.len());
            return self.refuse(too_large(text, words)).await;
        }
        if let Some(frame) = message::stream_frame(text) {
            let frame =
                frame.map(|(stream, _)| Frame { stream: stream.into(), text: (**text).into() });
            return self.place.say(|connection| Input::Frame { connection, frame }).await;
        }
        // Some join once more although their token has told who they are.
        if memchr::memmem::find(text.as_bytes(), b"join\"").is_some()
            && let Some(join) = message::join(text)
        {
            return self.join_again(join).await;
        }
        let draft = Draft::read(text).map(Box::new);
        self.place.say(|connection| Input::Say { connection, draft }).await;
    }

    async fn join_again(&self, join: Result<message::Join, ReadError>) {
        let other =
            |said: &Option<Box<str>>, own: &str| said.as_ref().is_some_and(|it| &**it != own);
        match join {
            Ok(join) if other(&join.participant, &self.id) || other(&join.space, &self.room) => {
                let words = format!("you are `{}` in `{}` already", self.id, self.room);
                self.refuse(ReadError { error: "auth_violation", ..ReadError::new(words) }).await;
            }
            Ok(_) => {}
            Err(error) => self.refuse(error).await,
        }
    }

    async fn refused(&self, words: &str) {
        self.refuse(ReadError::new(words)).await;
    }

    async fn refuse(&self, error: ReadError) {
        self.place.say(|connection| Input::Say { connection, draft: Err(error) }).await;
    }
}

fn too_large(text: &str, words: String) -> ReadError {
    ReadError { error: "message_too_large", message: words, ..ReadError::about(text) }
}

/// Sends what there is for a participant, as much at once as waits, until one of both ends it.
async fn write<S>(sink: &mut SplitSink<WebSocketStream<S>, Wired>, mut inlet: Inlet)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let closed = inlet.closed();
    let mut ping = tokio::time::interval_at(Instant::now() + PING, PING);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = tokio::select! {
            biased;
            () = closed.cancelled() => break,
            text = inlet.next() => match text {
                Some(text) => Some(text),
                None => break,
            },
            _ = ping.tick() => None,
        };
        let sending = send(sink, &mut inlet, next);
        // Whoever reads nothing is not waited for once it is over.
        let sent = tokio::select! {
            biased;
            sent = sending => Some(sent),
            () = closed.cancelled() => None,
        };
        match sent {
            Some(Ok(())) => {}
            Some(Err(_)) => return,
            None => {
                // Nothing follows what was not sent.
                while inlet.waiting().is_some() {}
                break;
            }
        }
    }
    let _ = tokio::time::timeout(FAREWELL, say_goodbye(sink, inlet)).await;
}

async fn send<S>(
    sink: &mut SplitSink<WebSocketStream<S>, Wired>,
    inlet: &mut Inlet,
    first: Option<Utf8Bytes>,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some(first) = first else {
        return sink.send(Wired::Ping(Bytes::new())).await;
    };
    let mut bytes = first.len();
    sink.feed(Wired::Text(first)).await?;
    while bytes < TOGETHER
        && let Some(text) = inlet.waiting()
    {
        bytes += text.len();
        sink.feed(Wired::Text(text)).await?;
    }
    sink.flush().await
}

/// Sends what still waits, unless that is what it ends for, and the reason.
async fn say_goodbye<S>(sink: &mut SplitSink<WebSocketStream<S>, Wired>, mut inlet: Inlet)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let goodbye = inlet.goodbye();
    while goodbye.is_patient
        && let Some(text) = inlet.waiting()
    {
        if sink.feed(Wired::Text(text)).await.is_err() {
            return;
        }
    }
    let _ = sink.send(Wired::Close(Some(frame_of(&goodbye)))).await;
}

/// Says why to somebody who is still sending. What he sends is thrown away: otherwise he might never
/// see the reason.
async fn hang_up<S>(mut socket: WebSocketStream<S>, goodbye: &Goodbye)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let saying = async {
        socket.send(Wired::Close(Some(frame_of(goodbye)))).await?;
        let mut thrown_away = [0; 4 * 1024];
        while socket.get_mut().read(&mut thrown_away).await? > 0 {}
        Ok::<_, Error>(())
    };
    let _ = tokio::time::timeout(FAREWELL, saying).await;
}

/// A reason has at most 123 bytes.
fn frame_of(goodbye: &Goodbye) -> CloseFrame {
    let reason = &goodbye.reason[..goodbye.reason.floor_char_boundary(123)];
    CloseFrame { code: CloseCode::from(goodbye.code), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// He reads nothing until it is over, and what was on its way to him then is not sent any more.
    #[tokio::test]
    async fn nothing_follows_what_was_not_sent() {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let near = WebSocketStream::from_raw_socket(near, Role::Server, None).await;
        let mut far = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
        let (outlet, inlet) = way();
        for number in 0..200 {
            outlet.send(format!("{number} {}", "x".repeat(10_000)).into());
        }
        let (mut sink, _stream) = near.split();
        let mut writing = std::pin::pin!(write(&mut sink, inlet));
        assert!(futures::poll!(&mut writing).is_pending());
        outlet.close(Goodbye::new(1001, "it is over"));
        let reading = async {
            let mut heard = Vec::new();
            while let Some(Ok(Wired::Text(text))) = far.next().await {
                heard.push(text.split(' ').next().unwrap().parse::<usize>().unwrap());
            }
            heard
        };
        let ((), heard) = futures::join!(writing, reading);
        assert!(!heard.is_empty());
        assert_eq!(heard, (0..heard.len()).collect::<Vec<_>>());
    }
}
