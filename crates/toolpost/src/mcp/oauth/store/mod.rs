//! Storage for credentials.

mod file;
mod memory;

use std::error::Error;
use std::fmt::Debug;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize, Serializer};

use crate::protocol::Secret;

pub use file::FileStore;
pub use memory::MemoryStore;

/// Result of a store operation.
pub(super) type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Stores the credentials issued for each pair of resource and issuer.
pub trait CredentialStore: Send + Sync + Debug {
    /// Returns all credentials for a resource, most recent first.
    fn load<'a>(&'a self, resource: &'a str) -> StoreFuture<'a, Vec<Credentials>>;

    /// Stores credentials at the front, replacing those of the same resource and issuer.
    fn save<'a>(&'a self, resource: &'a str, credentials: Credentials) -> StoreFuture<'a, ()>;

    /// Removes the credentials of a resource and an issuer, if present.
    fn remove<'a>(&'a self, resource: &'a str, issuer: &'a str) -> StoreFuture<'a, ()>;

    /// Prevents other users of this store from refreshing the tokens of a resource until the guard
    /// is dropped. An authorization server treats a refresh token that is used twice as stolen.
    ///
    /// The default does nothing, which is sufficient for a store with one client per resource.
    fn lock<'a>(&'a self, resource: &'a str) -> StoreFuture<'a, StoreGuard> {
        let _ = resource;
        futures::future::ready(Ok(StoreGuard::new(()))).boxed()
    }
}

/// Credentials from one authorization server for one resource.
///
/// `Serialize` writes secrets in plain text: write the output only to a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Credentials {
    /// Issuer of the authorization server, exactly as its metadata states it.
    pub issuer: String,
    /// The client's registration with this issuer.
    pub client: ClientRegistration,
    /// Scopes that were requested; the next authorization requests them again.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Metadata URL stated by the MCP server, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_metadata: Option<String>,
    /// The tokens, if any were issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
}

impl Credentials {
    /// Creates credentials without tokens.
    pub fn new(issuer: impl Into<String>, client: ClientRegistration) -> Self {
        let (scopes, resource_metadata, tokens) = Default::default();
        Self { issuer: issuer.into(), client, scopes, resource_metadata, tokens }
    }
}

/// A client's registration with an authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientRegistration {
    /// Client id.
    pub id: String,
    /// Client secret, if one was issued. The secret of a configured client is not stored.
    #[serde(default, serialize_with = "reveal", skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
    /// Authentication method at the token endpoint, if one was registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_method: Option<String>,
    /// Redirect URI; set only for a dynamically registered client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
    /// Expiry of the secret, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_expires_at: Option<i64>,
}

impl ClientRegistration {
    /// Creates a client with only an id.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }
}

/// Tokens from a token endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tokens {
    /// Access token, sent to the resource.
    #[serde(serialize_with = "reveal")]
    pub access: Secret,
    /// Token to obtain the next tokens, if one was issued.
    #[serde(default, serialize_with = "reveal", skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Secret>,
    /// Granted scopes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// When the tokens were issued, in milliseconds since 1970.
    #[serde(default)]
    pub obtained_at: i64,
    /// When the access token expires, in milliseconds since 1970, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
}

impl Tokens {
    /// Creates tokens from an access token without a known expiry.
    pub fn new(access: Secret) -> Self {
        Self { access, refresh: None, scopes: None, obtained_at: 0, expires_at: None }
    }

    /// Whether the access token is valid at `now`.
    pub(super) fn is_valid_at(&self, now: i64) -> bool {
        self.expires_at.is_none_or(|expires| now < expires)
    }

    /// Whether to refresh the tokens: one minute before expiry, or after half of a short lifetime.
    pub(super) fn is_refresh_due_at(&self, now: i64) -> bool {
        let Some(expires) = self.expires_at else { return false };
        let lifetime = expires.saturating_sub(self.obtained_at);
        now >= expires.saturating_sub((lifetime / 2).clamp(0, 60_000))
    }
}

/// Guard of a store lock. Dropping it releases the lock.
pub struct StoreGuard(#[expect(dead_code, reason = "dropped with the guard")] Box<dyn Send>);

impl StoreGuard {
    /// Creates a guard that drops `held` when it is dropped.
    pub fn new(held: impl Send + 'static) -> Self {
        Self(Box::new(held))
    }
}

debug_fields!(_guard: StoreGuard);

/// Error of a credential store.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct StoreError {
    what: String,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Creates an error that states what failed and where. The text must not contain stored values.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }

    /// Sets the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

/// Serializes a secret in plain text, for stores only.
fn reveal<'a, S: Serializer>(
    secret: impl Into<Option<&'a Secret>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    secret.into().map(Secret::reveal).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_refreshed_before_expiry() {
        let rows = [
            // Each row: obtained and expiry time; refresh due and expired at these times, in
            // seconds.
            (0, Some(3_600), 3_540, 3_600),
            (0, Some(60), 30, 60),
            (0, Some(0), 0, 0),
            (100, Some(50), 50, 50),
        ];
        for (obtained, expires, refresh_due, over) in rows {
            let mut tokens = Tokens::new(Secret::new("x"));
            tokens.obtained_at = obtained * 1_000;
            tokens.expires_at = expires.map(|seconds: i64| seconds * 1_000);
            assert!(
                tokens.is_refresh_due_at(refresh_due * 1_000)
                    && !tokens.is_refresh_due_at(refresh_due * 1_000 - 1)
            );
            assert!(!tokens.is_valid_at(over * 1_000) && tokens.is_valid_at(over * 1_000 - 1));
        }
        let without_expiry = Tokens::new(Secret::new("x"));
        assert!(
            without_expiry.is_valid_at(i64::MAX) && !without_expiry.is_refresh_due_at(i64::MAX)
        );
    }
}
