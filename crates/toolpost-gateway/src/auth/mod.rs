//! Who comes through a endpoint: a token is looked up by its hash, or is signed by an authorization server,
//! and stands for an identity.

mod jwt;
mod token;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use toolpost::Identity;

use jwt::JwtVerifier;
pub(crate) use jwt::is_secure_url;
pub use jwt::{Algorithm, JwtError, JwtSettings, ScopesClaim};
pub use token::{Token, TokenHash, TokenHashError};

/// Who calls without a token where none is asked for.
pub const LOCAL: &str = "local";

/// Whether it is `type:id`, as [`toolpost::AccessControl`] looks it up.
pub(crate) fn is_resource_id(text: &str) -> bool {
    text.split_once(':').is_some_and(|(kind, id)| !kind.is_empty() && !id.is_empty())
}

/// Turns what a caller presents into an identity. Cloning it shares everything.
///
/// ```
/// use toolpost::Identity;
/// use toolpost_gateway::auth::{AuthError, Authenticator, Token};
///
/// let token = Token::generate()?;
/// let ci = Identity::new("ci").with_scopes(["github:read"]);
/// let authenticator = Authenticator::with_tokens([(token.hash(), ci)]);
/// assert_eq!(authenticator.lookup_token(Some(token.reveal())).unwrap().id, "ci");
/// assert_eq!(authenticator.lookup_token(None), Err(AuthError::MissingToken));
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Authenticator(Arc<ArcSwap<AuthState>>);

/// Who is known at one moment.
#[derive(Debug, Clone, Default)]
struct AuthState {
    /// Whoever comes without a token; `None` where one is asked for.
    anonymous: Option<Arc<Identity>>,
    /// Looked up by hash, so that the time it takes says nothing about a token.
    tokens: HashMap<TokenHash, Arc<Identity>>,
    /// Who checks signed tokens, where there is an authorization server.
    verifier: Option<Arc<JwtVerifier>>,
}

/// Why a caller is nobody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// A token is asked for and none came.
    #[error("a token is needed; `toolpost token new` makes one")]
    MissingToken,
    /// A token came that belongs to nobody. It is refused where none is needed as well: its owner
    /// believes to be somebody.
    #[error("invalid token; it may have been replaced, or belong to another gateway")]
    UnknownToken,
    /// A signed token came that does not hold.
    #[error(transparent)]
    Jwt(#[from] JwtError),
}

impl Authenticator {
    /// Asks for nothing; a caller without a token is [`LOCAL`].
    pub fn allow_anonymous() -> Self {
        let anonymous = Some(Arc::new(Identity::new(LOCAL)));
        Self::from_state(AuthState { anonymous, ..AuthState::default() })
    }

    /// Asks everybody for one of these tokens. With no tokens at all, nobody comes in.
    pub fn with_tokens(identities: impl IntoIterator<Item = (TokenHash, Identity)>) -> Self {
        let known = identities.into_iter().map(|(hash, identity)| (hash, Arc::new(identity)));
        Self::from_state(AuthState { tokens: known.collect(), ..AuthState::default() })
    }

    /// The same, and whoever an authorization server vouches for. Everybody needs a token then.
    #[must_use]
    pub fn with_jwt(self, settings: JwtSettings) -> Self {
        let mut known = AuthState::clone(&self.0.load());
        known.anonymous = None;
        known.verifier = Some(Arc::new(JwtVerifier::new(settings)));
        Self::from_state(known)
    }

    /// The same, and somebody else who is known by his token. Whether others need one stays as it is.
    #[must_use]
    pub fn with_token(self, hash: TokenHash, identity: Identity) -> Self {
        let mut known = AuthState::clone(&self.0.load());
        known.tokens.insert(hash, Arc::new(identity));
        Self::from_state(known)
    }

    /// Knows from now on whom the other one knows, in every clone of this one.
    pub fn replace(&self, other: &Self) {
        let mut known = AuthState::clone(&other.0.load());
        // The same authorization server has the same keys.
        if let (Some(before), Some(after)) = (&self.0.load().verifier, &known.verifier)
            && before.settings() == after.settings()
        {
            known.verifier = Some(Arc::clone(before));
        }
        self.0.store(Arc::new(known));
    }

    /// Who vouches for callers, and under which address they know this gateway, if that is said.
    pub fn authorization_server(&self) -> Option<(String, Option<url::Url>)> {
        let known = self.0.load();
        let settings = known.verifier.as_ref()?.settings();
        Some((settings.issuer.clone(), settings.resource.clone()))
    }

    /// Who this is, whichever kind of token he has.
    ///
    /// # Errors
    ///
    /// No token where one is needed, one that nobody has, or one that does not hold.
    ///
    /// # Cancellation
    ///
    /// Dropping it leaves nothing behind.
    pub async fn identify(&self, token: Option<&str>) -> Result<Arc<Identity>, AuthError> {
        let verifier = match (self.lookup_token(token), token) {
            (Err(AuthError::UnknownToken), Some(token)) if JwtVerifier::is_jwt(token) => {
                self.0.load().verifier.clone().ok_or(AuthError::UnknownToken)?
            }
            (authenticated, _) => return authenticated,
        };
        Ok(verifier.verify(token.unwrap_or_default()).await?)
    }

    /// Whether somebody of this name has a token of this gateway.
    pub fn has_identity(&self, id: &str) -> bool {
        self.0.load().tokens.values().any(|identity| identity.id == id)
    }

    /// Whether callers need no token.
    pub fn allows_anonymous(&self) -> bool {
        self.0.load().anonymous.is_some()
    }

    /// Who this is, by the tokens of this gateway alone.
    ///
    /// # Errors
    ///
    /// No token where one is needed, or one that nobody has.
    pub fn lookup_token(&self, token: Option<&str>) -> Result<Arc<Identity>, AuthError> {
        let known = self.0.load();
        match token {
            None => known.anonymous.clone().ok_or(AuthError::MissingToken),
            Some(token) => {
                known.tokens.get(&TokenHash::of(token)).cloned().ok_or(AuthError::UnknownToken)
            }
        }
    }

    fn from_state(state: AuthState) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(state)))
    }
}

impl Default for Authenticator {
    fn default() -> Self {
        Self::allow_anonymous()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_returns_identity_or_error() {
        let of = |token, name| (TokenHash::of(token), Identity::new(name));
        let tokens = Authenticator::with_tokens([of("tpt_a", "ada"), of("tpt_b", "bob")]);
        let (open, closed) = (Authenticator::allow_anonymous(), Authenticator::with_tokens([]));
        for (authenticator, token, expected) in [
            (&open, None, Ok("local")),
            (&open, Some("tpt_a"), Err(AuthError::UnknownToken)),
            (&open, Some(""), Err(AuthError::UnknownToken)),
            (&tokens, None, Err(AuthError::MissingToken)),
            (&tokens, Some("tpt_a"), Ok("ada")),
            (&tokens, Some("tpt_b"), Ok("bob")),
            (&tokens, Some("tpt_A"), Err(AuthError::UnknownToken)),
            (&tokens, Some("tpt_"), Err(AuthError::UnknownToken)),
            (&tokens, Some(""), Err(AuthError::UnknownToken)),
            (&closed, None, Err(AuthError::MissingToken)),
            (&closed, Some("tpt_a"), Err(AuthError::UnknownToken)),
        ] {
            let found = authenticator.lookup_token(token);
            let name = found.as_ref().map(|identity| identity.id.as_str()).map_err(Clone::clone);
            assert_eq!(name, expected, "{token:?}");
        }
        assert!(
            open.allows_anonymous() && !tokens.allows_anonymous() && !closed.allows_anonymous()
        );
    }

    #[test]
    fn replace_applies_to_all_clones() {
        let name = |authenticator: &Authenticator, token| {
            authenticator.lookup_token(token).map(|identity| identity.id.clone())
        };
        let in_use = Authenticator::allow_anonymous()
            .with_token(TokenHash::of("tpt_o"), Identity::new("operator"));
        let clone = in_use.clone();
        assert_eq!(name(&clone, None).as_deref(), Ok("local"));
        assert_eq!(name(&clone, Some("tpt_o")).as_deref(), Ok("operator"));
        assert_eq!(name(&clone, Some("tpt_a")), Err(AuthError::UnknownToken));

        in_use
            .replace(&Authenticator::with_tokens([(TokenHash::of("tpt_a"), Identity::new("ada"))]));
        assert_eq!(name(&clone, Some("tpt_a")).as_deref(), Ok("ada"));
        assert_eq!(name(&clone, None), Err(AuthError::MissingToken));
        assert_eq!(name(&clone, Some("tpt_o")), Err(AuthError::UnknownToken));
    }
}
