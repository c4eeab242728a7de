//! Credentials in the form in which they are shown.

use std::sync::Arc;

use data_encoding::BASE64;
use reqwest::header::{AUTHORIZATION, COOKIE, HeaderName, HeaderValue};

use super::super::plan::{Parameter, Position, Scheme};
use super::super::request::Prepared;
use super::error::CredentialError;
use super::settings::Credential;
use super::token::Tokens;
use crate::error::CallError;
use crate::protocol::Secret;

/// What one operation shows, settled before it is called.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys {
    pub(super) fixed: Vec<Key>,
    /// Where the token comes from, if it has to be fetched.
    pub(super) tokens: Option<Arc<Tokens>>,
}

/// One credential at its place.
#[derive(Debug, Clone)]
pub(super) enum Key {
    Header(HeaderName, HeaderValue),
    /// Names and values, as they are written.
    Query(String, Secret),
    Cookie(String, Secret),
}

impl Keys {
    /// Whether one of them stands where a parameter would.
    pub(crate) fn fill(&self, parameter: &Parameter) -> bool {
        let is_bearer = parameter.name.eq_ignore_ascii_case("authorization");
        let is_token = parameter.position == Position::Header && is_bearer;
        self.fixed.iter().any(|key| key.fills(parameter)) || (self.tokens.is_some() && is_token)
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
    pub(crate) async fn show(&self, prepared: &mut Prepared) -> Result<(), CallError> {
        for key in &self.fixed {
            key.show(prepared);
        }
        if let Some(tokens) = &self.tokens {
            let token = tokens.current().await?;
            bearer(&token)?.show(prepared);
        }
        Ok(())
    }

    /// Shows another token with a request that was refused with 401, and says whether there is one.
    ///
    /// # Errors
    ///
    /// When the authorization server gives no other.
    pub(crate) async fn show_again(&self, prepared: &mut Prepared) -> Result<bool, CallError> {
        let Some(tokens) = &self.tokens else { return Ok(false) };
        let used = prepared.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let used = used.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let token = tokens.other_than(&Secret::new(used)).await?;
        let is_other = token.reveal() != used;
        bearer(&token)?.show(prepared);
        Ok(is_other)
    }
}

impl Key {
    /// A credential as a scheme asks for it.
    pub(super) fn new(
        credential: &Credential,
        scheme: &Scheme,
        what: &str,
    ) -> Result<Option<Self>, CredentialError> {
        let unsendable = |place| CredentialError::Unsendable { what: format!("`{what}`"), place };
        let in_header = |name: HeaderName, value: &str| {
            header(name, value).ok_or_else(|| unsendable("a header")).map(Some)
        };
        match (credential, scheme) {
            (Credential::ApiKey(key), Scheme::ApiKey { position, name }) => match position {
                Position::Query => {
                    let value = Secret::new(Prepared::escaped(key.reveal()));
                    Ok(Some(Self::Query(Prepared::escaped(name), value)))
                }
                Position::Cookie => {
                    let value = key.reveal();
                    let is_written = |b: u8| matches!(b, b'!'..=b'~') && b != b';';
                    if !value.bytes().chain(name.bytes()).all(is_written) {
                        return Err(unsendable("a cookie"));
                    }
                    Ok(Some(Self::Cookie(name.clone(), key.clone())))
                }
                _ => {
                    let name = name.parse().map_err(|_| unsendable("the name of its header"))?;
                    in_header(name, key.reveal())
                }
            },
            (Credential::Bearer(secret) | Credential::ApiKey(secret), Scheme::OtherHttp(other)) => {
                in_header(AUTHORIZATION, &format!("{other} {}", secret.reveal()))
            }
            (Credential::Bearer(token), _) => {
                in_header(AUTHORIZATION, &format!("Bearer {}", token.reveal()))
            }
            (Credential::Basic { user, password }, _) => {
                if user.contains(':') {
                    return Err(unsendable("its place: a user has no `:`"));
                }
                in_header(AUTHORIZATION, &basic(user, password.reveal()))
            }
            // A key of which nobody says where it belongs.
            (Credential::ApiKey(_), _) | (Credential::OAuth2(_), _) => Ok(None),
        }
    }

    fn fills(&self, parameter: &Parameter) -> bool {
        let name = &parameter.name;
        match (self, parameter.position) {
            (Self::Header(own, _), Position::Header) => own.as_str().eq_ignore_ascii_case(name),
            (Self::Query(own, _), Position::Query) => *own == Prepared::escaped(name),
            (Self::Cookie(own, _), Position::Cookie) => own == name,
            _ => false,
        }
    }

    fn show(&self, prepared: &mut Prepared) {
        match self {
            Self::Header(name, value) => {
                prepared.headers.insert(name.clone(), value.clone());
                prepared.note_secret_header(name.clone());
            }
            Self::Query(name, value) => prepared.set_secret_parameter(name, value.reveal()),
            Self::Cookie(name, value) => {
                set_cookie(prepared, name, value.reveal());
                prepared.note_secret_header(COOKIE);
            }
        }
    }
}

/// A header that shows its value to nobody but the service.
pub(super) fn header(name: HeaderName, value: &str) -> Option<Key> {
    let mut value = HeaderValue::from_str(value).ok().filter(|_| value.is_ascii())?;
    value.set_sensitive(true);
    Some(Key::Header(name, value))
}

/// A user and a password as one text.
pub(super) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes()))
}

fn bearer(token: &Secret) -> Result<Key, CredentialError> {
    let key = header(AUTHORIZATION, &format!("Bearer {}", token.reveal()));
    let what = "the token".to_owned();
    key.ok_or(CredentialError::Unsendable { what, place: "a header" })
}

/// Puts a cookie beside the others; one of the same name makes room.
fn set_cookie(prepared: &mut Prepared, name: &str, value: &str) {
    let old = prepared.headers.get(COOKIE).and_then(|old| old.to_str().ok()).unwrap_or_default();
    let others =
        old.split("; ").filter(|pair| !pair.is_empty() && pair.split('=').next() != Some(name));
    let mine = format!("{name}={value}");
    let all: Vec<&str> = others.chain([mine.as_str()]).collect();
    let mut all = HeaderValue::from_str(&all.join("; ")).expect("each of them was looked at");
    all.set_sensitive(true);
    prepared.headers.insert(COOKIE, all);
}
