//! WebSocket client.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderMap, HeaderValue, Uri, header};
use tokio_util::either::Either;
use url::Url;

use super::{TextSocket, WsSettings, open_channel};
use crate::protocol::Secret;
use crate::tls::ClientTls;
use crate::transport::{Channel, ConnectError, Connector};

/// Path of the hub if the address has none.
const HUB_PATH: &str = "/hub";

/// Opens WebSocket connections to a hub, `ws://host:port/hub` or `wss://host/hub`.
#[derive(Debug, Clone)]
pub struct WsConnector(Arc<WsTarget>);

#[derive(Debug)]
struct WsTarget {
    uri: Uri,
    host: String,
    port: u16,
    /// Set for `wss://`.
    tls: Option<Arc<ClientConfig>>,
    token: Option<Secret>,
    settings: WsSettings,
}

/// A TCP connection, with or without TLS.
pub type WsStream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

impl WsConnector {
    /// Creates a connector for an address such as `ws://127.0.0.1:7411`.
    ///
    /// # Errors
    ///
    /// Returns [`ConnectError::InvalidAddress`] if the address is invalid.
    pub fn new(address: &str, token: Option<Secret>) -> Result<Self, ConnectError> {
        Self::with_settings(address, token, WsSettings::default())
    }

    /// Like [`WsConnector::new`], with custom settings.
    ///
    /// # Errors
    ///
    /// Returns [`ConnectError::InvalidAddress`] if the address is invalid.
    pub fn with_settings(
        address: &str,
        token: Option<Secret>,
        settings: WsSettings,
    ) -> Result<Self, ConnectError> {
        Self::with_tls(address, token, settings, &ClientTls::default())
    }

    /// Like [`WsConnector::with_settings`], with trusted certificates. Without encryption, a token is
    /// sent to this machine only, unless [`ClientTls::insecure`] is set.
    ///
    /// # Errors
    ///
    /// Returns [`ConnectError::InvalidAddress`] if the address or a certificate is invalid, or if the
    /// token would be sent to another machine without encryption.
    pub fn with_tls(
        address: &str,
        token: Option<Secret>,
        settings: WsSettings,
        tls: &ClientTls,
    ) -> Result<Self, ConnectError> {
        let bad =
            |reason: String| ConnectError::InvalidAddress { target: address.to_owned(), reason };
        let (uri, host, port) = parse(address).map_err(bad)?;
        if token.is_some() {
            let url = Url::parse(&uri.to_string()).map_err(|error| bad(error.to_string()))?;
            tls.check_credentials(&url).map_err(|error| bad(error.to_string()))?;
        }
        let is_encrypted = uri.scheme_str() == Some("wss");
        let tls = is_encrypted.then(|| tls.client_config()).transpose().map_err(bad)?;
        Ok(Self(Arc::new(WsTarget { uri, host, port, tls, token, settings })))
    }

    /// Opens a connection to the server, for another protocol than that of the hub.
    ///
    /// # Errors
    ///
    /// Returns [`ConnectError::Unreachable`] if the server cannot be reached in time, or if its
    /// certificate is not trusted.
    pub async fn open_stream(&self) -> Result<WsStream, ConnectError> {
        self.0.within_timeout(self.0.open_stream()).await
    }
}

impl Connector for WsConnector {
    fn connect(&self) -> BoxFuture<'static, Result<Channel, ConnectError>> {
        let target = Arc::clone(&self.0);
        async move { target.within_timeout(target.connect()).await }.boxed()
    }

    fn target(&self) -> String {
        self.0.uri.to_string()
    }
}

impl WsTarget {
    async fn connect(&self) -> Result<Channel, String> {
        let stream = self.open_stream().await?;
        Ok(handshake(stream, request(&self.uri, self.token.as_ref())?, self.settings).await?.0)
    }

    async fn open_stream(&self) -> Result<WsStream, String> {
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| error.to_string())?;
        // Without `TCP_NODELAY`, a small frame waits for a delayed acknowledgment.
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let Some(tls) = &self.tls else { return Ok(Either::Left(stream)) };
        let name = self.host.clone().try_into().map_err(|_| "the host is not a valid name")?;
        let connected = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
        Ok(Either::Right(Box::new(connected.map_err(|error| error.to_string())?)))
    }

    async fn within_timeout<T>(
        &self,
        connecting: impl Future<Output = Result<T, String>>,
    ) -> Result<T, ConnectError> {
        let connected = tokio::time::timeout(self.settings.connect_timeout, connecting).await;
        let connected = connected.unwrap_or_else(|_| Err("connect timeout".to_owned()));
        connected.map_err(|reason| ConnectError::unreachable(&self.uri.to_string(), reason))
    }
}

/// Opens a connection to the hub over a stream to a server, such as a Unix socket. Also returns the
/// headers of the response to the handshake.
///
/// # Errors
///
/// The peer is not a hub, or the stream fails or does not respond in time.
pub async fn connect_ws<S>(
    stream: S,
    token: Option<Secret>,
    settings: WsSettings,
) -> Result<(Channel, HeaderMap), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let uri = Uri::from_static("ws://localhost/hub");
    let opening = handshake(stream, request(&uri, token.as_ref())?, settings);
    let opened = tokio::time::timeout(settings.connect_timeout, opening).await;
    opened.unwrap_or_else(|_| Err("connect timeout".to_owned()))
}

async fn handshake<S>(
    stream: S,
    request: Request,
    settings: WsSettings,
) -> Result<(Channel, HeaderMap), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match client_async_with_config(request, stream, Some(settings.config())).await {
        Ok((stream, response)) => {
            let channel = open_channel(TextSocket::new(stream, settings), settings);
            Ok((channel, response.into_parts().0.headers))
        }
        Err(Error::Http(response)) => {
            Err(format!("not a hub: it responded with status {}", response.status()))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn request(uri: &Uri, token: Option<&Secret>) -> Result<Request, String> {
    let mut request = uri.clone().into_client_request().map_err(|error| error.to_string())?;
    if let Some(token) = token {
        let mut value =
            HeaderValue::from_str(&format!("Bearer {}", token.reveal())).map_err(|_| {
                "the token contains characters that are not allowed in a header".to_owned()
            })?;
        value.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, value);
    }
    Ok(request)
}

fn parse(address: &str) -> Result<(Uri, String, u16), String> {
    let (scheme, rest) = address
        .split_once("://")
        .ok_or_else(|| "expected a URL such as ws://127.0.0.1:7411".to_owned())?;
    let (scheme, default_port) = match scheme {
        "ws" | "http" => ("ws", 80),
        "wss" | "https" => ("wss", 443),
        other => return Err(format!("unsupported scheme `{other}`; use ws:// or wss://")),
    };
    let uri: Uri = format!("{scheme}://{rest}").parse().map_err(|error| format!("{error}"))?;
    let authority = uri.authority().ok_or_else(|| "the host is missing".to_owned())?;
    if authority.as_str().contains('@') {
        return Err("a token must not be part of the URL; pass it with --token".to_owned());
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = authority.port_u16().unwrap_or(default_port);
    let path = match uri.path() {
        "" | "/" => HUB_PATH,
        path => path,
    };
    let url = format!("{scheme}://{authority}{path}");
    Ok((url.parse().map_err(|error| format!("{error}"))?, host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ws_connector_parses_addresses() {
        let rows = [
            ("ws://127.0.0.1:7411", Ok(("ws://127.0.0.1:7411/hub", "127.0.0.1", 7411))),
            ("ws://localhost:7411/", Ok(("ws://localhost:7411/hub", "localhost", 7411))),
            ("http://localhost:7411", Ok(("ws://localhost:7411/hub", "localhost", 7411))),
            ("ws://[::1]:7411/other", Ok(("ws://[::1]:7411/other", "::1", 7411))),
            ("ws://hub.example", Ok(("ws://hub.example/hub", "hub.example", 80))),
            ("127.0.0.1:7411", Err("expected a URL such as")),
            ("wss://hub.example", Ok(("wss://hub.example/hub", "hub.example", 443))),
            ("https://hub.example:8443/x", Ok(("wss://hub.example:8443/x", "hub.example", 8443))),
            ("ftp://hub.example", Err("unsupported scheme")),
            ("ws://secret@hub.example", Err("must not be part of the URL")),
            ("ws://", Err("")),
            ("ws://a b", Err("")),
        ];
        for (address, expected) in rows {
            match (parse(address), expected) {
                (Ok((uri, host, port)), Ok(expected_parts)) => {
                    assert_eq!((uri.to_string().as_str(), host.as_str(), port), expected_parts);
                }
                (Err(reason), Err(expected_reason)) => {
                    assert!(reason.contains(expected_reason), "{address}: {reason}");
                }
                (parsed, _) => panic!("{address}: {parsed:?}"),
            }
        }
    }
}
