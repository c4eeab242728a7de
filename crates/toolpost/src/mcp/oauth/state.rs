//! What one client has at hand.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::time::Instant;

use super::attempts::Attempts;
use super::discovery::Discovered;
use super::error::OAuthError;
use super::inner::Refusal;
use super::store::{Credentials, Tokens};
use crate::clock::epoch_ms;
use crate::protocol::Secret;

/// How long a token counts as new: one that is refused that soon is not worth a refresh.
const NEW: Duration = Duration::from_secs(30);
/// How long a failed renewal of a token that still holds is not tried again.
const REST: Duration = Duration::from_secs(10);
/// How long the answer of a person counts for those who were refused together.
const TOGETHER: Duration = Duration::from_secs(5);

/// Work that ends with a token, and that everybody waits for who needs one.
pub(super) type Flight = Shared<FlightFuture>;
pub(super) type FlightFuture = BoxFuture<'static, Result<Secret, OAuthError>>;

/// Why a flight is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The token ends soon.
    Renewal,
    /// A server refused.
    Refusal,
}

/// What one client has at hand. It is looked at for a moment, never while something is awaited.
#[derive(Default)]
pub(super) struct State {
    /// Whether the store was asked.
    pub(super) loaded: bool,
    pub(super) credentials: Option<Credentials>,
    pub(super) discovered: Option<Arc<Discovered>>,
    pub(super) attempts: Attempts,
    /// The flight under way; it ends when nobody waits for it any more.
    pub(super) running: Option<(Kind, WeakShared<FlightFuture>)>,
    renewed: Option<Instant>,
    rest_until: Option<Instant>,
    failed: Option<(Refusal, OAuthError, Instant)>,
}

/// What can be said of the token at hand.
#[derive(Debug)]
pub(super) enum Standing {
    /// There is none, or one that is over and cannot be renewed.
    Nothing,
    /// It can be used.
    Good(Secret),
    /// It should be renewed; it still holds, if it is given.
    Ripe(Option<Secret>),
}

impl State {
    pub(super) fn standing(&self) -> Standing {
        let Some(tokens) = self.tokens() else { return Standing::Nothing };
        let now = epoch_ms();
        let holds = tokens.holds_at(now);
        let rests = self.rest_until.is_some_and(|until| Instant::now() < until);
        let due = tokens.refresh.is_some() && tokens.is_ripe_at(now) && !(holds && rests);
        match (holds, due) {
            (true, false) => Standing::Good(tokens.access.clone()),
            (false, false) => Standing::Nothing,
            (holds, true) => Standing::Ripe(holds.then(|| tokens.access.clone())),
        }
    }

    /// The token that replaced the one that was used, if there is one that still holds.
    pub(super) fn replacement(&self, used: Option<&Secret>) -> Option<Secret> {
        let tokens = self.tokens().filter(|tokens| tokens.holds_at(epoch_ms()))?;
        (Some(&tokens.access) != used).then(|| tokens.access.clone())
    }

    /// The flight under way, if anybody still waits for it.
    pub(super) fn flight(&self) -> Option<(Kind, Flight)> {
        let (kind, flight) = self.running.as_ref()?;
        Some((*kind, flight.upgrade()?))
    }

    /// What a person was asked for in vain a moment ago. Of many who are refused at once some come
    /// late, and must not open the next window.
    pub(super) fn failure(&self, refusal: &Refusal) -> Option<OAuthError> {
        let (of, error, at) = self.failed.as_ref()?;
        (of == refusal && at.elapsed() < TOGETHER).then(|| error.clone())
    }

    pub(super) fn fail(&mut self, refusal: &Refusal, error: &OAuthError) {
        self.failed = Some((refusal.clone(), error.clone(), Instant::now()));
    }

    pub(super) fn set(&mut self, credentials: Credentials) {
        (self.credentials, self.renewed, self.rest_until) = (Some(credentials), None, None);
    }

    pub(super) fn set_renewed(&mut self, credentials: Credentials) {
        self.set(credentials);
        self.renewed = Some(Instant::now());
    }

    pub(super) fn rest(&mut self) {
        self.rest_until = Some(Instant::now() + REST);
    }

    /// Whether a token came from a refresh a moment ago.
    pub(super) fn is_new(&self, used: Option<&Secret>) -> bool {
        let same = self.tokens().is_some_and(|tokens| Some(&tokens.access) == used);
        same && self.renewed.is_some_and(|at| at.elapsed() < NEW)
    }

    pub(super) fn tokens(&self) -> Option<&Tokens> {
        self.credentials.as_ref()?.tokens.as_ref()
    }
}
