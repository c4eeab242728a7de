//! Credential settings.

use std::collections::BTreeMap;

use reqwest::Identity;
use url::Url;

use super::error::CredentialError;
use crate::protocol::Secret;

/// Credentials of a source. Secrets are omitted from debug output.
///
/// # Examples
///
/// ```
/// use toolpost::openapi::{Credential, Credentials};
/// use toolpost::protocol::Secret;
///
/// let mut credentials = Credentials::default();
/// credentials.generic.push(Credential::Bearer(Secret::new("hush")));
/// assert!(!format!("{credentials:?}").contains("hush"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Credentials {
    /// Credentials by the name of the scheme in the document (`auth.schemes.NAME`).
    pub schemes: BTreeMap<String, Credential>,
    /// Credentials for any matching scheme, such as `auth.bearer`. They are also sent if the
    /// document declares no scheme, because many documents omit it.
    pub generic: Vec<Credential>,
    /// Headers that are sent with every request (`auth.headers`).
    pub headers: BTreeMap<String, Secret>,
    /// Client certificate and private key in PEM, for mutual TLS (`auth.client_certificate`).
    pub client_certificate: Option<Secret>,
    /// Whether operations are called without their required credentials (`auth.anonymous`).
    pub anonymous: bool,
}

impl Credentials {
    /// Whether requests have credentials.
    pub fn is_some(&self) -> bool {
        !self.schemes.is_empty() || !self.generic.is_empty() || !self.headers.is_empty()
    }

    /// Parses the client certificate for TLS.
    pub(crate) fn client_identity(&self) -> Result<Option<Identity>, CredentialError> {
        let pem = self.client_certificate.as_ref();
        let identity = pem.map(|pem| Identity::from_pem(pem.reveal().as_bytes()));
        identity.transpose().map_err(|_| CredentialError::Certificate)
    }
}

/// A configured credential.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credential {
    /// A bearer token for the `Authorization` header.
    Bearer(Secret),
    /// User name and password for Basic authentication.
    Basic {
        /// User name.
        user: String,
        /// Password.
        password: Secret,
    },
    /// An API key. The document declares its location.
    ApiKey(Secret),
    /// An OAuth 2.0 client. Its tokens are fetched from an authorization server.
    OAuth2(OAuth2Client),
}

/// An OAuth 2.0 client that uses the client credentials grant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuth2Client {
    /// The client id.
    pub id: String,
    /// The client secret.
    pub secret: Secret,
    /// Requested scopes. If empty, the scopes that the operation declares.
    pub scopes: Vec<String>,
    /// Token endpoint. If `None`, the one that the document declares.
    pub token_url: Option<Url>,
    /// Additional parameters of the token request, such as `audience`.
    pub parameters: BTreeMap<String, String>,
}

impl OAuth2Client {
    /// Creates a client that uses the token URL and scopes of the document.
    pub fn new(id: impl Into<String>, secret: Secret) -> Self {
        let (scopes, parameters) = Default::default();
        Self { id: id.into(), secret, scopes, token_url: None, parameters }
    }
}

impl Credential {
    /// Returns the configuration key of the credential.
    pub(super) fn config_key(&self) -> &'static str {
        match self {
            Self::Bearer(_) => "bearer",
            Self::Basic { .. } => "basic",
            Self::ApiKey(_) => "api_key",
            Self::OAuth2(_) => "oauth2",
        }
    }
}
