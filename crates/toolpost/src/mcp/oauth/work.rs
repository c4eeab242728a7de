//! The way to a token: what is kept, a refresh, a person; in this order.

use std::sync::Arc;

use super::address::Reach;
use super::authorization::{Authorizer, Pending};
use super::discovery::Discovered;
use super::error::{OAuthError, shown};
use super::grant::Grant;
use super::identity;
use super::inner::{Inner, Need, Refusal};
use super::scope::{self, Selection};
use super::store::Credentials;
use crate::clock::epoch_ms;
use crate::protocol::Secret;

impl Inner {
    /// Answers a refusal.
    pub(super) async fn answer(self: Arc<Self>, refusal: Refusal) -> Result<Secret, OAuthError> {
        let stored = self.stored().await?;
        if let Some(token) = self.adopt(&stored, &refusal) {
            return Ok(token);
        }
        let refreshable = stored.iter().any(|credentials| refresh_of(credentials).is_some());
        if self.authorizer.is_none() && !(refreshable && refusal.need == Need::Token) {
            return Err(self.needs_person(&self.reason(&refusal, &stored)));
        }
        let kept = stored.iter().find_map(|credentials| credentials.resource_metadata.as_deref());
        let hint = refusal.challenge.resource_metadata.as_deref().or(kept);
        let known: Vec<String> = stored.iter().map(|kept| kept.issuer.clone()).collect();
        let discovered = self.discover(hint, &known).await?;
        let issuer = &discovered.server.issuer;
        let own = stored.iter().find(|credentials| &credentials.issuer == issuer);
        match refusal.need {
            Need::Token => {
                if let Some(token) = self.try_refresh(&discovered, own, &refusal).await? {
                    return Ok(token);
                }
            }
            Need::Scope => self.check_scope(own, &refusal)?,
        }
        self.authorize(discovered, &stored, &refusal).await
    }

    /// A token that somebody else brought into the store meanwhile.
    fn adopt(&self, stored: &[Credentials], refusal: &Refusal) -> Option<Secret> {
        let first = stored.first()?;
        let tokens = first.tokens.as_ref().filter(|tokens| tokens.holds_at(epoch_ms()))?;
        if Some(&tokens.access) == refusal.used.as_ref() {
            return None;
        }
        let mut state = self.state();
        if state.tokens().is_some_and(|current| current.access == tokens.access) {
            return None;
        }
        state.set(first.clone());
        Some(tokens.access.clone())
    }

    /// The token for a refresh token; none if that does not help, and a person has to be asked.
    async fn try_refresh(
        self: &Arc<Self>,
        discovered: &Arc<Discovered>,
        own: Option<&Credentials>,
        refusal: &Refusal,
    ) -> Result<Option<Secret>, OAuthError> {
        let Some(own) = own.filter(|own| refresh_of(own).is_some()) else { return Ok(None) };
        let Some(tokens) = own.tokens.clone() else { return Ok(None) };
        if self.state().is_new(refusal.used.as_ref()) {
            return Ok(None);
        }
        match self.renew(discovered.clone(), tokens).await {
            Ok(token) => Ok(Some(token)),
            Err(error) if error.code().is_some() || error.is_for_a_person() => {
                tracing::info!(resource = shown(&self.key), %error, "the refresh token was refused");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A scope that the token already has cannot be what is missing.
    fn check_scope(&self, own: Option<&Credentials>, refusal: &Refusal) -> Result<(), OAuthError> {
        let wanted = &refusal.challenge.scopes;
        let granted = own.and_then(|own| own.tokens.as_ref()?.scopes.as_ref());
        match granted {
            Some(granted) if !wanted.is_empty() && scope::covers(granted, wanted) => {
                Err(self.exhausted(wanted))
            }
            _ => Ok(()),
        }
    }

    /// Asks a person.
    async fn authorize(
        self: &Arc<Self>,
        discovered: Arc<Discovered>,
        stored: &[Credentials],
        refusal: &Refusal,
    ) -> Result<Secret, OAuthError> {
        let Some(authorizer) = &self.authorizer else {
            return Err(self.needs_person(&self.reason(refusal, stored)));
        };
        let server = &discovered.server;
        let own = stored.iter().find(|credentials| credentials.issuer == server.issuer);
        let scopes = self.select(&discovered, own, refusal);
        let scope = scopes.join(" ");
        if !self.state().attempts.is_open(&server.issuer, &scope) {
            return Err(self.exhausted(&scopes));
        }
        let redirect_uri = authorizer.redirect_uri();
        Reach::Local.check("redirect address", &redirect_uri)?;
        let client =
            identity::client(&self.http, &self.settings, server, stored, &redirect_uri, &scopes)
                .await?;
        let pending = Pending::new(&discovered, &client.id, redirect_uri, &scopes)?;
        self.state().attempts.note(&server.issuer, &scope);
        let code = self.ask(authorizer.as_ref(), &pending).await;
        if let Err(error) = &code {
            self.state().fail(refusal, error);
            if error.code() == Some("invalid_scope") {
                // What was asked for before is no longer known there: the next time starts anew.
                self.kept(self.store.forget(&self.key, &server.issuer).await)?;
            }
        }
        let mut credentials = Credentials::new(server.issuer.clone(), client);
        credentials.scopes = scopes;
        let before = own.and_then(|own| own.resource_metadata.clone());
        credentials.resource_metadata = refusal.challenge.resource_metadata.clone().or(before);
        let (inner, code) = (self.clone(), code?);
        self.seen_through(
            async move { inner.finish(&discovered, credentials, &pending, &code).await },
        )
        .await
    }

    async fn ask(
        &self,
        authorizer: &dyn Authorizer,
        asked: &Pending,
    ) -> Result<Secret, OAuthError> {
        let answer = authorizer.authorize(asked.address.clone()).await?;
        asked.code(&answer)
    }

    /// Hands the code in, and keeps what comes.
    async fn finish(
        &self,
        discovered: &Discovered,
        mut credentials: Credentials,
        pending: &Pending,
        code: &Secret,
    ) -> Result<Secret, OAuthError> {
        let (verifier, redirect_uri) = (&pending.verifier, pending.redirect_uri.as_str());
        let grant = Grant::Code { code, verifier, redirect_uri };
        let tokens = self.exchange(discovered, &credentials, &grant).await;
        let tokens = match tokens {
            Ok(tokens) => tokens,
            Err(error) => {
                self.drop_refused(&error, &mut credentials).await?;
                return Err(error);
            }
        };
        let access = tokens.access.clone();
        credentials.tokens = Some(tokens);
        self.state().set(credentials.clone());
        self.save(credentials).await?;
        Ok(access)
    }

    fn select(
        &self,
        discovered: &Discovered,
        own: Option<&Credentials>,
        refusal: &Refusal,
    ) -> Vec<String> {
        let selection = Selection {
            configured: &self.settings.scopes,
            challenged: &refusal.challenge.scopes,
            step_up: refusal.need == Need::Scope,
            resource: &discovered.scopes,
            before: own.map(|own| own.scopes.as_slice()).unwrap_or_default(),
            server: discovered.server.scopes.as_deref(),
            refresh: discovered.server.refresh,
        };
        selection.scopes()
    }

    fn reason(&self, refusal: &Refusal, stored: &[Credentials]) -> String {
        if refusal.need == Need::Scope {
            return format!("it wants the scope `{}`", refusal.challenge.scopes.join(" "));
        }
        let reason = if self.state().is_new(refusal.used.as_ref()) {
            "it refuses a token that was just refreshed"
        } else if stored.iter().any(|credentials| refresh_of(credentials).is_some()) {
            "the refresh token is no longer good"
        } else if refusal.used.is_some() || !stored.is_empty() {
            "the token is no longer good, and cannot be refreshed"
        } else {
            "there is no token yet"
        };
        reason.to_owned()
    }
}

fn refresh_of(credentials: &Credentials) -> Option<&Secret> {
    credentials.tokens.as_ref()?.refresh.as_ref()
}
