//! Tokens of an authorization server, by the flow of client credentials (RFC 6749, section 4.4).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::time::Instant;
use url::{Host, Url};

use super::error::CredentialError;
use super::settings::OAuth2Client;
use crate::protocol::Secret;

mod exchange;

use exchange::{Exchange, Granted};

/// A token is fetched anew when a tenth of its life is left, and at most this long before its end.
const EARLY: Duration = Duration::from_secs(30);
/// How long a refusal counts for those who come after it.
const REFUSED: Duration = Duration::from_secs(1);

type FlightFuture = BoxFuture<'static, Result<Secret, CredentialError>>;
type Flight = Shared<FlightFuture>;

/// The token of one client for one scope, fetched by the first who needs it for all who do.
#[derive(Debug)]
pub(super) struct Tokens {
    inner: std::sync::Arc<Inner>,
}

struct Inner {
    exchange: Exchange,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: Option<Held>,
    /// The request under way; it ends when nobody waits for it any more.
    flight: Option<WeakShared<FlightFuture>>,
    refused: Option<(CredentialError, Instant)>,
}

#[derive(Clone)]
struct Held {
    token: Secret,
    /// When it is fetched anew, and when it is over; never, if nobody said.
    ripe: Option<Instant>,
    over: Option<Instant>,
}

impl Tokens {
    pub(super) fn new(
        http: reqwest::Client,
        client: OAuth2Client,
        url: Url,
        scope: String,
    ) -> Self {
        let exchange = Exchange::new(http, client, url, scope);
        Self { inner: std::sync::Arc::new(Inner { exchange, state: Mutex::default() }) }
    }

    /// A token that holds for a while.
    pub(super) async fn current(&self) -> Result<Secret, CredentialError> {
        let now = Instant::now();
        let (flight, held) = {
            let mut state = self.inner.state();
            let held = state.held.clone().filter(|held| held.over.is_none_or(|over| now < over));
            match held {
                Some(held) if held.ripe.is_none_or(|ripe| now < ripe) => return Ok(held.token),
                held => (self.inner.flight(&mut state)?, held),
            }
        };
        match (flight.await, held) {
            (Err(error), Some(held)) => {
                tracing::warn!(%error, "the token was not renewed, and is used to its end");
                Ok(held.token)
            }
            (result, _) => result,
        }
    }

    /// A token in place of one that was refused. Whoever was refused with an older one is given the
    /// one that replaced it.
    pub(super) async fn other_than(&self, used: &Secret) -> Result<Secret, CredentialError> {
        let flight = {
            let mut state = self.inner.state();
            match state.held.take_if(|held| held.token == *used) {
                None if state.held.is_some() => None,
                _ => Some(self.inner.flight(&mut state)?),
            }
        };
        match flight {
            Some(flight) => flight.await,
            None => self.current().await,
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request under way, or a new one.
    fn flight(self: &std::sync::Arc<Self>, state: &mut State) -> Result<Flight, CredentialError> {
        if let Some(flight) = state.flight.as_ref().and_then(WeakShared::upgrade) {
            return Ok(flight);
        }
        if let Some((error, at)) = &state.refused
            && at.elapsed() < REFUSED
        {
            return Err(error.clone());
        }
        let inner = self.clone();
        let flight = async move {
            let result = inner.exchange.fetch().await;
            inner.settle(result)
        };
        let flight = flight.boxed().shared();
        state.flight = flight.downgrade();
        Ok(flight)
    }

    fn settle(&self, result: Result<Granted, CredentialError>) -> Result<Secret, CredentialError> {
        let mut state = self.state();
        state.flight = None;
        match result {
            Ok(granted) => {
                let token = granted.token.clone();
                (state.held, state.refused) = (Some(Held::new(granted)), None);
                Ok(token)
            }
            Err(error) => {
                let lasts = !error.is_transient();
                state.refused = lasts.then(|| (error.clone(), Instant::now()));
                Err(error)
            }
        }
    }
}

impl Held {
    fn new(granted: Granted) -> Self {
        let now = Instant::now();
        let over = granted.life.and_then(|life| now.checked_add(life));
        let ripe = granted
            .life
            .and_then(|life| now.checked_add(life.saturating_sub(EARLY.min(life / 10))));
        Self { token: granted.token, ripe, over }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

/// Whether a secret may be sent to an address: encrypted, or not off this machine.
pub(super) fn check(url: &Url) -> Result<(), CredentialError> {
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let reason = match url.scheme() {
        _ if !url.username().is_empty() || url.password().is_some() => "it has a user in it",
        "https" => return Ok(()),
        "http" if is_here => return Ok(()),
        _ => "it has to be HTTPS",
    };
    Err(CredentialError::Address { address: exchange::shown(url), reason })
}
