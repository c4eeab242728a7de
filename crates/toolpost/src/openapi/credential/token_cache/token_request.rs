//! One request to a token endpoint, limited in time and size. Redirects are not followed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::super::error::CredentialError;
use super::super::request_credential::basic_auth;
use super::super::settings::OAuth2Client;
use crate::protocol::Secret;

/// Timeout of a token request, including its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response body.
const MAX_RESPONSE_BYTES: usize = 256 * 1024;
/// Maximum length of a token. It is sent in a header of every request.
const MAX_TOKEN_BYTES: usize = 64 * 1024;
/// Maximum length of server text in an error message, in characters.
const MAX_EXCERPT: usize = 200;

/// A token request of one client for one scope.
pub(super) struct TokenRequest {
    http: reqwest::Client,
    client: OAuth2Client,
    url: Url,
    scope: String,
    /// Whether the server accepts the client secret only in the form, as found by an earlier
    /// request.
    uses_post_auth: AtomicBool,
}

/// A token issued by the authorization server.
pub(super) struct TokenGrant {
    pub(super) token: Secret,
    pub(super) lifetime: Option<Duration>,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: Option<String>,
    token_type: Option<String>,
    /// Lifetime in seconds. Some servers send it as a string.
    expires_in: Option<Value>,
    error: Option<String>,
    error_description: Option<String>,
}

impl TokenRequest {
    pub(super) fn new(
        http: reqwest::Client,
        client: OAuth2Client,
        url: Url,
        scope: String,
    ) -> Self {
        Self { http, client, url, scope, uses_post_auth: AtomicBool::new(false) }
    }

    /// Fetches a token. The client secret is sent with Basic authentication, or in the form if the
    /// server rejects that.
    pub(super) async fn fetch(&self) -> Result<TokenGrant, CredentialError> {
        if self.uses_post_auth.load(Ordering::Relaxed) {
            return self.send(ClientAuthMethod::Post).await;
        }
        match self.send(ClientAuthMethod::Basic).await {
            Err(CredentialError::Rejected { is_client_auth_error: true, .. }) => {}
            result => return result,
        }
        let granted = self.send(ClientAuthMethod::Post).await?;
        self.uses_post_auth.store(true, Ordering::Relaxed);
        Ok(granted)
    }

    async fn send(&self, auth_method: ClientAuthMethod) -> Result<TokenGrant, CredentialError> {
        let request = self.http.post(self.url.clone()).header(ACCEPT, "application/json");
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let mut request = request.timeout(REQUEST_TIMEOUT).body(self.form_body(auth_method));
        if auth_method == ClientAuthMethod::Basic {
            request = request.header(AUTHORIZATION, self.basic_auth_header()?);
        }
        let response = request.send().await.map_err(|error| self.unreachable_error(error))?;
        // The client is configured to not follow redirects; a response from another URL is rejected
        // in any case.
        if response.status().is_redirection() || *response.url() != self.url {
            return Err(self.invalid_response("it is a redirect", false));
        }
        let status = response.status();
        let body = self.read_body(response).await?;
        self.parse_response(status, &body)
    }

    fn form_body(&self, auth_method: ClientAuthMethod) -> String {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        if !self.scope.is_empty() {
            form.append_pair("scope", &self.scope);
        }
        for (name, value) in &self.client.parameters {
            form.append_pair(name, value);
        }
        if auth_method == ClientAuthMethod::Post {
            form.append_pair("client_id", &self.client.id);
            form.append_pair("client_secret", self.client.secret.reveal());
        }
        form.finish()
    }

    /// Returns the Basic header. Client id and secret are form-encoded first (RFC 6749, section
    /// 2.3.1).
    fn basic_auth_header(&self) -> Result<HeaderValue, CredentialError> {
        let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let text = basic_auth(&encode(&self.client.id), &encode(self.client.secret.reveal()));
        let mut value = HeaderValue::from_str(&text)
            .map_err(|_| self.invalid_response("the client does not fit a header", false))?;
        value.set_sensitive(true);
        Ok(value)
    }

    async fn read_body(&self, mut response: Response) -> Result<Vec<u8>, CredentialError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|it| self.unreachable_error(it))? {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                return Err(self.invalid_response(
                    &format!("it is larger than {MAX_RESPONSE_BYTES} bytes"),
                    false,
                ));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn parse_response(
        &self,
        status: StatusCode,
        body: &[u8],
    ) -> Result<TokenGrant, CredentialError> {
        let is_transient = status.is_server_error() || matches!(status.as_u16(), 408 | 429);
        let token_response: Option<TokenResponse> = serde_json::from_slice(body).ok();
        let rejection = token_response.as_ref().and_then(|token_response| {
            let description = token_response.error_description.as_ref();
            Some((token_response.error.as_ref()?, description.map(|it| format!(" ({it})"))))
        });
        match rejection {
            _ if is_transient => {
                Err(self.invalid_response(&format!("it has status {status}"), true))
            }
            // Some servers send errors with status 200.
            Some((error, description)) => {
                let non_auth_errors = ["invalid_scope", "invalid_target", "unsupported_grant_type"];
                let reason = format!("{error}{}", description.unwrap_or_default());
                Err(self.rejected(&reason, !non_auth_errors.contains(&error.as_str())))
            }
            None if status.is_client_error() => {
                Err(self.rejected(&format!("status {status}"), true))
            }
            None if status != StatusCode::OK => {
                Err(self.invalid_response(&format!("it has status {status}"), false))
            }
            None => self.parse_grant(token_response),
        }
    }

    fn parse_grant(
        &self,
        token_response: Option<TokenResponse>,
    ) -> Result<TokenGrant, CredentialError> {
        // Parser messages may quote the token, so they are not included.
        let invalid_response = |reason| self.invalid_response(reason, false);
        let token_response = token_response
            .ok_or_else(|| invalid_response("it is not the description of a token"))?;
        if token_response.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err(invalid_response("the token is not of the type Bearer"));
        }
        let token = token_response
            .access_token
            .ok_or_else(|| invalid_response("it has no access token"))?;
        let is_good = !token.is_empty()
            && token.len() <= MAX_TOKEN_BYTES
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_good {
            return Err(invalid_response("the access token does not fit a header"));
        }
        let life =
            token_response.expires_in.as_ref().and_then(parse_seconds).map(Duration::from_secs);
        Ok(TokenGrant { token: Secret::new(token), lifetime: life })
    }

    fn unreachable_error(&self, error: reqwest::Error) -> CredentialError {
        let source = Arc::new(error.without_url());
        CredentialError::Unreachable { address: redacted_url(&self.url), source }
    }

    fn invalid_response(&self, reason: &str, is_transient: bool) -> CredentialError {
        let (address, reason) = (redacted_url(&self.url), self.excerpt(reason));
        CredentialError::InvalidResponse { address, reason, is_transient }
    }

    fn rejected(&self, reason: &str, is_client_auth_error: bool) -> CredentialError {
        let (address, reason) = (redacted_url(&self.url), self.excerpt(reason));
        CredentialError::Rejected { address, reason, is_client_auth_error }
    }

    /// Shortens server text for error messages, and removes the client secret and control
    /// characters.
    fn excerpt(&self, text: &str) -> String {
        let secret = self.client.secret.reveal();
        let written: String = byte_serialize(secret.as_bytes()).collect();
        let mut text = text.to_owned();
        for secret in [secret, &written].into_iter().filter(|secret| !secret.is_empty()) {
            text = text.replace(secret, "…");
        }
        let printable = |one: char| if one.is_control() { '\u{fffd}' } else { one };
        text.chars().take(MAX_EXCERPT).map(printable).collect()
    }
}

/// How the client secret is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientAuthMethod {
    Basic,
    Post,
}

fn parse_seconds(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        // Fractions are truncated, and out-of-range numbers are clamped.
        other => other.as_f64().map(|seconds| seconds.clamp(0.0, 1e9) as u64),
    }
}

/// Formats a URL without user, password and query, which may contain secrets.
pub(super) fn redacted_url(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

impl std::fmt::Debug for TokenRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenRequest")
            .field("url", &redacted_url(&self.url))
            .finish_non_exhaustive()
    }
}
