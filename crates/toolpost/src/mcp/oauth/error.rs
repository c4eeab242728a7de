//! Errors of token acquisition.

use std::sync::Arc;

use url::Url;

use super::store::StoreError;
use crate::http::{FetchError, excerpt};

/// Error returned when a token cannot be acquired.
///
/// The message states what failed and where. It never contains a token, a code or a client secret,
/// and text from other parties is truncated and stripped of control characters.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// User authorization is required, and there is no [`Authorizer`](super::Authorizer).
    #[error("`{resource}` requires user authorization: {reason}")]
    AuthorizationRequired {
        /// URL of the MCP server.
        resource: String,
        /// Why the stored tokens are not sufficient.
        reason: String,
    },
    /// A URL is not encrypted or not valid.
    #[error("the {what} `{address}` is not allowed: {reason}")]
    InvalidUrl {
        /// What the URL is for.
        what: &'static str,
        /// The rejected URL.
        address: String,
        /// Why it is rejected.
        reason: &'static str,
    },
    /// The server could not be reached.
    #[error("the {what} at `{address}` is unreachable")]
    Unreachable {
        /// What was requested.
        what: &'static str,
        /// URL of the endpoint.
        address: String,
        /// The network error.
        #[source]
        source: Arc<FetchError>,
    },
    /// The response is invalid.
    #[error("the {what} at `{address}` sent an invalid response: {reason}")]
    InvalidResponse {
        /// What was requested.
        what: &'static str,
        /// URL of the endpoint.
        address: String,
        /// Why it is invalid.
        reason: String,
        /// Whether a retry may succeed.
        transient: bool,
    },
    /// The metadata of the MCP server or of its authorization server is missing, describes another
    /// server, or lacks PKCE with S256.
    #[error("{0}")]
    Metadata(String),
    /// A client must be registered with the authorization server and configured.
    #[error("{0}; register a client there and configure its id")]
    UnregisteredClient(String),
    /// The authorization server returned an OAuth error.
    #[error("the {what} at `{address}` rejected the request: {error}{}", described(.description.as_deref()))]
    Rejected {
        /// What was requested.
        what: &'static str,
        /// URL of the endpoint.
        address: String,
        /// OAuth error code, such as `access_denied` or `invalid_grant`.
        error: String,
        /// Error description from the authorization server.
        description: Option<String>,
    },
    /// The redirect does not match the authorization request.
    #[error("the redirect from the authorization server `{issuer}` is not trusted: {reason}")]
    UntrustedRedirect {
        /// Issuer of the authorization server.
        issuer: String,
        /// Which check failed.
        reason: &'static str,
    },
    /// The user did not complete the authorization, or could not be prompted.
    #[error("authorization did not complete: {reason}")]
    Incomplete {
        /// Why the authorization did not complete.
        reason: String,
    },
    /// Another authorization for the same scope would not succeed.
    #[error("`{resource}` rejected the request although the scope `{scope}` was already requested")]
    AttemptsExhausted {
        /// URL of the MCP server.
        resource: String,
        /// The requested scopes.
        scope: String,
    },
    /// The server rejects the request, and no token would change that.
    #[error("`{resource}` rejected the request with status {status} and named no missing scope")]
    Forbidden {
        /// URL of the MCP server.
        resource: String,
        /// The response status.
        status: u16,
    },
    /// The credentials cannot be read or stored.
    #[error("the credentials of `{resource}` cannot be read or stored")]
    Store {
        /// URL of the MCP server.
        resource: String,
        /// The store error.
        #[source]
        source: Arc<StoreError>,
    },
    /// No randomness is available, or the runtime is shutting down.
    #[error("{reason}")]
    Internal {
        /// What failed.
        reason: &'static str,
    },
}

impl OAuthError {
    /// Whether the same request may succeed later without intervention.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::InvalidResponse { transient, .. } => *transient,
            _ => false,
        }
    }

    /// Returns the OAuth error code, if the authorization server sent one.
    pub(super) fn oauth_code(&self) -> Option<&str> {
        match self {
            Self::Rejected { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Removes user info, the query, and path segments other than short lower-case names.
pub(super) fn redact_url(address: &str) -> String {
    let Ok(url) = Url::parse(address) else { return excerpt(address) };
    let is_plain = |part: &str| {
        part.len() <= 32 && part.bytes().all(|b| b.is_ascii_lowercase() || b"-_.".contains(&b))
    };
    let parts = url.path().split('/').map(|part| if is_plain(part) { part } else { "…" });
    let path = parts.collect::<Vec<_>>().join("/");
    excerpt(&format!("{}{path}", url.origin().ascii_serialization()))
}

fn described(description: Option<&str>) -> String {
    description.map(|description| format!(" ({description})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redact_url_removes_query_user_and_opaque_segments() {
        for (address, expected) in [
            ("https://a.example/mcp?key=hush", "https://a.example/mcp"),
            ("https://a.example/.well-known/x/SECRET", "https://a.example/.well-known/x/…"),
            ("http://me:hush@127.0.0.1:9/mcp/0a1b2c", "http://127.0.0.1:9/mcp/…"),
            ("none", "none"),
        ] {
            assert_eq!(redact_url(address), expected);
        }
    }
}
