//! Cached verification keys and when they are fetched again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use reqwest::ClientBuilder;
use tokio::sync::Mutex;
use tokio::time::Instant;
use toolpost::ClientTls;

use super::fetch::{self, KeyFetchError};
use super::jwk::VerificationKey;
use super::settings::JwtSettings;

/// Cached keys of one issuer.
#[derive(Debug)]
pub(super) struct KeyStore {
    pub(super) settings: JwtSettings,
    cached: ArcSwapOption<KeySet>,
    /// Incremented whenever a fetched key set differs from the previous one.
    generation: AtomicU64,
    /// Locked during a fetch, so that only one runs at a time.
    fetching: Mutex<FetchState>,
}

/// A fetched key set.
#[derive(Debug)]
pub(super) struct KeySet {
    pub(super) keys: Vec<VerificationKey>,
    fetched_at: Instant,
}

#[derive(Debug, Default)]
struct FetchState {
    client: Option<reqwest::Client>,
    /// Time of the last fetch attempt.
    last_attempt: Option<Instant>,
    /// Error of the last fetch attempt, if it failed.
    last_error: Option<String>,
}

impl KeyStore {
    pub(super) fn new(settings: JwtSettings) -> Self {
        Self {
            settings,
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
    pub(super) async fn current(&self) -> Result<Arc<KeySet>, KeyFetchError> {
        let Some(known) = self.cached.load_full() else { return self.newer_than(None).await };
        let is_old = known.fetched_at.elapsed() >= self.settings.refresh.0;
        if is_old && let Ok(mut fetching) = self.fetching.try_lock() {
            return Ok(self.fetch(&mut fetching).await.unwrap_or(known));
        }
        Ok(known)
    }

    /// Returns keys that were fetched after the given ones.
    pub(super) async fn newer_than(
        &self,
        seen: Option<&Arc<KeySet>>,
    ) -> Result<Arc<KeySet>, KeyFetchError> {
        let mut fetching = self.fetching.lock().await;
        // Another call may have fetched them while this one waited for the lock.
        match self.cached.load_full() {
            Some(now) if seen.is_none_or(|seen| !Arc::ptr_eq(seen, &now)) => Ok(now),
            _ => self.fetch(&mut fetching).await,
        }
    }

    /// Fetches the keys at a limited rate, since any token can name an unknown key.
    async fn fetch(&self, fetching: &mut FetchState) -> Result<Arc<KeySet>, KeyFetchError> {
        let last = fetching.last_attempt;
        if last.is_some_and(|last| last.elapsed() < self.settings.refresh.1) {
            let error = fetching.last_error.as_deref().unwrap_or("they were fetched recently");
            return Err(KeyFetchError::RecentlyFailed(error.to_owned()));
        }
        fetching.last_attempt = Some(Instant::now());
        if fetching.client.is_none() {
            let mut tls = ClientTls::default();
            tls.ca_certificates.clone_from(&self.settings.ca_certificates);
            let builder = tls.configure(toolpost::http::client_builder());
            fetching.client = builder.and_then(ClientBuilder::build).ok();
        }
        let Some(client) = &fetching.client else {
            return Err(KeyFetchError::Unreachable("a client for HTTP".to_owned()));
        };
        let fetched = fetch::fetch_keys(client, &self.settings).await;
        fetching.last_error = fetched.as_ref().err().map(ToString::to_string);
        let keys = fetched.inspect_err(|error| {
            tracing::warn!(%error, "failed to fetch the signing keys of the authorization server");
        })?;
        let known = Arc::new(KeySet { keys, fetched_at: Instant::now() });
        let before = self.cached.swap(Some(Arc::clone(&known)));
        // Cached tokens stay valid if the keys are the same.
        if before.is_none_or(|before| before.keys != known.keys) {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        Ok(known)
    }
}
