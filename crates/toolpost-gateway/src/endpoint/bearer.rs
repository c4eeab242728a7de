//! `Authorization: Bearer …`: from a header to an identity, or to a 401.

use std::fmt::Write;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use toolpost::Identity;
use url::Url;

use super::problem::ProblemDetails;
use crate::auth::{AuthError, Authenticator, JwtError};

/// Where clients find out who vouches for callers.
pub(super) const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

pub(super) async fn authenticate(
    authenticator: &Authenticator,
    path: &str,
    headers: &HeaderMap,
) -> Result<Arc<Identity>, ProblemDetails> {
    let token = match bearer_token(headers) {
        Ok(token) => token,
        Err(message) => return Err(invalid_token(authenticator, path, headers, message)),
    };
    authenticator.identify(token).await.map_err(|error| match error {
        AuthError::MissingToken => {
            // RFC 6750 wants no error where nothing was presented.
            let challenge = challenge(authenticator, path, headers, &[]);
            ProblemDetails::unauthorized(error.to_string(), challenge)
        }
        AuthError::Jwt(JwtError::KeysUnavailable(_)) => {
            ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
        other => invalid_token(authenticator, path, headers, other.to_string()),
    })
}

pub(super) fn invalid_token(
    authenticator: &Authenticator,
    path: &str,
    headers: &HeaderMap,
    message: impl Into<String>,
) -> ProblemDetails {
    let challenge = challenge(authenticator, path, headers, &[("error", "invalid_token")]);
    ProblemDetails::unauthorized(message, challenge)
}

/// The challenge for a caller with missing scopes; it lists them.
pub(super) fn insufficient_scope(
    authenticator: &Authenticator,
    path: &str,
    headers: &HeaderMap,
    scopes: &[&str],
) -> HeaderValue {
    let scopes = scopes.join(" ");
    let params = [("error", "insufficient_scope"), ("scope", &*scopes)];
    challenge(authenticator, path, headers, &params)
}

/// RFC 6750 wants a parameter behind the scheme; RFC 9728 adds where to find out more.
fn challenge(
    authenticator: &Authenticator,
    path: &str,
    headers: &HeaderMap,
    params: &[(&str, &str)],
) -> HeaderValue {
    let mut text = r#"Bearer realm="toolpost""#.to_owned();
    let is_quotable =
        |value: &str| value.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\');
    for (name, value) in params.iter().filter(|(_, value)| is_quotable(value)) {
        let _ = write!(text, r#", {name}="{value}""#);
    }
    if let Some((_, base)) = authorization_server(authenticator, headers) {
        let below = if path == "/mcp" { path } else { "" };
        let _ = write!(text, r#", resource_metadata="{base}{METADATA_PATH}{below}""#);
    }
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("Bearer"))
}

/// Who vouches for callers, and the address under which the caller knows this gateway: what the
/// operator says, else what the caller says himself.
pub(super) fn authorization_server(
    authenticator: &Authenticator,
    headers: &HeaderMap,
) -> Option<(String, String)> {
    let (issuer, resource) = authenticator.authorization_server()?;
    let from_host_header = || {
        let host = headers.get(header::HOST)?.to_str().ok()?;
        Url::parse(&format!("http://{host}")).ok()
    };
    let base = resource.or_else(from_host_header)?;
    let base =
        format!("{}{}", base.origin().ascii_serialization(), base.path().trim_end_matches('/'));
    Some((issuer, base))
}

/// The token, if there is one. Credentials of another kind are refused rather than overlooked, for
/// their owner believes to be somebody.
pub(super) fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, &'static str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let bearer = value.to_str().ok().and_then(|text| text.split_once(' '));
    match (bearer, values.next()) {
        (Some((scheme, token)), None) if scheme.eq_ignore_ascii_case("bearer") => {
            Ok(Some(token.trim()))
        }
        _ => Err("the Authorization header must be `Bearer` and a token, once"),
    }
}
