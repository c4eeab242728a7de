//! State shared by all ways of acquiring a token.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio_util::task::TaskTracker;
use url::Url;

use super::authorization::Authorizer;
use super::challenge::Challenge;
use super::discovery::{self, DiscoveryResult};
use super::error::{OAuthError, redact_url};
use super::fetch::FetchClient;
use super::grant::{self, Grant};
use super::store::{ClientRegistration, CredentialStore, Credentials, StoreError, Tokens};
use super::token_state::TokenState;
use super::url_policy::UrlPolicy;
use crate::http::excerpt;
use crate::mcp::settings::OAuthSettings;
use crate::protocol::Secret;

/// The OAuth client for one MCP server.
pub(super) struct OAuthInner {
    pub(super) http: FetchClient,
    pub(super) resource: Url,
    /// Key of the resource in the credential store.
    pub(super) store_key: String,
    pub(super) settings: OAuthSettings,
    pub(super) store: Arc<dyn CredentialStore>,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    /// Work that outlives its caller; [`OAuth::close`](super::OAuth::close) waits for it.
    pub(super) tasks: TaskTracker,
    pub(super) state: Mutex<TokenState>,
}

/// A request that the server rejected with a challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RejectedRequest {
    pub(super) kind: ChallengeKind,
    pub(super) challenge: Challenge,
    pub(super) used_token: Option<Secret>,
}

/// Why the server rejected the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChallengeKind {
    InvalidToken,
    InsufficientScope,
}

impl OAuthInner {
    pub(super) fn state(&self) -> MutexGuard<'_, TokenState> {
        self.state.lock()
    }

    /// Loads the stored credentials on first use.
    pub(super) async fn load(&self) -> Result<(), OAuthError> {
        let usable = UrlPolicy::for_resource(&self.resource).is_ok();
        let first = self.load_stored().await?.into_iter().next().filter(|_| usable);
        let mut state = self.state();
        if !state.loaded {
            state.loaded = true;
            if let Some(credentials) = first {
                state.set_credentials(credentials);
            }
        }
        Ok(())
    }

    pub(super) async fn discover(
        &self,
        hint: Option<&str>,
        known: &[String],
    ) -> Result<Arc<DiscoveryResult>, OAuthError> {
        let found = discovery::discover(&self.http, &self.resource, hint, known).await?;
        let found = Arc::new(found);
        self.state().discovered = Some(found.clone());
        Ok(found)
    }

    /// Exchanges a grant for tokens. Credentials that are no longer accepted are discarded.
    pub(super) async fn exchange(
        &self,
        discovered: &DiscoveryResult,
        credentials: &mut Credentials,
        grant: &Grant<'_>,
    ) -> Result<Tokens, OAuthError> {
        let mut client = credentials.client.clone();
        if self.is_configured(&client) {
            client.secret = self.settings.client_secret.clone();
        }
        let before = credentials.tokens.as_ref().and_then(|tokens| tokens.scopes.clone());
        let scopes = &before.unwrap_or_else(|| credentials.scopes.clone());
        let DiscoveryResult { server, resource, .. } = discovered;
        let exchanged = grant::exchange(&self.http, server, &client, resource, grant, scopes).await;
        if let Err(error) = &exchanged {
            self.discard_rejected(error, credentials).await?;
        }
        exchanged
    }

    /// Discards credentials that the authorization server no longer accepts.
    async fn discard_rejected(
        &self,
        error: &OAuthError,
        credentials: &mut Credentials,
    ) -> Result<(), OAuthError> {
        match error.oauth_code() {
            Some("invalid_grant") => {
                let Some(tokens) = &mut credentials.tokens else { return Ok(()) };
                tokens.refresh = None;
                self.state().set_credentials(credentials.clone());
                self.save(credentials.clone()).await
            }
            // A configured client is kept; only its configuration can be corrected.
            Some("invalid_client" | "unauthorized_client")
                if !self.is_configured(&credentials.client) =>
            {
                self.state().credentials = None;
                self.map_store_error(self.store.remove(&self.store_key, &credentials.issuer).await)
            }
            _ => Ok(()),
        }
    }

    /// Loads the credentials for this resource and the configured client, if any.
    pub(super) async fn load_stored(&self) -> Result<Vec<Credentials>, OAuthError> {
        let mut stored = self.map_store_error(self.store.load(&self.store_key).await)?;
        if let Some(id) = &self.settings.client_id {
            stored.retain(|credentials| &credentials.client.id == id);
        }
        Ok(stored)
    }

    pub(super) async fn save(&self, mut credentials: Credentials) -> Result<(), OAuthError> {
        if self.is_configured(&credentials.client) {
            credentials.client.secret = None;
        }
        self.map_store_error(self.store.save(&self.store_key, credentials).await)
    }

    pub(super) fn is_configured(&self, client: &ClientRegistration) -> bool {
        self.settings.client_id.as_ref() == Some(&client.id)
    }

    /// Runs a future to completion even if the caller is dropped.
    pub(super) async fn run_to_completion<F>(&self, work: F) -> Result<Secret, OAuthError>
    where
        F: Future<Output = Result<Secret, OAuthError>> + Send + 'static,
    {
        let done = self.tasks.spawn(work).await;
        done.unwrap_or(Err(OAuthError::Internal { reason: "the token request was interrupted" }))
    }

    pub(super) fn map_store_error<T>(
        &self,
        result: Result<T, StoreError>,
    ) -> Result<T, OAuthError> {
        let resource = redact_url(&self.store_key);
        result.map_err(|error| OAuthError::Store { resource, source: error.into() })
    }

    pub(super) fn classify_challenge(
        &self,
        status: u16,
        challenge: &Challenge,
    ) -> Result<ChallengeKind, OAuthError> {
        match (status, challenge.error.as_deref()) {
            (401, _) => Ok(ChallengeKind::InvalidToken),
            (403, Some("insufficient_scope")) => Ok(ChallengeKind::InsufficientScope),
            _ => Err(OAuthError::Forbidden { resource: redact_url(&self.store_key), status }),
        }
    }

    pub(super) fn authorization_required(&self, reason: &str) -> OAuthError {
        OAuthError::AuthorizationRequired {
            resource: redact_url(&self.store_key),
            reason: reason.to_owned(),
        }
    }

    pub(super) fn attempts_exhausted(&self, scopes: &[String]) -> OAuthError {
        let scope = if scopes.is_empty() { "default".to_owned() } else { scopes.join(" ") };
        OAuthError::AttemptsExhausted {
            resource: redact_url(&self.store_key),
            scope: excerpt(&scope),
        }
    }
}
