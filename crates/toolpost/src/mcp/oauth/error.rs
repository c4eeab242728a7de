//! Why there is no token.

use std::sync::Arc;

use url::Url;

use super::store::StoreError;

/// Why there is no token.
///
/// The words name what failed and where. None of them holds a token, a code or a client secret, and
/// what another party wrote is cut short and free of control characters.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// A person has to agree, and there is no [`Authorizer`](super::Authorizer) to ask one with.
    #[error("`{resource}` requires user authorization: {reason}")]
    AuthorizationRequired {
        /// The MCP server.
        resource: String,
        /// Why what is at hand does not do.
        reason: String,
    },
    /// An address would be spoken to without encryption, or is no address at all.
    #[error("the {what} `{address}` is not acceptable: {reason}")]
    InvalidUrl {
        /// Whose address it is.
        what: &'static str,
        /// As it was given.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No answer came.
    #[error("the {what} at `{address}` is unreachable")]
    Unreachable {
        /// What was asked for.
        what: &'static str,
        /// Where.
        address: String,
        /// What the network said.
        #[source]
        source: Arc<reqwest::Error>,
    },
    /// An answer came, and it is not one that can be used.
    #[error("the {what} at `{address}` sent an invalid response: {reason}")]
    InvalidResponse {
        /// What was asked for.
        what: &'static str,
        /// Where.
        address: String,
        /// What is wrong with it.
        reason: String,
        /// Whether the same request may go well later.
        transient: bool,
    },
    /// The metadata of the server is about something else.
    #[error(
        "the metadata at `{address}` is about the resource `{stated}`, and not about `{resource}`"
    )]
    ResourceMismatch {
        /// Where the metadata is.
        address: String,
        /// What it says that it is about.
        stated: String,
        /// The MCP server.
        resource: String,
    },
    /// The authorization server has no metadata.
    #[error("the authorization server `{issuer}` publishes no metadata; looked at {tried}")]
    NoMetadata {
        /// The authorization server.
        issuer: String,
        /// The addresses, separated by commas.
        tried: String,
    },
    /// The metadata of an authorization server names another one as its issuer.
    #[error("the metadata at `{address}` is of the issuer `{stated}`, and not of `{expected}`")]
    IssuerMismatch {
        /// Where the metadata is.
        address: String,
        /// Whose it says that it is.
        stated: String,
        /// Whose it has to be.
        expected: String,
    },
    /// The authorization server does not protect authorization codes.
    #[error("the authorization server `{issuer}` does not offer PKCE with S256, which is required")]
    NoPkce {
        /// The authorization server.
        issuer: String,
    },
    /// There is no way to become a client of the authorization server.
    #[error(
        "the authorization server `{issuer}` accepts only pre-registered clients: \
         register one there and configure its id"
    )]
    NoClientRegistration {
        /// The authorization server.
        issuer: String,
    },
    /// The configured client belongs to another authorization server.
    #[error(
        "the configured client was registered at `{registered}`, and the server now uses `{now}`: \
         register one there and configure its id"
    )]
    ClientIssuerMismatch {
        /// Where the client is known.
        registered: String,
        /// Where it would have to be.
        now: String,
    },
    /// The authorization server refused, in the words of the standard.
    #[error("the {what} at `{address}` rejected the request: {error}{}", described(.description.as_deref()))]
    Rejected {
        /// What was asked.
        what: &'static str,
        /// Where.
        address: String,
        /// The code of the standard, such as `access_denied` or `invalid_grant`.
        error: String,
        /// What the authorization server adds.
        description: Option<String>,
    },
    /// What came back through the browser is not the answer to what was asked.
    #[error("the redirect from the authorization server `{issuer}` is not trusted: {reason}")]
    UntrustedRedirect {
        /// The authorization server.
        issuer: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The person did not come back, or could not be reached.
    #[error("authorization did not complete: {reason}")]
    Incomplete {
        /// What happened.
        reason: String,
    },
    /// More of the same does not help.
    #[error(
        "`{resource}` rejected the request, and requesting the scope `{scope}` again would not help"
    )]
    AttemptsExhausted {
        /// The MCP server.
        resource: String,
        /// What was asked for.
        scope: String,
    },
    /// The server refuses in a way that no token changes.
    #[error("`{resource}` rejected the request with status {status} and named no missing scope")]
    Forbidden {
        /// The MCP server.
        resource: String,
        /// The status of its answer.
        status: u16,
    },
    /// The credentials cannot be read or kept.
    #[error("the credentials of `{resource}` cannot be read or stored")]
    Store {
        /// The MCP server.
        resource: String,
        /// What the store said.
        #[source]
        source: Arc<StoreError>,
    },
    /// There is no randomness, or the runtime is going down.
    #[error("{reason}")]
    Internal {
        /// What happened.
        reason: &'static str,
    },
}

impl OAuthError {
    /// Whether the same request may go well later, without anybody doing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::InvalidResponse { transient, .. } => *transient,
            _ => false,
        }
    }

    pub(super) fn is_authorization_required(&self) -> bool {
        matches!(self, Self::AuthorizationRequired { .. })
    }

    /// The code of the standard, if the authorization server gave one.
    pub(super) fn oauth_code(&self) -> Option<&str> {
        match self {
            Self::Rejected { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The longest piece of somebody else's text in an error.
const MAX_EXCERPT_CHARS: usize = 200;

/// Somebody else's text, fit for a terminal and a log.
pub(super) fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_EXCERPT_CHARS).map(sanitize_char).collect();
    if short.len() < text.len() && text.chars().nth(MAX_EXCERPT_CHARS).is_some() {
        short.push('…');
    }
    short
}

/// An address without what may be a secret in it: the query, and parts of the path that are no plain
/// words.
pub(super) fn redact_url(address: &str) -> String {
    let Ok(url) = Url::parse(address) else { return excerpt(address) };
    let is_plain = |part: &str| {
        part.len() <= 32 && part.bytes().all(|b| b.is_ascii_lowercase() || b"-_.".contains(&b))
    };
    let parts = url.path().split('/').map(|part| if is_plain(part) { part } else { "…" });
    let path = parts.collect::<Vec<_>>().join("/");
    excerpt(&format!("{}{path}", url.origin().ascii_serialization()))
}

fn sanitize_char(character: char) -> char {
    // The bidirectional controls turn the text around that stands beside them.
    let is_bidi_control = matches!(character, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if character.is_control() || is_bidi_control { '\u{fffd}' } else { character }
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
