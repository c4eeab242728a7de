//! Redirects: which targets are allowed, and which parts of the request are kept.

use reqwest::Method;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE,
    HeaderMap, HeaderName, LOCATION, RANGE, USER_AGENT,
};
use url::Url;

use super::allowed_hosts::{AllowedHosts, HostError, format_host_port};
use crate::openapi::request::PreparedRequest;

/// Maximum number of redirects of a request.
const MAX_REDIRECTS: u32 = 5;

/// Headers kept on a redirect to another origin. Others may contain a credential.
const SAFE_CROSS_ORIGIN_HEADERS: [HeaderName; 8] = [
    ACCEPT,
    ACCEPT_ENCODING,
    ACCEPT_LANGUAGE,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_TYPE,
    RANGE,
    USER_AGENT,
];

/// Why a redirect is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RedirectError {
    #[error("the service redirected more than {MAX_REDIRECTS} times")]
    TooMany,
    #[error("the redirect would drop the request body; configure the redirect target as `server`")]
    BodyDropped,
    #[error("the service redirected to an invalid URL")]
    InvalidLocation,
    #[error("redirect rejected: {0}")]
    Host(#[from] HostError),
    #[error("the service redirected from https to http at `{0}`, which is not encrypted")]
    HttpsDowngrade(String),
    #[error(
        "the service redirected to `{0}`; the request is not sent to another host because the operation is neither a query nor idempotent"
    )]
    NotIdempotent(String),
}

/// Whether a response is a redirect.
pub(super) fn is_redirect(status: u16, headers: &HeaderMap) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308) && headers.contains_key(LOCATION)
}

/// Changes a request as the redirect requires.
pub(super) fn apply_redirect(
    request: &mut PreparedRequest,
    status: u16,
    headers: &HeaderMap,
    hosts: &AllowedHosts,
    is_idempotent: bool,
    redirects_before: u32,
) -> Result<(), RedirectError> {
    let location = headers.get(LOCATION).map_or(&[][..], |location| location.as_bytes());
    if redirects_before >= MAX_REDIRECTS {
        return Err(RedirectError::TooMany);
    }
    let url = resolve_location(&request.url, location)?;
    hosts.check(&url)?;
    if request.url.scheme() == "https" && url.scheme() == "http" {
        return Err(RedirectError::HttpsDowngrade(format_host_port(&url)));
    }
    let is_elsewhere = url.origin() != request.url.origin();
    if becomes_get(status, &request.method) {
        (request.method, request.body) = (Method::GET, None);
        for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE] {
            request.headers.remove(name);
        }
    } else if is_elsewhere && !is_idempotent && request.body.is_some() {
        return Err(RedirectError::NotIdempotent(format_host_port(&url)));
    }
    request.url = url;
    if is_elsewhere {
        drop_credentials(request);
    }
    Ok(())
}

fn resolve_location(from: &Url, location: &[u8]) -> Result<Url, RedirectError> {
    let location = std::str::from_utf8(location).map_err(|_| RedirectError::InvalidLocation)?;
    let mut url = from.join(location).map_err(|_| RedirectError::InvalidLocation)?;
    url.set_fragment(None);
    // A redirect target must not set the user or password.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Ok(url)
}

/// Whether the redirected request becomes a GET, as in browsers.
fn becomes_get(status: u16, method: &Method) -> bool {
    match status {
        301 | 302 => *method == Method::POST,
        303 => !matches!(*method, Method::GET | Method::HEAD),
        _ => false,
    }
}

/// Removes credentials and all headers that are not known to be safe.
fn drop_credentials(request: &mut PreparedRequest) {
    request.drop_secrets();
    let safe_headers = SAFE_CROSS_ORIGIN_HEADERS.iter().filter_map(|name| {
        let value = request.headers.get(name)?;
        (!value.is_sensitive()).then(|| (name.clone(), value.clone()))
    });
    request.headers = safe_headers.collect();
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use reqwest::header::{AUTHORIZATION, COOKIE, HeaderValue};

    use super::*;

    fn request(method: &str, url: &str) -> PreparedRequest {
        let headers = [
            (AUTHORIZATION, "Bearer planted"),
            (COOKIE, "session=planted"),
            (HeaderName::from_static("x-key"), "planted"),
            (HeaderName::from_static("x-plain"), "unknown"),
            (ACCEPT, "application/json"),
            (CONTENT_TYPE, "application/json"),
        ];
        PreparedRequest {
            method: method.parse().unwrap(),
            url: url.parse().unwrap(),
            headers: headers
                .map(|(name, value)| (name, HeaderValue::from_static(value)))
                .into_iter()
                .collect(),
            body: (method != "GET").then(|| Bytes::from_static(b"{}")),
            secret_headers: vec![AUTHORIZATION, HeaderName::from_static("x-key")],
            secret_parameters: vec!["key".to_owned()],
        }
    }

    fn hosts() -> AllowedHosts {
        let mut hosts = AllowedHosts::new(["b.example"], None);
        hosts.allow_documented(&"https://a.example/".parse().unwrap());
        hosts.allow_documented(&"http://a.example/".parse().unwrap());
        hosts
    }

    fn redirected(
        method: &str,
        from: &str,
        status: u16,
        to: &str,
        repeatable: bool,
    ) -> (String, PreparedRequest) {
        let mut request = request(method, from);
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(to).unwrap())]);
        if !is_redirect(status, &headers) {
            return ("final".to_owned(), request);
        }
        let followed = apply_redirect(&mut request, status, &headers, &hosts(), repeatable, 0);
        let summary = match followed {
            Ok(()) => {
                let body = if request.body.is_some() { " with body" } else { "" };
                format!("{} {}{body}", request.method, request.url)
            }
            Err(error) => error.to_string(),
        };
        (summary, request)
    }

    #[test]
    fn redirect_status_decides_method_and_body() {
        let a = "https://a.example/x";
        let rows = [
            ("GET", a, 200, "/y", true, "final"),
            ("GET", a, 304, "/y", true, "final"),
            ("GET", a, 300, "/y", true, "final"),
            ("GET", a, 301, "/y?z#part", true, "GET https://a.example/y?z"),
            ("POST", a, 301, "/y", false, "GET https://a.example/y"),
            ("POST", a, 302, "y", false, "GET https://a.example/y"),
            ("PUT", a, 302, "/y", true, "PUT https://a.example/y with body"),
            ("PUT", a, 303, "/y", true, "GET https://a.example/y"),
            ("HEAD", a, 303, "/y", true, "HEAD https://a.example/y with body"),
            ("POST", a, 307, "/x/", false, "POST https://a.example/x/ with body"),
            ("POST", a, 308, "https://b.example/", true, "POST https://b.example/ with body"),
            (
                "POST",
                a,
                308,
                "https://b.example/",
                false,
                "the service redirected to `b.example`; the request is not sent to another host because the operation is neither a query nor idempotent",
            ),
            ("POST", a, 303, "https://b.example/", false, "GET https://b.example/"),
            ("GET", a, 302, "https://me:secret@b.example/", true, "GET https://b.example/"),
            ("GET", "http://a.example/", 302, "https://a.example/", true, "GET https://a.example/"),
            (
                "GET",
                a,
                302,
                "http://a.example/",
                true,
                "the service redirected from https to http at `a.example`, which is not encrypted",
            ),
            (
                "GET",
                a,
                302,
                "https://evil.example:1/?q",
                true,
                "redirect rejected: `evil.example:1` is not allowed by the document or the configuration; add it to `hosts` of the source",
            ),
            (
                "GET",
                a,
                302,
                "//evil.example/",
                true,
                "redirect rejected: `evil.example` is not allowed by the document or the configuration; add it to `hosts` of the source",
            ),
            (
                "GET",
                a,
                302,
                "file:///etc/passwd",
                true,
                "redirect rejected: `file` is not a supported URL scheme; use http or https",
            ),
            ("GET", a, 302, "https://[", true, "the service redirected to an invalid URL"),
        ];
        for (method, from, status, to, repeatable, expected) in rows {
            let (summary, _) = redirected(method, from, status, to, repeatable);
            assert_eq!(summary, expected, "{method} {status} {to}");
        }
    }

    #[test]
    fn redirect_to_other_origin_drops_credentials() {
        let a = "https://a.example/x?key=planted";
        let (_, same) = redirected("POST", a, 307, "/y?key=planted", true);
        assert_eq!(same.headers.len(), 6);
        assert_eq!(same.url.query(), Some("key=planted"));
        for to in ["https://b.example/?key=planted&q=1", "https://b.example/?q=1&key=planted"] {
            let (_, other) = redirected("POST", a, 307, to, true);
            let names: Vec<&str> = other.headers.keys().map(HeaderName::as_str).collect();
            assert_eq!(names, ["accept", "content-type"]);
            assert_eq!(other.url.query(), Some("q=1"));
            assert!(!format!("{other:?}").contains("planted"));
        }
        assert_eq!(
            redirected("GET", a, 302, "https://b.example/?key=planted", true).1.url.query(),
            None
        );
    }

    #[test]
    fn redirect_limit_is_enforced() {
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static("/y"))]);
        let mut request = request("GET", "https://a.example/x");
        let mut follow =
            |before| apply_redirect(&mut request, 302, &headers, &hosts(), true, before);
        assert_eq!(follow(4), Ok(()));
        assert_eq!(follow(5), Err(RedirectError::TooMany));
    }
}
