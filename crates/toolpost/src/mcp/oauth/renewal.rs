//! A new token for an old one, without asking anybody.

use std::sync::Arc;

use super::discovery::Discovered;
use super::error::{OAuthError, shown};
use super::grant::Grant;
use super::inner::Inner;
use super::store::{Credentials, Tokens};
use crate::clock::epoch_ms;
use crate::protocol::Secret;

impl Inner {
    /// Renews the token at hand without asking anybody.
    pub(super) async fn renewed(self: Arc<Self>) -> Result<Secret, OAuthError> {
        let (credentials, discovered) = {
            let state = self.state();
            (state.credentials.clone(), state.discovered.clone())
        };
        let Some((tokens, credentials)) =
            credentials.and_then(|mut credentials| Some((credentials.tokens.take()?, credentials)))
        else {
            return Err(self.needs_person("there is no token"));
        };
        let discovered = match discovered {
            Some(discovered) if discovered.server.issuer == credentials.issuer => discovered,
            _ => {
                let hint = credentials.resource_metadata.clone();
                self.discover(hint.as_deref(), std::slice::from_ref(&credentials.issuer)).await?
            }
        };
        if discovered.server.issuer != credentials.issuer {
            return Err(self.needs_person("the server uses another authorization server now"));
        }
        self.renew(discovered, tokens).await
    }

    /// Hands the refresh token in, and keeps what comes.
    pub(super) async fn renew(
        self: &Arc<Self>,
        discovered: Arc<Discovered>,
        old: Tokens,
    ) -> Result<Secret, OAuthError> {
        let inner = self.clone();
        self.seen_through(async move { inner.renew_alone(&discovered, &old).await }).await
    }

    async fn renew_alone(
        &self,
        discovered: &Discovered,
        old: &Tokens,
    ) -> Result<Secret, OAuthError> {
        let _alone = self.kept(self.store.lock(&self.key).await)?;
        // Whoever had the lock before may have done it already.
        let issuer = &discovered.server.issuer;
        let stored = self.stored().await?.into_iter().find(|kept| &kept.issuer == issuer);
        let Some((credentials, tokens)) = stored.and_then(|stored| {
            let tokens = stored.tokens.clone()?;
            Some((stored, tokens))
        }) else {
            return Err(self.needs_person("the tokens are gone from the store"));
        };
        if tokens.access != old.access && !tokens.is_ripe_at(epoch_ms()) {
            self.state().set(credentials);
            return Ok(tokens.access);
        }
        self.hand_in(discovered, credentials, &tokens).await
    }

    async fn hand_in(
        &self,
        discovered: &Discovered,
        mut credentials: Credentials,
        tokens: &Tokens,
    ) -> Result<Secret, OAuthError> {
        let Some(refresh) = &tokens.refresh else {
            return Err(self.needs_person("the token cannot be refreshed"));
        };
        let grant = Grant::Refresh(refresh);
        match self.exchange(discovered, &credentials, &grant).await {
            Ok(tokens) => {
                let access = tokens.access.clone();
                credentials.tokens = Some(tokens);
                self.state().set_renewed(credentials.clone());
                if let Err(error) = self.save(credentials).await {
                    // The token is good; only the next process will not know it.
                    tracing::warn!(resource = shown(&self.key), %error, "the new token was not kept");
                }
                Ok(access)
            }
            Err(error) => {
                self.drop_refused(&error, &mut credentials).await?;
                Err(error)
            }
        }
    }
}
