//! Tokens that an authorization server has signed: JWT, by the keys that it publishes.
//!
//! | file | holds |
//! |---|---|
//! | `algorithm` | the signatures that are taken; none of them has a secret in common with the signer |
//! | `key` | the keys of a JWK set |
//! | `signed` | a token: its parts, and whether a key has signed it |
//! | `claims` | what it says, checked against what is expected; time is an argument |
//! | `keys` | the keys that are known, and when others are fetched |
//! | `fetch` | bounded requests to the authorization server |
//!
//! The signatures are checked by ring, which is in the tree for TLS already.

mod algorithm;
mod cache;
mod claims;
mod fetch;
mod key;
mod keys;
mod settings;
mod signed;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use toolpost::Identity;

pub use algorithm::Algorithm;
pub(crate) use fetch::is_safe;
pub use settings::{JwtSettings, ScopesClaim};

use cache::Cache;
use claims::Claims;
use keys::{Keys, KeysError};
use signed::{Signed, SignedError};

use super::TokenHash;

/// Longer tokens are not looked at.
const LONGEST: usize = 16 * 1024;

/// Checks signed tokens.
#[derive(Debug)]
pub(super) struct Verifier {
    settings: JwtSettings,
    keys: Keys,
    cache: Cache,
}

/// Why a signed token is nobody's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwtError {
    /// It is not a token that could be checked at all.
    #[error("the token cannot be read: {0}")]
    Unreadable(&'static str),
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
    #[error("the keys of the authorization server cannot be had: {0}")]
    NoKeys(String),
}

impl Verifier {
    pub(super) fn new(settings: JwtSettings) -> Self {
        let keys = Keys::new(&settings);
        Self { settings, keys, cache: Cache::default() }
    }

    pub(super) fn settings(&self) -> &JwtSettings {
        &self.settings
    }

    /// Whether a token is of this kind: three parts, the first of them an object.
    pub(super) fn knows_form(token: &str) -> bool {
        token.starts_with("eyJ") && token.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Who a token says its owner is.
    ///
    /// # Cancellation
    ///
    /// Dropping it leaves nothing behind; a fetch that it has begun is begun again by the next one.
    pub(super) async fn verify(&self, token: &str) -> Result<Arc<Identity>, JwtError> {
        if token.len() > LONGEST {
            return Err(JwtError::Unreadable("it is too long"));
        }
        let (hash, now) = (TokenHash::of(token), epoch());
        if let Some(identity) = self.cache.get(&hash, now, self.keys.generation()) {
            return Ok(identity);
        }
        let signed = Signed::read(token, &self.settings.algorithms)?;
        self.check_signature(&signed).await?;
        let claims = Claims::read(&signed.payload)?;
        // Fetching keys may have taken a while.
        let now = epoch();
        let identity = Arc::new(claims.identity(&self.settings, now)?);
        let until = claims.until(&self.settings);
        self.cache.put(hash, Arc::clone(&identity), until, now, self.keys.generation());
        Ok(identity)
    }

    /// A token whose key is not known may be signed by a new one, so that keys are fetched once more
    /// before it is refused.
    async fn check_signature(&self, signed: &Signed<'_>) -> Result<(), JwtError> {
        match self.keys.current().await?.check(signed) {
            Err(SignedError::UnknownKey) => {
                let Some(renewed) = self.keys.renewed().await else {
                    return Err(JwtError::Signature);
                };
                renewed.check(signed).map_err(|_| JwtError::Signature)
            }
            checked => checked.map_err(|_| JwtError::Signature),
        }
    }
}

impl From<KeysError> for JwtError {
    fn from(error: KeysError) -> Self {
        Self::NoKeys(error.to_string())
    }
}

/// Seconds since 1970.
fn epoch() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
