//! Credentials in the form in which they are shown.

use std::sync::Arc;

use data_encoding::BASE64;
use reqwest::header::{AUTHORIZATION, COOKIE, HeaderName, HeaderValue};

use super::super::plan::{Parameter, ParameterLocation, SecurityScheme};
use super::super::request::PreparedRequest;
use super::error::CredentialError;
use super::settings::Credential;
use super::token_cache::TokenCache;
use crate::error::CallError;
use crate::protocol::Secret;

/// What one operation shows, settled before it is called.
#[derive(Debug, Clone, Default)]
pub(crate) struct OperationCredentials {
    pub(super) static_credentials: Vec<RequestCredential>,
    /// Where the token comes from, if it has to be fetched.
    pub(super) token_cache: Option<Arc<TokenCache>>,
}

/// One credential at its place.
#[derive(Debug, Clone)]
pub(super) enum RequestCredential {
    Header(HeaderName, HeaderValue),
    /// Names and values, as they are written.
    Query(String, Secret),
    Cookie(String, Secret),
}

impl OperationCredentials {
    /// Whether one of them stands where a parameter would.
    pub(crate) fn provides(&self, parameter: &Parameter) -> bool {
        let is_bearer = parameter.name.eq_ignore_ascii_case("authorization");
        let is_token = parameter.location == ParameterLocation::Header && is_bearer;
        self.static_credentials.iter().any(|key| key.provides(parameter))
            || (self.token_cache.is_some() && is_token)
    }

    /// Shows the credentials with a request.
    ///
    /// # Errors
    ///
    /// When a token has to be fetched and is not given; nothing was sent to the service then.
    ///
    /// # Cancellation
    ///
    /// Dropping it stops waiting for the token; others who wait for it are not concerned.
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

    /// Shows another token with a request that was refused with 401, and says whether there is one.
    ///
    /// # Errors
    ///
    /// When the authorization server gives no other.
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
    /// A credential as a scheme asks for it.
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
                        let value = Secret::new(PreparedRequest::escape_query(key.reveal()));
                        Ok(Some(Self::Query(PreparedRequest::escape_query(name), value)))
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
                        let name =
                            name.parse().map_err(|_| invalid_value("the name of its header"))?;
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
                    return Err(invalid_value("its place: a user has no `:`"));
                }
                in_header(AUTHORIZATION, &basic_auth(user, password.reveal()))
            }
            // A key of which nobody says where it belongs.
            (Credential::ApiKey(_), _) | (Credential::OAuth2(_), _) => Ok(None),
        }
    }

    fn provides(&self, parameter: &Parameter) -> bool {
        let name = &parameter.name;
        match (self, parameter.location) {
            (Self::Header(own, _), ParameterLocation::Header) => {
                own.as_str().eq_ignore_ascii_case(name)
            }
            (Self::Query(own, _), ParameterLocation::Query) => {
                *own == PreparedRequest::escape_query(name)
            }
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

/// A header that shows its value to nobody but the service.
pub(super) fn sensitive_header(name: HeaderName, value: &str) -> Option<RequestCredential> {
    let mut value = HeaderValue::from_str(value).ok().filter(|_| value.is_ascii())?;
    value.set_sensitive(true);
    Some(RequestCredential::Header(name, value))
}

/// A user and a password as one text.
pub(super) fn basic_auth(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes()))
}

fn bearer_auth(token: &Secret) -> Result<RequestCredential, CredentialError> {
    let key = sensitive_header(AUTHORIZATION, &format!("Bearer {}", token.reveal()));
    let what = "the token".to_owned();
    key.ok_or(CredentialError::InvalidValue { what, place: "a header" })
}

/// Puts a cookie beside the others; one of the same name makes room.
fn set_cookie(prepared: &mut PreparedRequest, name: &str, value: &str) {
    let old = prepared.headers.get(COOKIE).and_then(|old| old.to_str().ok()).unwrap_or_default();
    let others =
        old.split("; ").filter(|pair| !pair.is_empty() && pair.split('=').next() != Some(name));
    let new_pair = format!("{name}={value}");
    let all: Vec<&str> = others.chain([new_pair.as_str()]).collect();
    let mut all = HeaderValue::from_str(&all.join("; ")).expect("each of them was looked at");
    all.set_sensitive(true);
    prepared.headers.insert(COOKIE, all);
}
