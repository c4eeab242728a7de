//! Acquires a token: stored credentials, then a refresh, then user authorization.

use std::sync::Arc;

use super::authorization::AuthorizationRequest;
use super::client_registration;
use super::discovery::DiscoveryResult;
use super::error::{OAuthError, redact_url};
use super::grant::Grant;
use super::scope::{self, ScopeSelection};
use super::shared::{ChallengeKind, OAuthInner, RejectedRequest};
use super::store::Credentials;
use super::url_policy::UrlPolicy;
use crate::clock::epoch_ms;
use crate::protocol::Secret;

impl OAuthInner {
    /// Acquires a token after a rejected request.
    pub(super) async fn handle_rejection(
        self: Arc<Self>,
        rejected: RejectedRequest,
    ) -> Result<Secret, OAuthError> {
        let stored = self.load_stored().await?;
        if let Some(token) = self.adopt_stored_token(&stored, &rejected) {
            return Ok(token);
        }
        let refreshable = stored.iter().any(|credentials| refresh_token(credentials).is_some());
        if self.authorizer.is_none()
            && !(refreshable && rejected.kind == ChallengeKind::InvalidToken)
        {
            return Err(self.authorization_required(&self.authorization_reason(&rejected, &stored)));
        }
        let saved = stored.iter().find_map(|credentials| credentials.resource_metadata.as_deref());
        let hint = rejected.challenge.resource_metadata.as_deref().or(saved);
        let known: Vec<String> = stored.iter().map(|saved| saved.issuer.clone()).collect();
        let discovered = self.discover(hint, &known).await?;
        let issuer = &discovered.server.issuer;
        let issuer_credentials = stored.iter().find(|credentials| &credentials.issuer == issuer);
        match rejected.kind {
            ChallengeKind::InvalidToken => {
                if let Some(token) =
                    self.try_refresh(&discovered, issuer_credentials, &rejected).await?
                {
                    return Ok(token);
                }
            }
            ChallengeKind::InsufficientScope => self.check_scope(issuer_credentials, &rejected)?,
        }
        self.authorize(discovered, &stored, &rejected).await
    }

    /// Returns a token that another process or client has stored since the request was sent.
    fn adopt_stored_token(
        &self,
        stored: &[Credentials],
        rejected: &RejectedRequest,
    ) -> Option<Secret> {
        let first = stored.first()?;
        let tokens = first.tokens.as_ref().filter(|tokens| tokens.is_valid_at(epoch_ms()))?;
        if Some(&tokens.access) == rejected.used_token.as_ref() {
            return None;
        }
        let mut state = self.state();
        if state.tokens().is_some_and(|current| current.access == tokens.access) {
            return None;
        }
        state.set_credentials(first.clone());
        Some(tokens.access.clone())
    }

    /// Exchanges the refresh token. Returns `None` if there is none or it is rejected.
    async fn try_refresh(
        self: &Arc<Self>,
        discovered: &Arc<DiscoveryResult>,
        issuer_credentials: Option<&Credentials>,
        rejected: &RejectedRequest,
    ) -> Result<Option<Secret>, OAuthError> {
        let tokens = issuer_credentials.and_then(|credentials| credentials.tokens.clone());
        let tokens = tokens.filter(|tokens| {
            let used = rejected.used_token.as_ref();
            tokens.refresh.is_some() && !self.state().is_recently_refreshed(used)
        });
        let Some(tokens) = tokens else { return Ok(None) };
        match self.refresh(discovered.clone(), tokens).await {
            Ok(token) => Ok(Some(token)),
            Err(
                error @ (OAuthError::Rejected { .. } | OAuthError::AuthorizationRequired { .. }),
            ) => {
                tracing::info!(resource = redact_url(&self.store_key), %error, "refresh token rejected");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Fails if the token already has the required scopes, because a new token would not help.
    fn check_scope(
        &self,
        issuer_credentials: Option<&Credentials>,
        rejected: &RejectedRequest,
    ) -> Result<(), OAuthError> {
        let required = &rejected.challenge.scopes;
        let granted =
            issuer_credentials.and_then(|credentials| credentials.tokens.as_ref()?.scopes.as_ref());
        match granted {
            Some(granted) if !required.is_empty() && scope::covers(granted, required) => {
                Err(self.attempts_exhausted(required))
            }
            _ => Ok(()),
        }
    }

    /// Runs user authorization.
    async fn authorize(
        self: &Arc<Self>,
        discovered: Arc<DiscoveryResult>,
        stored: &[Credentials],
        rejected: &RejectedRequest,
    ) -> Result<Secret, OAuthError> {
        let Some(authorizer) = &self.authorizer else {
            return Err(self.authorization_required(&self.authorization_reason(rejected, stored)));
        };
        let server = &discovered.server;
        let issuer_credentials =
            stored.iter().find(|credentials| credentials.issuer == server.issuer);
        let scopes = self.select_scopes(&discovered, issuer_credentials, rejected);
        let scope = scopes.join(" ");
        if !self.state().attempts.allow(&server.issuer, &scope) {
            return Err(self.attempts_exhausted(&scopes));
        }
        let redirect_uri = authorizer.redirect_uri();
        UrlPolicy::AllowLoopbackHttp.check("redirect address", &redirect_uri)?;
        let client = client_registration::resolve_client(
            &self.http,
            &self.settings,
            server,
            stored,
            &redirect_uri,
            &scopes,
        )
        .await?;
        let pending = AuthorizationRequest::new(&discovered, &client.id, redirect_uri, &scopes)?;
        self.state().attempts.record(&server.issuer, &scope);
        let redirect = authorizer.authorize(pending.url.clone()).await;
        let code = redirect.and_then(|redirect| pending.code_from_redirect(&redirect));
        if let Err(error) = &code {
            self.state().record_failure(rejected, error);
            if error.oauth_code() == Some("invalid_scope") {
                // The next authorization starts without the stored scopes.
                self.map_store_error(self.store.remove(&self.store_key, &server.issuer).await)?;
            }
        }
        let mut credentials = Credentials::new(server.issuer.clone(), client);
        credentials.scopes = scopes;
        let before =
            issuer_credentials.and_then(|credentials| credentials.resource_metadata.clone());
        credentials.resource_metadata = rejected.challenge.resource_metadata.clone().or(before);
        let (inner, code) = (self.clone(), code?);
        self.run_to_completion(async move {
            inner.exchange_code(&discovered, credentials, &pending, &code).await
        })
        .await
    }

    /// Exchanges the authorization code for tokens and stores them.
    async fn exchange_code(
        &self,
        discovered: &DiscoveryResult,
        mut credentials: Credentials,
        pending: &AuthorizationRequest,
        code: &Secret,
    ) -> Result<Secret, OAuthError> {
        let (verifier, redirect_uri) = (&pending.verifier, pending.redirect_uri.as_str());
        let grant = Grant::AuthorizationCode { code, verifier, redirect_uri };
        let tokens = self.exchange(discovered, &mut credentials, &grant).await?;
        let access = tokens.access.clone();
        credentials.tokens = Some(tokens);
        self.state().set_credentials(credentials.clone());
        self.save(credentials).await?;
        Ok(access)
    }

    fn select_scopes(
        &self,
        discovered: &DiscoveryResult,
        issuer_credentials: Option<&Credentials>,
        rejected: &RejectedRequest,
    ) -> Vec<String> {
        let selection = ScopeSelection {
            configured: &self.settings.scopes,
            challenged: &rejected.challenge.scopes,
            step_up: rejected.kind == ChallengeKind::InsufficientScope,
            resource: &discovered.scopes,
            previous: issuer_credentials.map_or(&[], |credentials| &credentials.scopes),
            server: discovered.server.scopes.as_deref(),
            supports_refresh: discovered.server.supports_refresh,
        };
        selection.scopes()
    }

    fn authorization_reason(&self, rejected: &RejectedRequest, stored: &[Credentials]) -> String {
        if rejected.kind == ChallengeKind::InsufficientScope {
            return format!("it requires the scope `{}`", rejected.challenge.scopes.join(" "));
        }
        let reason = if self.state().is_recently_refreshed(rejected.used_token.as_ref()) {
            "it rejected a token that was just refreshed"
        } else if stored.iter().any(|credentials| refresh_token(credentials).is_some()) {
            "the refresh token is no longer valid"
        } else if rejected.used_token.is_some() || !stored.is_empty() {
            "the token is no longer valid and cannot be refreshed"
        } else {
            "there is no token yet"
        };
        reason.to_owned()
    }
}

fn refresh_token(credentials: &Credentials) -> Option<&Secret> {
    credentials.tokens.as_ref()?.refresh.as_ref()
}
