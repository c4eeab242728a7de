//! The way through the browser: what is asked, and whether the answer is one to it.

use std::fmt::Debug;

use futures::future::BoxFuture;
use url::Url;

use super::discovery::Discovered;
use super::error::{OAuthError, excerpt, shown};
use super::pkce;
use super::scope::OFFLINE_ACCESS;
use crate::protocol::Secret;

/// Shows a person an address, and brings back what the authorization server answers there.
pub trait Authorizer: Send + Sync + Debug {
    /// Where the authorization server sends the person afterwards. It is HTTPS, or on this machine.
    fn redirect_uri(&self) -> Url;

    /// Shows the address to a person, and waits for the redirect, which is given back with its
    /// query. Whether it can be trusted is not its business.
    ///
    /// # Errors
    ///
    /// [`OAuthError::Unfinished`] when nobody comes back.
    ///
    /// # Cancellation
    ///
    /// Dropping it stops waiting.
    fn authorize(&self, address: Url) -> BoxFuture<'_, Result<Url, OAuthError>>;
}

/// An authorization that a person was sent to. What it expects was written down before.
pub(super) struct Pending {
    pub(super) address: Url,
    pub(super) verifier: Secret,
    pub(super) redirect_uri: Url,
    state: Secret,
    issuer: String,
    names_itself: bool,
}

impl Pending {
    pub(super) fn new(
        discovered: &Discovered,
        client_id: &str,
        redirect_uri: Url,
        scopes: &[String],
    ) -> Result<Self, OAuthError> {
        let (verifier, state) = (pkce::unguessable()?, pkce::unguessable()?);
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
            // OpenID Connect gives refresh tokens only to those who ask for consent.
            query.append_pair("prompt", "consent");
        }
        drop(query);
        let issuer = discovered.server.issuer.clone();
        let names_itself = discovered.server.names_itself;
        Ok(Self { address, verifier, redirect_uri, state, issuer, names_itself })
    }

    /// The code in an answer, once it is sure that the answer is one to this question and comes
    /// from the server that was asked (RFC 9207). Before that is sure, nothing else in it is read.
    pub(super) fn code(&self, answer: &Url) -> Result<Secret, OAuthError> {
        let mut place = answer.clone();
        place.set_query(None);
        place.set_fragment(None);
        let mut expected = self.redirect_uri.clone();
        expected.set_query(None);
        if place != expected {
            return Err(self.untrusted("it came to another address"));
        }
        let state = self.only(answer, "state")?;
        if state.as_deref() != Some(self.state.reveal()) {
            return Err(self.untrusted("its state is not the one that was sent"));
        }
        match self.only(answer, "iss")? {
            Some(issuer) if issuer != self.issuer => {
                return Err(self.untrusted("it is from another issuer"));
            }
            None if self.names_itself => {
                return Err(self.untrusted("it does not name its issuer, as it should"));
            }
            _ => {}
        }
        if let Some(error) = self.only(answer, "error")? {
            return Err(self.refused(&error, self.only(answer, "error_description")?.as_deref()));
        }
        let code = self.only(answer, "code")?.filter(|code| !code.is_empty());
        code.map(Secret::new).ok_or_else(|| self.untrusted("it has no code"))
    }

    /// The value of a parameter, which must not be there twice.
    fn only(&self, answer: &Url, name: &str) -> Result<Option<String>, OAuthError> {
        let mut values =
            answer.query_pairs().filter(|(key, _)| key == name).map(|(_, value)| value);
        let first = values.next();
        if values.next().is_some() {
            return Err(self.untrusted("it has a parameter twice"));
        }
        Ok(first.map(String::from))
    }

    fn refused(&self, error: &str, description: Option<&str>) -> OAuthError {
        OAuthError::Refused {
            what: "authorization server",
            address: shown(&self.issuer),
            error: excerpt(error),
            description: description.map(excerpt),
        }
    }

    fn untrusted(&self, reason: &'static str) -> OAuthError {
        OAuthError::Response { issuer: shown(&self.issuer), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::super::metadata::Server;
    use super::*;

    fn pending(names_itself: bool, scopes: &[&str]) -> Pending {
        let url = Url::parse("https://as.example").unwrap();
        let mut server = Server::usual(&url);
        server.names_itself = names_itself;
        server.authorization_endpoint = Url::parse("https://as.example/go?tenant=1").unwrap();
        let resource = "https://mcp.example".to_owned();
        let discovered = Discovered { resource, scopes: Vec::new(), server };
        let redirect = Url::parse("http://127.0.0.1:7/callback").unwrap();
        let scopes: Vec<String> = scopes.iter().map(|&scope| scope.to_owned()).collect();
        Pending::new(&discovered, "me", redirect, &scopes).unwrap()
    }

    #[test]
    fn the_question_says_everything_and_keeps_the_query_of_the_endpoint() {
        let pending = pending(true, &["a", OFFLINE_ACCESS]);
        let query: Vec<(String, String)> = pending.address.query_pairs().into_owned().collect();
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
    fn without_scopes_the_parameter_is_left_out() {
        assert!(!pending(true, &[]).address.as_str().contains("scope"));
    }

    #[test]
    fn answers_are_trusted_or_not() {
        let good = "http://127.0.0.1:7/callback?state=STATE";
        let rows = [
            // names itself; does not; the answer
            (Ok(()), Ok(()), "&code=c&iss=https://as.example"),
            (Err("does not name its issuer"), Ok(()), "&code=c"),
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
            // What an unknown issuer says is not repeated.
            (
                Err("another issuer"),
                Err("another issuer"),
                "&error=call+555&iss=https://evil.example",
            ),
        ];
        for (names_itself, silent, query) in rows {
            for (names, expected) in [(true, names_itself), (false, silent)] {
                let pending = pending(names, &[]);
                let address = format!("{good}{query}").replace("STATE", pending.state.reveal());
                check(pending.code(&Url::parse(&address).unwrap()), expected, query);
            }
        }
    }

    #[test]
    fn answers_to_another_question_are_not_read() {
        let pending = pending(false, &[]);
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
            check(pending.code(&Url::parse(&address).unwrap()), expected, &address);
        }
    }

    fn check(result: Result<Secret, OAuthError>, expected: Result<(), &str>, name: &str) {
        match (result, expected) {
            (Ok(code), Ok(())) => assert_eq!(code.reveal(), "c", "{name}"),
            (Err(error), Err(words)) => {
                assert!(error.to_string().contains(words), "{name}: {error}");
                assert!(!error.to_string().contains("555"), "{error}");
            }
            (result, _) => panic!("{name}: {result:?}"),
        }
    }
}
