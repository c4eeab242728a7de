//! One request to a token endpoint: bounded in time and size, and never sent on to anybody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::super::error::CredentialError;
use super::super::key::basic;
use super::super::settings::OAuth2Client;
use crate::protocol::Secret;

/// How long a request may take, with all of its answer.
const DEADLINE: Duration = Duration::from_secs(30);
/// The largest answer that is read.
const MAX_BYTES: usize = 256 * 1024;
/// The longest token that is taken: it travels in a header of every request.
const MAX_TOKEN: usize = 64 * 1024;
/// The longest piece of somebody else's text in an error.
const EXCERPT: usize = 200;

/// Who asks whom for what.
pub(super) struct Exchange {
    http: reqwest::Client,
    client: OAuth2Client,
    url: Url,
    scope: String,
    /// Whether this server takes the secret only in the form, as it turned out.
    in_form: AtomicBool,
}

/// What was given.
pub(super) struct Granted {
    pub(super) token: Secret,
    pub(super) life: Option<Duration>,
}

#[derive(Deserialize)]
struct Answer {
    access_token: Option<String>,
    token_type: Option<String>,
    /// A number, and at some servers a text with a number.
    expires_in: Option<Value>,
    error: Option<String>,
    error_description: Option<String>,
}

impl Exchange {
    pub(super) fn new(
        http: reqwest::Client,
        client: OAuth2Client,
        url: Url,
        scope: String,
    ) -> Self {
        Self { http, client, url, scope, in_form: AtomicBool::new(false) }
    }

    /// Fetches a token. The secret goes in a header, and to those who do not take it there in the
    /// form.
    pub(super) async fn fetch(&self) -> Result<Granted, CredentialError> {
        if self.in_form.load(Ordering::Relaxed) {
            return self.ask(Place::Form).await;
        }
        match self.ask(Place::Header).await {
            Err(CredentialError::Refused { is_about_client: true, .. }) => {}
            result => return result,
        }
        let granted = self.ask(Place::Form).await?;
        self.in_form.store(true, Ordering::Relaxed);
        Ok(granted)
    }

    async fn ask(&self, place: Place) -> Result<Granted, CredentialError> {
        let request = self.http.post(self.url.clone()).header(ACCEPT, "application/json");
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let mut request = request.timeout(DEADLINE).body(self.form(place));
        if place == Place::Header {
            request = request.header(AUTHORIZATION, self.authorization()?);
        }
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        // The client was to follow nothing by itself; what came from elsewhere is not taken.
        if response.status().is_redirection() || *response.url() != self.url {
            return Err(self.unusable("it sends the request on to somewhere else", false));
        }
        let status = response.status();
        let body = self.body(response).await?;
        self.read(status, &body)
    }

    fn form(&self, place: Place) -> String {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        if !self.scope.is_empty() {
            form.append_pair("scope", &self.scope);
        }
        for (name, value) in &self.client.parameters {
            form.append_pair(name, value);
        }
        if place == Place::Form {
            form.append_pair("client_id", &self.client.id);
            form.append_pair("client_secret", self.client.secret.reveal());
        }
        form.finish()
    }

    /// Both parts are written as in a form first (RFC 6749, section 2.3.1).
    fn authorization(&self) -> Result<HeaderValue, CredentialError> {
        let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let text = basic(&encode(&self.client.id), &encode(self.client.secret.reveal()));
        let mut value = HeaderValue::from_str(&text)
            .map_err(|_| self.unusable("the client does not fit a header", false))?;
        value.set_sensitive(true);
        Ok(value)
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, CredentialError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|it| self.unreachable(it))? {
            if body.len() + chunk.len() > MAX_BYTES {
                return Err(self.unusable(&format!("it is larger than {MAX_BYTES} bytes"), false));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn read(&self, status: StatusCode, body: &[u8]) -> Result<Granted, CredentialError> {
        let is_transient = status.is_server_error() || matches!(status.as_u16(), 408 | 429);
        let answer: Option<Answer> = serde_json::from_slice(body).ok();
        let refusal = answer.as_ref().and_then(|answer| {
            let description = answer.error_description.as_ref();
            Some((answer.error.as_ref()?, description.map(|it| format!(" ({it})"))))
        });
        match refusal {
            _ if is_transient => Err(self.unusable(&format!("it has status {status}"), true)),
            // Some servers refuse with status 200.
            Some((error, description)) => {
                let is_other = ["invalid_scope", "invalid_target", "unsupported_grant_type"];
                let reason = format!("{error}{}", description.unwrap_or_default());
                Err(self.refused(&reason, !is_other.contains(&error.as_str())))
            }
            None if status.is_client_error() => {
                Err(self.refused(&format!("status {status}"), true))
            }
            None if status != StatusCode::OK => {
                Err(self.unusable(&format!("it has status {status}"), false))
            }
            None => self.granted(answer),
        }
    }

    fn granted(&self, answer: Option<Answer>) -> Result<Granted, CredentialError> {
        // The words of the parser could quote the token, so they are not repeated.
        let unusable = |reason| self.unusable(reason, false);
        let answer = answer.ok_or_else(|| unusable("it is not the description of a token"))?;
        if answer.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err(unusable("the token is not of the type Bearer"));
        }
        let token = answer.access_token.ok_or_else(|| unusable("it has no access token"))?;
        let is_good = !token.is_empty()
            && token.len() <= MAX_TOKEN
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_good {
            return Err(unusable("the access token does not fit a header"));
        }
        let life = answer.expires_in.as_ref().and_then(seconds).map(Duration::from_secs);
        Ok(Granted { token: Secret::new(token), life })
    }

    fn unreachable(&self, error: reqwest::Error) -> CredentialError {
        let source = Arc::new(error.without_url());
        CredentialError::Unreachable { address: shown(&self.url), source }
    }

    fn unusable(&self, reason: &str, is_transient: bool) -> CredentialError {
        let (address, reason) = (shown(&self.url), self.excerpt(reason));
        CredentialError::Answer { address, reason, is_transient }
    }

    fn refused(&self, reason: &str, is_about_client: bool) -> CredentialError {
        let (address, reason) = (shown(&self.url), self.excerpt(reason));
        CredentialError::Refused { address, reason, is_about_client }
    }

    /// Somebody else's text, fit for a log, and without the secret should it come back.
    fn excerpt(&self, text: &str) -> String {
        let secret = self.client.secret.reveal();
        let written: String = byte_serialize(secret.as_bytes()).collect();
        let mut text = text.to_owned();
        for secret in [secret, &written].into_iter().filter(|secret| !secret.is_empty()) {
            text = text.replace(secret, "…");
        }
        let printable = |one: char| if one.is_control() { '\u{fffd}' } else { one };
        text.chars().take(EXCERPT).map(printable).collect()
    }
}

/// Where the secret stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Header,
    Form,
}

fn seconds(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        // A fraction, or a number beyond all bounds, is cut to what fits.
        other => other.as_f64().map(|seconds| seconds.clamp(0.0, 1e9) as u64),
    }
}

/// An address without what may be secret in it.
pub(super) fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("url", &shown(&self.url)).finish_non_exhaustive()
    }
}
