//! Cached access tokens of the OAuth 2.0 client credentials grant (RFC 6749, section 4.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use tokio::time::Instant;
use url::Url;

use super::error::CredentialError;
use super::settings::OAuth2Client;
use crate::http::redact_url;
use crate::protocol::Secret;
use crate::tls::ClientTls;
use crate::token_endpoint::{AuthMethod, IssuedTokens, TokenError, TokenRequest};

/// Maximum time before expiry at which a token is refreshed, a tenth of its lifetime.
const MAX_REFRESH_MARGIN: Duration = Duration::from_secs(30);
/// How long a permanent error is returned to later calls without a new token request.
const ERROR_CACHE_TTL: Duration = Duration::from_secs(1);
/// Errors that do not depend on the client authentication method.
const NON_AUTH_ERRORS: [&str; 3] = ["invalid_scope", "invalid_target", "unsupported_grant_type"];

type TokenFetchFuture = BoxFuture<'static, Result<Secret, CredentialError>>;

/// The token of one client for one scope. Concurrent calls share one token request.
pub(super) struct TokenCache {
    http: reqwest::Client,
    client: OAuth2Client,
    url: Url,
    scope: String,
    /// Whether the server accepts the client secret only in the form.
    uses_post_auth: AtomicBool,
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
    ) -> Arc<Self> {
        let (uses_post_auth, state) = Default::default();
        Arc::new(Self { http, client, url, scope, uses_post_auth, state })
    }

    /// Returns a valid token. If the refresh of a token fails, it is used until it expires.
    pub(super) async fn current(self: &Arc<Self>) -> Result<Secret, CredentialError> {
        let now = Instant::now();
        let (fetch, cached) = {
            let mut state = self.state.lock();
            let cached = state
                .cached
                .clone()
                .filter(|cached| cached.expires_at.is_none_or(|expires_at| now < expires_at));
            match cached {
                Some(cached) if cached.refresh_at.is_none_or(|refresh_at| now < refresh_at) => {
                    return Ok(cached.token);
                }
                cached => (self.fetch_shared(&mut state)?, cached),
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

    /// Returns a token that replaces a rejected one, which may have been replaced already.
    pub(super) async fn replace(
        self: &Arc<Self>,
        used: &Secret,
    ) -> Result<Secret, CredentialError> {
        let fetch = {
            let mut state = self.state.lock();
            match state.cached.take_if(|cached| cached.token == *used) {
                None if state.cached.is_some() => None,
                _ => Some(self.fetch_shared(&mut state)?),
            }
        };
        match fetch {
            Some(fetch) => fetch.await,
            None => self.current().await,
        }
    }

    /// Returns the token request in flight, or starts a new one.
    fn fetch_shared(
        self: &Arc<Self>,
        state: &mut TokenState,
    ) -> Result<Shared<TokenFetchFuture>, CredentialError> {
        if let Some(fetch) = state.inflight.as_ref().and_then(WeakShared::upgrade) {
            return Ok(fetch);
        }
        if let Some((error, at)) = &state.last_error
            && at.elapsed() < ERROR_CACHE_TTL
        {
            return Err(error.clone());
        }
        let cache = Arc::clone(self);
        let fetch = async move {
            let result = cache.fetch().await;
            cache.store_result(result)
        };
        let fetch = fetch.boxed().shared();
        state.inflight = fetch.downgrade();
        Ok(fetch)
    }

    /// Fetches a token with Basic authentication, or with the secret in the form if that fails.
    async fn fetch(&self) -> Result<IssuedTokens, TokenError> {
        if self.uses_post_auth.load(Ordering::Relaxed) {
            return self.request(AuthMethod::Post).await;
        }
        match self.request(AuthMethod::Basic).await {
            Err(TokenError::Rejected { code, .. }) if !NON_AUTH_ERRORS.contains(&&*code) => {}
            Err(TokenError::RejectedStatus(_)) => {}
            result => return result,
        }
        let issued = self.request(AuthMethod::Post).await?;
        self.uses_post_auth.store(true, Ordering::Relaxed);
        Ok(issued)
    }

    async fn request(&self, auth_method: AuthMethod) -> Result<IssuedTokens, TokenError> {
        let OAuth2Client { id: client_id, secret, parameters, .. } = &self.client;
        let mut form = vec![("grant_type", "client_credentials")];
        if !self.scope.is_empty() {
            form.push(("scope", &self.scope));
        }
        form.extend(parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        if auth_method == AuthMethod::Post {
            form.push(("client_id", client_id));
        }
        let client_secret = Some(secret);
        let request = TokenRequest { url: &self.url, client_id, client_secret, auth_method, form };
        request.send(&self.http).await
    }

    fn store_result(
        &self,
        result: Result<IssuedTokens, TokenError>,
    ) -> Result<Secret, CredentialError> {
        let mut state = self.state.lock();
        state.inflight = None;
        match result {
            Ok(issued) => {
                let token = issued.access.clone();
                (state.cached, state.last_error) = (Some(CachedToken::new(issued)), None);
                Ok(token)
            }
            Err(error) => {
                let error = CredentialError::Token { address: redact_url(&self.url), error };
                let is_permanent = !error.is_transient();
                state.last_error = is_permanent.then(|| (error.clone(), Instant::now()));
                Err(error)
            }
        }
    }
}

impl CachedToken {
    fn new(issued: IssuedTokens) -> Self {
        let now = Instant::now();
        let refresh_after = |life: Duration| life - MAX_REFRESH_MARGIN.min(life / 10);
        Self {
            token: issued.access,
            refresh_at: issued.lifetime.map(|life| now + refresh_after(life)),
            expires_at: issued.lifetime.map(|life| now + life),
        }
    }
}

debug_fields!(cache: TokenCache, url = redact_url(&cache.url));

/// Checks that a secret may be sent to a URL.
pub(super) fn check_token_url(url: &Url, tls: &ClientTls) -> Result<(), CredentialError> {
    let reason = if !url.username().is_empty() || url.password().is_some() {
        "it contains credentials"
    } else if !matches!(url.scheme(), "http" | "https") || tls.check_credentials(url).is_err() {
        "it must use HTTPS"
    } else {
        return Ok(());
    };
    Err(CredentialError::InvalidTokenUrl { address: redact_url(url), reason })
}
