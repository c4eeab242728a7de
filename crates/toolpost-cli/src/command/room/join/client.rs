//! Client for a room: a WebSocket for live messages, HTTP for the history.

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
use toolpost::protocol::Secret;
use toolpost::transport::{Connector, WsConnector};

use crate::arguments::JoinOptions;
use crate::error::CommandError;
use crate::output;

/// Maximum time for the gateway to respond.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a received message.
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Address of a room and the credentials for it.
#[derive(Debug)]
pub(super) struct RoomClient {
    /// `host:port` of the gateway.
    authority: String,
    /// Path prefix of the gateway, empty if it is served at the root.
    base_path: String,
    room: String,
    token: Option<Secret>,
    /// Whether a rejected connection is also reported as JSON.
    is_json: bool,
}

impl RoomClient {
    /// Creates a client for the room in `options`.
    ///
    /// # Errors
    ///
    /// Returns an error if the address or the room name is invalid.
    pub(super) fn new(options: &JoinOptions, token: Option<Secret>) -> Result<Self, CommandError> {
        let is_json = output::wants_json(options.format.json);
        let (authority, base) = split_url(&options.target.url())?;
        validate_room_name(&options.room)?;
        Ok(Self { authority, base_path: base, room: options.room.clone(), token, is_json })
    }

    /// Joins with the token; `history` is the number of earlier messages to request.
    pub(super) async fn connect_with_token(
        &self,
        history: u16,
    ) -> Result<WebSocketStream<TcpStream>, CommandError> {
        let Self { authority, base_path: base, room, .. } = self;
        let address = format!("ws://{authority}{base}/ws?space={room}&history={history}");
        self.open_socket(&address, self.token.as_ref()).await
    }

    /// Opens the WebSocket without a token. The first frame identifies the participant.
    pub(super) async fn connect(&self) -> Result<WebSocketStream<TcpStream>, CommandError> {
        self.open_socket(&format!("ws://{}{}/ws", self.authority, self.base_path), None).await
    }

    async fn open_socket(
        &self,
        address: &str,
        token: Option<&Secret>,
    ) -> Result<WebSocketStream<TcpStream>, CommandError> {
        let request = upgrade_request(address, token)?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let stream = self.open_tcp().await?;
        let opening = client_async_with_config(request, stream, Some(config));
        match tokio::time::timeout(CONNECT_TIMEOUT, opening).await {
            Ok(Ok((socket, _))) => Ok(socket),
            Ok(Err(Error::Http(response))) => {
                let body = response.body().as_deref().unwrap_or_default();
                Err(self.rejection(response.status(), body))
            }
            Ok(Err(error)) => Err(self.unreachable(&error.to_string())),
            Err(_) => Err(self.unreachable("timed out")),
        }
    }

    async fn open_tcp(&self) -> Result<TcpStream, CommandError> {
        let uri: Option<Uri> = format!("ws://{}/", self.authority).parse().ok();
        let authority = uri.as_ref().and_then(Uri::authority);
        let host =
            authority.map_or("", |authority_part| authority_part.host()).trim_matches(['[', ']']);
        let port = authority.and_then(|authority_part| authority_part.port_u16()).unwrap_or(80);
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect((host, port)));
        let stream = match connecting.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(self.unreachable(&error.to_string())),
            Err(_) => return Err(self.unreachable("timed out")),
        };
        // Avoids the delay of small frames by Nagle's algorithm and delayed acknowledgements.
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Returns earlier messages, oldest first.
    pub(super) async fn history(&self, max: usize) -> Result<Vec<Value>, CommandError> {
        let path = format!(
            "{}/v0.1/topics/{}/history?limit={max}&protocol=mew/v0.4",
            self.base_path, self.room
        );
        let response = tokio::time::timeout(CONNECT_TIMEOUT, self.http_get(&path)).await;
        let (status, body) = response.map_err(|_| self.unreachable("timed out"))??;
        if status != StatusCode::OK {
            return Err(self.rejection(status, &body));
        }
        let page: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut messages = page["messages"].as_array().cloned().unwrap_or_default();
        messages.reverse();
        Ok(messages)
    }

    async fn http_get(&self, path: &str) -> Result<(StatusCode, Bytes), CommandError> {
        let disconnected = |error: hyper::Error| self.unreachable(&error.to_string());
        let stream = TokioIo::new(self.open_tcp().await?);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.map_err(disconnected)?;
        // The connection task ends with the response or when this future is dropped.
        let mut running = JoinSet::new();
        running.spawn(connection);
        let mut request = Request::get(path).header(header::HOST, &self.authority);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, bearer_header(token)?);
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|error| CommandError::Usage(error.to_string()))?;
        let response = sender.send_request(request).await.map_err(disconnected)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_MESSAGE_BYTES).collect().await;
        let body = body.map_err(|error| self.unreachable(&error.to_string()))?;
        Ok((status, body.to_bytes()))
    }

    fn unreachable(&self, why: &str) -> CommandError {
        let at = &self.authority;
        CommandError::Unreachable(format!(
            "cannot reach {at}: {why}; is `toolpost serve` running there?"
        ))
    }

    /// Converts a rejected request into a command error.
    fn rejection(&self, status: StatusCode, body: &[u8]) -> CommandError {
        let problem: Value = serde_json::from_slice(body).unwrap_or_default();
        let detail =
            ["detail", "message", "title", "error"].iter().find_map(|key| problem[key].as_str());
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                access_denied(detail.unwrap_or("the gateway rejected the connection"), self.is_json)
            }
            StatusCode::NOT_FOUND => {
                let detail = detail.unwrap_or("this gateway serves no rooms");
                CommandError::Unreachable(format!("{}: {detail}", self.authority))
            }
            status => {
                let detail = detail.unwrap_or("the room is not available now");
                CommandError::Unreachable(format!("{}: {detail} (status {status})", self.authority))
            }
        }
    }
}

/// Returns the error for a connection that the gateway rejected.
pub(super) fn access_denied(message: &str, json: bool) -> CommandError {
    let hint =
        "pass a token with --token or TOOLPOST_TOKEN, or a name with --as if the gateway is open";
    CommandError::Call {
        error: CallError::access_denied(message.to_owned()),
        hint: Some(hint.to_owned()),
        json,
    }
}

/// Splits a gateway URL into `host:port` and a path prefix.
fn split_url(url: &str) -> Result<(String, String), CommandError> {
    let connector = WsConnector::new(url, None);
    let target = connector.map_err(|error| CommandError::Usage(error.to_string()))?.target();
    let address = target.trim_start_matches("ws://").trim_end_matches('/');
    // `/hub` is the default endpoint path, not part of the prefix.
    let address = address.strip_suffix("/hub").unwrap_or(address);
    let (authority, base) = address.split_at(address.find('/').unwrap_or(address.len()));
    Ok((authority.to_owned(), base.to_owned()))
}

fn validate_room_name(room: &str) -> Result<(), CommandError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !room.is_empty() && room.len() <= 64 && room.chars().all(is_name) {
        return Ok(());
    }
    let message = "a room name has 1 to 64 letters, digits, `-`, `_` and `.`";
    Err(CommandError::Usage(message.to_owned()))
}

fn upgrade_request(
    address: &str,
    token: Option<&Secret>,
) -> Result<handshake::client::Request, CommandError> {
    let mut request =
        address.into_client_request().map_err(|error| CommandError::Usage(error.to_string()))?;
    if let Some(token) = token {
        request.headers_mut().insert(header::AUTHORIZATION, bearer_header(token)?);
    }
    Ok(request)
}

fn bearer_header(token: &Secret) -> Result<HeaderValue, CommandError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.reveal())).map_err(|_| {
        CommandError::Usage("the token has characters that no header can hold".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_url_is_derived_from_hub_url() {
        for (url, authority, base) in [
            ("ws://127.0.0.1:7411", "127.0.0.1:7411", ""),
            ("http://localhost:7411/", "localhost:7411", ""),
            ("ws://[::1]:7411/hub", "[::1]:7411", ""),
            ("ws://example.com/toolpost/hub", "example.com", "/toolpost"),
            ("ws://example.com/toolpost", "example.com", "/toolpost"),
            ("ws://example.com/github/", "example.com", "/github"),
        ] {
            let expected = (authority.to_owned(), base.to_owned());
            assert_eq!(split_url(url).unwrap(), expected, "{url}");
        }
        assert!(matches!(split_url("127.0.0.1"), Err(CommandError::Usage(_))));
        for (room, is_room) in [("lobby", true), ("a-b_c.9", true), ("", false), ("a/b", false)] {
            assert_eq!(validate_room_name(room).is_ok(), is_room, "{room}");
        }
    }
}
