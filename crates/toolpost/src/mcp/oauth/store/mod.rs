//! Where credentials are kept.

mod file;
mod memory;

use std::error::Error;
use std::fmt::Debug;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::protocol::Secret;

pub use file::FileStore;
pub use memory::MemoryStore;

/// Keeps what authorization servers gave, for each pair of a resource and an issuer.
pub trait CredentialStore: Send + Sync + Debug {
    /// Everything that is kept for a resource, the latest first.
    fn load<'a>(&'a self, resource: &'a str)
    -> BoxFuture<'a, Result<Vec<Credentials>, StoreError>>;

    /// Keeps credentials in place of those of the same resource and issuer. They are then the first.
    fn save<'a>(
        &'a self,
        resource: &'a str,
        credentials: Credentials,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Forgets the credentials of a resource and an issuer, if there are any.
    fn remove<'a>(
        &'a self,
        resource: &'a str,
        issuer: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Keeps everybody else who uses this store from refreshing the tokens of a resource, until the
    /// guard is dropped. Two who hand in the same refresh token look like a thief and its victim.
    ///
    /// A store that only one client uses for a resource needs no such thing, and has none.
    fn lock<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Result<StoreGuard, StoreError>> {
        let _ = resource;
        futures::future::ready(Ok(StoreGuard::noop())).boxed()
    }
}

/// What one authorization server gave for one resource.
///
/// `Serialize` writes the secrets as they are: the text belongs nowhere but into a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Credentials {
    /// The authorization server, sign by sign as it names itself.
    pub issuer: String,
    /// Who this client is there.
    pub client: ClientRegistration,
    /// What was asked for, so that the next time asks for no less.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Where the server said that its metadata is, if not in the usual place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_metadata: Option<String>,
    /// The tokens; none after a refresh token was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
}

impl Credentials {
    /// A client without tokens.
    pub fn new(issuer: impl Into<String>, client: ClientRegistration) -> Self {
        let (issuer, scopes) = (issuer.into(), Vec::new());
        Self { issuer, client, scopes, resource_metadata: None, tokens: None }
    }
}

/// Who a client is at an authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientRegistration {
    /// Its id.
    pub id: String,
    /// Its secret, if it was given one. That of a configured client is not kept.
    #[serde(default, with = "revealed::option", skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
    /// How it shows itself at the token endpoint, if that was agreed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_method: Option<String>,
    /// Where people come back to; only of a client that registered itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
    /// When its secret ends, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_expires_at: Option<i64>,
}

impl ClientRegistration {
    /// A client that has nothing but an id.
    pub fn new(id: impl Into<String>) -> Self {
        let id = id.into();
        Self { id, secret: None, auth_method: None, redirect_uri: None, secret_expires_at: None }
    }
}

/// What a token endpoint gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tokens {
    /// What is shown to the resource.
    #[serde(with = "revealed")]
    pub access: Secret,
    /// What the next tokens are had for.
    #[serde(default, with = "revealed::option", skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Secret>,
    /// What the person agreed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// When they came, in milliseconds since 1970.
    #[serde(default)]
    pub obtained_at: i64,
    /// When the access token ends, in milliseconds since 1970, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
}

impl Tokens {
    /// An access token that is not known to end.
    pub fn new(access: Secret) -> Self {
        Self { access, refresh: None, scopes: None, obtained_at: 0, expires_at: None }
    }

    /// Whether the access token still holds at a time.
    pub(super) fn is_valid_at(&self, now: i64) -> bool {
        self.expires_at.is_none_or(|expires| now < expires)
    }

    /// Whether it is time for new ones: a minute before the end, or half-way of a short life.
    pub(super) fn is_refresh_due_at(&self, now: i64) -> bool {
        let Some(expires) = self.expires_at else { return false };
        let lifetime = expires.saturating_sub(self.obtained_at);
        now >= expires.saturating_sub((lifetime / 2).clamp(0, 60_000))
    }
}

/// What a lock of a store holds on to.
pub struct StoreGuard {
    _held: Option<Box<dyn Send>>,
}

impl StoreGuard {
    /// Lets go of something when it is dropped.
    pub fn new(held: impl Send + 'static) -> Self {
        Self { _held: Some(Box::new(held)) }
    }

    /// Holds on to nothing.
    pub fn noop() -> Self {
        Self { _held: None }
    }
}

impl Debug for StoreGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreGuard").finish_non_exhaustive()
    }
}

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct StoreError {
    what: String,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Says what failed, and where. The text must not hold anything of what is kept.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }

    /// Adds why.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

/// Secrets in a store are written as they are.
mod revealed {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::protocol::Secret;

    pub(super) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.reveal())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        String::deserialize(from).map(Secret::new)
    }

    pub(super) mod option {
        use super::*;

        pub(in super::super) fn serialize<S: Serializer>(
            secret: &Option<Secret>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match secret {
                Some(secret) => super::serialize(secret, to),
                None => to.serialize_none(),
            }
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Secret>, D::Error> {
            Ok(Option::<String>::deserialize(from)?.map(Secret::new))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_refreshed_before_expiry() {
        let rows = [
            // obtained, expires; ripe and over at these seconds
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
