//! Requests to strangers: each has a deadline, and each answer a largest size.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{RequestBuilder, Response};
use url::Url;

use super::address::Reach;
use super::error::{OAuthError, shown};
use crate::protocol::Secret;

/// How long a request may take, with all of its answer.
const DEADLINE: Duration = Duration::from_secs(30);
/// The largest answer that is read.
const MAX_BYTES: usize = 1024 * 1024;
/// How often a document may have moved on its own server.
const MAX_MOVES: usize = 3;

/// The way out.
#[derive(Clone)]
pub(super) struct Http {
    client: reqwest::Client,
    pub(super) reach: Reach,
}

/// An answer, whatever its status.
pub(super) struct Answer {
    pub(super) what: &'static str,
    pub(super) address: String,
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Http {
    pub(super) fn new(client: reqwest::Client, reach: Reach) -> Self {
        Self { client, reach }
    }

    /// Gets a document, which may have moved, but not to another server.
    pub(super) async fn get(&self, what: &'static str, url: &Url) -> Result<Answer, OAuthError> {
        let mut url = url.clone();
        for _ in 0..=MAX_MOVES {
            let request = self.client.get(url.clone()).header(ACCEPT, "application/json");
            let response = send(what, &url, request).await?;
            let Some(to) = moved(&response, &url) else {
                return read(what, &url, response).await;
            };
            url =
                to.filter(|to| to.origin() == url.origin()).ok_or_else(|| elsewhere(what, &url))?;
        }
        Err(elsewhere(what, &url))
    }

    /// Sends JSON, to this address and no other.
    pub(super) async fn post_json(
        &self,
        what: &'static str,
        url: &Url,
        body: &serde_json::Value,
    ) -> Result<Answer, OAuthError> {
        self.post(what, url, self.client.post(url.clone()).json(body)).await
    }

    /// Sends a form, to this address and no other.
    pub(super) async fn post_form(
        &self,
        what: &'static str,
        url: &Url,
        form: String,
        authorization: Option<&Secret>,
    ) -> Result<Answer, OAuthError> {
        let mut request = self.client.post(url.clone()).body(form);
        request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(authorization) = authorization {
            let mut value = HeaderValue::from_str(authorization.reveal())
                .map_err(|_| OAuthError::Internal { reason: "the client's secret is no header" })?;
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
    ) -> Result<Answer, OAuthError> {
        let response = send(what, url, request.header(ACCEPT, "application/json")).await?;
        if response.status().is_redirection() {
            return Err(elsewhere(what, url));
        }
        read(what, url, response).await
    }
}

impl Answer {
    /// An error about this answer.
    pub(super) fn unusable(&self, reason: impl Into<String>) -> OAuthError {
        let transient = self.status >= 500 || matches!(self.status, 408 | 429);
        unusable(self.what, &self.address, reason.into(), transient)
    }
}

async fn send(
    what: &'static str,
    url: &Url,
    request: RequestBuilder,
) -> Result<Response, OAuthError> {
    let response =
        request.timeout(DEADLINE).send().await.map_err(|error| unreachable(what, url, error))?;
    // The client was to follow nothing by itself; what came from elsewhere is not taken.
    if response.url() == url { Ok(response) } else { Err(elsewhere(what, url)) }
}

async fn read(what: &'static str, url: &Url, mut response: Response) -> Result<Answer, OAuthError> {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(what, url, error))? {
        if body.len() + chunk.len() > MAX_BYTES {
            let reason = format!("it is larger than {MAX_BYTES} bytes");
            return Err(unusable(what, &shown(url.as_str()), reason, false));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer { what, address: shown(url.as_str()), status, body })
}

/// Where an answer sends its reader: nowhere, to an address, or to something that is none.
fn moved(response: &Response, url: &Url) -> Option<Option<Url>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok();
    Some(location.and_then(|location| url.join(location).ok()))
}

fn elsewhere(what: &'static str, url: &Url) -> OAuthError {
    let reason = "it sends the request on to somewhere else".to_owned();
    unusable(what, &shown(url.as_str()), reason, false)
}

fn unusable(what: &'static str, address: &str, reason: String, transient: bool) -> OAuthError {
    OAuthError::Answer { what, address: address.to_owned(), reason, transient }
}

fn unreachable(what: &'static str, url: &Url, error: reqwest::Error) -> OAuthError {
    let source = error.without_url().into();
    OAuthError::Unreachable { what, address: shown(url.as_str()), source }
}
