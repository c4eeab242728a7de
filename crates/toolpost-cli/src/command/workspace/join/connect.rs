//! The way into a room: a WebSocket for what is said, plain HTTP for what was.

use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Uri, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, handshake};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use toolpost::CallError;
use toolpost::link::{Connector, WsConnector};
use toolpost::protocol::Secret;

use crate::arguments::JoinOptions;
use crate::failure::Failure;
use crate::output;

/// How long a gateway may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The largest message that is taken.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Where a room is, and what we show there.
#[derive(Debug)]
pub(super) struct Door {
    /// `host:port`, as it stands in an address.
    authority: String,
    /// What stands before every path, where a gateway is not at the root.
    base: String,
    room: String,
    token: Option<Secret>,
    /// Whether programs read why we are not let in.
    is_plain: bool,
}

impl Door {
    /// # Errors
    ///
    /// The address is none, or the room has a name that no room can have.
    pub(super) fn new(options: &JoinOptions, token: Option<Secret>) -> Result<Self, Failure> {
        let is_plain = output::is_plain(options.format.json);
        let (authority, base) = place(&options.running.url())?;
        check_room(&options.room)?;
        Ok(Self { authority, base, room: options.room.clone(), token, is_plain })
    }

    /// Comes in by what we show; `history` is how many messages we want to see.
    pub(super) async fn enter(&self, history: u16) -> Result<WebSocketStream<TcpStream>, Failure> {
        let Self { authority, base, room, .. } = self;
        let address = format!("ws://{authority}{base}/ws?space={room}&history={history}");
        self.open(&address, self.token.as_ref()).await
    }

    /// Comes to the door without a word; who we are is said in the first frame.
    pub(super) async fn knock(&self) -> Result<WebSocketStream<TcpStream>, Failure> {
        self.open(&format!("ws://{}{}/ws", self.authority, self.base), None).await
    }

    async fn open(
        &self,
        address: &str,
        token: Option<&Secret>,
    ) -> Result<WebSocketStream<TcpStream>, Failure> {
        let request = upgrade(address, token)?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MOST_BYTES))
            .max_frame_size(Some(MOST_BYTES));
        let stream = self.reach().await?;
        let opening = client_async_with_config(request, stream, Some(config));
        match tokio::time::timeout(PATIENCE, opening).await {
            Ok(Ok((socket, _))) => Ok(socket),
            Ok(Err(Error::Http(response))) => {
                let body = response.body().as_deref().unwrap_or_default();
                Err(self.refused(response.status(), body))
            }
            Ok(Err(error)) => Err(self.unreachable(&error.to_string())),
            Err(_) => Err(self.unreachable("it took too long")),
        }
    }

    async fn reach(&self) -> Result<TcpStream, Failure> {
        let uri: Option<Uri> = format!("ws://{}/", self.authority).parse().ok();
        let authority = uri.as_ref().and_then(Uri::authority);
        let host = authority.map_or("", |it| it.host()).trim_matches(['[', ']']);
        let port = authority.and_then(|it| it.port_u16()).unwrap_or(80);
        let connecting = tokio::time::timeout(PATIENCE, TcpStream::connect((host, port)));
        let stream = match connecting.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(self.unreachable(&error.to_string())),
            Err(_) => return Err(self.unreachable("it took too long")),
        };
        // Without it a small frame waits for an acknowledgement that is itself delayed.
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// What was said before, oldest first.
    pub(super) async fn history(&self, most: usize) -> Result<Vec<Value>, Failure> {
        let path = format!(
            "{}/v0.1/topics/{}/history?limit={most}&protocol=mew/v0.4",
            self.base, self.room
        );
        let answer = tokio::time::timeout(PATIENCE, self.get(&path)).await;
        let (status, body) = answer.map_err(|_| self.unreachable("it took too long"))??;
        if status != StatusCode::OK {
            return Err(self.refused(status, &body));
        }
        let page: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut messages = page["messages"].as_array().cloned().unwrap_or_default();
        messages.reverse();
        Ok(messages)
    }

    async fn get(&self, path: &str) -> Result<(StatusCode, Bytes), Failure> {
        let lost = |error: hyper::Error| self.unreachable(&error.to_string());
        let stream = TokioIo::new(self.reach().await?);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.map_err(lost)?;
        // It ends with the answer, or with us.
        let mut running = JoinSet::new();
        running.spawn(connection);
        let mut request = Request::get(path).header(header::HOST, &self.authority);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, bearer(token)?);
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|error| Failure::Usage(error.to_string()))?;
        let response = sender.send_request(request).await.map_err(lost)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(|error| self.unreachable(&error.to_string()))?;
        Ok((status, body.to_bytes()))
    }

    fn unreachable(&self, why: &str) -> Failure {
        let at = &self.authority;
        Failure::Unreachable(format!(
            "cannot reach {at}: {why}; is `toolpost serve` running there?"
        ))
    }

    /// What a gateway says that does not let us in.
    fn refused(&self, status: StatusCode, body: &[u8]) -> Failure {
        let problem: Value = serde_json::from_slice(body).unwrap_or_default();
        let words =
            ["detail", "message", "title", "error"].iter().find_map(|it| problem[it].as_str());
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                denied(words.unwrap_or("the gateway does not let us in"), self.is_plain)
            }
            StatusCode::NOT_FOUND => {
                let words = words.unwrap_or("there is no workspace");
                Failure::Unreachable(format!("{}: {words}", self.authority))
            }
            status => {
                let words = words.unwrap_or("it cannot be entered now");
                Failure::Unreachable(format!("{}: {words} (status {status})", self.authority))
            }
        }
    }
}

/// What to print where the gateway does not let us in.
pub(super) fn denied(words: &str, json: bool) -> Failure {
    let hint =
        "give a token with --token or TOOLPOST_TOKEN; where none is needed, a name with --as";
    Failure::Call {
        error: CallError::access_denied(words.to_owned()),
        hint: Some(hint.to_owned()),
        json,
    }
}

/// Where a gateway is: `host:port`, and what stands before its paths.
fn place(url: &str) -> Result<(String, String), Failure> {
    let connector = WsConnector::new(url, None);
    let target = connector.map_err(|error| Failure::Usage(error.to_string()))?.target();
    let place = target.trim_start_matches("ws://").trim_end_matches('/');
    // What is the hub by default is not part of where the gateway is.
    let place = place.strip_suffix("/hub").unwrap_or(place);
    let (authority, base) = place.split_at(place.find('/').unwrap_or(place.len()));
    Ok((authority.to_owned(), base.to_owned()))
}

fn check_room(room: &str) -> Result<(), Failure> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !room.is_empty() && room.len() <= 64 && room.chars().all(is_name) {
        return Ok(());
    }
    let words = "the name of a room has 1 to 64 letters, digits, `-`, `_` and `.`";
    Err(Failure::Usage(words.to_owned()))
}

fn upgrade(address: &str, token: Option<&Secret>) -> Result<handshake::client::Request, Failure> {
    let mut request =
        address.into_client_request().map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(token) = token {
        request.headers_mut().insert(header::AUTHORIZATION, bearer(token)?);
    }
    Ok(request)
}

fn bearer(token: &Secret) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.reveal())).map_err(|_| {
        Failure::Usage("the token has characters that no header can hold".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_found_beside_the_hub() {
        for (url, authority, base) in [
            ("ws://127.0.0.1:7411", "127.0.0.1:7411", ""),
            ("http://localhost:7411/", "localhost:7411", ""),
            ("ws://[::1]:7411/hub", "[::1]:7411", ""),
            ("ws://example.com/toolpost/hub", "example.com", "/toolpost"),
            ("ws://example.com/toolpost", "example.com", "/toolpost"),
            ("ws://example.com/github/", "example.com", "/github"),
        ] {
            let expected = (authority.to_owned(), base.to_owned());
            assert_eq!(place(url).unwrap(), expected, "{url}");
        }
        assert!(matches!(place("127.0.0.1"), Err(Failure::Usage(_))));
        for (room, is_room) in [("lobby", true), ("a-b_c.9", true), ("", false), ("a/b", false)] {
            assert_eq!(check_room(room).is_ok(), is_room, "{room}");
        }
    }
}
