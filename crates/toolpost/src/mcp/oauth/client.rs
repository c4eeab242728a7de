//! The client: who needs a token asks it, and who was refused with one tells it.

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use tokio_util::task::TaskTracker;
use url::Url;

use super::address::{self, Reach};
use super::authorization::Authorizer;
use super::challenge::Challenge;
use super::error::{OAuthError, shown};
use super::fetch::Http;
use super::inner::{Inner, Refusal};
use super::state::{Flight, FlightFuture, Kind, Standing, State};
use super::store::CredentialStore;
use crate::mcp::settings::OAuthSettings;
use crate::protocol::Secret;

/// The tokens for one MCP server. Clones share everything.
///
/// # Cancellation
///
/// Dropping a call stops waiting. When nobody waits any more, a person is no longer waited for
/// either; but what was handed in at a token endpoint is seen through, because its answer replaces
/// what was handed in. [`OAuth::close`] waits for that.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use toolpost::mcp::{MemoryStore, OAuth, OAuthError, OAuthSettings};
/// use reqwest::redirect::Policy;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _ = rustls::crypto::ring::default_provider().install_default();
/// let http = reqwest::Client::builder().redirect(Policy::none()).build()?;
/// let server = "https://mcp.example/mcp".parse()?;
/// let store = Arc::new(MemoryStore::new());
/// let oauth = OAuth::new(http, server, OAuthSettings::default(), store, None);
/// assert!(oauth.token().await?.is_none());
///
/// // The server answers with 401, and nobody is there who could agree to anything.
/// let refused = oauth.challenged(401, Some("Bearer scope=\"files\""), None).await;
/// assert!(matches!(refused, Err(OAuthError::NeedsPerson { .. })));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct OAuth {
    inner: Arc<Inner>,
}

/// What somebody gets who was refused.
enum Joined {
    /// What is known already.
    Done(Result<Secret, OAuthError>),
    /// What is under way.
    Waits((Kind, Flight)),
}

impl Joined {
    async fn end(self) -> (Option<Kind>, Result<Secret, OAuthError>) {
        match self {
            Self::Done(result) => (None, result),
            Self::Waits((kind, flight)) => (Some(kind), flight.await),
        }
    }
}

impl OAuth {
    /// The tokens for the server at `resource`.
    ///
    /// `http` must follow no redirects (`reqwest::redirect::Policy::none()`): what goes to a token
    /// endpoint goes nowhere else. Without an `authorizer`, only tokens that are there are used and
    /// refreshed.
    pub fn new(
        http: reqwest::Client,
        resource: Url,
        settings: OAuthSettings,
        store: Arc<dyn CredentialStore>,
        authorizer: Option<Arc<dyn Authorizer>>,
    ) -> Self {
        // A resource that no token may be sent to is refused when one is wanted.
        let http = Http::new(http, Reach::of(&resource).unwrap_or(Reach::Network));
        let key = address::canonical(&resource);
        let (tasks, state) = (TaskTracker::new(), Mutex::default());
        let inner = Inner { http, resource, key, settings, store, authorizer, tasks, state };
        Self { inner: Arc::new(inner) }
    }

    /// The token to send, renewed if it ends soon; `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, and when a token is over and the authorization server cannot
    /// be reached. A refresh token that is refused is no error: the server will say what it wants.
    pub async fn token(&self) -> Result<Option<Secret>, OAuthError> {
        if !self.inner.state().loaded {
            self.inner.load().await?;
        }
        let (held, flight) = {
            let mut state = self.inner.state();
            let held = match state.standing() {
                Standing::Nothing => return Ok(None),
                Standing::Good(token) => return Ok(Some(token)),
                Standing::Ripe(held) => held,
            };
            match (state.flight(), &held) {
                // A person may take minutes; a token that holds is used until then.
                (Some((Kind::Refusal, _)), Some(held)) => return Ok(Some(held.clone())),
                (Some((_, flight)), _) => (held, flight),
                (None, _) => {
                    let work = self.inner.clone().renewed().boxed();
                    (held, self.inner.start(&mut state, Kind::Renewal, work))
                }
            }
        };
        match (flight.await, held) {
            (Ok(token), _) => Ok(Some(token)),
            (Err(error), Some(held)) => {
                tracing::warn!(resource = shown(&self.inner.key), %error, "the token was not renewed");
                self.inner.state().rest();
                Ok(Some(held))
            }
            (Err(error), None) if error.is_transient() => Err(error),
            (Err(error), None) => {
                tracing::info!(resource = shown(&self.inner.key), %error, "the token is over");
                Ok(None)
            }
        }
    }

    /// Gets a token that may help, after the server refused with 401, or with 403 for want of scope.
    ///
    /// Several `WWW-Authenticate` headers are given as one, with commas between them. `used` is the
    /// token that was refused. Whoever is refused with the same token waits for the
    /// same authorization, and whoever was refused with one that is replaced meanwhile is given the
    /// new one at once. The caller sends its request again, and gives up after the third refusal.
    ///
    /// # Errors
    ///
    /// [`OAuthError::NeedsPerson`] if only a person can help and there is no [`Authorizer`]; else
    /// whatever stood in the way.
    pub async fn challenged(
        &self,
        status: u16,
        www_authenticate: Option<&str>,
        used: Option<&Secret>,
    ) -> Result<Secret, OAuthError> {
        Reach::of(&self.inner.resource)?;
        let challenge = Challenge::parse(www_authenticate.unwrap_or_default());
        let need = self.inner.need(status, &challenge)?;
        let refusal = Refusal { need, challenge, used: used.cloned() };
        match self.inner.join(&refusal).end().await {
            // A renewal does less than is needed here: it asks nobody.
            (Some(Kind::Renewal), Err(_)) => self.inner.join(&refusal).end().await.1,
            (_, result) => result,
        }
    }

    /// Waits until everything that was handed in at a token endpoint is answered and kept.
    pub async fn close(&self) {
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl Inner {
    /// What is there already, or the flight to wait for.
    fn join(self: &Arc<Self>, refusal: &Refusal) -> Joined {
        let mut state = self.state();
        if let Some(token) = state.replacement(refusal.used.as_ref()) {
            return Joined::Done(Ok(token));
        }
        if let Some(error) = state.failure(refusal) {
            return Joined::Done(Err(error));
        }
        if let Some(flight) = state.flight() {
            return Joined::Waits(flight);
        }
        let work = self.clone().answer(refusal.clone()).boxed();
        Joined::Waits((Kind::Refusal, self.start(&mut state, Kind::Refusal, work)))
    }

    fn start(self: &Arc<Self>, state: &mut State, kind: Kind, work: FlightFuture) -> Flight {
        let inner = self.clone();
        let whole = async move {
            let result = work.await;
            inner.state().running = None;
            result
        };
        let flight = whole.boxed().shared();
        state.running = flight.downgrade().map(|weak| (kind, weak));
        flight
    }
}

impl Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("resource", &self.inner.key).finish_non_exhaustive()
    }
}
