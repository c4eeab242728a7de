//! Requests that are ready to be sent.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName};
use url::Url;

use super::query::push_pair;

/// A request that is ready to be sent. It tracks which parts are secret.
#[derive(Clone)]
pub(crate) struct PreparedRequest {
    pub(crate) method: Method,
    // May contain secrets: use `redacted_url` for output.
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// Cheap to clone, because the request may be retried.
    pub(crate) body: Option<Bytes>,
    /// Headers that contain credentials. They are removed on a redirect to another origin.
    pub(crate) secret_headers: Vec<HeaderName>,
    /// Names of the query parameters that contain credentials, percent-encoded as in the URL.
    pub(crate) secret_parameters: Vec<String>,
}

impl PreparedRequest {
    /// Creates a GET request.
    pub(crate) fn get(url: Url) -> Self {
        let (secret_headers, secret_parameters) = Default::default();
        let headers = HeaderMap::new();
        Self { method: Method::GET, url, headers, body: None, secret_headers, secret_parameters }
    }

    /// Returns the URL without credentials, for logs and errors.
    pub(crate) fn redacted_url(&self) -> String {
        redact_url(&self.url, &self.secret_parameters)
    }

    /// Marks a header as secret.
    pub(crate) fn mark_secret_header(&mut self, name: HeaderName) {
        if !self.secret_headers.contains(&name) {
            self.secret_headers.push(name);
        }
    }

    /// Sets or replaces a query parameter by a credential; both are percent-encoded.
    pub(crate) fn set_secret_parameter(&mut self, name: &str, value: &str) {
        let mut query = self.without_parameters(&[name]);
        push_pair(&mut query, name, value);
        self.url.set_query(Some(&query));
        if !self.secret_parameters.iter().any(|known| known == name) {
            self.secret_parameters.push(name.to_owned());
        }
    }

    /// Removes all credentials before the request is sent to another origin.
    pub(crate) fn drop_secrets(&mut self) {
        for name in std::mem::take(&mut self.secret_headers) {
            self.headers.remove(name);
        }
        let secret = std::mem::take(&mut self.secret_parameters);
        if !secret.is_empty() {
            let query = self.without_parameters(&secret);
            self.url.set_query((!query.is_empty()).then_some(&query));
        }
    }

    fn without_parameters(&self, names: &[impl AsRef<str>]) -> String {
        let pairs = self.url.query().unwrap_or_default().split('&').filter(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            !pair.is_empty() && !names.iter().any(|one| one.as_ref() == name)
        });
        pairs.collect::<Vec<_>>().join("&")
    }
}

// Headers with credentials are marked as sensitive, so their values are not printed.
debug_fields!(
    request: PreparedRequest,
    method = request.method,
    url = request.redacted_url(),
    headers = request.headers
);

/// Formats a URL without user and password, and without the values of secret query parameters.
fn redact_url(url: &Url, secret: &[String]) -> String {
    let mut redacted = format!("{}{}", url.origin().ascii_serialization(), url.path());
    let pairs = url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    for (index, pair) in pairs.enumerate() {
        redacted.push(if index == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, _)) if secret.iter().any(|secret| secret == name) => {
                redacted.extend([name, "=…"]);
            }
            _ => redacted.push_str(pair),
        }
    }
    redacted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacted_url_hides_credentials() {
        let rows = [
            ("https://a.example/x?key=hush&a=b", "https://a.example/x?key=…&a=b"),
            (
                "https://a.example:8/x?a=key&key=hush&key=hush",
                "https://a.example:8/x?a=key&key=…&key=…",
            ),
            ("https://me:hush@a.example/x", "https://a.example/x"),
        ];
        for (url, expected) in rows {
            assert_eq!(redact_url(&url.parse().unwrap(), &["key".to_owned()]), expected);
        }
    }
}
