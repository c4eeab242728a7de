//! Downloads files over HTTP. Every redirect is checked against the reference policy.

use std::error::Error;
use std::time::Duration;

use reqwest::header::{ACCEPT, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use url::Url;

use super::fetch::{FetchError, Fetcher};
use super::reference_policy;

const MAX_REDIRECTS: usize = 5;
const ACCEPTED_TYPES: &str =
    "application/json, application/yaml, text/yaml, text/plain;q=0.9, */*;q=0.8";

/// Downloads a file. Returns it with its URL after redirects.
pub(super) async fn fetch(
    client: &Client,
    url: &Url,
    fetcher: &Fetcher<'_>,
) -> Result<(Url, Vec<u8>), FetchError> {
    let mut at = url.clone();
    for _ in 0..=MAX_REDIRECTS {
        let request =
            client.get(at.clone()).header(ACCEPT, ACCEPTED_TYPES).headers(fetcher.headers_for(&at));
        let response = request.send().await;
        let response = response.map_err(|error| http_error(&error.without_url()))?;
        if *response.url() != at {
            let reason = "the client follows redirects by itself, unchecked".to_owned();
            return Err(FetchError::Http { reason });
        }
        let Some(next) = redirect_target(&at, &response) else {
            return Ok((at, read_body(response, fetcher).await?));
        };
        reference_policy::check_reference(&at, &next, &fetcher.settings.hosts)
            .map_err(FetchError::Redirect)?;
        at = next;
    }
    Err(FetchError::TooManyRedirects)
}

pub(super) fn build_client(address: &Url) -> Result<Client, FetchError> {
    // Fails if the application has installed a provider already; that provider is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let is_loopback_host = match address.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let builder = Client::builder();
    // Requests to the loopback interface bypass the proxy.
    let builder = if is_loopback_host { builder.no_proxy() } else { builder };
    builder
        .redirect(Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .user_agent(concat!("toolpost/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| http_error(&error))
}

/// Returns the target of a redirect response.
fn redirect_target(at: &Url, response: &Response) -> Option<Url> {
    if !response.status().is_redirection() {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let mut next = at.join(location).ok()?;
    next.set_fragment(None);
    Some(next)
}

async fn read_body(mut response: Response, fetcher: &Fetcher<'_>) -> Result<Vec<u8>, FetchError> {
    if !response.status().is_success() {
        return Err(FetchError::Status { status: response.status().as_u16() });
    }
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
    fetcher.check_size(announced.unwrap_or_default())?;
    let mut bytes = Vec::with_capacity(announced.unwrap_or_default());
    while let Some(chunk) =
        response.chunk().await.map_err(|error| http_error(&error.without_url()))?
    {
        fetcher.check_size(bytes.len() + chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The innermost cause is the most specific, and it does not contain the URL.
fn http_error(error: &reqwest::Error) -> FetchError {
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    FetchError::Http { reason: cause.to_string() }
}
