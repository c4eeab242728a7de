//! Protects the gateway from requests of foreign web pages.
//!
//! A page can make a browser send requests to loopback, directly or by DNS rebinding. The headers
//! reveal both: `Origin` names the page, `Host` the rebound name. A gateway without authentication
//! accepts only loopback names as `Host` and only pages of its own origin, not those of other
//! servers on this machine. A gateway with authentication may have host names that it does not know,
//! so it only rejects pages of other hosts. Requests for images and followed links have no `Origin`;
//! for them, `Sec-Fetch-Site` is checked. The pages at `/docs` and `/rooms` are same-origin, so they
//! need no exception. Pages of the configured origins may call from any host.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::ProblemDetails;
use crate::auth::Authenticator;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Methods that cross-origin pages may use, and the seconds that a browser may cache the response.
/// Each endpoint still enforces its own methods.
const PREFLIGHT_HEADERS: [(HeaderName, &str); 2] = [
    (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, DELETE, OPTIONS"),
    (header::ACCESS_CONTROL_MAX_AGE, "600"),
];
/// Response headers that pages may read in addition to the CORS-safelisted ones.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "x-request-id, retry-after, www-authenticate, allow, mcp-session-id, mcp-protocol-version, \
     toolpost-replayed",
);

/// Decides which web pages can call the gateway.
#[derive(Debug, Clone)]
pub(crate) struct OriginGuard {
    authenticator: Authenticator,
    /// Origins whose pages may call the gateway and read responses.
    cors_origins: Arc<[String]>,
}

impl OriginGuard {
    pub(crate) fn new(authenticator: Authenticator, cors_origins: &[String]) -> Self {
        Self { authenticator, cors_origins: cors_origins.into() }
    }

    /// Checks the origin of a request. Some endpoints call this directly instead of using the
    /// middleware layer, which allocates several times per request.
    pub(crate) fn check(&self, request: &Request) -> Result<(), ProblemDetails> {
        self.check_page(request)?;
        if self.allowed_origin(request.headers()).is_some() {
            return Ok(());
        }
        let foreign: &[&str] = match self.authenticator.allows_anonymous() {
            true => &["cross-site", "same-site"],
            false => &["cross-site"],
        };
        check_fetch_site(request.headers(), foreign)
            .map_err(|message| ProblemDetails::new(StatusCode::FORBIDDEN, message))
    }

    /// Checks a request for a page of this gateway. Other sites may link to the pages.
    pub(crate) fn check_page(&self, request: &Request) -> Result<(), ProblemDetails> {
        let host = host_header(request)?;
        let is_allowed = self.allowed_origin(request.headers()).is_some();
        let origins = (!is_allowed).then(|| request.headers().get_all(header::ORIGIN));
        let origins = origins.into_iter().flatten();
        let passed = if self.authenticator.allows_anonymous() {
            check_loopback(request.uri(), host)
                .and_then(|()| check_own_origin(self.authenticator.scheme(), host, origins))
        } else {
            check_same_host(host, origins)
        };
        passed.map_err(|message| ProblemDetails::new(StatusCode::FORBIDDEN, message))
    }

    /// Whether cross-origin requests are allowed.
    pub(crate) fn has_cors_origins(&self) -> bool {
        !self.cors_origins.is_empty()
    }

    /// Returns the origin of the request if it is one of the configured origins.
    fn allowed_origin<'r>(&self, headers: &'r HeaderMap) -> Option<&'r HeaderValue> {
        if self.cors_origins.is_empty() {
            return None;
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let origin = origins.next().filter(|_| origins.next().is_none())?;
        self.cors_origins.iter().any(|allowed| origin == allowed.as_str()).then_some(origin)
    }
}

/// Middleware that rejects requests of foreign pages.
pub(crate) async fn reject_foreign_origins(
    State(guard): State<OriginGuard>,
    request: Request,
    next: Next,
) -> Result<Response, ProblemDetails> {
    guard.check(&request)?;
    Ok(next.run(request).await)
}

/// Middleware that adds the CORS headers for the configured origins, without credentials.
pub(crate) async fn add_cors_headers(
    State(guard): State<OriginGuard>,
    request: Request,
    next: Next,
) -> Response {
    let origin = guard.allowed_origin(request.headers()).cloned();
    let preflight = origin.as_ref().and_then(|_| preflight(&request));
    let mut response = match preflight {
        Some(response) => response,
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    }
    response
}

/// Returns the response to a preflight request; `None` for any other request.
fn preflight(request: &Request) -> Option<Response> {
    let headers = request.headers();
    if request.method() != Method::OPTIONS
        || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
    {
        return None;
    }
    let requested = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let requested = requested.map(|names| [(header::ACCESS_CONTROL_ALLOW_HEADERS, names)]);
    Some((StatusCode::NO_CONTENT, PREFLIGHT_HEADERS, requested, ()).into_response())
}

/// Returns the unique `Host` header, which is required in HTTP/1.1.
fn host_header(request: &Request) -> Result<Option<&HeaderValue>, ProblemDetails> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let wrong = |message| Err(ProblemDetails::new(StatusCode::BAD_REQUEST, message));
    match (hosts.next(), hosts.next()) {
        (None, _) if request.version() == Version::HTTP_11 => wrong("the Host header is missing"),
        (_, Some(_)) => wrong("duplicate Host header"),
        (host, None) => Ok(host),
    }
}

fn check_loopback(target: &Uri, host: Option<&HeaderValue>) -> Result<(), &'static str> {
    // The authority of an absolute-form target takes precedence over the header.
    if target.authority().is_some_and(|authority| !is_loopback(authority.as_str())) {
        return Err("the request target is not a loopback address");
    }
    let is_local = |value: &HeaderValue| value.to_str().is_ok_and(is_loopback);
    if !host.is_none_or(is_local) {
        return Err("the Host header is not a loopback address");
    }
    Ok(())
}

/// Checks that `Origin` is the address that `Host` names.
fn check_own_origin<'r>(
    scheme: &str,
    host: Option<&HeaderValue>,
    mut origins: impl Iterator<Item = &'r HeaderValue>,
) -> Result<(), &'static str> {
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    // Browsers omit the default port.
    let default_port = if scheme == "https" { ":443" } else { ":80" };
    let host = host.strip_suffix(default_port).unwrap_or(host);
    let is_own = |origin: &HeaderValue| {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        origin.is_some_and(|(origin_scheme, authority)| {
            origin_scheme == scheme && authority.eq_ignore_ascii_case(host)
        })
    };
    if origins.all(is_own) {
        return Ok(());
    }
    Err("pages of other origins are not allowed; add the origin to `http.cors`")
}

/// Rejects requests of other pages by `Sec-Fetch-Site`, which browsers set and pages cannot change.
fn check_fetch_site(headers: &HeaderMap, foreign: &[&str]) -> Result<(), &'static str> {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    if sites.all(|site| !foreign.iter().any(|name| site == name)) {
        return Ok(());
    }
    Err("requests of other pages are not allowed (Sec-Fetch-Site)")
}

/// Checks that `Origin` names the host of `Host`. A reverse proxy may change the port.
fn check_same_host<'r>(
    host: Option<&HeaderValue>,
    mut origins: impl Iterator<Item = &'r HeaderValue>,
) -> Result<(), &'static str> {
    let host = || host.and_then(|host| host_of(host.to_str().unwrap_or_default()));
    let is_same = |origin: &str| host().is_some_and(|host| host_of(origin) == Some(host));
    if origins.all(|origin| origin.to_str().is_ok_and(is_same)) {
        return Ok(());
    }
    Err("cross-origin requests are not allowed: the Origin header names another host")
}

/// Returns the lowercase host of `host[:port]` or `scheme://host[:port]`.
fn host_of(value: &str) -> Option<String> {
    let authority = value.split_once("://").map_or(value, |(_, authority)| authority);
    let uri = authority.parse::<Uri>().ok()?;
    let host = uri.authority().map(Authority::host)?;
    // Only a port may follow the host, not the rest of another name.
    let rest = authority.strip_prefix(host)?;
    let is_port = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    let is_valid = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    is_valid.then(|| host.to_ascii_lowercase())
}

/// Whether `host[:port]` or `scheme://host[:port]` is a loopback address or `localhost`.
fn is_loopback(value: &str) -> bool {
    // Fast path for the most common names.
    let usual = value.strip_prefix("localhost").or_else(|| value.strip_prefix("127.0.0.1"));
    if usual.is_some_and(is_empty_or_port) {
        return true;
    }
    let Some(host) = host_of(value) else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_name = host == "localhost" || host.ends_with(".localhost");
    is_name || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_empty_or_port(rest: &str) -> bool {
    let port = rest.strip_prefix(':').unwrap_or(rest);
    rest.is_empty() || port.len() < rest.len() && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn is_loopback_accepts_only_loopback_hosts() {
        for (value, expected) in [
            ("localhost", true),
            ("LOCALHOST:7411", true),
            ("app.localhost:80", true),
            ("127.0.0.1:7411", true),
            ("127.8.9.1", true),
            ("[::1]:7411", true),
            ("http://localhost:3000", true),
            ("http://127.0.0.1:3000", true),
            ("http://[::1]:3000", true),
            ("evil.example", false),
            ("evil.example:7411", false),
            ("localhost.evil.example", false),
            ("notlocalhost", false),
            ("localhostile", false),
            ("localhost:", true),
            ("localhost:99999", true),
            ("127.0.0.1.evil.example", false),
            ("127.0.0.1:80@evil.example", false),
            ("127.0.0.1:80.evil.example", false),
            ("http://localhost:80.evil.example", false),
            ("localhost/.evil.example", false),
            ("192.168.1.2:7411", false),
            ("https://evil.example", false),
            ("null", false),
            ("", false),
            ("http://", false),
        ] {
            assert_eq!(is_loopback(value), expected, "{value:?}");
        }
    }

    #[test]
    fn http11_request_requires_exactly_one_host_header() {
        for (version, hosts, expected) in [
            (Version::HTTP_11, 1, true),
            (Version::HTTP_11, 0, false),
            (Version::HTTP_11, 2, false),
            (Version::HTTP_10, 0, true),
            (Version::HTTP_10, 2, false),
            (Version::HTTP_2, 0, true),
        ] {
            let mut request = Request::builder().version(version);
            for _ in 0..hosts {
                request = request.header(header::HOST, "localhost");
            }
            let request = request.body(Body::empty()).unwrap();
            assert_eq!(host_header(&request).is_ok(), expected, "{version:?}, {hosts}");
        }
    }

    #[test]
    fn authenticated_gateway_rejects_cross_host_origins() {
        for (host, origin, expected) in [
            (Some("hub.example"), None, true),
            (None, None, true),
            (Some("hub.example"), Some("https://hub.example"), true),
            (Some("hub.example:7411"), Some("https://HUB.example"), true),
            (Some("[::1]:7411"), Some("http://[::1]"), true),
            (Some("hub.example"), Some("https://evil.example"), false),
            (Some("hub.example"), Some("https://hub.example.evil.example"), false),
            (Some("hub.example"), Some("null"), false),
            (Some("hub.example"), Some(""), false),
            (Some(""), Some(""), false),
            (None, Some("https://evil.example"), false),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            let origins = headers.get_all(header::ORIGIN).iter();
            let passed = check_same_host(headers.get(header::HOST), origins);
            assert_eq!(passed.is_ok(), expected, "{host:?} {origin:?}");
        }
    }

    #[test]
    fn open_gateway_accepts_only_its_own_origin() {
        for (scheme, host, origin, expected) in [
            ("http", "localhost:7411", "http://localhost:7411", true),
            ("http", "LOCALHOST:7411", "http://localhost:7411", true),
            ("http", "[::1]:7411", "http://[::1]:7411", true),
            ("http", "localhost:80", "http://localhost", true),
            ("https", "localhost", "https://localhost", true),
            ("https", "localhost:443", "https://localhost", true),
            ("http", "localhost:7411", "http://localhost:3000", false),
            ("http", "localhost:7411", "http://127.0.0.1:7411", false),
            ("http", "localhost:7411", "https://localhost:7411", false),
            ("https", "localhost", "http://localhost", false),
            ("http", "localhost:7411", "http://localhost", false),
            ("http", "localhost:7411", "null", false),
            ("http", "", "http://", true),
        ] {
            let (host, origin) = (host.parse().unwrap(), origin.parse().unwrap());
            let checked = check_own_origin(scheme, Some(&host), std::iter::once(&origin));
            assert_eq!(checked.is_ok(), expected, "{scheme} {host:?} {origin:?}");
        }
    }
}
