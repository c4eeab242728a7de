//! Requests to an OAuth 2.0 token endpoint (RFC 6749).

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::http::{FetchError, FetchLimits, excerpt, fetch};
use crate::protocol::Secret;

const LIMITS: FetchLimits = FetchLimits { timeout: Duration::from_secs(30), max_bytes: 256 * 1024 };
/// Maximum length of a token in bytes; every request carries it in a header.
const MAX_TOKEN_BYTES: usize = 64 * 1024;

/// A request for tokens.
pub(crate) struct TokenRequest<'a> {
    pub(crate) url: &'a Url,
    pub(crate) client_id: &'a str,
    pub(crate) client_secret: Option<&'a Secret>,
    pub(crate) auth_method: AuthMethod,
    /// The grant and its parameters.
    pub(crate) form: Vec<(&'a str, &'a str)>,
}

/// Client authentication method at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthMethod {
    Basic,
    Post,
    None,
}

impl AuthMethod {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::None => "none",
        }
    }
}

/// Tokens issued by the authorization server.
#[derive(Debug)]
pub(crate) struct IssuedTokens {
    pub(crate) access: Secret,
    pub(crate) refresh: Option<Secret>,
    pub(crate) scope: Option<String>,
    pub(crate) lifetime: Option<Duration>,
}

/// Why no tokens were issued. The message is appended to the endpoint and contains no secrets.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("does not respond")]
    Unreachable(#[source] Arc<FetchError>),
    #[error("returned an invalid response: {0}")]
    Invalid(String),
    #[error("rejected the request: status {0}")]
    RejectedStatus(StatusCode),
    #[error("returned an invalid response: it has status {0}")]
    Status(StatusCode),
    #[error("rejected the request: {code}{}", .description.as_ref().map(|it| format!(" ({it})")).unwrap_or_default())]
    Rejected { code: String, description: Option<String> },
}

impl TokenError {
    /// Whether a later attempt can succeed without a configuration change.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Status(status) => is_transient(*status),
            _ => false,
        }
    }

    fn invalid(reason: &str) -> Self {
        Self::Invalid(reason.to_owned())
    }

    /// Returns the error of a response, with the error code if there is one. Some servers send
    /// errors with status 200.
    pub(crate) fn from_response(status: StatusCode, body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct ErrorResponse {
            error: String,
            error_description: Option<String>,
        }
        if is_transient(status) {
            return Some(Self::Status(status));
        }
        match serde_json::from_slice::<ErrorResponse>(body) {
            Ok(response) => Some(Self::Rejected {
                code: excerpt(&response.error),
                description: response.error_description.as_deref().map(excerpt),
            }),
            Err(_) if status.is_client_error() => Some(Self::RejectedStatus(status)),
            Err(_) => (!status.is_success()).then_some(Self::Status(status)),
        }
    }

    /// Removes the client secret, which a server may echo.
    fn without(mut self, secret: Option<&Secret>) -> Self {
        let Some(secret) = secret.filter(|secret| !secret.reveal().is_empty()) else { return self };
        if let Self::Rejected { code, description } = &mut self {
            for text in std::iter::once(code).chain(description) {
                *text = text.replace(secret.reveal(), "…");
                *text = text.replace(&form_encoded(secret.reveal()), "…");
            }
        }
        self
    }
}

impl From<FetchError> for TokenError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::TooLarge(_)
            | FetchError::UncheckedRedirect
            | FetchError::RejectedRedirect => Self::Invalid(error.to_string()),
            error => Self::Unreachable(Arc::new(error)),
        }
    }
}

impl TokenRequest<'_> {
    /// Sends the request. `http` must not follow redirects.
    pub(crate) async fn send(&self, http: &Client) -> Result<IssuedTokens, TokenError> {
        let response = fetch(self.build(http), LIMITS).await?;
        if response.status.is_redirection() {
            return Err(FetchError::RejectedRedirect.into());
        }
        parse_tokens(response.status, &response.body)
            .map_err(|error| error.without(self.client_secret))
    }

    /// Form-encodes the id and the secret for Basic authentication (section 2.3.1).
    fn build(&self, http: &Client) -> RequestBuilder {
        let mut form = Serializer::new(String::new());
        form.extend_pairs(&self.form);
        let request = http.post(self.url.clone()).header(ACCEPT, "application/json");
        let mut request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        match (self.auth_method, self.client_secret) {
            (AuthMethod::Basic, Some(secret)) => {
                let secret = form_encoded(secret.reveal());
                request = request.basic_auth(form_encoded(self.client_id), Some(secret));
            }
            (AuthMethod::Post, Some(secret)) => {
                form.append_pair("client_secret", secret.reveal());
            }
            _ => {}
        }
        request.body(form.finish())
    }
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: Option<String>,
    token_type: Option<String>,
    /// Some servers send the number as a string.
    expires_in: Option<Value>,
    refresh_token: Option<String>,
    scope: Option<String>,
}

fn parse_tokens(status: StatusCode, body: &[u8]) -> Result<IssuedTokens, TokenError> {
    if let Some(error) = TokenError::from_response(status, body) {
        return Err(error);
    }
    if status != StatusCode::OK {
        return Err(TokenError::Status(status));
    }
    // Parser errors may quote the token.
    let parsed: TokenResponse = serde_json::from_slice(body)
        .map_err(|_| TokenError::invalid("it is not a token response"))?;
    let access =
        parsed.access_token.ok_or_else(|| TokenError::invalid("it has no access token"))?;
    let fits_header = !access.is_empty()
        && access.len() <= MAX_TOKEN_BYTES
        && access.bytes().all(|byte| byte.is_ascii_graphic());
    if !fits_header {
        return Err(TokenError::invalid("the access token is not a valid header value"));
    }
    if parsed.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(TokenError::invalid("the token is not of the type Bearer"));
    }
    let refresh = parsed.refresh_token.filter(|token| !token.is_empty());
    Ok(IssuedTokens {
        access: Secret::new(access),
        refresh: refresh.map(Secret::new),
        scope: parsed.scope,
        lifetime: parsed.expires_in.as_ref().and_then(parse_seconds),
    })
}

/// Parses a lifetime. Fractions are truncated, and numbers out of range are clamped.
fn parse_seconds(value: &Value) -> Option<Duration> {
    let seconds: f64 = match value {
        Value::String(text) => text.trim().parse().ok()?,
        other => other.as_f64()?,
    };
    Some(Duration::from_secs(seconds.clamp(0.0, 1e9) as u64))
}

fn is_transient(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 429)
}

fn form_encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::AUTHORIZATION;
    use serde_json::json;

    #[test]
    fn token_request_authenticates_client_by_method() {
        let url = Url::parse("https://as.example/token").unwrap();
        let http = crate::http::client_builder().build().unwrap();
        let secret = Secret::new("ü%");
        let start = "grant_type=refresh_token&refresh_token=r+t";
        for (auth_method, client_secret, end, expected) in [
            (AuthMethod::None, None, "", None),
            (AuthMethod::Basic, None, "", None),
            (AuthMethod::Post, Some(&secret), "&client_secret=%C3%BC%25", None),
            (AuthMethod::None, Some(&secret), "", None),
            // `a%3Ab+c:%C3%BC%25`
            (AuthMethod::Basic, Some(&secret), "", Some("Basic YSUzQWIrYzolQzMlQkMlMjU=")),
        ] {
            let form = vec![("grant_type", "refresh_token"), ("refresh_token", "r t")];
            let request =
                TokenRequest { url: &url, client_id: "a:b c", client_secret, auth_method, form };
            let request = request.build(&http).build().unwrap();
            let body = request.body().unwrap().as_bytes().unwrap();
            assert_eq!(body, format!("{start}{end}").as_bytes());
            let header = request.headers().get(AUTHORIZATION);
            assert_eq!(header.map(|value| value.to_str().unwrap()), expected, "{auth_method:?}");
            assert!(header.is_none_or(|value| value.is_sensitive()));
        }
    }

    #[test]
    fn token_response_yields_tokens_or_error_without_secrets() {
        let long = "x".repeat(MAX_TOKEN_BYTES + 1);
        let rows = [
            (200, json!({"access_token": "hunter2", "token_type": "bearer"}), Ok(None)),
            (200, json!({"access_token": "hunter2", "expires_in": 60}), Ok(Some(60))),
            (200, json!({"access_token": "hunter2", "expires_in": "60"}), Ok(Some(60))),
            (200, json!({"access_token": "hunter2", "expires_in": 1.5}), Ok(Some(1))),
            (200, json!({"access_token": "hunter2", "expires_in": -5}), Ok(Some(0))),
            (200, json!({"access_token": "hunter2", "expires_in": []}), Ok(None)),
            (200, json!({"access_token": "hunter2", "token_type": "DPoP"}), Err("type Bearer")),
            (200, json!({"access_token": ["hunter2"]}), Err("not a token response")),
            (200, json!({"access_token": "hunter2\r\nx: y"}), Err("not a valid header value")),
            (200, json!({"access_token": long}), Err("not a valid header value")),
            (200, json!({"access_token": ""}), Err("not a valid header value")),
            (200, json!({"refresh_token": "hunter2"}), Err("no access token")),
            (200, json!({"error": "bad_verification_code"}), Err("bad_verification_code")),
            (200, json!("hunter2"), Err("not a token response")),
            (204, json!("hunter2"), Err("status 204")),
            (
                400,
                json!({"error": "invalid_grant", "error_description": "x\ny s%26t s&t"}),
                Err("(x\u{fffd}y … …)"),
            ),
            (400, json!({"access_token": "hunter2"}), Err("status 400")),
            (503, json!({"error": "x"}), Err("status 503")),
        ];
        for (status, body, expected) in rows {
            let body = body.to_string();
            let parsed = parse_tokens(StatusCode::from_u16(status).unwrap(), body.as_bytes());
            match (parsed, expected) {
                (Ok(tokens), Ok(seconds)) => {
                    assert_eq!(tokens.lifetime.map(|life| life.as_secs()), seconds, "{body}");
                    assert!(!format!("{tokens:?}").contains("hunter2"));
                }
                (Err(error), Err(expected_message)) => {
                    let error = error.without(Some(&Secret::new("s&t")));
                    let rendered = format!("{error} {error:?}");
                    assert!(error.to_string().contains(expected_message), "{error}");
                    assert!(!rendered.contains("hunter2"), "{rendered}");
                    assert_eq!(error.is_transient(), status == 503);
                }
                (result, _) => panic!("{body}: {result:?}"),
            }
        }
    }
}
