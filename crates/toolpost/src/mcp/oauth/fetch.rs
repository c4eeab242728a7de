//! HTTP requests to untrusted servers, with a deadline and a size limit.

use std::time::Duration;

use reqwest::header::ACCEPT;
use url::Url;

use super::error::{OAuthError, redact_url};
use super::url_policy::UrlPolicy;
use crate::http::{FetchError, FetchLimits, FetchedResponse, fetch, fetch_following};
use crate::token_endpoint::TokenError;

const LIMITS: FetchLimits =
    FetchLimits { timeout: Duration::from_secs(30), max_bytes: 1024 * 1024 };
/// Maximum number of redirects that are followed within the same origin.
const MAX_REDIRECTS: usize = 3;

/// An HTTP client and the URLs that it may contact.
#[derive(Clone)]
pub(super) struct FetchClient {
    pub(super) client: reqwest::Client,
    pub(super) url_policy: UrlPolicy,
}

impl FetchClient {
    /// Fetches a document; follows redirects only within the same origin.
    pub(super) async fn get(
        &self,
        what: &'static str,
        url: &Url,
    ) -> Result<FetchedResponse, OAuthError> {
        let request = |url: &Url| self.client.get(url.clone()).header(ACCEPT, "application/json");
        let check = |from: &Url, to: &Url| match to.origin() == from.origin() {
            true => Ok(()),
            false => Err(FetchError::RejectedRedirect),
        };
        let fetched = fetch_following(url, LIMITS, MAX_REDIRECTS, request, check).await;
        fetched.map_err(|error| fetch_error(what, url, error))
    }

    /// Sends JSON without following redirects.
    pub(super) async fn post_json(
        &self,
        what: &'static str,
        url: &Url,
        body: &serde_json::Value,
    ) -> Result<FetchedResponse, OAuthError> {
        let request = self.client.post(url.clone()).header(ACCEPT, "application/json").json(body);
        let fetched = match fetch(request, LIMITS).await {
            Ok(response) if response.status.is_redirection() => Err(FetchError::RejectedRedirect),
            fetched => fetched,
        };
        fetched.map_err(|error| fetch_error(what, url, error))
    }
}

/// Returns an error about a response.
pub(super) fn invalid_response(
    what: &'static str,
    url: &Url,
    reason: impl Into<String>,
) -> OAuthError {
    let address = redact_url(url.as_str());
    OAuthError::InvalidResponse { what, address, reason: reason.into(), transient: false }
}

fn fetch_error(what: &'static str, url: &Url, error: FetchError) -> OAuthError {
    match error {
        FetchError::TooLarge(_) => invalid_response(what, url, error.to_string()),
        FetchError::UncheckedRedirect
        | FetchError::RejectedRedirect
        | FetchError::TooManyRedirects => {
            invalid_response(what, url, "it redirects to another location")
        }
        error => {
            let address = redact_url(url.as_str());
            OAuthError::Unreachable { what, address, source: error.into() }
        }
    }
}

/// Converts an error of an OAuth endpoint.
pub(super) fn endpoint_error(what: &'static str, url: &Url, error: TokenError) -> OAuthError {
    let address = redact_url(url.as_str());
    let transient = error.is_transient();
    match error {
        TokenError::Unreachable(source) => OAuthError::Unreachable { what, address, source },
        TokenError::Rejected { code: error, description } => {
            OAuthError::Rejected { what, address, error, description }
        }
        TokenError::Invalid(reason) => invalid_response(what, url, reason),
        TokenError::Status(status) | TokenError::RejectedStatus(status) => {
            let reason = format!("it has status {}", status.as_u16());
            OAuthError::InvalidResponse { what, address, reason, transient }
        }
    }
}
