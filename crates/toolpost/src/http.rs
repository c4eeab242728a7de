//! Bounded HTTP requests for documents, keys and tokens: a deadline, a maximum size, and no
//! redirect that the caller has not checked.

use std::error::Error;
use std::time::Duration;

use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{ClientBuilder, RequestBuilder, Response, StatusCode};
use url::Url;

use crate::clock;
use crate::tls::is_protected;

/// Maximum buffer size that is allocated before any of the body is received, because
/// `Content-Length` is untrusted.
const MAX_PREALLOCATION: usize = 1024 * 1024;
/// Maximum length of untrusted text in an error, in characters.
const MAX_EXCERPT_CHARS: usize = 200;

/// Limits of a request, including its response and all redirects.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    /// Maximum duration.
    pub timeout: Duration,
    /// Maximum size of the decompressed body in bytes.
    pub max_bytes: usize,
}

/// A complete response with any status.
#[derive(Debug)]
#[non_exhaustive]
pub struct FetchedResponse {
    /// URL of the response.
    pub url: Url,
    /// HTTP status.
    pub status: StatusCode,
    /// Target of a redirect. The body of a redirect is not read.
    pub redirect: Option<Url>,
    /// The decompressed body.
    pub body: Vec<u8>,
}

/// Error returned when a fetch fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The server cannot be reached, or the connection was lost.
    #[error("{}", innermost_cause(.0))]
    Http(#[source] reqwest::Error),
    /// The deadline has passed.
    #[error("it timed out after {0:?}")]
    TimedOut(Duration),
    /// The body is larger than this number of bytes.
    #[error("it is larger than {0} bytes")]
    TooLarge(usize),
    /// The client has followed a redirect.
    #[error("the HTTP client follows redirects without checking them")]
    UncheckedRedirect,
    /// The caller does not allow the redirect.
    #[error("it redirects to another location")]
    RejectedRedirect,
    /// There are more redirects than allowed.
    #[error("too many redirects")]
    TooManyRedirects,
}

impl From<reqwest::Error> for FetchError {
    fn from(error: reqwest::Error) -> Self {
        Self::Http(error.without_url())
    }
}

/// Returns a builder of clients for [`fetch`]: they do not follow redirects.
pub fn client_builder() -> ClientBuilder {
    // Fails if the application has already installed a provider, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .user_agent(concat!("toolpost/", env!("CARGO_PKG_VERSION")))
}

/// Sends a request and reads the response.
///
/// # Errors
///
/// Returns an error if there is no response within the limits, or if the client followed a
/// redirect.
pub async fn fetch(
    request: RequestBuilder,
    limits: FetchLimits,
) -> Result<FetchedResponse, FetchError> {
    within(limits.timeout, send(request, limits.max_bytes)).await
}

/// Fetches a document, following the redirects that `check` allows.
///
/// # Errors
///
/// Returns an error if there is no response within the limits, or if a redirect is rejected.
pub async fn fetch_following<E: From<FetchError>>(
    url: &Url,
    limits: FetchLimits,
    max_redirects: usize,
    request: impl Fn(&Url) -> RequestBuilder,
    check: impl Fn(&Url, &Url) -> Result<(), E>,
) -> Result<FetchedResponse, E> {
    within(limits.timeout, async {
        let mut url = url.clone();
        for _ in 0..=max_redirects {
            let mut response = send(request(&url), limits.max_bytes).await?;
            let Some(next) = response.redirect.take() else { return Ok(response) };
            check(&url, &next)?;
            url = next;
        }
        Err(FetchError::TooManyRedirects.into())
    })
    .await
}

/// Limits the duration of a fetch.
pub(crate) async fn within<T, E: From<FetchError>>(
    limit: Duration,
    fetching: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let fetched = tokio::time::timeout(limit, fetching).await;
    fetched.unwrap_or_else(|_| Err(FetchError::TimedOut(limit).into()))
}

async fn send(request: RequestBuilder, max_bytes: usize) -> Result<FetchedResponse, FetchError> {
    let (client, request) = request.build_split();
    let request = request?;
    let url = request.url().clone();
    let response = client.execute(request).await?;
    if *response.url() != url {
        return Err(FetchError::UncheckedRedirect);
    }
    let status = response.status();
    let redirect = redirect_target(&response);
    let body = match redirect {
        Some(_) => Vec::new(),
        None => read_body(response, max_bytes).await?,
    };
    Ok(FetchedResponse { url, status, redirect, body })
}

fn redirect_target(response: &Response) -> Option<Url> {
    let location = response.headers().get(LOCATION).filter(|_| response.status().is_redirection());
    let mut target = response.url().join(location?.to_str().ok()?).ok()?;
    target.set_fragment(None);
    Some(target)
}

/// Reads a decompressed body, buffering at most `max` bytes.
pub(crate) async fn read_body(mut response: Response, max: usize) -> Result<Vec<u8>, FetchError> {
    let announced = usize::try_from(response.content_length().unwrap_or(0)).unwrap_or(usize::MAX);
    if announced > max {
        return Err(FetchError::TooLarge(max));
    }
    let mut body = Vec::with_capacity(announced.min(MAX_PREALLOCATION));
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > max {
            return Err(FetchError::TooLarge(max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Whether requests to the URL cannot be intercepted: it uses HTTPS, or HTTP to a loopback host.
pub fn is_secure_url(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && is_protected(url)
}

/// Formats a URL without user, password and query, which may contain secrets.
pub fn redact_url(url: &Url) -> String {
    let mut url = url.clone();
    // Fails for URLs without a host, which have no user or password.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.into()
}

/// Parses `Retry-After`, which is a number of seconds or a date.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    parse_retry_after(text, clock::epoch_ms())
}

fn parse_retry_after(text: &str, now: i64) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let at = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(at.saturating_sub(Duration::from_millis(u64::try_from(now).unwrap_or(0))))
}

/// Returns the text of an HTML page, without tags.
pub(crate) fn strip_html_tags(page: &str) -> String {
    let pieces = page.split('<').map(|piece| piece.split_once('>').map_or("", |(_, text)| text));
    pieces.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Returns the causes of an error, outermost first.
pub(crate) fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&(dyn Error + 'static)| (*cause).source())
}

/// Returns the message of the innermost cause. Outer messages may include the URL, which may
/// contain a secret.
pub(crate) fn innermost_cause(error: &reqwest::Error) -> String {
    match causes(error).last() {
        Some(cause) => describe_cause(cause),
        None if error.url().is_some() => "the connection broke".to_owned(),
        None => error.to_string(),
    }
}

/// Describes why an exchange failed. If the connection ended too early, the cause itself only says
/// what the parser expected.
pub(crate) fn describe_cause(cause: &(dyn Error + 'static)) -> String {
    match cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
        Some(std::io::ErrorKind::UnexpectedEof) => {
            "the server closed the connection before the end of its response".to_owned()
        }
        _ => cause.to_string(),
    }
}

/// Truncates untrusted text and replaces characters that are unsafe in terminals and logs.
pub(crate) fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_EXCERPT_CHARS).map(sanitize_char).collect();
    if text.chars().nth(MAX_EXCERPT_CHARS).is_some() {
        short.push('…');
    }
    short
}

fn sanitize_char(character: char) -> char {
    // Bidirectional controls change the display order of adjacent text.
    let is_bidi_control = matches!(character, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if character.is_control() || is_bidi_control { '\u{fffd}' } else { character }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secure_url_requires_tls_or_loopback() {
        for (address, expected) in [
            ("https://as.example/keys", true),
            ("http://as.example/keys", false),
            ("http://127.0.0.1:80/keys", true),
            ("http://[::1]/keys", true),
            ("http://localhost/keys", true),
            ("http://localhost.evil.example/keys", false),
            ("ftp://as.example/keys", false),
            ("file:///keys", false),
        ] {
            assert_eq!(is_secure_url(&Url::parse(address).unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn retry_after_parses_seconds_and_dates() {
        let now = 784_111_777_000;
        let rows = [
            ("120", Some(120)),
            ("0", Some(0)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10)),
            ("Sun Nov  6 08:49:47 1994", Some(10)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_retry_after(text, now), expected.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn excerpt_is_truncated_and_sanitized() {
        let long = "é".repeat(201);
        let cut = format!("{}…", "é".repeat(200));
        let rows = [
            ("plain", "plain"),
            ("a\u{1b}[31mb\nc", "a\u{fffd}[31mb\u{fffd}c"),
            ("a\u{202e}b", "a\u{fffd}b"),
            (&long[..400], &long[..400]),
            (&long, &cut),
        ];
        for (text, expected) in rows {
            assert_eq!(excerpt(text), expected);
        }
    }
}
