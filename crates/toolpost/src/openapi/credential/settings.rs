//! What the configuration says about credentials.

use std::collections::BTreeMap;

use reqwest::Identity;
use url::Url;

use super::error::CredentialError;
use crate::protocol::Secret;

/// The credentials of a source. Nothing in it is ever printed that is secret.
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
    /// By the name of the scheme in the document (`auth.schemes.NAME`).
    pub schemes: BTreeMap<String, Credential>,
    /// For whichever scheme they fit (`auth.bearer` and so on). They are sent as well where the
    /// document names no scheme, because many documents do not.
    pub generic: Vec<Credential>,
    /// Headers that go with every request (`auth.headers`).
    pub headers: BTreeMap<String, Secret>,
    /// A certificate and its key in PEM, for services that ask for one (`auth.client_certificate`).
    pub client_certificate: Option<Secret>,
    /// Whether operations that ask for credentials that are not here are called without them
    /// (`auth.anonymous`).
    pub anonymous: bool,
}

impl Credentials {
    /// Whom the client shows itself as while it connects.
    pub(crate) fn client_identity(&self) -> Result<Option<Identity>, CredentialError> {
        let pem = self.client_certificate.as_ref();
        let identity = pem.map(|pem| Identity::from_pem(pem.reveal().as_bytes()));
        identity.transpose().map_err(|_| CredentialError::Certificate)
    }
}

/// One credential.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credential {
    /// A token in the header `Authorization`, wherever it was obtained.
    Bearer(Secret),
    /// A user and a password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// A key; the document says where it stands.
    ApiKey(Secret),
    /// Tokens are fetched from an authorization server.
    OAuth2(OAuth2Client),
}

/// A client of an authorization server, by the flow of client credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuth2Client {
    /// The name of the client.
    pub id: String,
    /// Its secret.
    pub secret: Secret,
    /// What is asked for; if it is empty, what the operation asks for.
    pub scopes: Vec<String>,
    /// Where tokens are; if it is not given, where the document says.
    pub token_url: Option<Url>,
    /// More to tell the authorization server, such as `audience`.
    pub parameters: BTreeMap<String, String>,
}

impl OAuth2Client {
    /// A client that asks where and for what the document says.
    pub fn new(id: impl Into<String>, secret: Secret) -> Self {
        let (scopes, parameters) = Default::default();
        Self { id: id.into(), secret, scopes, token_url: None, parameters }
    }
}

impl Credential {
    /// What it is called in the configuration.
    pub(super) fn config_key(&self) -> &'static str {
        match self {
            Self::Bearer(_) => "bearer",
            Self::Basic { .. } => "basic",
            Self::ApiKey(_) => "api_key",
            Self::OAuth2(_) => "oauth2",
        }
    }
}
