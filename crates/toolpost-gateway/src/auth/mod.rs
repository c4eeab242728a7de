//! Who comes through a door: a token is looked up by its hash, or is signed by an authorization server,
//! and stands for an identity.

mod jwt;
mod token;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use toolpost::Identity;

use jwt::Verifier;
pub(crate) use jwt::is_safe;
pub use jwt::{Algorithm, JwtError, JwtSettings, ScopesClaim};
pub use token::{Token, TokenHash, TokenHashError};

/// Who calls without a token where none is asked for.
pub const LOCAL: &str = "local";

/// Whether it is `type:id`, as [`toolpost::AccessControl`] looks it up.
pub(crate) fn is_resource(text: &str) -> bool {
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
/// let authenticator = Authenticator::with([(token.hash(), ci)]);
/// assert_eq!(authenticator.authenticate(Some(token.reveal())).unwrap().id, "ci");
/// assert_eq!(authenticator.authenticate(None), Err(AuthError::Missing));
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Authenticator(Arc<ArcSwap<Known>>);

/// Who is known at one moment.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Whoever comes without a token; `None` where one is asked for.
    anonymous: Option<Arc<Identity>>,
    /// Looked up by hash, so that the time it takes says nothing about a token.
    tokens: HashMap<TokenHash, Arc<Identity>>,
    /// Who checks signed tokens, where there is an authorization server.
    verifier: Option<Arc<Verifier>>,
}

/// Why a caller is nobody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// A token is asked for and none came.
    #[error("a token is needed; `toolpost token new` makes one")]
    Missing,
    /// A token came that belongs to nobody. It is refused where none is needed as well: its owner
    /// believes to be somebody.
    #[error(
        "this token is not known here; it may have been replaced, or belong to another gateway"
    )]
    Unknown,
    /// A signed token came that does not hold.
    #[error(transparent)]
    Jwt(#[from] JwtError),
}

impl Authenticator {
    /// Asks for nothing; a caller without a token is [`LOCAL`].
    pub fn open() -> Self {
        let anonymous = Some(Arc::new(Identity::new(LOCAL)));
        Self::knowing(Known { anonymous, ..Known::default() })
    }

    /// Asks everybody for one of these tokens. With no tokens at all, nobody comes in.
    pub fn with(identities: impl IntoIterator<Item = (TokenHash, Identity)>) -> Self {
        let known = identities.into_iter().map(|(hash, identity)| (hash, Arc::new(identity)));
        Self::knowing(Known { tokens: known.collect(), ..Known::default() })
    }

    /// The same, and whoever an authorization server vouches for. Everybody needs a token then.
    #[must_use]
    pub fn trusting(self, settings: JwtSettings) -> Self {
        let mut known = Known::clone(&self.0.load());
        known.anonymous = None;
        known.verifier = Some(Arc::new(Verifier::new(settings)));
        Self::knowing(known)
    }

    /// The same, and somebody else who is known by his token. Whether others need one stays as it is.
    #[must_use]
    pub fn also(self, hash: TokenHash, identity: Identity) -> Self {
        let mut known = Known::clone(&self.0.load());
        known.tokens.insert(hash, Arc::new(identity));
        Self::knowing(known)
    }

    /// Knows from now on whom the other one knows, in every clone of this one.
    pub fn replace(&self, other: &Self) {
        let mut known = Known::clone(&other.0.load());
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
        let verifier = match (self.authenticate(token), token) {
            (Err(AuthError::Unknown), Some(token)) if Verifier::knows_form(token) => {
                self.0.load().verifier.clone().ok_or(AuthError::Unknown)?
            }
            (authenticated, _) => return authenticated,
        };
        Ok(verifier.verify(token.unwrap_or_default()).await?)
    }

    /// Whether somebody of this name has a token of this gateway.
    pub fn knows(&self, id: &str) -> bool {
        self.0.load().tokens.values().any(|identity| identity.id == id)
    }

    /// Whether callers need no token.
    pub fn is_open(&self) -> bool {
        self.0.load().anonymous.is_some()
    }

    /// Who this is, by the tokens of this gateway alone.
    ///
    /// # Errors
    ///
    /// No token where one is needed, or one that nobody has.
    pub fn authenticate(&self, token: Option<&str>) -> Result<Arc<Identity>, AuthError> {
        let known = self.0.load();
        match token {
            None => known.anonymous.clone().ok_or(AuthError::Missing),
            Some(token) => {
                known.tokens.get(&TokenHash::of(token)).cloned().ok_or(AuthError::Unknown)
            }
        }
    }

    fn knowing(known: Known) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(known)))
    }
}

impl Default for Authenticator {
    fn default() -> Self {
        Self::open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_somebody_or_refused() {
        let of = |token, name| (TokenHash::of(token), Identity::new(name));
        let tokens = Authenticator::with([of("tpt_a", "ada"), of("tpt_b", "bob")]);
        let (open, closed) = (Authenticator::open(), Authenticator::with([]));
        for (authenticator, token, expected) in [
            (&open, None, Ok("local")),
            (&open, Some("tpt_a"), Err(AuthError::Unknown)),
            (&open, Some(""), Err(AuthError::Unknown)),
            (&tokens, None, Err(AuthError::Missing)),
            (&tokens, Some("tpt_a"), Ok("ada")),
            (&tokens, Some("tpt_b"), Ok("bob")),
            (&tokens, Some("tpt_A"), Err(AuthError::Unknown)),
            (&tokens, Some("tpt_"), Err(AuthError::Unknown)),
            (&tokens, Some(""), Err(AuthError::Unknown)),
            (&closed, None, Err(AuthError::Missing)),
            (&closed, Some("tpt_a"), Err(AuthError::Unknown)),
        ] {
            let found = authenticator.authenticate(token);
            let name = found.as_ref().map(|identity| identity.id.as_str()).map_err(Clone::clone);
            assert_eq!(name, expected, "{token:?}");
        }
        assert!(open.is_open() && !tokens.is_open() && !closed.is_open());
    }

    #[test]
    fn whom_it_knows_can_change_while_it_is_in_use() {
        let name = |authenticator: &Authenticator, token| {
            authenticator.authenticate(token).map(|identity| identity.id.clone())
        };
        let in_use = Authenticator::open().also(TokenHash::of("tpt_o"), Identity::new("operator"));
        let at_a_door = in_use.clone();
        assert_eq!(name(&at_a_door, None).as_deref(), Ok("local"));
        assert_eq!(name(&at_a_door, Some("tpt_o")).as_deref(), Ok("operator"));
        assert_eq!(name(&at_a_door, Some("tpt_a")), Err(AuthError::Unknown));

        in_use.replace(&Authenticator::with([(TokenHash::of("tpt_a"), Identity::new("ada"))]));
        assert_eq!(name(&at_a_door, Some("tpt_a")).as_deref(), Ok("ada"));
        assert_eq!(name(&at_a_door, None), Err(AuthError::Missing));
        assert_eq!(name(&at_a_door, Some("tpt_o")), Err(AuthError::Unknown));
    }
}
