//! Settings for JWT verification.

use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use toolpost::http::is_secure_url;
use url::Url;

use super::Algorithm;
use crate::units::DurationText;

/// Which JWTs are accepted, in addition to the tokens of identities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table with `issuer`")]
#[schemars(rename = "AuthorizationServer", extend("required" = ["issuer"]))]
#[non_exhaustive]
pub struct JwtSettings {
    /// Issuer of the tokens: an `https://` URL, or a loopback URL. `iss` must equal it exactly.
    #[serde(deserialize_with = "deserialize_issuer")]
    pub issuer: String,
    /// Accepted audiences: `aud` must contain one of them. By default, the URLs under `resource`.
    pub audience: Vec<String>,
    /// URL of the JWK set; discovered from the issuer's metadata if absent.
    #[serde(deserialize_with = "deserialize_url")]
    #[schemars(with = "String")]
    pub jwks: Option<Url>,
    /// Accepted signature algorithms; `none` and algorithms with a shared secret are not supported.
    #[serde(deserialize_with = "deserialize_algorithms")]
    #[schemars(length(min = 1))]
    pub algorithms: Vec<Algorithm>,
    /// The claim that contains the scopes: a space-separated string or a list. The first of `scope`,
    /// `scp` and `permissions` if absent.
    #[serde(rename = "scopes", deserialize_with = "deserialize_claim")]
    pub scopes_claim: Option<String>,
    /// The claim that contains actions on individual resources, as `{"type:id": ["action"]}`; tokens
    /// grant none if absent.
    #[serde(rename = "resources", deserialize_with = "deserialize_claim")]
    pub resources_claim: Option<String>,
    /// The claim that contains a list of capabilities, patterns as JSON strings; tokens grant none
    /// if absent.
    #[serde(rename = "capabilities", deserialize_with = "deserialize_claim")]
    pub capabilities_claim: Option<String>,
    /// The claim that contains the name of the caller. The names of configured identities, `local`
    /// and `operator` are rejected.
    #[serde(rename = "identity", deserialize_with = "deserialize_claim")]
    pub identity_claim: String,
    /// Tolerated clock skew, at most `5m`.
    #[serde(serialize_with = "DurationText::serialize", deserialize_with = "deserialize_leeway")]
    #[schemars(with = "DurationText")]
    pub leeway: Duration,
    /// Identity names that a JWT must not have, because they belong to identities with tokens of
    /// this gateway.
    #[serde(skip)]
    pub reserved_names: Vec<String>,
    /// Public URL of this gateway, such as `https://gateway.example`; derived from the `Host` of
    /// requests if absent. Set it behind a proxy.
    #[serde(deserialize_with = "deserialize_url")]
    #[schemars(with = "String")]
    pub resource: Option<Url>,
    /// PEM file with CA certificates to trust for the authorization server, in addition to those of
    /// the system, relative to the folder of this file.
    pub ca: Option<String>,
    /// The content of `ca`.
    #[serde(skip)]
    pub ca_certificates: Option<String>,
    /// Age at which keys are fetched again, and the minimum interval between two fetches.
    #[serde(skip)]
    pub refresh: (Duration, Duration),
    /// Timeout of a request to the authorization server.
    #[serde(skip)]
    pub fetch_timeout: Duration,
}

/// Maximum tolerated clock skew in a configuration.
const MAX_LEEWAY: Duration = Duration::from_secs(300);

impl Default for JwtSettings {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            audience: Vec::new(),
            jwks: None,
            algorithms: Algorithm::ALL.to_vec(),
            scopes_claim: None,
            resources_claim: None,
            capabilities_claim: None,
            identity_claim: "sub".to_owned(),
            leeway: Duration::from_secs(30),
            reserved_names: Vec::new(),
            resource: None,
            ca: None,
            ca_certificates: None,
            refresh: (Duration::from_secs(600), Duration::from_secs(10)),
            fetch_timeout: Duration::from_secs(5),
        }
    }
}

impl JwtSettings {
    /// Returns the default settings for tokens of this issuer.
    pub fn new(issuer: impl Into<String>, audience: Vec<String>) -> Self {
        Self { issuer: issuer.into(), audience, ..Self::default() }
    }
}

fn deserialize_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    let url = Url::parse(&String::deserialize(deserializer)?).ok().filter(is_secure_url);
    let message = "expected an https:// URL, such as https://as.example; http:// is allowed only for loopback";
    url.map(Some).ok_or_else(|| D::Error::custom(message))
}

/// Returns the issuer as it is written, since it is compared exactly.
fn deserialize_issuer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let issuer = String::deserialize(deserializer)?;
    deserialize_url(serde::de::value::StrDeserializer::new(&issuer))?;
    Ok(issuer)
}

fn deserialize_algorithms<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Algorithm>, D::Error> {
    let algorithms = Vec::deserialize(deserializer)?;
    if algorithms.is_empty() {
        let message =
            "expected at least one algorithm; remove the key to accept every supported one";
        return Err(D::Error::custom(message));
    }
    Ok(algorithms)
}

fn deserialize_claim<'de, D: Deserializer<'de>, T: From<String>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let claim = String::deserialize(deserializer)?;
    if claim.is_empty() {
        return Err(D::Error::custom(
            "expected the name of a claim; remove the key to use the default",
        ));
    }
    Ok(claim.into())
}

fn deserialize_leeway<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let leeway = DurationText::deserialize(deserializer)?;
    if leeway > MAX_LEEWAY {
        return Err(D::Error::custom("must be at most 5m"));
    }
    Ok(leeway)
}
