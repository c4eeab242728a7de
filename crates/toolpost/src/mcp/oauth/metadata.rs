//! What servers publish about themselves.

use serde::Deserialize;
use url::Url;

use super::address::Reach;
use super::error::{OAuthError, shown};
use super::scope;

/// The metadata of a resource (RFC 9728), as far as it matters here.
#[derive(Debug, Deserialize)]
pub(super) struct ResourceDocument {
    pub(super) resource: String,
    #[serde(default)]
    pub(super) authorization_servers: Vec<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
}

/// The metadata of an authorization server (RFC 8414, OpenID Connect Discovery), as it is written.
#[derive(Debug, Deserialize)]
pub(super) struct ServerDocument {
    pub(super) issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    registration_endpoint: Option<String>,
    scopes_supported: Option<Vec<String>>,
    grant_types_supported: Option<Vec<String>>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
}

/// An authorization server whose addresses may be spoken to.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// Its name, sign by sign as it writes it.
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) registration_endpoint: Option<Url>,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) auth_methods: Option<Vec<String>>,
    /// Whether it gives refresh tokens, as far as it says.
    pub(super) refresh: bool,
    /// Whether its answers always name it.
    pub(super) names_itself: bool,
    /// Whether the id of a client may be the address of a document about it.
    pub(super) client_documents: bool,
}

/// How sure it has to be that an authorization server knows PKCE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pkce {
    /// Its metadata has to say so.
    Stated,
    /// Its metadata must not say otherwise: servers of 2025-03-26 were not asked to say.
    Assumed,
}

impl Server {
    pub(super) fn new(
        document: ServerDocument,
        reach: Reach,
        pkce: Pkce,
    ) -> Result<Self, OAuthError> {
        let methods = document.code_challenge_methods_supported;
        let known = methods.map_or(pkce == Pkce::Assumed, |methods| holds(&methods, "S256"));
        if !known {
            return Err(OAuthError::NoPkce { issuer: shown(&document.issuer) });
        }
        let registration = document.registration_endpoint;
        let grants = document.grant_types_supported;
        Ok(Self {
            authorization_endpoint: reach
                .parse("authorization endpoint", &document.authorization_endpoint)?,
            token_endpoint: reach.parse("token endpoint", &document.token_endpoint)?,
            registration_endpoint: registration
                .map(|address| reach.parse("registration endpoint", &address))
                .transpose()?,
            scopes: document.scopes_supported.map(|scopes| scope::clean(&scopes)),
            auth_methods: document.token_endpoint_auth_methods_supported,
            refresh: grants.is_none_or(|grants| holds(&grants, "refresh_token")),
            names_itself: document.authorization_response_iss_parameter_supported,
            client_documents: document.client_id_metadata_document_supported,
            issuer: document.issuer,
        })
    }

    /// A server without metadata, as 2025-03-26 knows them: everything has its usual place.
    pub(super) fn usual(origin: &Url) -> Self {
        let place = |path| super::address::at(origin, path);
        Self {
            issuer: super::address::canonical(&place("/")),
            authorization_endpoint: place("/authorize"),
            token_endpoint: place("/token"),
            registration_endpoint: Some(place("/register")),
            scopes: None,
            auth_methods: None,
            refresh: true,
            names_itself: false,
            client_documents: false,
        }
    }
}

fn holds(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn document(extra: &Value) -> ServerDocument {
        let mut document = json!({
            "issuer": "https://a",
            "authorization_endpoint": "https://a/authorize",
            "token_endpoint": "https://a/token",
            "code_challenge_methods_supported": ["S256"],
        });
        for (name, value) in extra.as_object().unwrap() {
            document[name] = value.clone();
        }
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn servers_are_taken_or_refused() {
        let pkce = "code_challenge_methods_supported";
        let rows = [
            (json!({}), Ok(()), Ok(())),
            (json!({pkce: ["plain", "S256"]}), Ok(()), Ok(())),
            (json!({pkce: null}), Err("does not offer PKCE"), Ok(())),
            (json!({pkce: []}), Err("does not offer PKCE"), Err("does not offer PKCE")),
            (json!({pkce: ["plain"]}), Err("does not offer PKCE"), Err("does not offer PKCE")),
            (json!({"token_endpoint": "http://a/token"}), Err("token endpoint"), Err("HTTPS")),
            (json!({"authorization_endpoint": "x"}), Err("no URL"), Err("authorization endpoint")),
            (json!({"registration_endpoint": "http://b/"}), Err("registration"), Err("HTTPS")),
        ];
        for (extra, stated, assumed) in rows {
            for (pkce, expected) in [(Pkce::Stated, stated), (Pkce::Assumed, assumed)] {
                let server = Server::new(document(&extra), Reach::Network, pkce);
                match (server, expected) {
                    (Ok(_), Ok(())) => {}
                    (Err(error), Err(words)) => assert!(error.to_string().contains(words)),
                    (server, _) => panic!("{extra} {pkce:?}: {server:?}"),
                }
            }
        }
    }
}
