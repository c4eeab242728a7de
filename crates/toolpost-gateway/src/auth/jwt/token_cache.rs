//! Cache of verified tokens.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use toolpost::Identity;

use super::super::TokenHash;

/// Maximum number of cached tokens. Stale entries are removed first, then all.
const MAX_ENTRIES: usize = 4_096;

/// Verified tokens by hash. An entry is valid until the token expires or the keys change.
#[derive(Debug, Default)]
pub(super) struct TokenCache(Mutex<HashMap<TokenHash, CachedToken>>);

#[derive(Debug)]
struct CachedToken {
    identity: Arc<Identity>,
    expires_at: u64,
    /// Generation of the keys that verified the token.
    generation: u64,
}

impl TokenCache {
    pub(super) fn get(&self, hash: &TokenHash, now: u64, generation: u64) -> Option<Arc<Identity>> {
        let known = self.0.lock();
        let entry = known.get(hash)?;
        (now < entry.expires_at && entry.generation == generation)
            .then(|| Arc::clone(&entry.identity))
    }

    pub(super) fn insert(
        &self,
        hash: TokenHash,
        identity: Arc<Identity>,
        until: u64,
        now: u64,
        generation: u64,
    ) {
        let mut known = self.0.lock();
        if known.len() >= MAX_ENTRIES {
            known.retain(|_, entry| now < entry.expires_at && entry.generation == generation);
        }
        if known.len() >= MAX_ENTRIES {
            known.clear();
        }
        known.insert(hash, CachedToken { identity, expires_at: until, generation });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_entry_expires_with_token_or_keys_and_is_bounded() {
        let cache = TokenCache::default();
        let (hash, ada) = (TokenHash::of("t"), Arc::new(Identity::new("ada")));
        cache.insert(hash, Arc::clone(&ada), 100, 0, 1);
        for (now, generation, expected) in [(99, 1, true), (100, 1, false), (99, 2, false)] {
            assert_eq!(cache.get(&hash, now, generation).is_some(), expected, "{now} {generation}");
        }
        for number in 0..2 * MAX_ENTRIES {
            cache.insert(TokenHash::of(&number.to_string()), Arc::clone(&ada), 100, 0, 1);
            assert!(cache.0.lock().len() <= MAX_ENTRIES);
        }
    }
}
