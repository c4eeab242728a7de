//! What one client has at hand.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::time::Instant;

use super::attempt_limiter::AttemptLimiter;
use super::discovery::DiscoveryResult;
use super::error::OAuthError;
use super::shared::RejectedRequest;
use super::store::{Credentials, Tokens};
use crate::clock::epoch_ms;
use crate::protocol::Secret;

/// How long a token counts as new: one that is refused that soon is not worth a refresh.
const RECENT_REFRESH: Duration = Duration::from_secs(30);
/// How long a failed renewal of a token that is still valid is not tried again.
const REFRESH_RETRY_DELAY: Duration = Duration::from_secs(10);
/// How long the answer of a person counts for those who were refused together.
const SHARED_FAILURE_WINDOW: Duration = Duration::from_secs(5);

/// Work that ends with a token, and that everybody waits for who needs one.
pub(super) type SharedAcquisition = Shared<AcquisitionFuture>;
pub(super) type AcquisitionFuture = BoxFuture<'static, Result<Secret, OAuthError>>;

/// Why a flight is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcquisitionKind {
    /// The token ends soon.
    Refresh,
    /// A server refused.
    Challenge,
}

/// What one client has at hand. It is looked at for a moment, never while something is awaited.
#[derive(Default)]
pub(super) struct TokenState {
    /// Whether the store was asked.
    pub(super) loaded: bool,
    pub(super) credentials: Option<Credentials>,
    pub(super) discovered: Option<Arc<DiscoveryResult>>,
    pub(super) attempts: AttemptLimiter,
    /// The flight under way; it ends when nobody waits for it any more.
    pub(super) in_flight: Option<(AcquisitionKind, WeakShared<AcquisitionFuture>)>,
    refreshed_at: Option<Instant>,
    refresh_not_before: Option<Instant>,
    last_failure: Option<(RejectedRequest, OAuthError, Instant)>,
}

/// What can be said of the token at hand.
#[derive(Debug)]
pub(super) enum TokenStatus {
    /// There is none, or one that is over and cannot be renewed.
    Missing,
    /// It can be used.
    Valid(Secret),
    /// It should be renewed; it is still valid, if it is given.
    RefreshDue(Option<Secret>),
}

impl TokenState {
    pub(super) fn token_status(&self) -> TokenStatus {
        let Some(tokens) = self.tokens() else { return TokenStatus::Missing };
        let now = epoch_ms();
        let is_valid = tokens.is_valid_at(now);
        let is_delayed = self.refresh_not_before.is_some_and(|until| Instant::now() < until);
        let is_due =
            tokens.refresh.is_some() && tokens.is_refresh_due_at(now) && !(is_valid && is_delayed);
        match (is_valid, is_due) {
            (true, false) => TokenStatus::Valid(tokens.access.clone()),
            (false, false) => TokenStatus::Missing,
            (is_valid, true) => TokenStatus::RefreshDue(is_valid.then(|| tokens.access.clone())),
        }
    }

    /// The token that replaced the one that was used, if there is one that is still valid.
    pub(super) fn replacement(&self, used: Option<&Secret>) -> Option<Secret> {
        let tokens = self.tokens().filter(|tokens| tokens.is_valid_at(epoch_ms()))?;
        (Some(&tokens.access) != used).then(|| tokens.access.clone())
    }

    /// The flight under way, if anybody still waits for it.
    pub(super) fn current_acquisition(&self) -> Option<(AcquisitionKind, SharedAcquisition)> {
        let (kind, flight) = self.in_flight.as_ref()?;
        Some((*kind, flight.upgrade()?))
    }

    /// What a person was asked for in vain a moment ago. Of many who are refused at once some come
    /// late, and must not open the next window.
    pub(super) fn recent_failure(&self, rejection: &RejectedRequest) -> Option<OAuthError> {
        let (of, error, at) = self.last_failure.as_ref()?;
        (of == rejection && at.elapsed() < SHARED_FAILURE_WINDOW).then(|| error.clone())
    }

    pub(super) fn record_failure(&mut self, rejection: &RejectedRequest, error: &OAuthError) {
        self.last_failure = Some((rejection.clone(), error.clone(), Instant::now()));
    }

    pub(super) fn set_credentials(&mut self, credentials: Credentials) {
        (self.credentials, self.refreshed_at, self.refresh_not_before) =
            (Some(credentials), None, None);
    }

    pub(super) fn set_refreshed(&mut self, credentials: Credentials) {
        self.set_credentials(credentials);
        self.refreshed_at = Some(Instant::now());
    }

    pub(super) fn delay_refresh(&mut self) {
        self.refresh_not_before = Some(Instant::now() + REFRESH_RETRY_DELAY);
    }

    /// Whether a token came from a refresh a moment ago.
    pub(super) fn is_recently_refreshed(&self, used: Option<&Secret>) -> bool {
        let same = self.tokens().is_some_and(|tokens| Some(&tokens.access) == used);
        same && self.refreshed_at.is_some_and(|at| at.elapsed() < RECENT_REFRESH)
    }

    pub(super) fn tokens(&self) -> Option<&Tokens> {
        self.credentials.as_ref()?.tokens.as_ref()
    }
}
