//! The keys that are known, and when others are fetched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fetch::{self, FetchError};
use super::jwk::VerificationKey;
use super::settings::JwtSettings;
use super::signed_token::{SignatureError, SignedToken};

/// Why no token can be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyStoreError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("the last attempt failed a moment ago")]
    RecentlyFailed,
}

/// The keys of one issuer.
#[derive(Debug)]
pub(super) struct KeyStore {
    settings: JwtSettings,
    cached: ArcSwapOption<KeySet>,
    /// Counts the sets that were different from the one before.
    generation: AtomicU64,
    /// Held while keys are fetched, so that nobody asks twice at once; those who have keys go on.
    fetching: Mutex<FetchState>,
}

/// Keys of one moment.
#[derive(Debug)]
pub(super) struct KeySet {
    keys: Vec<VerificationKey>,
    raw: String,
    fetched_at: Instant,
}

#[derive(Debug, Default)]
struct FetchState {
    client: Option<reqwest::Client>,
    /// When it was last tried.
    last_attempt: Option<Instant>,
}

impl KeySet {
    pub(super) fn verify(&self, signed: &SignedToken<'_>) -> Result<(), SignatureError> {
        signed.verify(&self.keys)
    }
}

impl KeyStore {
    pub(super) fn new(settings: &JwtSettings) -> Self {
        Self {
            settings: settings.clone(),
            cached: ArcSwapOption::empty(),
            generation: AtomicU64::new(0),
            fetching: Mutex::default(),
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The keys, fetched if there are none or they are old. Whoever finds that somebody is fetching
    /// goes on with what there is; old keys are kept while the server is down.
    pub(super) async fn current(&self) -> Result<Arc<KeySet>, KeyStoreError> {
        let Some(known) = self.cached.load_full() else { return self.fetch_first().await };
        let is_old = known.fetched_at.elapsed() >= self.settings.refresh.0;
        if is_old
            && let Ok(mut fetching) = self.fetching.try_lock()
            && self.can_fetch(&fetching)
        {
            return Ok(self.fetch(&mut fetching).await.unwrap_or(known));
        }
        Ok(known)
    }

    async fn fetch_first(&self) -> Result<Arc<KeySet>, KeyStoreError> {
        let mut fetching = self.fetching.lock().await;
        // Whoever held the lock may have brought them.
        if let Some(known) = self.cached.load_full() {
            return Ok(known);
        }
        if !self.can_fetch(&fetching) {
            return Err(KeyStoreError::RecentlyFailed);
        }
        Ok(self.fetch(&mut fetching).await?)
    }

    /// Newer keys than those that were just looked at, if any can be had now.
    pub(super) async fn refresh(&self) -> Option<Arc<KeySet>> {
        let before = self.cached.load_full()?;
        let mut fetching = self.fetching.lock().await;
        let now = self.cached.load_full()?;
        if !Arc::ptr_eq(&before, &now) {
            return Some(now);
        }
        if !self.can_fetch(&fetching) {
            return None;
        }
        self.fetch(&mut fetching).await.ok()
    }

    /// Anybody can make up the name of a key, and must not make this gateway ask for it each time.
    fn can_fetch(&self, fetching: &FetchState) -> bool {
        fetching.last_attempt.is_none_or(|tried| tried.elapsed() >= self.settings.refresh.1)
    }

    async fn fetch(&self, fetching: &mut FetchState) -> Result<Arc<KeySet>, FetchError> {
        fetching.last_attempt = Some(Instant::now());
        if fetching.client.is_none() {
            fetching.client = fetch::build_client();
        }
        let Some(client) = &fetching.client else {
            return Err(FetchError::Unreachable("a client for HTTP".to_owned()));
        };
        let keys = fetch::fetch_keys(client, &self.settings).await.inspect_err(|error| {
            tracing::warn!(%error, "the keys of the authorization server were not fetched");
        })?;
        let known = KeySet { raw: format!("{keys:?}"), keys, fetched_at: Instant::now() };
        let known = Arc::new(known);
        let before = self.cached.swap(Some(Arc::clone(&known)));
        // What was checked by the same keys still holds.
        if before.is_none_or(|before| before.raw != known.raw) {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        Ok(known)
    }
}
