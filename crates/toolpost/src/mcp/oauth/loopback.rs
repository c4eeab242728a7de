//! Receives the redirect of the browser on a local port.

use std::future::pending;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::time::timeout;
use url::Url;

use super::authorization::Authorizer;
use super::error::OAuthError;

/// Default time to wait for the user.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum time for one browser request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a request head in bytes.
const MAX_BYTES: usize = 32 * 1024;
/// Maximum number of requests read at once. Browsers open connections that they do not use.
const MAX_REQUESTS: usize = 16;

/// An [`Authorizer`] for a user on this machine.
///
/// It listens on 127.0.0.1, passes the authorization URL to a callback that shows it to the user,
/// and accepts the redirect with the matching state. Any other request to the port receives 404.
pub struct LoopbackAuthorizer {
    /// Locked during an authorization, so that only one runs at a time.
    listener: Mutex<TcpListener>,
    redirect_uri: Url,
    show_url: Box<dyn Fn(&Url) + Send + Sync>,
    timeout: Duration,
}

impl LoopbackAuthorizer {
    /// Listens on a port, or on a free one if `port` is 0. A pre-registered client needs the port
    /// of its registered redirect URI: `http://127.0.0.1:<port>/callback`.
    ///
    /// `show_url` receives each URL that the user must visit. It must not block.
    ///
    /// # Errors
    ///
    /// Returns an error if the port cannot be bound.
    pub async fn bind(
        port: u16,
        show_url: impl Fn(&Url) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        let redirect_uri =
            Url::parse(&format!("http://127.0.0.1:{port}/callback")).expect("a valid loopback URL");
        let (listener, show_url) = (Mutex::new(listener), Box::new(show_url));
        Ok(Self { listener, redirect_uri, show_url, timeout: DEFAULT_TIMEOUT })
    }

    /// Sets how long to wait for the user; the default is five minutes.
    #[must_use]
    pub fn with_timeout(mut self, deadline: Duration) -> Self {
        self.timeout = deadline;
        self
    }

    async fn wait_redirect(&self, listener: &TcpListener, state: &str) -> Result<Url, OAuthError> {
        let mut requests = FuturesUnordered::new();
        loop {
            let full = requests.len() >= MAX_REQUESTS;
            let accept = if full { pending().boxed() } else { listener.accept().boxed() };
            tokio::select! {
                accepted = accept => {
                    let (stream, _) = accepted.map_err(|error| OAuthError::Incomplete {
                        reason: format!("cannot accept connections: {error}"),
                    })?;
                    requests.push(timeout(REQUEST_TIMEOUT, self.handle_connection(stream, state)));
                }
                Some(served) = requests.next() => {
                    if let Ok(Ok(Some(redirect))) = served {
                        return Ok(redirect);
                    }
                }
            }
        }
    }

    /// Responds to one request; returns the redirect if it matches the state.
    async fn handle_connection(
        &self,
        mut stream: TcpStream,
        state: &str,
    ) -> io::Result<Option<Url>> {
        let head = read_head(&mut stream).await?;
        let redirect = self.parse_redirect(&head, state);
        let page = match &redirect {
            Some(url) if url.query_pairs().any(|(name, _)| name == "error") => PAGE_DENIED,
            Some(_) => PAGE_AUTHORIZED,
            None => PAGE_NOT_FOUND,
        };
        // The browser may have closed the connection already.
        let _ = stream.write_all(page.as_bytes()).await;
        let _ = stream.shutdown().await;
        Ok(redirect)
    }

    fn parse_redirect(&self, head: &str, state: &str) -> Option<Url> {
        let target = head.strip_prefix("GET ")?.split(' ').next()?;
        // Only this path is accepted: `//host/…` and absolute URLs would name another host.
        let query = target.strip_prefix("/callback?")?;
        let mut url = self.redirect_uri.clone();
        url.set_query(Some(query));
        let fits = url.query_pairs().any(|(name, value)| name == "state" && value == state);
        fits.then_some(url)
    }
}

impl Authorizer for LoopbackAuthorizer {
    fn redirect_uri(&self) -> Url {
        self.redirect_uri.clone()
    }

    fn authorize(&self, address: Url) -> BoxFuture<'_, Result<Url, OAuthError>> {
        async move {
            let listener = self.listener.lock().await;
            let state = address.query_pairs().find(|(name, _)| name == "state");
            let state = state.map(|(_, value)| value.into_owned()).unwrap_or_default();
            (self.show_url)(&address);
            let seconds = self.timeout.as_secs();
            timeout(self.timeout, self.wait_redirect(&listener, &state)).await.unwrap_or_else(
                |_| {
                    let reason = format!("no redirect within {seconds} seconds");
                    Err(OAuthError::Incomplete { reason })
                },
            )
        }
        .boxed()
    }
}

debug_fields!(authorizer: LoopbackAuthorizer, redirect_uri = authorizer.redirect_uri.as_str(), timeout = authorizer.timeout);

/// Reads the request line and the headers.
async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    while !head.windows(4).rev().take(buffer.len() + 4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut buffer).await?;
        if count == 0 || head.len() + count > MAX_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8(head).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// A fixed response that contains nothing from the request.
macro_rules! page {
    ($status:literal, $text:literal) => {
        concat!(
            "HTTP/1.1 ",
            $status,
            "\r\ncontent-type: text/html; charset=utf-8\r\ncache-control: no-store\r\n",
            "content-security-policy: default-src 'none'\r\nreferrer-policy: no-referrer\r\n",
            "x-content-type-options: nosniff\r\nconnection: close\r\n\r\n",
            "<!doctype html><title>Toolpost</title><p>",
            $text,
            "</p>\n",
        )
    };
}

const PAGE_AUTHORIZED: &str = page!("200 OK", "Authorized. You can close this window.");
const PAGE_DENIED: &str =
    page!("200 OK", "The authorization was denied. You can close this window.");
const PAGE_NOT_FOUND: &str = page!("404 Not Found", "Not found.");

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    async fn send_raw(address: &Url, text: &str) -> String {
        let port = address.port().unwrap();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut response = String::new();
        // The server aborts a request that is too long, which may reset the connection.
        let _ = stream.read_to_string(&mut response).await;
        response
    }

    #[tokio::test]
    async fn loopback_accepts_only_redirect_with_matching_state() {
        let (shown_sender, mut shown_urls) = tokio::sync::mpsc::unbounded_channel();
        let show_url = move |url: &Url| shown_sender.send(url.clone()).unwrap();
        let loopback = Arc::new(LoopbackAuthorizer::bind(0, show_url).await.unwrap());
        let redirect = loopback.redirect_uri();
        let authorize_url = Url::parse("https://as.example/authorize?state=s1").unwrap();
        let waiting = tokio::spawn({
            let (loopback, authorize_url) = (loopback.clone(), authorize_url.clone());
            async move { loopback.authorize(authorize_url).await }
        });
        assert_eq!(shown_urls.recv().await.unwrap(), authorize_url);
        let idle = TcpStream::connect((Ipv4Addr::LOCALHOST, redirect.port().unwrap())).await;

        let long = format!("GET /callback?state=s1&x={} HTTP/1.1\r\n\r\n", "x".repeat(MAX_BYTES));
        let rows = [
            ("GET /favicon.ico HTTP/1.1\r\n\r\n", "404"),
            ("GET /callback HTTP/1.1\r\n\r\n", "404"),
            ("GET /callback?state=other&code=c HTTP/1.1\r\n\r\n", "404"),
            ("POST /callback?state=s1&code=c HTTP/1.1\r\n\r\n", "404"),
            ("GET //evil.example/callback?state=s1 HTTP/1.1\r\n\r\n", "404"),
            ("GET http://evil.example/callback?state=s1 HTTP/1.1\r\n\r\n", "404"),
            ("\u{0}\u{1}\r\n\r\n", "404"),
            (&long, ""),
            ("GET /callback?state=s1&code=c HTTP/1.1\r\nhost: x\r\n\r\n", "200"),
        ];
        for (request, status) in rows {
            let response = send_raw(&redirect, request).await;
            assert!(response.get(9..).unwrap_or_default().starts_with(status), "{response}");
            assert!(!response.contains("s1"), "nothing is shown of what was sent");
        }
        let redirected = waiting.await.unwrap().unwrap();
        assert_eq!(redirected.as_str(), format!("{redirect}?state=s1&code=c"));
        drop(idle);
    }

    #[tokio::test(start_paused = true)]
    async fn loopback_authorize_times_out() {
        let loopback = LoopbackAuthorizer::bind(0, |_: &Url| {}).await.unwrap();
        let loopback = loopback.with_timeout(Duration::from_secs(7));
        let authorize_url = Url::parse("https://as.example/authorize?state=s1").unwrap();
        let error = loopback.authorize(authorize_url).await.unwrap_err();
        assert!(error.to_string().contains("within 7 seconds"), "{error}");
    }
}
