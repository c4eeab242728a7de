//! Authorization of HTTP requests: configured headers, a bearer token, or OAuth.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Response, StatusCode};

use super::root_cause;
use url::Url;

use crate::loopback::LoopbackClient;
use crate::mcp::error::RequestError;
use crate::mcp::oauth::{MemoryStore, OAuth, OAuthError};
use crate::mcp::settings::HttpSettings;
use crate::mcp::source::OAuthHooks;
use crate::tls::{ClientTls, is_loopback};

/// Maximum time to establish a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of times one request is sent, including the first attempt.
const MAX_AUTH_ATTEMPTS: usize = 3;

/// How a connection authenticates.
#[derive(Debug)]
pub(super) enum HttpAuth {
    /// Configured headers, or none.
    Static,
    /// Tokens from an authorization server.
    OAuth(OAuth),
}

impl HttpAuth {
    pub(super) fn new(client: reqwest::Client, http: &HttpSettings, oauth: &OAuthHooks) -> Self {
        let is_given = |name: &str| name.eq_ignore_ascii_case(AUTHORIZATION.as_str());
        if http.bearer.is_some() || http.headers.keys().any(|name| is_given(name)) {
            return Self::Static;
        }
        let store = oauth.credentials.clone().unwrap_or_else(|| Arc::new(MemoryStore::default()));
        let (url, settings) = (http.url.clone(), http.oauth.clone());
        Self::OAuth(OAuth::new(client, url, settings, store, oauth.authorizer.clone()))
    }

    /// Waits until requests to an authorization server have completed and their results are stored.
    pub(super) async fn close(&self) {
        if let Self::OAuth(oauth) = self {
            oauth.close().await;
        }
    }

    /// Sends a request, and sends it again with a new token after an authorization challenge.
    pub(super) async fn send(
        &self,
        request: impl Fn() -> RequestBuilder,
        loopback: Option<&LoopbackClient>,
    ) -> Result<Response, RequestError> {
        let Self::OAuth(oauth) = self else {
            let response = send_request(request(), loopback).await?;
            return match response.status() {
                StatusCode::UNAUTHORIZED => {
                    let message = "the server rejected the configured token or header";
                    Err(RequestError::Unauthorized(message.to_owned()))
                }
                _ => Ok(response),
            };
        };
        let rejected = |error: OAuthError| {
            RequestError::Unauthorized(format!(
                "the server requires authorization, which failed: {error}; if it takes a key, set \
                 `bearer` or `headers` of the source"
            ))
        };
        let mut token = oauth.token().await.map_err(rejected)?;
        for attempt in 1.. {
            let request = match &token {
                Some(token) => request().bearer_auth(token.reveal()),
                None => request(),
            };
            let response = send_request(request, loopback).await?;
            if attempt == MAX_AUTH_ATTEMPTS || !is_challenge(&response) {
                return Ok(response);
            }
            let challenge = challenge_header(&response);
            let status = response.status().as_u16();
            let given = oauth.handle_challenge(status, Some(&challenge), token.as_ref()).await;
            token = Some(given.map_err(rejected)?);
        }
        unreachable!("the last attempt returns");
    }
}

/// Whether the response is a 401, or a 403 with `insufficient_scope`.
fn is_challenge(response: &Response) -> bool {
    match response.status() {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::FORBIDDEN => challenge_header(response).contains("insufficient_scope"),
        _ => false,
    }
}

/// Returns the `WWW-Authenticate` headers, joined as one list.
fn challenge_header(response: &Response) -> String {
    let all = response.headers().get_all(WWW_AUTHENTICATE).iter();
    let all: Vec<_> = all.filter_map(|value| value.to_str().ok()).collect();
    all.join(", ")
}

async fn send_request(
    request: RequestBuilder,
    loopback: Option<&LoopbackClient>,
) -> Result<Response, RequestError> {
    let (client, request) = request.build_split();
    let mut request = request.map_err(|error| RequestError::unreachable(error.to_string()))?;
    if let Some((loopback, again)) = loopback.zip(request.try_clone()) {
        let loopback_request = hyper::Request::try_from(request);
        let loopback_request =
            loopback_request.map_err(|error| RequestError::unreachable(error.to_string()))?;
        let response =
            Response::from(loopback.send(loopback_request).await?.map(reqwest::Body::wrap));
        // A server that redirects has not executed the request. The regular client retries it.
        if !response.status().is_redirection() {
            return Ok(response);
        }
        request = again;
    }
    client.execute(request).await.map_err(|error| RequestError::Disconnected {
        message: match error.is_connect() {
            true => format!("the server cannot be reached: {}", root_cause(&error)),
            false => root_cause(&error),
        },
        sent: !error.is_connect(),
    })
}

/// Builds the client for the server and the client for its authorization servers.
pub(super) fn build_clients(
    server: &Url,
    tls: &ClientTls,
) -> reqwest::Result<[reqwest::Client; 2]> {
    // Fails if the embedding program has already installed a provider, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Credentials belong to one origin, so redirects to another origin are not followed.
    let same_origin = Policy::custom(|attempt| {
        let from = attempt.previous().last().map(Url::origin);
        match from == Some(attempt.url().origin()) && attempt.previous().len() < 5 {
            true => attempt.follow(),
            false => attempt.stop(),
        }
    });
    // A server on a loopback address is contacted without a proxy.
    let is_local = is_loopback(server);
    Ok([build_client(same_origin, is_local, tls)?, build_client(Policy::none(), is_local, tls)?])
}

fn build_client(
    redirects: Policy,
    is_local: bool,
    tls: &ClientTls,
) -> reqwest::Result<reqwest::Client> {
    let builder = tls.configure(reqwest::Client::builder())?;
    let builder = if is_local { builder.no_proxy() } else { builder };
    builder
        .redirect(redirects)
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .pool_idle_timeout(Duration::from_secs(60))
        .user_agent(concat!("toolpost/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Returns the headers from the settings, including the static bearer token. Each may be a
/// credential, so none is sent to another machine without encryption.
pub(super) fn configured_headers(http: &HttpSettings) -> Result<HeaderMap, RequestError> {
    let invalid_header =
        |name: &str| RequestError::unreachable(format!("`{name}` is not a valid header"));
    if http.has_credentials() {
        let checked = http.tls.check_credentials(&http.url);
        checked.map_err(|error| RequestError::unreachable(error.to_string()))?;
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &http.headers {
        let mut value = HeaderValue::from_str(value.reveal()).map_err(|_| invalid_header(name))?;
        value.set_sensitive(true);
        headers.insert(
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid_header(name))?,
            value,
        );
    }
    if let Some(bearer) = &http.bearer {
        let value = HeaderValue::from_str(&format!("Bearer {}", bearer.reveal()));
        let mut value = value.map_err(|_| invalid_header("bearer"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}
