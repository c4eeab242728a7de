//! HTTP requests to untrusted servers, with a deadline and a size limit.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{RequestBuilder, Response};
use url::Url;

use super::error::{OAuthError, redact_url};
use super::url_policy::UrlPolicy;
use crate::protocol::Secret;

/// Maximum duration of a request, including reading the response.
const DEADLINE: Duration = Duration::from_secs(30);
/// Maximum size of a response body.
const MAX_BYTES: usize = 1024 * 1024;
/// Maximum number of redirects that are followed within the same origin.
const MAX_REDIRECTS: usize = 3;

/// The way out.
#[derive(Clone)]
pub(super) struct FetchClient {
    client: reqwest::Client,
    pub(super) url_policy: UrlPolicy,
}

/// A response with any status.
pub(super) struct FetchResponse {
    pub(super) what: &'static str,
    pub(super) address: String,
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl FetchClient {
    pub(super) fn new(client: reqwest::Client, url_policy: UrlPolicy) -> Self {
        Self { client, url_policy }
    }

    /// Fetches a document; follows redirects only within the same origin.
    pub(super) async fn get(
        &self,
        what: &'static str,
        url: &Url,
    ) -> Result<FetchResponse, OAuthError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let request = self.client.get(url.clone()).header(ACCEPT, "application/json");
            let response = send(what, &url, request).await?;
            let Some(to) = redirect_target(&response, &url) else {
                return read_response(what, &url, response).await;
            };
            url = to
                .filter(|to| to.origin() == url.origin())
                .ok_or_else(|| redirect_rejected(what, &url))?;
        }
        Err(redirect_rejected(what, &url))
    }

    /// Sends JSON without following redirects.
    pub(super) async fn post_json(
        &self,
        what: &'static str,
        url: &Url,
        body: &serde_json::Value,
    ) -> Result<FetchResponse, OAuthError> {
        self.post(what, url, self.client.post(url.clone()).json(body)).await
    }

    /// Sends a form without following redirects.
    pub(super) async fn post_form(
        &self,
        what: &'static str,
        url: &Url,
        form: String,
        authorization: Option<&Secret>,
    ) -> Result<FetchResponse, OAuthError> {
        let mut request = self.client.post(url.clone()).body(form);
        request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(authorization) = authorization {
            let mut value = HeaderValue::from_str(authorization.reveal()).map_err(|_| {
                OAuthError::Internal { reason: "the client secret is not a valid header value" }
            })?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        self.post(what, url, request).await
    }

    async fn post(
        &self,
        what: &'static str,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<FetchResponse, OAuthError> {
        let response = send(what, url, request.header(ACCEPT, "application/json")).await?;
        if response.status().is_redirection() {
            return Err(redirect_rejected(what, url));
        }
        read_response(what, url, response).await
    }
}

impl FetchResponse {
    /// Returns an error about this response.
    pub(super) fn invalid_response(&self, reason: impl Into<String>) -> OAuthError {
        let transient = self.status >= 500 || matches!(self.status, 408 | 429);
        invalid_response_error(self.what, &self.address, reason.into(), transient)
    }
}

async fn send(
    what: &'static str,
    url: &Url,
    request: RequestBuilder,
) -> Result<Response, OAuthError> {
    let response = request
        .timeout(DEADLINE)
        .send()
        .await
        .map_err(|error| unreachable_error(what, url, error))?;
    // The client must not follow redirects; a response from another URL is rejected.
    if response.url() == url { Ok(response) } else { Err(redirect_rejected(what, url)) }
}

async fn read_response(
    what: &'static str,
    url: &Url,
    mut response: Response,
) -> Result<FetchResponse, OAuthError> {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(|error| unreachable_error(what, url, error))?
    {
        if body.len() + chunk.len() > MAX_BYTES {
            let reason = format!("it is larger than {MAX_BYTES} bytes");
            return Err(invalid_response_error(what, &redact_url(url.as_str()), reason, false));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(FetchResponse { what, address: redact_url(url.as_str()), status, body })
}

/// Returns the redirect target: `None` without a redirect, `Some(None)` for an invalid location.
fn redirect_target(response: &Response, url: &Url) -> Option<Option<Url>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok();
    Some(location.and_then(|location| url.join(location).ok()))
}

fn redirect_rejected(what: &'static str, url: &Url) -> OAuthError {
    let reason = "it redirects to another location".to_owned();
    invalid_response_error(what, &redact_url(url.as_str()), reason, false)
}

fn invalid_response_error(
    what: &'static str,
    address: &str,
    reason: String,
    transient: bool,
) -> OAuthError {
    OAuthError::InvalidResponse { what, address: address.to_owned(), reason, transient }
}

fn unreachable_error(what: &'static str, url: &Url, error: reqwest::Error) -> OAuthError {
    let source = error.without_url().into();
    OAuthError::Unreachable { what, address: redact_url(url.as_str()), source }
}
