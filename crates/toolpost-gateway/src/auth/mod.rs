//! Authentication of callers. A token is looked up by its hash or verified as a JWT of an
//! authorization server, and maps to an identity. A client certificate maps to one, too.

mod certificate;
mod jwt;
mod token;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use toolpost::{Identity, IdentityKind};

pub use certificate::{CertificateName, CertificateNameError};
pub(crate) use certificate::{ClientCertificate, Sha256Digest};
use jwt::JwtVerifier;
pub use jwt::{Algorithm, JwtError, JwtSettings};
pub use token::{Token, TokenHash, TokenHashError};

/// Id of callers without a token, where none is required.
pub const LOCAL: &str = "local";

/// Returns the identity of callers without a token, where none is required.
pub fn local() -> Identity {
    Identity::new(LOCAL).with_kind(IdentityKind::Local)
}

/// Why the connections and streams of an identity are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessEnd {
    Revoked,
    Expired,
}

impl AccessEnd {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Revoked => "the token was revoked or reissued",
            Self::Expired => "the token has expired",
        }
    }
}

/// Whether the text is a resource id of [`toolpost::AccessControl`], `type:id`.
pub(crate) fn is_resource_id(text: &str) -> bool {
    text.split_once(':').is_some_and(|(kind, id)| !kind.is_empty() && !id.is_empty())
}

/// Maps the token of a caller to an identity. Clones share the same state.
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

/// Snapshot of the accepted identities.
#[derive(Debug, Clone, Default)]
struct AuthState {
    /// Identity of callers without a token; `None` if a token is required.
    anonymous: Option<Arc<Identity>>,
    /// Identities by token hash. Looking up the hash does not leak the token through timing.
    tokens: HashMap<TokenHash, Arc<Identity>>,
    /// Verifies JWTs; `None` without an authorization server.
    verifier: Option<Arc<JwtVerifier>>,
    /// Identities by client certificate.
    certificates: Vec<(CertificateName, Arc<Identity>)>,
    /// Digest of the certificate authorities of clients.
    client_ca: Option<Sha256Digest>,
    /// Whether the gateway is served with TLS.
    has_tls: bool,
}

/// Error from authenticating a caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// A token is required and none was sent.
    #[error("missing token; create one with `toolpost token new`")]
    MissingToken,
    /// The token is not known. It is rejected even where no token is required.
    #[error("invalid token; it may have been replaced, or belong to another gateway")]
    UnknownToken,
    /// The JWT is not valid.
    #[error(transparent)]
    Jwt(#[from] JwtError),
}

impl Authenticator {
    /// Creates an authenticator that requires no token; a caller without one is [`LOCAL`].
    pub fn allow_anonymous() -> Self {
        let anonymous = Some(Arc::new(local()));
        Self::from_state(AuthState { anonymous, ..AuthState::default() })
    }

    /// Creates an authenticator that requires one of these tokens.
    pub fn with_tokens(identities: impl IntoIterator<Item = (TokenHash, Identity)>) -> Self {
        let known = identities
            .into_iter()
            .map(|(hash, identity)| (hash, Arc::new(identity.with_generation(hash.generation()))));
        Self::from_state(AuthState { tokens: known.collect(), ..AuthState::default() })
    }

    /// Also accepts JWTs of an authorization server. Every caller needs a token then.
    #[must_use]
    pub fn with_jwt(self, settings: JwtSettings) -> Self {
        let verifier = Some(Arc::new(JwtVerifier::new(settings)));
        let known = AuthState::clone(&self.0.load());
        Self::from_state(AuthState { anonymous: None, verifier, ..known })
    }

    /// Adds a token. Whether other callers need a token does not change.
    #[must_use]
    pub fn with_token(self, hash: TokenHash, identity: Identity) -> Self {
        let mut known = AuthState::clone(&self.0.load());
        let identity = identity.with_generation(hash.generation());
        known.tokens.insert(hash, Arc::new(identity));
        Self::from_state(known)
    }

    /// Also accepts client certificates, in place of a token.
    pub(crate) fn with_certificates(
        self,
        client_ca: Sha256Digest,
        certificates: impl IntoIterator<Item = (CertificateName, Identity)>,
    ) -> Self {
        let mut known = AuthState::clone(&self.0.load());
        let certificates = certificates.into_iter();
        known.certificates = certificates.map(|(name, id)| (name, Arc::new(id))).collect();
        known.client_ca = Some(client_ca);
        Self::from_state(known)
    }

    /// Records that the gateway is served with TLS.
    pub(crate) fn with_tls(self) -> Self {
        Self::from_state(AuthState { has_tls: true, ..AuthState::clone(&self.0.load()) })
    }

    /// Returns the scheme of the URLs of this gateway.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.0.load().has_tls { "https" } else { "http" }
    }

    /// Replaces the accepted identities with those of `other`, in every clone.
    pub fn replace(&self, other: &Self) {
        let mut known = AuthState::clone(&other.0.load());
        // With unchanged settings, keep the verifier and its cached keys.
        if let (Some(before), Some(after)) = (&self.0.load().verifier, &known.verifier)
            && before.settings() == after.settings()
        {
            known.verifier = Some(Arc::clone(before));
        }
        self.0.store(Arc::new(known));
    }

    /// Returns the issuer and the configured URL, if there is an authorization server.
    pub fn authorization_server(&self) -> Option<(String, Option<url::Url>)> {
        let known = self.0.load();
        let settings = known.verifier.as_ref()?.settings();
        Some((settings.issuer.clone(), settings.resource.clone()))
    }

    /// Whether JWTs are accepted.
    pub(crate) fn accepts_jwts(&self) -> bool {
        self.0.load().verifier.is_some()
    }

    /// Authenticates a caller by a token of this gateway or a JWT.
    ///
    /// # Errors
    ///
    /// A token is required and missing, is not known, or is not valid.
    ///
    /// # Cancellation
    ///
    /// Dropping the future has no side effects.
    pub async fn identify(&self, token: Option<&str>) -> Result<Arc<Identity>, AuthError> {
        let verifier = match (self.lookup_token(token), token) {
            (Err(AuthError::UnknownToken), Some(token)) if JwtVerifier::is_jwt(token) => {
                self.0.load().verifier.clone().ok_or(AuthError::UnknownToken)?
            }
            (authenticated, _) => return authenticated,
        };
        Ok(verifier.verify(token.unwrap_or_default()).await?)
    }

    /// Authenticates a caller by its token, or by its client certificate if it sent no token.
    ///
    /// # Errors
    ///
    /// As [`Authenticator::identify`].
    pub(crate) async fn identify_peer(
        &self,
        token: Option<&str>,
        certificate: Option<&ClientCertificate>,
    ) -> Result<Arc<Identity>, AuthError> {
        let by_certificate = || certificate.and_then(|found| self.certificate_identity(found));
        match token {
            None => match by_certificate() {
                Some(identity) => Ok(identity),
                None => self.identify(None).await,
            },
            token => self.identify(token).await,
        }
    }

    /// Returns the identity of a client certificate. A certificate that was verified with other
    /// authorities than the current ones has none.
    pub(crate) fn certificate_identity(
        &self,
        certificate: &ClientCertificate,
    ) -> Option<Arc<Identity>> {
        let known = self.0.load();
        if known.client_ca != Some(certificate.client_ca) {
            return None;
        }
        let found = known.certificates.iter().find(|(name, _)| name.matches(certificate));
        found.map(|(_, identity)| Arc::clone(identity))
    }

    /// Whether an identity with this id has a token of this gateway or a client certificate.
    pub fn has_identity(&self, id: &str) -> bool {
        let known = self.0.load();
        let certificates = known.certificates.iter().map(|(_, identity)| identity);
        known.tokens.values().chain(certificates).any(|identity| identity.id == id)
    }

    /// Whether callers without a token are accepted.
    pub fn allows_anonymous(&self) -> bool {
        self.0.load().anonymous.is_some()
    }

    /// Authenticates a caller by the tokens of this gateway only.
    ///
    /// # Errors
    ///
    /// A token is required and missing, or is not known.
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
