//! The OAuth client: provides tokens and handles authorization challenges.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::ready;
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;
use url::Url;

use super::authorization::Authorizer;
use super::challenge::Challenge;
use super::error::{OAuthError, redact_url};
use super::fetch::FetchClient;
use super::shared::{OAuthInner, RejectedRequest};
use super::store::CredentialStore;
use super::token_state::{
    AcquisitionFuture, AcquisitionKind, SharedAcquisition, TokenState, TokenStatus,
};
use super::url_policy::{self, UrlPolicy};
use crate::mcp::settings::OAuthSettings;
use crate::protocol::Secret;

/// The tokens for one MCP server. Clones share all state.
///
/// # Cancellation
///
/// Dropping a call stops waiting. When the last waiting call is dropped, a pending user
/// authorization is abandoned. A request to a token endpoint always completes, because its response
/// replaces the code or refresh token that was sent. [`OAuth::close`] waits for it.
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
/// // The server responds with 401, and there is no authorizer.
/// let challenged = oauth.handle_challenge(401, Some("Bearer scope=\"files\""), None).await;
/// assert!(matches!(challenged, Err(OAuthError::AuthorizationRequired { .. })));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct OAuth {
    inner: Arc<OAuthInner>,
}

impl OAuth {
    /// Creates a client for the server at `resource`.
    ///
    /// `http` must not follow redirects (`reqwest::redirect::Policy::none()`), so that credentials
    /// are sent only to the token endpoint. Without an `authorizer`, only stored tokens are used
    /// and refreshed.
    pub fn new(
        http: reqwest::Client,
        resource: Url,
        settings: OAuthSettings,
        store: Arc<dyn CredentialStore>,
        authorizer: Option<Arc<dyn Authorizer>>,
    ) -> Self {
        // A resource that must not receive tokens is rejected when a token is required.
        let url_policy = UrlPolicy::for_resource(&resource).unwrap_or(UrlPolicy::HttpsOnly);
        let inner = OAuthInner {
            http: FetchClient { client: http, url_policy },
            store_key: url_policy::canonical_resource(&resource),
            resource,
            settings,
            store,
            authorizer,
            tasks: TaskTracker::new(),
            state: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the token to send, refreshed if it expires soon; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read, or if the token has expired and the
    /// authorization server cannot be reached. A rejected refresh token is not an error, because
    /// the MCP server will respond with a challenge.
    pub async fn token(&self) -> Result<Option<Secret>, OAuthError> {
        if !self.inner.state().loaded {
            self.inner.load().await?;
        }
        let (current, flight) = {
            let mut state = self.inner.state();
            let current = match state.token_status() {
                TokenStatus::Missing => return Ok(None),
                TokenStatus::Valid(token) => return Ok(Some(token)),
                TokenStatus::RefreshDue(current) => current,
            };
            match (state.current_acquisition(), &current) {
                // User authorization may take minutes; meanwhile the valid token is used.
                (Some((AcquisitionKind::Challenge, _)), Some(current)) => {
                    return Ok(Some(current.clone()));
                }
                (Some((_, flight)), _) => (current, flight),
                (None, _) => {
                    let refresh = self.inner.clone().refresh_current().boxed();
                    let kind = AcquisitionKind::Refresh;
                    (current, self.inner.start_acquisition(&mut state, kind, refresh))
                }
            }
        };
        match (flight.await, current) {
            (Ok(token), _) => Ok(Some(token)),
            (Err(error), Some(current)) => {
                tracing::warn!(resource = redact_url(&self.inner.store_key), %error, "token refresh failed");
                self.inner.state().delay_refresh();
                Ok(Some(current))
            }
            (Err(error), None) if error.is_transient() => Err(error),
            (Err(error), None) => {
                tracing::info!(resource = redact_url(&self.inner.store_key), %error, "token expired");
                Ok(None)
            }
        }
    }

    /// Acquires a token after the server responded with 401, or with 403 and `insufficient_scope`.
    ///
    /// Several `WWW-Authenticate` headers are passed as one, separated by commas. `used` is the
    /// rejected token. Concurrent calls with the same token share one authorization. If `used` has
    /// already been replaced, the new token is returned immediately. The caller should then send
    /// its request again, and give up after the third rejection.
    ///
    /// # Errors
    ///
    /// Returns [`OAuthError::AuthorizationRequired`] if user authorization is required and there is
    /// no [`Authorizer`], or the error that prevented the acquisition.
    pub async fn handle_challenge(
        &self,
        status: u16,
        www_authenticate: Option<&str>,
        used: Option<&Secret>,
    ) -> Result<Secret, OAuthError> {
        UrlPolicy::for_resource(&self.inner.resource)?;
        let challenge = Challenge::parse(www_authenticate.unwrap_or_default());
        let challenge_kind = self.inner.classify_challenge(status, &challenge)?;
        let rejected =
            RejectedRequest { kind: challenge_kind, challenge, used_token: used.cloned() };
        let (kind, acquisition) = self.inner.join_or_start(&rejected);
        match (kind, acquisition.await) {
            // A refresh in flight does not run user authorization, so try again if it failed.
            (AcquisitionKind::Refresh, Err(_)) => self.inner.join_or_start(&rejected).1.await,
            (_, result) => result,
        }
    }

    /// Waits until all requests to token endpoints have completed and their tokens are stored.
    pub async fn close(&self) {
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl OAuthInner {
    /// Returns the known result, or the acquisition to wait for, which is started if there is none.
    fn join_or_start(
        self: &Arc<Self>,
        rejected: &RejectedRequest,
    ) -> (AcquisitionKind, SharedAcquisition) {
        let mut state = self.state();
        let replacement = state.replacement(rejected.used_token.as_ref()).map(Ok);
        let known = replacement.or_else(|| state.recent_failure(rejected).map(Err));
        let kind = AcquisitionKind::Challenge;
        if let Some(known) = known {
            return (kind, ready(known).boxed().shared());
        }
        state.current_acquisition().unwrap_or_else(|| {
            let acquisition = self.clone().handle_rejection(rejected.clone()).boxed();
            (kind, self.start_acquisition(&mut state, kind, acquisition))
        })
    }

    fn start_acquisition(
        self: &Arc<Self>,
        state: &mut TokenState,
        kind: AcquisitionKind,
        work: AcquisitionFuture,
    ) -> SharedAcquisition {
        let inner = self.clone();
        let shared_work = async move {
            let result = work.await;
            inner.state().in_flight = None;
            result
        };
        let flight = shared_work.boxed().shared();
        state.in_flight = flight.downgrade().map(|weak| (kind, weak));
        flight
    }
}

debug_fields!(oauth: OAuth, resource = oauth.inner.store_key);
