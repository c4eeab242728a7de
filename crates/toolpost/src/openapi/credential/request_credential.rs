//! Credentials as headers, query parameters and cookies of a request.

use std::sync::Arc;

use data_encoding::BASE64;
use reqwest::header::{AUTHORIZATION, COOKIE, HeaderName, HeaderValue};

use super::super::plan::{Parameter, ParameterLocation, SecurityScheme};
use super::super::request::{PreparedRequest, escape_query};
use super::error::CredentialError;
use super::settings::Credential;
use super::token_cache::TokenCache;
use crate::error::CallError;
use crate::protocol::Secret;

/// Credentials of one operation, selected before it is called.
#[derive(Debug, Clone, Default)]
pub(crate) struct OperationCredentials {
    pub(super) static_credentials: Vec<RequestCredential>,
    /// Source of the OAuth 2.0 token, if the operation needs one.
    pub(super) token_cache: Option<Arc<TokenCache>>,
}

/// One credential and its location in the request.
#[derive(Debug, Clone)]
pub(super) enum RequestCredential {
    Header(HeaderName, HeaderValue),
    /// Percent-encoded name and value of a query parameter.
    Query(String, Secret),
    Cookie(String, Secret),
}

impl OperationCredentials {
    pub(super) fn is_empty(&self) -> bool {
        self.static_credentials.is_empty() && self.token_cache.is_none()
    }

    /// Whether a credential sets the same header, query parameter or cookie as `parameter`.
    pub(crate) fn provides(&self, parameter: &Parameter) -> bool {
        let is_bearer = parameter.name.eq_ignore_ascii_case("authorization");
        let is_token = parameter.location == ParameterLocation::Header && is_bearer;
        self.static_credentials.iter().any(|key| key.provides(parameter))
            || (self.token_cache.is_some() && is_token)
    }

    /// Adds the credentials to a request.
    ///
    /// # Cancellation
    ///
    /// Dropping the future stops waiting for the token; other waiting calls are not affected.
    pub(crate) async fn apply(&self, prepared: &mut PreparedRequest) -> Result<(), CallError> {
        for key in &self.static_credentials {
            key.apply(prepared);
        }
        if let Some(tokens) = &self.token_cache {
            let token = tokens.current().await?;
            bearer_auth(&token)?.apply(prepared);
        }
        Ok(())
    }

    /// Replaces the token of a request that was rejected with 401. Returns whether it differs.
    pub(crate) async fn apply_refreshed(
        &self,
        prepared: &mut PreparedRequest,
    ) -> Result<bool, CallError> {
        let Some(tokens) = &self.token_cache else { return Ok(false) };
        let used = prepared.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let used = used.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let token = tokens.replace(&Secret::new(used)).await?;
        let is_other = token.reveal() != used;
        bearer_auth(&token)?.apply(prepared);
        Ok(is_other)
    }
}

impl RequestCredential {
    /// Encodes a credential for a security scheme.
    pub(super) fn new(
        credential: &Credential,
        scheme: &SecurityScheme,
        config_key: &str,
    ) -> Result<Option<Self>, CredentialError> {
        let invalid_value =
            |place| CredentialError::InvalidValue { what: format!("`{config_key}`"), place };
        let in_header = |name: HeaderName, value: &str| {
            sensitive_header(name, value).ok_or_else(|| invalid_value("a header")).map(Some)
        };
        match (credential, scheme) {
            (Credential::ApiKey(key), SecurityScheme::ApiKey { location, name }) => {
                match location {
                    ParameterLocation::Query => {
                        let value = Secret::new(escape_query(key.reveal()));
                        Ok(Some(Self::Query(escape_query(name), value)))
                    }
                    ParameterLocation::Cookie => {
                        let value = key.reveal();
                        let is_written = |b: u8| matches!(b, b'!'..=b'~') && b != b';';
                        if !value.bytes().chain(name.bytes()).all(is_written) {
                            return Err(invalid_value("a cookie"));
                        }
                        Ok(Some(Self::Cookie(name.clone(), key.clone())))
                    }
                    _ => {
                        let name = name
                            .parse()
                            .map_err(|_| invalid_value("a header with an invalid name"))?;
                        in_header(name, key.reveal())
                    }
                }
            }
            (
                Credential::Bearer(secret) | Credential::ApiKey(secret),
                SecurityScheme::OtherHttp(other),
            ) => in_header(AUTHORIZATION, &format!("{other} {}", secret.reveal())),
            (Credential::Bearer(token), _) => {
                in_header(AUTHORIZATION, &format!("Bearer {}", token.reveal()))
            }
            (Credential::Basic { user, password }, _) => {
                if user.contains(':') {
                    return Err(invalid_value("basic authentication: the user name contains `:`"));
                }
                let pair = format!("{user}:{}", password.reveal());
                in_header(AUTHORIZATION, &format!("Basic {}", BASE64.encode(pair.as_bytes())))
            }
            // The location of the key is not known.
            (Credential::ApiKey(_), _) | (Credential::OAuth2(_), _) => Ok(None),
        }
    }

    fn provides(&self, parameter: &Parameter) -> bool {
        let name = &parameter.name;
        match (self, parameter.location) {
            (Self::Header(own, _), ParameterLocation::Header) => {
                own.as_str().eq_ignore_ascii_case(name)
            }
            (Self::Query(own, _), ParameterLocation::Query) => *own == escape_query(name),
            (Self::Cookie(own, _), ParameterLocation::Cookie) => own == name,
            _ => false,
        }
    }

    fn apply(&self, prepared: &mut PreparedRequest) {
        match self {
            Self::Header(name, value) => {
                prepared.headers.insert(name.clone(), value.clone());
                prepared.mark_secret_header(name.clone());
            }
            Self::Query(name, value) => prepared.set_secret_parameter(name, value.reveal()),
            Self::Cookie(name, value) => {
                set_cookie(prepared, name, value.reveal());
                prepared.mark_secret_header(COOKIE);
            }
        }
    }
}

/// Creates a header that is marked as sensitive, so that debug output omits its value.
pub(super) fn sensitive_header(name: HeaderName, value: &str) -> Option<RequestCredential> {
    let mut value = HeaderValue::from_str(value).ok().filter(|_| value.is_ascii())?;
    value.set_sensitive(true);
    Some(RequestCredential::Header(name, value))
}

fn bearer_auth(token: &Secret) -> Result<RequestCredential, CredentialError> {
    let key = sensitive_header(AUTHORIZATION, &format!("Bearer {}", token.reveal()));
    let what = "the token".to_owned();
    key.ok_or(CredentialError::InvalidValue { what, place: "a header" })
}

/// Sets a cookie, and replaces a cookie with the same name.
fn set_cookie(prepared: &mut PreparedRequest, name: &str, value: &str) {
    let old = prepared.headers.get(COOKIE).and_then(|old| old.to_str().ok()).unwrap_or_default();
    let others =
        old.split("; ").filter(|pair| !pair.is_empty() && pair.split('=').next() != Some(name));
    let new_pair = format!("{name}={value}");
    let all: Vec<&str> = others.chain([new_pair.as_str()]).collect();
    let mut all = HeaderValue::from_str(&all.join("; ")).expect("cookies were validated");
    all.set_sensitive(true);
    prepared.headers.insert(COOKIE, all);
}
