//! Settings for JWT verification.

use std::time::Duration;

use url::Url;

use super::Algorithm;

/// Which JWTs are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JwtSettings {
    /// Required value of `iss`, compared exactly.
    pub issuer: String,
    /// Accepted audiences; `aud` must contain at least one of them.
    pub audience: Vec<String>,
    /// JWKS URL; discovered from the issuer's metadata if absent.
    pub jwks: Option<Url>,
    /// Accepted signature algorithms.
    pub algorithms: Vec<Algorithm>,
    /// The claim that contains the scopes.
    pub scopes_claim: ScopesClaim,
    /// The claim that contains actions on individual resources, as `{"type:id": ["action"]}`. If
    /// absent, tokens grant no resource actions.
    pub resources_claim: Option<String>,
    /// The claim that contains a list of capabilities. If absent, tokens grant no capabilities.
    pub capabilities_claim: Option<String>,
    /// The claim that holds the identity name.
    pub identity_claim: String,
    /// Tolerated clock skew.
    pub leeway: Duration,
    /// Identity names that a JWT must not have, because they belong to identities with tokens of
    /// this gateway.
    pub reserved_names: Vec<String>,
    /// The URL under which clients reach this gateway, for the protected resource metadata.
    pub resource: Option<Url>,
    /// Age at which keys are fetched again, and the minimum interval between two fetches.
    pub refresh: (Duration, Duration),
    /// Timeout of a request to the authorization server.
    pub fetch_timeout: Duration,
}

/// The location of the scopes in a token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScopesClaim {
    /// The first claim present of `scope`, `scp` and `permissions`.
    Standard,
    /// In this one.
    Custom(String),
}

impl JwtSettings {
    /// Returns the default settings for tokens of this issuer.
    pub fn new(issuer: impl Into<String>, audience: Vec<String>) -> Self {
        Self {
            issuer: issuer.into(),
            audience,
            jwks: None,
            algorithms: Algorithm::ALL.to_vec(),
            scopes_claim: ScopesClaim::Standard,
            resources_claim: None,
            capabilities_claim: None,
            identity_claim: "sub".to_owned(),
            leeway: Duration::from_secs(30),
            reserved_names: Vec::new(),
            resource: None,
            refresh: (Duration::from_secs(600), Duration::from_secs(10)),
            fetch_timeout: Duration::from_secs(5),
        }
    }
}
