//! Requests to strangers: each has a deadline, and each answer a largest size.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{RequestBuilder, Response};
use url::Url;

use super::error::{OAuthError, redact_url};
use super::url_policy::UrlPolicy;
use crate::protocol::Secret;

/// How long a request may take, with all of its answer.
const DEADLINE: Duration = Duration::from_secs(30);
/// The largest answer that is read.
const MAX_BYTES: usize = 1024 * 1024;
/// How often a document may have moved on its own server.
const MAX_REDIRECTS: usize = 3;

/// The way out.
#[derive(Clone)]
pub(super) struct FetchClient {
    client: reqwest::Client,
    pub(super) url_policy: UrlPolicy,
}

/// An answer, whatever its status.
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

    /// Gets a document, which may have moved, but not to another server.
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

    /// Sends JSON, to this address and no other.
    pub(super) async fn post_json(
        &self,
        what: &'static str,
        url: &Url,
        body: &serde_json::Value,
    ) -> Result<FetchResponse, OAuthError> {
        self.post(what, url, self.client.post(url.clone()).json(body)).await
    }

    /// Sends a form, to this address and no other.
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
    /// An error about this answer.
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
    // The client was to follow nothing by itself; what came from elsewhere is not taken.
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

/// Where an answer sends its reader: nowhere, to an address, or to something that is none.
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
