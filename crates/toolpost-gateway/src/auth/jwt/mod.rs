//! JWT access tokens, verified with the keys that the authorization server publishes.
//!
//! | file | contains |
//! |---|---|
//! | `algorithm` | the accepted signature algorithms, all of them asymmetric |
//! | `jwk` | the keys of a JWK set |
//! | `signed_token` | parsing of a token and verification of its signature |
//! | `claims` | validation of the claims; time is an argument |
//! | `key_store` | the cached keys and when they are refreshed |
//! | `token_cache` | identities of previously verified tokens |
//! | `fetch` | bounded requests to the authorization server |
//!
//! Signatures are verified with ring, which is already a dependency for TLS.

mod algorithm;
mod claims;
mod fetch;
mod jwk;
mod key_store;
mod settings;
mod signed_token;
#[cfg(test)]
mod tests;
mod token_cache;

use std::sync::Arc;

use toolpost::{Identity, since_epoch};

pub use algorithm::Algorithm;
pub use settings::JwtSettings;

use claims::Claims;
use fetch::KeyFetchError;
use key_store::KeyStore;
use signed_token::{SignatureError, SignedToken};
use token_cache::TokenCache;

use super::TokenHash;

/// Maximum length of a token, in bytes. Longer tokens are rejected without parsing.
const MAX_TOKEN_LEN: usize = 16 * 1024;

/// Verifies JWT access tokens.
#[derive(Debug)]
pub(super) struct JwtVerifier {
    keys: KeyStore,
    cache: TokenCache,
}

/// Error from verifying a JWT.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwtError {
    /// The token is malformed.
    #[error("the token cannot be read: {0}")]
    Malformed(&'static str),
    /// The signature algorithm is not accepted.
    #[error("the signature algorithm of the token is not accepted")]
    Algorithm,
    /// No published key matches the token, or the signature is invalid.
    #[error("the token signature is invalid")]
    Signature,
    /// A claim does not have the expected value.
    #[error("the token is not accepted: {0}")]
    Claims(String),
    /// The signature cannot be verified because the keys are unavailable.
    #[error("the signing keys of the authorization server are unavailable: {0}")]
    KeysUnavailable(String),
}

impl JwtVerifier {
    pub(super) fn new(settings: JwtSettings) -> Self {
        Self { keys: KeyStore::new(settings), cache: TokenCache::default() }
    }

    pub(super) fn settings(&self) -> &JwtSettings {
        &self.keys.settings
    }

    /// Whether the token looks like a JWT: three parts, of which the first starts like an encoded
    /// JSON object.
    pub(super) fn is_jwt(token: &str) -> bool {
        token.starts_with("eyJ") && token.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Verifies a token and returns its identity. If the future is dropped, the next call repeats a
    /// fetch that was in progress.
    pub(super) async fn verify(&self, token: &str) -> Result<Arc<Identity>, JwtError> {
        if token.len() > MAX_TOKEN_LEN {
            return Err(JwtError::Malformed("it is too long"));
        }
        let (hash, now) = (TokenHash::of(token), unix_now());
        if let Some(identity) = self.cache.get(&hash, now, self.keys.generation()) {
            return Ok(identity);
        }
        let signed = SignedToken::parse(token, &self.settings().algorithms)?;
        self.check_signature(&signed).await?;
        let claims = Claims::parse(&signed.payload)?;
        // Read the clock again: fetching keys may have taken a while.
        let now = unix_now();
        let until = claims.expires_at(self.settings());
        let identity = Arc::new(claims.identity(self.settings(), now)?.with_expiry(until));
        self.cache.insert(hash, Arc::clone(&identity), until, now, self.keys.generation());
        Ok(identity)
    }

    /// Checks the signature. If the key is unknown, keys are fetched once more before the token is
    /// rejected, because the issuer may have rotated them.
    async fn check_signature(&self, signed: &SignedToken<'_>) -> Result<(), JwtError> {
        let current = self.keys.current().await?;
        let mut checked = signed.verify(&current.keys);
        if checked == Err(SignatureError::UnknownKey)
            && let Ok(renewed) = self.keys.newer_than(Some(&current)).await
        {
            checked = signed.verify(&renewed.keys);
        }
        checked.map_err(|_| JwtError::Signature)
    }
}

impl From<KeyFetchError> for JwtError {
    fn from(error: KeyFetchError) -> Self {
        Self::KeysUnavailable(error.to_string())
    }
}

/// Returns the current time in seconds since the Unix epoch.
fn unix_now() -> u64 {
    since_epoch().as_secs()
}
