//! The keys that are known, and when others are fetched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fetch::{self, FetchError};
use super::key::Key;
use super::settings::JwtSettings;
use super::signed::{Signed, SignedError};

/// Why no token can be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeysError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("they could not be had a moment ago")]
    Again,
}

/// The keys of one issuer.
#[derive(Debug)]
pub(super) struct Keys {
    settings: JwtSettings,
    known: ArcSwapOption<Known>,
    /// Counts the sets that were different from the one before.
    generation: AtomicU64,
    /// Held while keys are fetched, so that nobody asks twice at once; those who have keys go on.
    fetching: Mutex<Fetching>,
}

/// Keys of one moment.
#[derive(Debug)]
pub(super) struct Known {
    keys: Vec<Key>,
    text: String,
    since: Instant,
}

#[derive(Debug, Default)]
struct Fetching {
    client: Option<reqwest::Client>,
    /// When it was last tried.
    tried: Option<Instant>,
}

impl Known {
    pub(super) fn check(&self, signed: &Signed<'_>) -> Result<(), SignedError> {
        signed.check(&self.keys)
    }
}

impl Keys {
    pub(super) fn new(settings: &JwtSettings) -> Self {
        Self {
            settings: settings.clone(),
            known: ArcSwapOption::empty(),
            generation: AtomicU64::new(0),
            fetching: Mutex::default(),
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The keys, fetched if there are none or they are old. Whoever finds that somebody is fetching
    /// goes on with what there is; old keys are kept while the server is down.
    pub(super) async fn current(&self) -> Result<Arc<Known>, KeysError> {
        let Some(known) = self.known.load_full() else { return self.first().await };
        let is_old = known.since.elapsed() >= self.settings.refresh.0;
        if is_old
            && let Ok(mut fetching) = self.fetching.try_lock()
            && self.may_try(&fetching)
        {
            return Ok(self.fetch(&mut fetching).await.unwrap_or(known));
        }
        Ok(known)
    }

    async fn first(&self) -> Result<Arc<Known>, KeysError> {
        let mut fetching = self.fetching.lock().await;
        // Whoever held the lock may have brought them.
        if let Some(known) = self.known.load_full() {
            return Ok(known);
        }
        if !self.may_try(&fetching) {
            return Err(KeysError::Again);
        }
        Ok(self.fetch(&mut fetching).await?)
    }

    /// Newer keys than those that were just looked at, if any can be had now.
    pub(super) async fn renewed(&self) -> Option<Arc<Known>> {
        let before = self.known.load_full()?;
        let mut fetching = self.fetching.lock().await;
        let now = self.known.load_full()?;
        if !Arc::ptr_eq(&before, &now) {
            return Some(now);
        }
        if !self.may_try(&fetching) {
            return None;
        }
        self.fetch(&mut fetching).await.ok()
    }

    /// Anybody can make up the name of a key, and must not make this gateway ask for it each time.
    fn may_try(&self, fetching: &Fetching) -> bool {
        fetching.tried.is_none_or(|tried| tried.elapsed() >= self.settings.refresh.1)
    }

    async fn fetch(&self, fetching: &mut Fetching) -> Result<Arc<Known>, FetchError> {
        fetching.tried = Some(Instant::now());
        if fetching.client.is_none() {
            fetching.client = fetch::client();
        }
        let Some(client) = &fetching.client else {
            return Err(FetchError::Unreachable("a client for HTTP".to_owned()));
        };
        let keys = fetch::keys(client, &self.settings).await.inspect_err(|error| {
            tracing::warn!(%error, "the keys of the authorization server were not fetched");
        })?;
        let known = Known { text: format!("{keys:?}"), keys, since: Instant::now() };
        let known = Arc::new(known);
        let before = self.known.swap(Some(Arc::clone(&known)));
        // What was checked by the same keys still holds.
        if before.is_none_or(|before| before.text != known.text) {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        Ok(known)
    }
}
