//! Authentication of requests: maps the `Authorization` header, or the client certificate, to an
//! identity or a 401 response.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use toolpost::Identity;
use toolpost::shares::Holder;
use url::Url;

use super::problem::ProblemDetails;
use crate::auth::{AuthError, Authenticator, ClientCertificate, JwtError};

/// Path of the protected resource metadata (RFC 9728).
pub(crate) const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

/// The client certificate of the connection that a request arrived on, if any.
#[derive(Debug, Clone, Default)]
pub(crate) struct PeerCertificate(Option<Arc<ClientCertificate>>);

impl PeerCertificate {
    pub(super) fn from_extensions(extensions: &Extensions) -> Self {
        Self(extensions.get().cloned())
    }

    pub(super) fn get(&self) -> Option<&ClientCertificate> {
        self.0.as_deref()
    }
}

impl<S: Sync> FromRequestParts<S> for PeerCertificate {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::from_extensions(&parts.extensions))
    }
}

pub(super) async fn authenticate(
    authenticator: &Authenticator,
    path: &str,
    headers: &HeaderMap,
    certificate: &PeerCertificate,
) -> Result<Arc<Identity>, ProblemDetails> {
    let token = match bearer_token(headers) {
        Ok(token) => token,
        Err(message) => return Err(invalid_token(authenticator, path, headers, message)),
    };
    authenticator.identify_peer(token, certificate.get()).await.map_err(|error| match error {
        AuthError::MissingToken => {
            // RFC 6750: no error code if the request has no credentials.
            let challenge = challenge(authenticator, path, headers, &[]);
            ProblemDetails::unauthorized(error.to_string(), challenge)
        }
        AuthError::Jwt(JwtError::KeysUnavailable(_)) => {
            ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
        other => invalid_token(authenticator, path, headers, other.to_string()),
    })
}

/// Returns whose share a request uses: that of its caller, or of `unauthenticated`.
pub(crate) async fn holder(
    authenticator: &Authenticator,
    headers: &HeaderMap,
    extensions: &Extensions,
    unauthenticated: Holder,
) -> Holder {
    let Ok(token) = bearer_token(headers) else { return unauthenticated };
    let certificate = PeerCertificate::from_extensions(extensions);
    let identity = authenticator.identify_peer(token, certificate.get()).await;
    identity.map_or(unauthenticated, |identity| Holder::from(&*identity))
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

/// Returns the `WWW-Authenticate` challenge that lists the missing scopes.
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

/// Builds a `WWW-Authenticate` challenge (RFC 6750) with the metadata URL (RFC 9728).
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

/// Returns the issuer and the base URL of this gateway. The base URL is the configured resource, or
/// else it is built from the `Host` header.
pub(super) fn authorization_server(
    authenticator: &Authenticator,
    headers: &HeaderMap,
) -> Option<(String, String)> {
    let (issuer, resource) = authenticator.authorization_server()?;
    let from_host_header = || {
        let host = headers.get(header::HOST)?.to_str().ok()?;
        Url::parse(&format!("{}://{host}", authenticator.scheme())).ok()
    };
    let base = resource.or_else(from_host_header)?;
    let base =
        format!("{}{}", base.origin().ascii_serialization(), base.path().trim_end_matches('/'));
    Some((issuer, base))
}

/// Returns the bearer token, if any. Other credentials are rejected rather than ignored, because
/// their sender expects to be authenticated.
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
