//! Token state of one client.

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

/// How long a refreshed token is recent; a rejected recent token is not refreshed again.
const RECENT_REFRESH: Duration = Duration::from_secs(30);
/// Delay before a failed refresh is retried while the token is still valid.
const REFRESH_RETRY_DELAY: Duration = Duration::from_secs(10);
/// How long a failed user authorization also fails identical rejections.
const SHARED_FAILURE_WINDOW: Duration = Duration::from_secs(5);

/// A token acquisition that concurrent callers share.
pub(super) type SharedAcquisition = Shared<AcquisitionFuture>;
pub(super) type AcquisitionFuture = BoxFuture<'static, Result<Secret, OAuthError>>;

/// The reason for a token acquisition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcquisitionKind {
    /// The token is about to expire.
    Refresh,
    /// A server rejected a request.
    Challenge,
}

/// Token state of one client. Its lock is never held across an await.
#[derive(Default)]
pub(super) struct TokenState {
    /// Whether the store was read.
    pub(super) loaded: bool,
    pub(super) credentials: Option<Credentials>,
    pub(super) discovered: Option<Arc<DiscoveryResult>>,
    pub(super) attempts: AttemptLimiter,
    /// The acquisition in flight; it is dropped with its last waiting caller.
    pub(super) in_flight: Option<(AcquisitionKind, WeakShared<AcquisitionFuture>)>,
    refreshed_at: Option<Instant>,
    refresh_not_before: Option<Instant>,
    last_failure: Option<(RejectedRequest, OAuthError, Instant)>,
}

/// Status of the current token.
#[derive(Debug)]
pub(super) enum TokenStatus {
    /// There is no token, or it has expired and cannot be refreshed.
    Missing,
    /// The token can be used.
    Valid(Secret),
    /// The token should be refreshed; it is present if it is still valid.
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

    /// Returns the current token if it is valid and differs from the used one.
    pub(super) fn replacement(&self, used: Option<&Secret>) -> Option<Secret> {
        let tokens = self.tokens().filter(|tokens| tokens.is_valid_at(epoch_ms()))?;
        (Some(&tokens.access) != used).then(|| tokens.access.clone())
    }

    /// Returns the acquisition in flight, if any caller still waits for it.
    pub(super) fn current_acquisition(&self) -> Option<(AcquisitionKind, SharedAcquisition)> {
        let (kind, flight) = self.in_flight.as_ref()?;
        Some((*kind, flight.upgrade()?))
    }

    /// Returns the error of a recent user authorization for the same rejection, so that a late
    /// concurrent request does not prompt the user again.
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

    /// Whether the used token is current and was refreshed recently.
    pub(super) fn is_recently_refreshed(&self, used: Option<&Secret>) -> bool {
        let same = self.tokens().is_some_and(|tokens| Some(&tokens.access) == used);
        same && self.refreshed_at.is_some_and(|at| at.elapsed() < RECENT_REFRESH)
    }

    pub(super) fn tokens(&self) -> Option<&Tokens> {
        self.credentials.as_ref()?.tokens.as_ref()
    }
}
