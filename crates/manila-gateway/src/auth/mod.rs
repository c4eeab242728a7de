//! Who comes through a door: a token is looked up by its hash, and stands for an identity.

mod token;

use std::collections::HashMap;
use std::sync::Arc;

use manila::Identity;

pub use token::{Token, TokenHash, TokenHashError};

/// Who calls without a token where none is asked for.
pub const LOCAL: &str = "local";

/// Turns what a caller presents into an identity. Cloning it shares everything.
///
/// ```
/// use manila::Identity;
/// use manila_gateway::auth::{AuthError, Authenticator, Token};
///
/// let token = Token::generate()?;
/// let ci = Identity::new("ci").with_scopes(["github:read"]);
/// let authenticator = Authenticator::with([(token.hash(), ci)]);
/// assert_eq!(authenticator.authenticate(Some(token.reveal())).unwrap().id, "ci");
/// assert_eq!(authenticator.authenticate(None), Err(AuthError::Missing));
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Authenticator(Arc<State>);

#[derive(Debug)]
enum State {
    /// Nobody is configured: whoever comes without a token is this identity.
    Open(Arc<Identity>),
    /// Looked up by hash, so that the time it takes says nothing about a token.
    Tokens(HashMap<TokenHash, Arc<Identity>>),
}

/// Why a caller is nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// A token is asked for and none came.
    #[error("a token is needed; `manila token new` makes one")]
    Missing,
    /// A token came that belongs to nobody. It is refused where none is needed as well: its owner
    /// believes to be somebody.
    #[error(
        "this token is not known here; it may have been replaced, or belong to another gateway"
    )]
    Unknown,
}

impl Authenticator {
    /// Asks for nothing; a caller without a token is [`LOCAL`].
    pub fn open() -> Self {
        Self(Arc::new(State::Open(Arc::new(Identity::new(LOCAL)))))
    }

    /// Asks everybody for one of these tokens. With no tokens at all, nobody comes in.
    pub fn with(identities: impl IntoIterator<Item = (TokenHash, Identity)>) -> Self {
        let known = identities.into_iter().map(|(hash, identity)| (hash, Arc::new(identity)));
        Self(Arc::new(State::Tokens(known.collect())))
    }

    /// Whether callers need no token.
    pub fn is_open(&self) -> bool {
        matches!(*self.0, State::Open(_))
    }

    /// Who this is.
    ///
    /// # Errors
    ///
    /// No token where one is needed, or one that nobody has.
    pub fn authenticate(&self, token: Option<&str>) -> Result<Arc<Identity>, AuthError> {
        match (&*self.0, token) {
            (State::Open(local), None) => Ok(Arc::clone(local)),
            (State::Open(_), Some(_)) => Err(AuthError::Unknown),
            (State::Tokens(_), None) => Err(AuthError::Missing),
            (State::Tokens(known), Some(token)) => {
                known.get(&TokenHash::of(token)).cloned().ok_or(AuthError::Unknown)
            }
        }
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
        let tokens = Authenticator::with([of("mnl_a", "ada"), of("mnl_b", "bob")]);
        let (open, closed) = (Authenticator::open(), Authenticator::with([]));
        for (authenticator, token, expected) in [
            (&open, None, Ok("local")),
            (&open, Some("mnl_a"), Err(AuthError::Unknown)),
            (&open, Some(""), Err(AuthError::Unknown)),
            (&tokens, None, Err(AuthError::Missing)),
            (&tokens, Some("mnl_a"), Ok("ada")),
            (&tokens, Some("mnl_b"), Ok("bob")),
            (&tokens, Some("mnl_A"), Err(AuthError::Unknown)),
            (&tokens, Some("mnl_"), Err(AuthError::Unknown)),
            (&tokens, Some(""), Err(AuthError::Unknown)),
            (&closed, None, Err(AuthError::Missing)),
            (&closed, Some("mnl_a"), Err(AuthError::Unknown)),
        ] {
            let found = authenticator.authenticate(token);
            let name = found.as_ref().map(|identity| identity.id.as_str()).map_err(|error| *error);
            assert_eq!(name, expected, "{token:?}");
        }
        assert!(open.is_open() && !tokens.is_open() && !closed.is_open());
    }
}
