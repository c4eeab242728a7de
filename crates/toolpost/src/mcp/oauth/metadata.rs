//! Metadata documents of resources and authorization servers.

use serde::Deserialize;
use url::Url;

use super::error::{OAuthError, redact_url};
use super::scope::{self, contains};
use super::url_policy::UrlPolicy;

/// Protected resource metadata (RFC 9728), reduced to the members in use.
#[derive(Debug, Deserialize)]
pub(super) struct ProtectedResourceMetadata {
    pub(super) resource: String,
    #[serde(default)]
    pub(super) authorization_servers: Vec<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
}

/// Authorization server metadata (RFC 8414, OpenID Connect Discovery), before validation.
#[derive(Debug, Deserialize)]
pub(super) struct AuthorizationServerMetadata {
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

/// An authorization server whose URLs passed the URL policy.
#[derive(Debug, Clone)]
pub(super) struct AuthorizationServer {
    /// Issuer identifier, exactly as the server states it.
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) registration_endpoint: Option<Url>,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) auth_methods: Option<Vec<String>>,
    /// Whether it issues refresh tokens, according to its metadata.
    pub(super) supports_refresh: bool,
    /// Whether its redirects always include `iss`.
    pub(super) sends_iss: bool,
    /// Whether the URL of a client metadata document is accepted as a client id.
    pub(super) supports_client_metadata_url: bool,
}

/// Required evidence that an authorization server supports PKCE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PkceRequirement {
    /// The metadata must state it.
    Advertised,
    /// The metadata must not exclude it: 2025-03-26 did not require servers to state it.
    Assumed,
}

impl AuthorizationServer {
    pub(super) fn new(
        document: AuthorizationServerMetadata,
        url_policy: UrlPolicy,
        pkce: PkceRequirement,
    ) -> Result<Self, OAuthError> {
        let methods = document.code_challenge_methods_supported;
        let known =
            methods.map_or(pkce == PkceRequirement::Assumed, |methods| contains(&methods, "S256"));
        if !known {
            return Err(OAuthError::Metadata(format!(
                "the authorization server `{}` does not offer PKCE with S256, which is required",
                redact_url(&document.issuer)
            )));
        }
        let registration = document.registration_endpoint;
        let grants = document.grant_types_supported;
        Ok(Self {
            authorization_endpoint: url_policy
                .parse("authorization endpoint", &document.authorization_endpoint)?,
            token_endpoint: url_policy.parse("token endpoint", &document.token_endpoint)?,
            registration_endpoint: registration
                .map(|address| url_policy.parse("registration endpoint", &address))
                .transpose()?,
            scopes: document.scopes_supported.map(|scopes| scope::valid_scopes(&scopes)),
            auth_methods: document.token_endpoint_auth_methods_supported,
            supports_refresh: grants.is_none_or(|grants| contains(&grants, "refresh_token")),
            sends_iss: document.authorization_response_iss_parameter_supported,
            supports_client_metadata_url: document.client_id_metadata_document_supported,
            issuer: document.issuer,
        })
    }

    /// A server without metadata (2025-03-26), with endpoints at the default paths.
    pub(super) fn with_default_endpoints(origin: &Url) -> Self {
        let endpoint = |path| super::url_policy::with_path(origin, path);
        Self {
            issuer: super::url_policy::canonical_resource(&endpoint("/")),
            authorization_endpoint: endpoint("/authorize"),
            token_endpoint: endpoint("/token"),
            registration_endpoint: Some(endpoint("/register")),
            scopes: None,
            auth_methods: None,
            supports_refresh: true,
            sends_iss: false,
            supports_client_metadata_url: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn document(extra: &Value) -> AuthorizationServerMetadata {
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
    fn server_metadata_requires_pkce_and_https() {
        let pkce = "code_challenge_methods_supported";
        let rows = [
            (json!({}), Ok(()), Ok(())),
            (json!({pkce: ["plain", "S256"]}), Ok(()), Ok(())),
            (json!({pkce: null}), Err("does not offer PKCE"), Ok(())),
            (json!({pkce: []}), Err("does not offer PKCE"), Err("does not offer PKCE")),
            (json!({pkce: ["plain"]}), Err("does not offer PKCE"), Err("does not offer PKCE")),
            (json!({"token_endpoint": "http://a/token"}), Err("token endpoint"), Err("HTTPS")),
            (
                json!({"authorization_endpoint": "x"}),
                Err("not a valid URL"),
                Err("authorization endpoint"),
            ),
            (json!({"registration_endpoint": "http://b/"}), Err("registration"), Err("HTTPS")),
        ];
        for (extra, stated, assumed) in rows {
            for (pkce, expected) in
                [(PkceRequirement::Advertised, stated), (PkceRequirement::Assumed, assumed)]
            {
                let server = AuthorizationServer::new(document(&extra), UrlPolicy::HttpsOnly, pkce);
                match (server, expected) {
                    (Ok(_), Ok(())) => {}
                    (Err(error), Err(expected_message)) => {
                        assert!(error.to_string().contains(expected_message));
                    }
                    (server, _) => panic!("{extra} {pkce:?}: {server:?}"),
                }
            }
        }
    }
}
