//! What tokens have to be.

use std::time::Duration;

use url::Url;

use super::Algorithm;

/// Whose signed tokens are taken, and what they have to say.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JwtSettings {
    /// Who must have made them, to the letter.
    pub issuer: String,
    /// For whom they must be: at least one of these.
    pub audience: Vec<String>,
    /// Where the keys are; else the issuer's metadata say.
    pub jwks: Option<Url>,
    /// How they may be signed.
    pub algorithms: Vec<Algorithm>,
    /// The claim that holds scopes.
    pub scopes_claim: ScopesClaim,
    /// The claim that holds actions on single resources: `{"type:id": ["action"]}`; none, if absent.
    pub resources_claim: Option<String>,
    /// The claim that holds a list of capabilities; none, if absent.
    pub capabilities_claim: Option<String>,
    /// The claim that says who it is.
    pub identity_claim: String,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// Names that no signed token can have: they belong to those with tokens of this gateway.
    pub reserved_names: Vec<String>,
    /// The address under which clients know this gateway, for the metadata that they look for.
    pub resource: Option<Url>,
    /// After how long keys are fetched again, and how long nobody asks after a fetch, whatever keys
    /// tokens name.
    pub refresh: (Duration, Duration),
    /// How long a request to the authorization server may take.
    pub fetch_timeout: Duration,
}

/// Where scopes are in a token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScopesClaim {
    /// In the first of `scope`, `scp` and `permissions` that is there.
    Standard,
    /// In this one.
    Custom(String),
}

impl JwtSettings {
    /// The usual settings for tokens of this issuer.
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
