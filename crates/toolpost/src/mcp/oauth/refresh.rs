//! Refreshes tokens without user interaction.

use std::sync::Arc;

use super::discovery::DiscoveryResult;
use super::error::{OAuthError, redact_url};
use super::grant::Grant;
use super::shared::OAuthInner;
use super::store::{Credentials, Tokens};
use crate::clock::epoch_ms;
use crate::protocol::Secret;

impl OAuthInner {
    /// Refreshes the current token without user interaction.
    pub(super) async fn refresh_current(self: Arc<Self>) -> Result<Secret, OAuthError> {
        let (credentials, discovered) = {
            let state = self.state();
            (state.credentials.clone(), state.discovered.clone())
        };
        let Some((tokens, credentials)) =
            credentials.and_then(|mut credentials| Some((credentials.tokens.take()?, credentials)))
        else {
            return Err(self.authorization_required("there is no token"));
        };
        let discovered = match discovered {
            Some(discovered) if discovered.server.issuer == credentials.issuer => discovered,
            _ => {
                let hint = credentials.resource_metadata.clone();
                self.discover(hint.as_deref(), std::slice::from_ref(&credentials.issuer)).await?
            }
        };
        if discovered.server.issuer != credentials.issuer {
            return Err(
                self.authorization_required("the server now uses another authorization server")
            );
        }
        self.refresh(discovered, tokens).await
    }

    /// Exchanges the refresh token for new tokens and stores them.
    pub(super) async fn refresh(
        self: &Arc<Self>,
        discovered: Arc<DiscoveryResult>,
        old: Tokens,
    ) -> Result<Secret, OAuthError> {
        let inner = self.clone();
        self.run_to_completion(async move { inner.refresh_locked(&discovered, &old).await }).await
    }

    async fn refresh_locked(
        &self,
        discovered: &DiscoveryResult,
        old: &Tokens,
    ) -> Result<Secret, OAuthError> {
        let _guard = self.map_store_error(self.store.lock(&self.store_key).await)?;
        // The previous holder of the lock may have refreshed the tokens already.
        let issuer = &discovered.server.issuer;
        let mut stored = self.load_stored().await?.into_iter();
        let stored = stored.find(|credentials| &credentials.issuer == issuer);
        let Some((credentials, tokens)) =
            stored.and_then(|stored| Some((stored.clone(), stored.tokens?)))
        else {
            return Err(self.authorization_required("the tokens are no longer in the store"));
        };
        if tokens.access != old.access && !tokens.is_refresh_due_at(epoch_ms()) {
            self.state().set_credentials(credentials);
            return Ok(tokens.access);
        }
        self.exchange_refresh_token(discovered, credentials, &tokens).await
    }

    async fn exchange_refresh_token(
        &self,
        discovered: &DiscoveryResult,
        mut credentials: Credentials,
        tokens: &Tokens,
    ) -> Result<Secret, OAuthError> {
        let Some(refresh) = &tokens.refresh else {
            return Err(self.authorization_required("the token cannot be refreshed"));
        };
        let grant = Grant::RefreshToken(refresh);
        let tokens = self.exchange(discovered, &mut credentials, &grant).await?;
        let access = tokens.access.clone();
        credentials.tokens = Some(tokens);
        self.state().set_refreshed(credentials.clone());
        if let Err(error) = self.save(credentials).await {
            // The token is valid; only other processes cannot read it from the store.
            tracing::warn!(resource = redact_url(&self.store_key), %error, "failed to store the new token");
        }
        Ok(access)
    }
}
