//! JWT access tokens, verified with the keys that the authorization server publishes.
//!
//! | file | holds |
//! |---|---|
//! | `algorithm` | the accepted signature algorithms, all of them asymmetric |
//! | `jwk` | the keys of a JWK set |
//! | `signed_token` | a token: its parts and its signature check |
//! | `claims` | validation of the claims; time is an argument |
//! | `key_store` | the cached keys, and when they are fetched again |
//! | `token_cache` | identities of tokens that were verified before |
//! | `fetch` | bounded requests to the authorization server |
//!
//! The signatures are checked by ring, which is in the tree for TLS already.

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
use std::time::{SystemTime, UNIX_EPOCH};

use toolpost::Identity;

pub use algorithm::Algorithm;
pub(crate) use fetch::is_secure_url;
pub use settings::{JwtSettings, ScopesClaim};

use claims::Claims;
use key_store::{KeyStore, KeyStoreError};
use signed_token::{SignatureError, SignedToken};
use token_cache::TokenCache;

use super::TokenHash;

/// Longer tokens are not looked at.
const MAX_TOKEN_LEN: usize = 16 * 1024;

/// Checks signed tokens.
#[derive(Debug)]
pub(super) struct JwtVerifier {
    settings: JwtSettings,
    keys: KeyStore,
    cache: TokenCache,
}

/// Why a signed token is nobody's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwtError {
    /// It is not a token that could be checked at all.
    #[error("the token cannot be read: {0}")]
    Malformed(&'static str),
    /// It is signed in a way that is not taken.
    #[error("the token is signed in a way that is not accepted here")]
    Algorithm,
    /// No published key fits it, or the signature is not that key's.
    #[error("the signature of the token does not hold")]
    Signature,
    /// It says something else than it should.
    #[error("the token is not for this gateway now: {0}")]
    Claims(String),
    /// Whether it is signed cannot be found out.
    #[error("the keys of the authorization server are unavailable: {0}")]
    KeysUnavailable(String),
}

impl JwtVerifier {
    pub(super) fn new(settings: JwtSettings) -> Self {
        let keys = KeyStore::new(&settings);
        Self { settings, keys, cache: TokenCache::default() }
    }

    pub(super) fn settings(&self) -> &JwtSettings {
        &self.settings
    }

    /// Whether a token is of this kind: three parts, the first of them an object.
    pub(super) fn is_jwt(token: &str) -> bool {
        token.starts_with("eyJ") && token.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Who a token says its owner is.
    ///
    /// # Cancellation
    ///
    /// Dropping it leaves nothing behind; a fetch that it has begun is begun again by the next one.
    pub(super) async fn verify(&self, token: &str) -> Result<Arc<Identity>, JwtError> {
        if token.len() > MAX_TOKEN_LEN {
            return Err(JwtError::Malformed("it is too long"));
        }
        let (hash, now) = (TokenHash::of(token), unix_now());
        if let Some(identity) = self.cache.get(&hash, now, self.keys.generation()) {
            return Ok(identity);
        }
        let signed = SignedToken::parse(token, &self.settings.algorithms)?;
        self.check_signature(&signed).await?;
        let claims = Claims::parse(&signed.payload)?;
        // Fetching keys may have taken a while.
        let now = unix_now();
        let identity = Arc::new(claims.identity(&self.settings, now)?);
        let until = claims.expires_at(&self.settings);
        self.cache.insert(hash, Arc::clone(&identity), until, now, self.keys.generation());
        Ok(identity)
    }

    /// A token whose key is not known may be signed by a new one, so that keys are fetched once more
    /// before it is refused.
    async fn check_signature(&self, signed: &SignedToken<'_>) -> Result<(), JwtError> {
        match self.keys.current().await?.verify(signed) {
            Err(SignatureError::UnknownKey) => {
                let Some(renewed) = self.keys.refresh().await else {
                    return Err(JwtError::Signature);
                };
                renewed.verify(signed).map_err(|_| JwtError::Signature)
            }
            checked => checked.map_err(|_| JwtError::Signature),
        }
    }
}

impl From<KeyStoreError> for JwtError {
    fn from(error: KeyStoreError) -> Self {
        Self::KeysUnavailable(error.to_string())
    }
}

/// Seconds since 1970.
fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
