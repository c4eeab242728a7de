//! Credentials and cached tokens of one source.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use url::Url;

use super::super::client::format_host_port;
use super::super::plan::{SchemeRequirement, SecurityRequirement, SecurityScheme};
use super::error::CredentialError;
use super::request_credential::{OperationCredentials, RequestCredential, sensitive_header};
use super::select::{is_optional, select_credentials};
use super::settings::{Credential, Credentials, OAuth2Client};
use super::token_cache::{TokenCache, check_token_url};
use crate::tls::ClientTls;

/// Credentials and token caches of one source.
#[derive(Debug)]
pub(crate) struct CredentialStore {
    credentials: Credentials,
    http: reqwest::Client,
    tls: ClientTls,
    headers: Vec<RequestCredential>,
    /// One token cache per token URL and scope, shared by all operations.
    token_caches: Mutex<HashMap<(String, String), Arc<TokenCache>>>,
}

impl CredentialStore {
    /// Creates a store. `http` fetches tokens and must not follow redirects.
    pub(crate) fn new(
        credentials: Credentials,
        http: reqwest::Client,
        tls: ClientTls,
    ) -> Result<Self, CredentialError> {
        let headers = configured_headers(&credentials)?;
        Ok(Self { credentials, http, tls, headers, token_caches: Mutex::default() })
    }

    /// Returns the credentials for an operation on a server. Only the servers of the document and
    /// configured hosts receive credentials, because an operation can name any server.
    pub(crate) fn for_server(
        &self,
        security: &[SecurityRequirement],
        server: &Url,
        receives_credentials: bool,
    ) -> Result<OperationCredentials, CredentialError> {
        let credentials = self.for_operation(security)?;
        if credentials.is_empty() {
            return Ok(credentials);
        }
        if receives_credentials {
            self.tls.check_credentials(server)?;
            return Ok(credentials);
        }
        match is_optional(security) {
            true => Ok(OperationCredentials::default()),
            false => Err(CredentialError::OtherServer(format_host_port(server))),
        }
    }

    /// Returns the credentials for an operation with these security requirements.
    pub(crate) fn for_operation(
        &self,
        security: &[SecurityRequirement],
    ) -> Result<OperationCredentials, CredentialError> {
        let mut static_credentials = self.headers.clone();
        let mut token_cache = None;
        for (required, credential) in select_credentials(&self.credentials, security)? {
            if let Credential::OAuth2(client) = credential {
                token_cache = self.token_cache(client, required)?;
            }
            let scheme = required.map_or(&SecurityScheme::Bearer, |required| &required.scheme);
            let config_key = match required {
                Some(required) => format!("auth.schemes.{}", required.name),
                None => format!("auth.{}", credential.config_key()),
            };
            static_credentials.extend(RequestCredential::new(credential, scheme, &config_key)?);
        }
        Ok(OperationCredentials { static_credentials, token_cache })
    }

    fn token_cache(
        &self,
        client: &OAuth2Client,
        required: Option<&SchemeRequirement>,
    ) -> Result<Option<Arc<TokenCache>>, CredentialError> {
        let declared = match required.map(|required| &*required.scheme) {
            Some(SecurityScheme::OAuth2 { token_url }) => token_url.as_ref(),
            _ => None,
        };
        let Some(url) = client.token_url.as_ref().or(declared) else { return Ok(None) };
        check_token_url(url, &self.tls)?;
        let mut scopes = match (client.scopes.is_empty(), required) {
            (true, Some(required)) => required.scopes.clone(),
            _ => client.scopes.clone(),
        };
        scopes.sort();
        let scope = scopes.join(" ");
        let mut all = self.token_caches.lock();
        let entry = all.entry((url.to_string(), scope.clone()));
        let new = || TokenCache::new(self.http.clone(), client.clone(), url.clone(), scope);
        Ok(Some(entry.or_insert_with(new).clone()))
    }
}

fn configured_headers(
    credentials: &Credentials,
) -> Result<Vec<RequestCredential>, CredentialError> {
    let each = credentials.headers.iter().map(|(name, value)| {
        let parsed =
            name.parse().map_err(|_| CredentialError::HeaderName { name: name.clone() })?;
        let what = format!("`auth.headers.{name}`");
        sensitive_header(parsed, value.reveal())
            .ok_or(CredentialError::InvalidValue { what, place: "a header" })
    });
    each.collect()
}
