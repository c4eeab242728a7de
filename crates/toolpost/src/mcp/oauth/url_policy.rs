//! Allowed URLs, and the locations of metadata.

use url::Url;

use super::error::{OAuthError, redact_url};
use crate::http::is_secure_url;
use crate::tls::is_loopback;

/// Which URLs may be contacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UrlPolicy {
    /// HTTPS only: metadata of a remote server must not point to this machine over plain HTTP.
    HttpsOnly,
    /// HTTPS, or HTTP to a loopback address; for resources on a loopback address.
    AllowLoopbackHttp,
}

impl UrlPolicy {
    /// Returns the policy for a resource; fails if no token may be sent to it.
    pub(super) fn for_resource(resource: &Url) -> Result<Self, OAuthError> {
        let policy = if is_loopback(resource) { Self::AllowLoopbackHttp } else { Self::HttpsOnly };
        policy.check("MCP server", resource)?;
        Ok(policy)
    }

    /// Parses an external URL and checks it against the policy.
    pub(super) fn parse(self, what: &'static str, address: &str) -> Result<Url, OAuthError> {
        let url = Url::parse(address)
            .map_err(|_| rejected_url(what, address, "it is not a valid URL"))?;
        self.check(what, &url)?;
        Ok(url)
    }

    pub(super) fn check(self, what: &'static str, url: &Url) -> Result<(), OAuthError> {
        let secure =
            url.scheme() == "https" || self == Self::AllowLoopbackHttp && is_secure_url(url);
        let reason = if !secure {
            "it must use HTTPS"
        } else if url.fragment().is_some() {
            "it has a fragment"
        } else if !url.username().is_empty() || url.password().is_some() {
            "it contains a user name or password"
        } else {
            return Ok(());
        };
        Err(rejected_url(what, url.as_str(), reason))
    }
}

fn rejected_url(what: &'static str, address: &str, reason: &'static str) -> OAuthError {
    OAuthError::InvalidUrl { what, address: redact_url(address), reason }
}

/// Returns the URLs of the resource metadata, best first (RFC 9728, section 3.1).
pub(super) fn resource_metadata_urls(resource: &Url) -> Vec<Url> {
    const NAME: &str = "/.well-known/oauth-protected-resource";
    let root = with_path(resource, NAME);
    if resource.path() == "/" && resource.query().is_none() {
        return vec![root];
    }
    let mut own = with_path(resource, &format!("{NAME}{}", resource.path().trim_end_matches('/')));
    own.set_query(resource.query());
    vec![own, root]
}

/// Returns the candidate URLs of the authorization server metadata, in order of preference (RFC
/// 8414, section 3.1, and OpenID Connect Discovery, which appends the well-known name to the path).
pub(super) fn server_metadata_urls(issuer: &Url) -> Vec<Url> {
    const OAUTH: &str = "/.well-known/oauth-authorization-server";
    const OPENID: &str = "/.well-known/openid-configuration";
    let path = issuer.path().trim_end_matches('/');
    let mut all = vec![
        with_path(issuer, &format!("{OAUTH}{path}")),
        with_path(issuer, &format!("{OPENID}{path}")),
    ];
    if !path.is_empty() {
        all.push(with_path(issuer, &format!("{path}{OPENID}")));
    }
    all
}

/// Returns the URL with another path, without query and fragment.
pub(super) fn with_path(url: &Url, path: &str) -> Url {
    let mut other = url.clone();
    other.set_path(path);
    other.set_query(None);
    other.set_fragment(None);
    other
}

/// Identifier of a resource without metadata: its URL without a trailing slash.
pub(super) fn canonical_resource(resource: &Url) -> String {
    let mut url = resource.clone();
    url.set_fragment(None);
    let text = url.as_str();
    if url.path() == "/" && url.query().is_none() { text.trim_end_matches('/') } else { text }
        .to_owned()
}

/// Whether `stated` is the resource itself or a parent path of it.
pub(super) fn covers_resource(stated: &str, resource: &Url) -> bool {
    let Ok(stated) = Url::parse(stated) else { return false };
    let path = stated.path().trim_end_matches('/');
    let Some(rest) = resource.path().strip_prefix(path) else { return false };
    let part = rest.is_empty() || rest.starts_with('/');
    let query = stated.query().is_none() || stated.query() == resource.query();
    // Opaque origins are never equal.
    stated.origin() == resource.origin() && stated.fragment().is_none() && part && query
}

/// Whether two issuers are equal except for a trailing slash.
pub(super) fn is_same_issuer(stated: &str, expected: &str) -> bool {
    stated.strip_suffix('/').unwrap_or(stated) == expected.strip_suffix('/').unwrap_or(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn to_strings(urls: Vec<Url>) -> Vec<String> {
        urls.into_iter().map(String::from).collect()
    }

    #[test]
    fn url_policy_requires_https_except_loopback() {
        let rows = [
            // Each row: URL; accepted for a remote resource, and for one on a loopback address.
            ("https://a.example/x?y=z", true, true),
            ("http://a.example/", false, false),
            ("http://localhost:1/x", false, true),
            ("http://127.9.9.9:1/x", false, true),
            ("http://[::1]:1/x", false, true),
            ("http://localhost.evil.example/", false, false),
            ("http://127.0.0.1.evil.example/", false, false),
            ("http://2130706433/", false, true),
            ("http://169.254.169.254/", false, false),
            ("http://192.168.0.1/", false, false),
            ("https://user:hunter2@a.example/", false, false),
            ("http://localhost@evil.example/", false, false),
            ("https://a.example/#x", false, false),
            ("ftp://localhost/", false, false),
            ("file:///etc/passwd", false, false),
            ("javascript:alert(1)", false, false),
            ("/relative", false, false),
            ("", false, false),
        ];
        for (address, network, local) in rows {
            let network_result = UrlPolicy::HttpsOnly.parse("thing", address);
            assert_eq!(network_result.is_ok(), network, "{address}");
            assert_eq!(
                UrlPolicy::AllowLoopbackHttp.parse("thing", address).is_ok(),
                local,
                "{address}"
            );
            if let Err(error) = network_result {
                assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
            }
        }
        assert_eq!(
            UrlPolicy::for_resource(&url("https://a.example/")).unwrap(),
            UrlPolicy::HttpsOnly
        );
        assert_eq!(
            UrlPolicy::for_resource(&url("http://localhost:3/mcp")).unwrap(),
            UrlPolicy::AllowLoopbackHttp
        );
        assert!(UrlPolicy::for_resource(&url("http://a.example/")).is_err());
    }

    #[test]
    fn resource_metadata_urls_follow_rfc_9728() {
        const ROOT: &str = "https://a.example:8/.well-known/oauth-protected-resource";
        let rows: [(&str, &[&str]); 5] = [
            ("", &[""]),
            ("/", &[""]),
            ("/mcp", &["/mcp", ""]),
            ("/mcp/", &["/mcp", ""]),
            ("/a%20b/mcp?tenant=1", &["/a%20b/mcp?tenant=1", ""]),
        ];
        for (path, expected) in rows {
            let found =
                to_strings(resource_metadata_urls(&url(&format!("https://a.example:8{path}"))));
            let expected: Vec<String> = expected.iter().map(|end| format!("{ROOT}{end}")).collect();
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn server_metadata_urls_follow_rfc_8414_and_openid() {
        let rows: [(&str, &[&str]); 4] = [
            ("", &["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]),
            (
                "/",
                &["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"],
            ),
            (
                "/tenant1",
                &[
                    "/.well-known/oauth-authorization-server/tenant1",
                    "/.well-known/openid-configuration/tenant1",
                    "/tenant1/.well-known/openid-configuration",
                ],
            ),
            (
                "/a/b/",
                &[
                    "/.well-known/oauth-authorization-server/a/b",
                    "/.well-known/openid-configuration/a/b",
                    "/a/b/.well-known/openid-configuration",
                ],
            ),
        ];
        for (path, expected) in rows {
            let found = to_strings(server_metadata_urls(&url(&format!("https://a.example{path}"))));
            let expected: Vec<String> =
                expected.iter().map(|path| format!("https://a.example{path}")).collect();
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn resource_metadata_covers_same_or_parent_url() {
        let rows = [
            ("https://a.example/mcp", "https://a.example/mcp", true),
            ("https://A.example:443/mcp", "https://a.example/mcp", true),
            ("https://a.example", "https://a.example/mcp", true),
            ("https://a.example/", "https://a.example/mcp", true),
            ("https://a.example/mcp/", "https://a.example/mcp", true),
            ("https://a.example/mcp", "https://a.example/mcp/v1", true),
            ("https://a.example/mcp", "https://a.example/mcp2", false),
            ("https://a.example/mcp/v1", "https://a.example/mcp", false),
            ("https://a.example/mcp", "https://a.example/mcp?x=1", true),
            ("https://a.example/mcp?x=1", "https://a.example/mcp?x=2", false),
            ("https://b.example/mcp", "https://a.example/mcp", false),
            ("http://a.example/mcp", "https://a.example/mcp", false),
            ("https://a.example:8/mcp", "https://a.example/mcp", false),
            ("https://a.example/mcp#f", "https://a.example/mcp", false),
            ("data:x", "https://a.example/mcp", false),
            ("", "https://a.example/mcp", false),
        ];
        for (stated, resource, expected) in rows {
            assert_eq!(covers_resource(stated, &url(resource)), expected, "{stated} {resource}");
        }
    }

    #[test]
    fn canonical_resource_drops_root_slash_and_fragment() {
        let rows = [
            ("https://A.example", "https://a.example"),
            ("https://a.example/", "https://a.example"),
            ("https://a.example/mcp", "https://a.example/mcp"),
            ("https://a.example/mcp/#x", "https://a.example/mcp/"),
            ("https://a.example/?a=b", "https://a.example/?a=b"),
        ];
        for (given, expected) in rows {
            assert_eq!(canonical_resource(&url(given)), expected);
        }
    }

    #[test]
    fn issuers_are_equal_up_to_trailing_slash() {
        let rows = [
            ("https://a", "https://a", true),
            ("https://a/", "https://a", true),
            ("https://a", "https://a/", true),
            ("https://a//", "https://a", false),
            ("https://A", "https://a", false),
            ("https://a:443", "https://a", false),
            ("https://a/t", "https://a", false),
        ];
        for (stated, expected, same) in rows {
            assert_eq!(is_same_issuer(stated, expected), same, "{stated} {expected}");
        }
    }
}
