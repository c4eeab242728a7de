//! The authorization request in the browser, and the verification of its redirect.

use std::fmt::Debug;

use futures::future::BoxFuture;
use url::Url;

use super::discovery::DiscoveryResult;
use super::error::{OAuthError, redact_url};
use super::pkce;
use super::scope::OFFLINE_ACCESS;
use crate::http::excerpt;
use crate::protocol::Secret;

/// Opens an authorization URL for the user and returns the redirect.
pub trait Authorizer: Send + Sync + Debug {
    /// Returns the redirect URI, which uses HTTPS or a loopback address.
    fn redirect_uri(&self) -> Url;

    /// Shows the URL to the user and returns the redirect, which the caller verifies.
    ///
    /// # Errors
    ///
    /// Returns [`OAuthError::Incomplete`] if there is no redirect.
    ///
    /// # Cancellation
    ///
    /// Dropping the future stops waiting.
    fn authorize(&self, address: Url) -> BoxFuture<'_, Result<Url, OAuthError>>;
}

/// A pending authorization request, with the values that its redirect must match.
pub(super) struct AuthorizationRequest {
    pub(super) url: Url,
    pub(super) verifier: Secret,
    pub(super) redirect_uri: Url,
    state: Secret,
    issuer: String,
    requires_iss: bool,
}

impl AuthorizationRequest {
    pub(super) fn new(
        discovered: &DiscoveryResult,
        client_id: &str,
        redirect_uri: Url,
        scopes: &[String],
    ) -> Result<Self, OAuthError> {
        let (verifier, state) = (pkce::random_token()?, pkce::random_token()?);
        let mut address = discovered.server.authorization_endpoint.clone();
        let mut query = address.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", client_id)
            .append_pair("redirect_uri", redirect_uri.as_str())
            .append_pair("state", state.reveal())
            .append_pair("code_challenge", &pkce::s256(&verifier))
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &discovered.resource);
        if !scopes.is_empty() {
            query.append_pair("scope", &scopes.join(" "));
        }
        if scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
            // OpenID Connect issues refresh tokens only with `prompt=consent`.
            query.append_pair("prompt", "consent");
        }
        drop(query);
        let issuer = discovered.server.issuer.clone();
        let requires_iss = discovered.server.sends_iss;
        Ok(Self { url: address, verifier, redirect_uri, state, issuer, requires_iss })
    }

    /// Returns the authorization code of a redirect. The redirect URI, the state and the issuer
    /// (RFC 9207) are verified before any other parameter is read.
    pub(super) fn code_from_redirect(&self, response: &Url) -> Result<Secret, OAuthError> {
        let mut target = response.clone();
        target.set_query(None);
        target.set_fragment(None);
        let mut expected = self.redirect_uri.clone();
        expected.set_query(None);
        if target != expected {
            return Err(self.untrusted_redirect("it arrived at another address"));
        }
        let state = self.single_param(response, "state")?;
        if state.as_deref() != Some(self.state.reveal()) {
            return Err(self.untrusted_redirect("its state does not match"));
        }
        match self.single_param(response, "iss")? {
            Some(issuer) if issuer != self.issuer => {
                return Err(self.untrusted_redirect("it is from another issuer"));
            }
            None if self.requires_iss => {
                return Err(self.untrusted_redirect("it is missing the issuer"));
            }
            _ => {}
        }
        if let Some(error) = self.single_param(response, "error")? {
            let description = self.single_param(response, "error_description")?;
            return Err(OAuthError::Rejected {
                what: "authorization server",
                address: redact_url(&self.issuer),
                error: excerpt(&error),
                description: description.as_deref().map(excerpt),
            });
        }
        let code = self.single_param(response, "code")?.filter(|code| !code.is_empty());
        code.map(Secret::new).ok_or_else(|| self.untrusted_redirect("it has no code"))
    }

    /// Returns the value of a query parameter; fails if it occurs more than once.
    fn single_param(&self, response: &Url, name: &str) -> Result<Option<String>, OAuthError> {
        let mut values =
            response.query_pairs().filter(|(key, _)| key == name).map(|(_, value)| value);
        let first = values.next();
        if values.next().is_some() {
            return Err(self.untrusted_redirect("it has a parameter twice"));
        }
        Ok(first.map(String::from))
    }

    fn untrusted_redirect(&self, reason: &'static str) -> OAuthError {
        OAuthError::UntrustedRedirect { issuer: redact_url(&self.issuer), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::super::metadata::AuthorizationServer;
    use super::*;

    fn authorization_request(requires_iss: bool, scopes: &[&str]) -> AuthorizationRequest {
        let url = Url::parse("https://as.example").unwrap();
        let mut server = AuthorizationServer::with_default_endpoints(&url);
        server.sends_iss = requires_iss;
        server.authorization_endpoint = Url::parse("https://as.example/go?tenant=1").unwrap();
        let resource = "https://mcp.example".to_owned();
        let discovered = DiscoveryResult { resource, scopes: Vec::new(), server };
        let redirect = Url::parse("http://127.0.0.1:7/callback").unwrap();
        let scopes: Vec<String> = scopes.iter().map(|&scope| scope.to_owned()).collect();
        AuthorizationRequest::new(&discovered, "me", redirect, &scopes).unwrap()
    }

    #[test]
    fn authorization_url_has_all_params_and_endpoint_query() {
        let pending = authorization_request(true, &["a", OFFLINE_ACCESS]);
        let query: Vec<(String, String)> = pending.url.query_pairs().into_owned().collect();
        let challenge = pkce::s256(&pending.verifier);
        let expected = [
            ("tenant", "1"),
            ("response_type", "code"),
            ("client_id", "me"),
            ("redirect_uri", "http://127.0.0.1:7/callback"),
            ("state", pending.state.reveal()),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", "https://mcp.example"),
            ("scope", "a offline_access"),
            ("prompt", "consent"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(query, expected);
        assert!(!format!("{:?}", pending.verifier).contains(pending.verifier.reveal()));
    }

    #[test]
    fn authorization_url_omits_empty_scope() {
        assert!(!authorization_request(true, &[]).url.as_str().contains("scope"));
    }

    #[test]
    fn redirect_issuer_and_params_are_verified() {
        let good = "http://127.0.0.1:7/callback?state=STATE";
        let rows = [
            // Each row: the result if the server sends `iss`, the result if it does not, and the
            // query.
            (Ok(()), Ok(()), "&code=c&iss=https://as.example"),
            (Err("missing the issuer"), Ok(()), "&code=c"),
            (Err("another issuer"), Err("another issuer"), "&code=c&iss=https://evil.example"),
            (Err("another issuer"), Err("another issuer"), "&code=c&iss=https://as.example/"),
            (Err("another issuer"), Err("another issuer"), "&code=c&iss=https://AS.example"),
            (Err("another issuer"), Err("another issuer"), "&code=c&iss=https://as.example:443"),
            (Err("another issuer"), Err("another issuer"), "&code=c&iss="),
            (Err("twice"), Err("twice"), "&code=c&iss=https://as.example&iss=x"),
            (Err("twice"), Err("twice"), "&code=c&code=d&iss=https://as.example"),
            (Err("twice"), Err("twice"), "&code=c&state=STATE&iss=https://as.example"),
            (Err("no code"), Err("no code"), "&iss=https://as.example"),
            (Err("no code"), Err("no code"), "&code=&iss=https://as.example"),
            (
                Err("access_denied (no\u{fffd})"),
                Err("access_denied"),
                "&error=access_denied&error_description=no%0a&iss=https://as.example",
            ),
            // The error text of an unknown issuer is not repeated.
            (
                Err("another issuer"),
                Err("another issuer"),
                "&error=call+555&iss=https://evil.example",
            ),
        ];
        for (requires_iss, without_iss, query) in rows {
            for (names, expected) in [(true, requires_iss), (false, without_iss)] {
                let pending = authorization_request(names, &[]);
                let address = format!("{good}{query}").replace("STATE", pending.state.reveal());
                check(pending.code_from_redirect(&Url::parse(&address).unwrap()), expected, query);
            }
        }
    }

    #[test]
    fn redirect_with_wrong_state_or_uri_is_rejected() {
        let pending = authorization_request(false, &[]);
        let state = pending.state.reveal();
        let rows = [
            (format!("http://127.0.0.1:7/callback?code=c&state={state}"), Ok(())),
            ("http://127.0.0.1:7/callback?code=c&state=other".to_owned(), Err("its state")),
            ("http://127.0.0.1:7/callback?code=c".to_owned(), Err("its state")),
            ("http://127.0.0.1:7/callback?error=call+555&state=x".to_owned(), Err("its state")),
            (format!("http://127.0.0.1:8/callback?code=c&state={state}"), Err("another address")),
            (format!("http://127.0.0.1:7/other?code=c&state={state}"), Err("another address")),
            (format!("https://127.0.0.1:7/callback?code=c&state={state}"), Err("another address")),
        ];
        for (address, expected) in rows {
            check(pending.code_from_redirect(&Url::parse(&address).unwrap()), expected, &address);
        }
    }

    fn check(result: Result<Secret, OAuthError>, expected: Result<(), &str>, name: &str) {
        match (result, expected) {
            (Ok(code), Ok(())) => assert_eq!(code.reveal(), "c", "{name}"),
            (Err(error), Err(expected_message)) => {
                assert!(error.to_string().contains(expected_message), "{name}: {error}");
                assert!(!error.to_string().contains("555"), "{error}");
            }
            (result, _) => panic!("{name}: {result:?}"),
        }
    }
}
