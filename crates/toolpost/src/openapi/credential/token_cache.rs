//! Cached access tokens of the OAuth 2.0 client credentials grant (RFC 6749, section 4.4).

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use url::{Host, Url};

use super::error::CredentialError;
use super::settings::OAuth2Client;
use crate::protocol::Secret;

mod token_request;

use token_request::{TokenGrant, TokenRequest};

/// Maximum time before expiry at which a token is refreshed. The margin is a tenth of the token
/// lifetime, up to this limit.
const MAX_REFRESH_MARGIN: Duration = Duration::from_secs(30);
/// How long a permanent error is returned to later calls without a new token request.
const ERROR_CACHE_TTL: Duration = Duration::from_secs(1);

type TokenFetchFuture = BoxFuture<'static, Result<Secret, CredentialError>>;
type SharedTokenFetch = Shared<TokenFetchFuture>;

/// The token of one client for one scope. Concurrent calls share one token request.
#[derive(Debug)]
pub(super) struct TokenCache {
    inner: std::sync::Arc<TokenCacheInner>,
}

struct TokenCacheInner {
    request: TokenRequest,
    state: Mutex<TokenState>,
}

#[derive(Default)]
struct TokenState {
    cached: Option<CachedToken>,
    /// The token request in flight. It is dropped when no call waits for it.
    inflight: Option<WeakShared<TokenFetchFuture>>,
    last_error: Option<(CredentialError, Instant)>,
}

#[derive(Clone)]
struct CachedToken {
    token: Secret,
    /// When the token is refreshed. Like `expires_at`, it is `None` if the server sent no lifetime.
    refresh_at: Option<Instant>,
    expires_at: Option<Instant>,
}

impl TokenCache {
    pub(super) fn new(
        http: reqwest::Client,
        client: OAuth2Client,
        url: Url,
        scope: String,
    ) -> Self {
        let exchange = TokenRequest::new(http, client, url, scope);
        Self {
            inner: std::sync::Arc::new(TokenCacheInner {
                request: exchange,
                state: Mutex::default(),
            }),
        }
    }

    /// Returns a valid token. If the refresh of a token fails, it is used until it expires.
    pub(super) async fn current(&self) -> Result<Secret, CredentialError> {
        let now = Instant::now();
        let (fetch, cached) = {
            let mut state = self.inner.state();
            let cached = state
                .cached
                .clone()
                .filter(|cached| cached.expires_at.is_none_or(|expires_at| now < expires_at));
            match cached {
                Some(cached) if cached.refresh_at.is_none_or(|refresh_at| now < refresh_at) => {
                    return Ok(cached.token);
                }
                cached => (self.inner.fetch_shared(&mut state)?, cached),
            }
        };
        match (fetch.await, cached) {
            (Err(error), Some(cached)) => {
                tracing::warn!(%error, "token refresh failed; using the current token until it expires");
                Ok(cached.token)
            }
            (result, _) => result,
        }
    }

    /// Returns a token that replaces a rejected one. If the rejected token was replaced already,
    /// returns the current token.
    pub(super) async fn replace(&self, used: &Secret) -> Result<Secret, CredentialError> {
        let fetch = {
            let mut state = self.inner.state();
            match state.cached.take_if(|cached| cached.token == *used) {
                None if state.cached.is_some() => None,
                _ => Some(self.inner.fetch_shared(&mut state)?),
            }
        };
        match fetch {
            Some(fetch) => fetch.await,
            None => self.current().await,
        }
    }
}

impl TokenCacheInner {
    fn state(&self) -> MutexGuard<'_, TokenState> {
        self.state.lock()
    }

    /// Returns the token request in flight, or starts a new one.
    fn fetch_shared(
        self: &std::sync::Arc<Self>,
        state: &mut TokenState,
    ) -> Result<SharedTokenFetch, CredentialError> {
        if let Some(fetch) = state.inflight.as_ref().and_then(WeakShared::upgrade) {
            return Ok(fetch);
        }
        if let Some((error, at)) = &state.last_error
            && at.elapsed() < ERROR_CACHE_TTL
        {
            return Err(error.clone());
        }
        let inner = self.clone();
        let fetch = async move {
            let result = inner.request.fetch().await;
            inner.store_result(result)
        };
        let fetch = fetch.boxed().shared();
        state.inflight = fetch.downgrade();
        Ok(fetch)
    }

    fn store_result(
        &self,
        result: Result<TokenGrant, CredentialError>,
    ) -> Result<Secret, CredentialError> {
        let mut state = self.state();
        state.inflight = None;
        match result {
            Ok(grant) => {
                let token = grant.token.clone();
                (state.cached, state.last_error) = (Some(CachedToken::new(grant)), None);
                Ok(token)
            }
            Err(error) => {
                let is_permanent = !error.is_transient();
                state.last_error = is_permanent.then(|| (error.clone(), Instant::now()));
                Err(error)
            }
        }
    }
}

impl CachedToken {
    fn new(grant: TokenGrant) -> Self {
        let now = Instant::now();
        let expires_at = grant.lifetime.and_then(|life| now.checked_add(life));
        let refresh_at = grant.lifetime.and_then(|life| {
            now.checked_add(life.saturating_sub(MAX_REFRESH_MARGIN.min(life / 10)))
        });
        Self { token: grant.token, refresh_at, expires_at }
    }
}

impl std::fmt::Debug for TokenCacheInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenCache").field("request", &self.request).finish_non_exhaustive()
    }
}

/// Checks that a secret may be sent to a URL: over HTTPS, or over HTTP to the loopback interface.
pub(super) fn check_token_url(url: &Url) -> Result<(), CredentialError> {
    let is_loopback_host = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let reason = match url.scheme() {
        _ if !url.username().is_empty() || url.password().is_some() => "it has a user in it",
        "https" => return Ok(()),
        "http" if is_loopback_host => return Ok(()),
        _ => "it has to be HTTPS",
    };
    Err(CredentialError::InvalidTokenUrl { address: token_request::redacted_url(url), reason })
}
