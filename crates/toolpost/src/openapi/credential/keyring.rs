//! The credentials of one source, and the tokens that they gave.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use url::Url;

use super::super::plan::{Credential as Wanted, Requirement, Scheme};
use super::choice::{Choice, choose};
use super::error::CredentialError;
use super::key::{Key, Keys, header};
use super::settings::{Credential, Credentials, OAuth2Client};
use super::token::{Tokens, check};

/// The credentials of one source.
#[derive(Debug)]
pub(crate) struct Keyring {
    credentials: Credentials,
    http: reqwest::Client,
    headers: Vec<Key>,
    /// One for each place and scope, so that all operations share their token.
    tokens: Mutex<HashMap<(String, String), Arc<Tokens>>>,
}

impl Keyring {
    /// Credentials, and a client that follows no redirect by itself and fetches tokens.
    pub(crate) fn new(
        credentials: Credentials,
        http: reqwest::Client,
    ) -> Result<Self, CredentialError> {
        let headers = headers(&credentials)?;
        Ok(Self { credentials, http, headers, tokens: Mutex::default() })
    }

    /// What an operation shows.
    pub(crate) fn keys(&self, security: &[Requirement]) -> Result<Keys, CredentialError> {
        let mut keys = Keys { fixed: self.headers.clone(), tokens: None };
        match choose(&self.credentials, security)? {
            Choice::Requirement(chosen) => {
                for (wanted, credential) in chosen {
                    let what = format!("auth.schemes.{}", wanted.name);
                    if let Some(credential) = credential {
                        self.add(&mut keys, credential, Some(wanted), &what)?;
                    }
                }
            }
            Choice::Generic => {
                for credential in &self.credentials.generic {
                    let what = format!("auth.{}", credential.key());
                    self.add(&mut keys, credential, None, &what)?;
                }
            }
        }
        Ok(keys)
    }

    fn add(
        &self,
        keys: &mut Keys,
        credential: &Credential,
        wanted: Option<&Wanted>,
        what: &str,
    ) -> Result<(), CredentialError> {
        let scheme = wanted.map_or(&Scheme::Bearer, |wanted| &wanted.scheme);
        if let Credential::OAuth2(client) = credential {
            keys.tokens = self.tokens(client, wanted)?;
        }
        keys.fixed.extend(Key::new(credential, scheme, what)?);
        Ok(())
    }

    fn tokens(
        &self,
        client: &OAuth2Client,
        wanted: Option<&Wanted>,
    ) -> Result<Option<Arc<Tokens>>, CredentialError> {
        let declared = wanted.and_then(|wanted| declared_url(&wanted.scheme));
        let Some(url) = client.token_url.as_ref().or(declared) else { return Ok(None) };
        check(url)?;
        let mut scopes = match (client.scopes.is_empty(), wanted) {
            (true, Some(wanted)) => wanted.scopes.clone(),
            _ => client.scopes.clone(),
        };
        scopes.sort();
        let scope = scopes.join(" ");
        let mut all = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = all.entry((url.to_string(), scope.clone()));
        let new = || Arc::new(Tokens::new(self.http.clone(), client.clone(), url.clone(), scope));
        Ok(Some(entry.or_insert_with(new).clone()))
    }
}

fn declared_url(scheme: &Scheme) -> Option<&Url> {
    match scheme {
        Scheme::OAuth2 { token_url, .. } => token_url.as_ref(),
        _ => None,
    }
}

fn headers(credentials: &Credentials) -> Result<Vec<Key>, CredentialError> {
    let each = credentials.headers.iter().map(|(name, value)| {
        let parsed =
            name.parse().map_err(|_| CredentialError::HeaderName { name: name.clone() })?;
        let what = format!("`auth.headers.{name}`");
        header(parsed, value.reveal())
            .ok_or(CredentialError::Unsendable { what, place: "a header" })
    });
    each.collect()
}
