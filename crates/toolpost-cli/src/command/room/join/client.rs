//! Client for a room: a WebSocket for live messages, HTTP for the history.

use std::fmt::Display;
use std::time::Duration;

use futures::SinkExt;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message as Frame};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use toolpost::http::{FetchLimits, client_builder, fetch};
use toolpost::protocol::Secret;
use toolpost::transport::{Connector, WsConnector};
use toolpost::{CallError, ClientTls};
use toolpost_gateway::DataDir;

use super::super::super::backend::{
    Credential, client_tls, connect_socket, connector, no_gateway, take_array,
};
use crate::arguments::JoinOptions;
use crate::error::CommandError;

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// A TCP connection or a Unix socket.
pub(super) trait RoomStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> RoomStream for S {}

pub(super) type RoomSocket = WebSocketStream<Box<dyn RoomStream>>;

#[derive(Debug)]
pub(super) struct RoomClient<'a> {
    options: &'a JoinOptions,
    /// The gateway at a URL; `None` for the gateway of the data folder.
    connector: Option<WsConnector>,
    /// Whether the gateway at the URL uses TLS.
    is_encrypted: bool,
    /// `host:port` of the gateway.
    authority: String,
    /// Path prefix of the gateway, empty if it is served at the root.
    base_path: String,
    /// Data folder of the gateway; `None` if it is at a URL.
    data: Option<DataDir>,
    token: Option<Secret>,
}

impl<'a> RoomClient<'a> {
    pub(super) fn new(options: &'a JoinOptions) -> Result<Self, CommandError> {
        let target = &options.target;
        let url = target.url();
        let data = match url {
            Some(_) => None,
            None => {
                let data = DataDir::open_existing(target.data.as_deref());
                Some(data.map_err(CommandError::usage)?)
            }
        };
        let token = target.token.as_ref();
        let credential = match &data {
            // With `--as`, the operator's token is not used.
            Some(data) if options.name.is_none() => Credential::for_operator(token, data)?,
            _ => Credential::explicit(token),
        };
        let token = credential.token;
        let connector = url.map(|url| connector(&url, token.clone(), &target.tls)).transpose()?;
        let (is_encrypted, authority, base_path) = match &connector {
            Some(connector) => split_target(&connector.target()),
            None => (false, "localhost".to_owned(), String::new()),
        };
        Ok(Self { options, connector, is_encrypted, authority, base_path, data, token })
    }

    /// Opens the WebSocket and sends the join frame with the room, the participant name and the
    /// token.
    pub(super) async fn join(&self) -> Result<RoomSocket, CommandError> {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let stream = self.open_stream().await?;
        let url = format!("ws://{}{}/ws", self.authority, self.base_path);
        let opening = async {
            match client_async_with_config(url, stream, Some(config)).await {
                Ok((socket, _)) => Ok(Ok(socket)),
                Err(Error::Http(response)) => {
                    let body = response.body().as_deref().unwrap_or_default();
                    Ok(Err(self.rejection(response.status(), body)))
                }
                Err(error) => Err(error),
            }
        };
        let mut socket = self.within_timeout(opening).await??;
        let JoinOptions { room, name, history, .. } = self.options;
        let mut join = json!({"type": "join", "space": &**room, "history": history});
        if let Some(name) = name {
            join["participantId"] = name.as_str().into();
        }
        if let Some(token) = &self.token {
            join["token"] = token.reveal().into();
        }
        self.within_timeout(socket.send(Frame::text(join.to_string()))).await?;
        Ok(socket)
    }

    async fn open_stream(&self) -> Result<Box<dyn RoomStream>, CommandError> {
        if let Some(data) = &self.data {
            let stream = connect_socket(data).await?.ok_or_else(|| no_gateway(data))?;
            return Ok(Box::new(stream));
        }
        let connector = self.connector.as_ref().expect("there is a URL or a data folder");
        Ok(Box::new(self.within_timeout(connector.open_stream()).await?))
    }

    pub(super) async fn history(&self, max: usize) -> Result<Vec<Value>, CommandError> {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        let url = format!(
            "{scheme}://{}{}/v0.1/topics/{}/history?limit={max}&protocol=mew/v0.4",
            self.authority, self.base_path, self.options.room
        );
        let tls: ClientTls = client_tls(&self.options.target.tls)?;
        let mut client = tls.configure(client_builder().no_proxy()).map_err(anyhow::Error::from)?;
        if let Some(data) = &self.data {
            client = client.unix_socket(data.socket_path());
        }
        let client = client.build().map_err(anyhow::Error::from)?;
        let mut request = client.get(url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.reveal());
        }
        let limits = FetchLimits { timeout: CONNECT_TIMEOUT, max_bytes: MAX_MESSAGE_BYTES };
        let response = self.within_timeout(fetch(request, limits)).await?;
        if response.status != StatusCode::OK {
            return Err(self.rejection(response.status, &response.body));
        }
        let mut page: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let mut messages = take_array(&mut page, "messages");
        messages.reverse();
        Ok(messages)
    }

    async fn within_timeout<T, E: Display>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, CommandError> {
        let reason = match tokio::time::timeout(CONNECT_TIMEOUT, work).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "timed out".to_owned(),
        };
        Err(CommandError::Unreachable(format!(
            "cannot connect to {}: {reason}; is `toolpost serve` running there?",
            self.authority
        )))
    }

    fn rejection(&self, status: StatusCode, body: &[u8]) -> CommandError {
        let problem: Value = serde_json::from_slice(body).unwrap_or_default();
        let detail =
            ["detail", "message", "title", "error"].iter().find_map(|key| problem[key].as_str());
        let message = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return access_denied(detail.unwrap_or("the gateway rejected the connection"));
            }
            StatusCode::NOT_FOUND => detail.unwrap_or("this gateway serves no rooms").to_owned(),
            status => {
                let detail = detail.unwrap_or("the room is not available");
                format!("{detail} (status {status})")
            }
        };
        CommandError::Unreachable(format!("{}: {message}", self.authority))
    }
}

pub(super) fn access_denied(message: &str) -> CommandError {
    let hint =
        "pass a token with --token or TOOLPOST_TOKEN, or a name with --as if the gateway is open";
    let error = CallError::access_denied(message.to_owned());
    CommandError::Call { error, hint: Some(hint.to_owned()) }
}

/// Splits the URL of a hub into whether it is encrypted, `host:port` and a path prefix.
fn split_target(target: &str) -> (bool, String, String) {
    let (scheme, address) = target.split_once("://").unwrap_or(("ws", target));
    let address = address.trim_end_matches('/');
    // `/hub` is the default endpoint path, not part of the prefix.
    let address = address.strip_suffix("/hub").unwrap_or(address);
    let (authority, base) = address.split_at(address.find('/').unwrap_or(address.len()));
    (scheme == "wss", authority.to_owned(), base.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_url_is_derived_from_hub_url() {
        for (url, is_encrypted, authority, base) in [
            ("ws://127.0.0.1:7411", false, "127.0.0.1:7411", ""),
            ("http://localhost:7411/", false, "localhost:7411", ""),
            ("ws://[::1]:7411/hub", false, "[::1]:7411", ""),
            ("ws://example.com/toolpost/hub", false, "example.com", "/toolpost"),
            ("wss://example.com/toolpost", true, "example.com", "/toolpost"),
            ("https://example.com/github/", true, "example.com", "/github"),
        ] {
            let expected = (is_encrypted, authority.to_owned(), base.to_owned());
            let target = WsConnector::new(url, None).unwrap().target();
            assert_eq!(split_target(&target), expected, "{url}");
        }
    }
}
