//! Cached verification keys and when they are fetched again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fetch::{self, KeyFetchError};
use super::jwk::VerificationKey;
use super::settings::JwtSettings;
use super::signed_token::{SignatureError, SignedToken};

/// The reason why no keys are available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyStoreError {
    #[error(transparent)]
    Fetch(#[from] KeyFetchError),
    #[error("the last attempt failed a moment ago")]
    RecentlyFailed,
}

/// Cached keys of one issuer.
#[derive(Debug)]
pub(super) struct KeyStore {
    settings: JwtSettings,
    cached: ArcSwapOption<KeySet>,
    /// Incremented whenever a fetched key set differs from the previous one.
    generation: AtomicU64,
    /// Locked during a fetch, so that only one runs at a time. Callers with cached keys do not wait
    /// for it.
    fetching: Mutex<FetchState>,
}

/// A fetched key set.
#[derive(Debug)]
pub(super) struct KeySet {
    keys: Vec<VerificationKey>,
    raw: String,
    fetched_at: Instant,
}

#[derive(Debug, Default)]
struct FetchState {
    client: Option<reqwest::Client>,
    /// Time of the last fetch attempt.
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

    /// Returns the keys and fetches them if there are none or they are stale. While another call is
    /// fetching, the cached keys are returned. Stale keys stay in use while the server is down.
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
        // Another call may have fetched them while this one waited for the lock.
        if let Some(known) = self.cached.load_full() {
            return Ok(known);
        }
        if !self.can_fetch(&fetching) {
            return Err(KeyStoreError::RecentlyFailed);
        }
        Ok(self.fetch(&mut fetching).await?)
    }

    /// Returns newer keys than the cached ones, if they can be fetched now.
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

    /// Whether enough time has passed since the last attempt. Unknown key ids in tokens must not
    /// trigger a fetch each time.
    fn can_fetch(&self, fetching: &FetchState) -> bool {
        fetching.last_attempt.is_none_or(|tried| tried.elapsed() >= self.settings.refresh.1)
    }

    async fn fetch(&self, fetching: &mut FetchState) -> Result<Arc<KeySet>, KeyFetchError> {
        fetching.last_attempt = Some(Instant::now());
        if fetching.client.is_none() {
            fetching.client = toolpost::http::client_builder().build().ok();
        }
        let Some(client) = &fetching.client else {
            return Err(KeyFetchError::Unreachable("a client for HTTP".to_owned()));
        };
        let keys = fetch::fetch_keys(client, &self.settings).await.inspect_err(|error| {
            tracing::warn!(%error, "the keys of the authorization server were not fetched");
        })?;
        let known = KeySet { raw: format!("{keys:?}"), keys, fetched_at: Instant::now() };
        let known = Arc::new(known);
        let before = self.cached.swap(Some(Arc::clone(&known)));
        // Cached tokens stay valid if the keys are the same.
        if before.is_none_or(|before| before.raw != known.raw) {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        Ok(known)
    }
}
