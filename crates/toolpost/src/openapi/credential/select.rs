//! Selects the configured credentials for an operation.

use super::super::plan::{
    ParameterLocation, SchemeRequirement, SecurityRequirement, SecurityScheme,
};
use super::error::CredentialError;
use super::settings::{Credential, Credentials};

/// Schemes of the `Authorization` header that need more than a static secret.
const CHALLENGE_SCHEMES: [&str; 8] =
    ["digest", "hoba", "mutual", "negotiate", "ntlm", "oauth", "scram-sha-1", "scram-sha-256"];

/// A credential to send, and the requirement that it satisfies, unless it is generic.
type SelectedCredential<'a> = (Option<&'a SchemeRequirement>, &'a Credential);

/// Returns the credentials to send together: those of the first non-empty requirement that is
/// completely satisfied, or else the generic credentials.
pub(super) fn select_credentials<'a>(
    credentials: &'a Credentials,
    security: &'a [SecurityRequirement],
) -> Result<Vec<SelectedCredential<'a>>, CredentialError> {
    let requirements = security.iter().filter(|requirement| !requirement.is_empty());
    for requirement in requirements.clone() {
        let each = requirement.iter().map(|one| find_credential(credentials, requirement, one));
        if let Some(found) = each.collect::<Option<Vec<_>>>() {
            let chosen = requirement.iter().zip(found);
            let chosen = chosen.filter_map(|(required, found)| Some((Some(required), found?)));
            return Ok(chosen.collect());
        }
    }
    let is_open = is_optional(security);
    let is_given =
        credentials.generic.iter().any(is_self_contained) || !credentials.headers.is_empty();
    if is_open || is_given || credentials.anonymous {
        return Ok(credentials.generic.iter().map(|credential| (None, credential)).collect());
    }
    let required: Vec<String> =
        requirements.map(|one| missing_credentials(credentials, one)).collect();
    Err(CredentialError::Missing { required: required.join(", or ") })
}

/// Whether an operation can be called without credentials.
pub(super) fn is_optional(security: &[SecurityRequirement]) -> bool {
    security.is_empty() || security.iter().any(Vec::is_empty)
}

/// Finds the credential for a scheme. A client certificate satisfies its scheme without one.
fn find_credential<'a>(
    credentials: &'a Credentials,
    requirement: &SecurityRequirement,
    required: &SchemeRequirement,
) -> Option<Option<&'a Credential>> {
    if *required.scheme == SecurityScheme::MutualTls {
        return credentials.client_certificate.is_some().then_some(None);
    }
    let by_name = credentials.schemes.get(&required.name);
    let of_kind = || {
        // A generic API key matches no requirement with several API keys.
        let keys =
            requirement.iter().filter(|one| matches!(*one.scheme, SecurityScheme::ApiKey { .. }));
        let is_alone = keys.count() <= 1;
        let fitting = |one: &&Credential| {
            matches_scheme(one, &required.scheme)
                && (is_alone || !matches!(one, Credential::ApiKey(_)))
        };
        credentials.generic.iter().find(fitting)
    };
    let by_name = by_name.filter(|by_name| matches_scheme(by_name, &required.scheme));
    by_name.or_else(of_kind).map(Some)
}

/// Whether a credential can be used with a scheme.
fn matches_scheme(credential: &Credential, scheme: &SecurityScheme) -> bool {
    match (credential, scheme) {
        (
            Credential::Bearer(_),
            SecurityScheme::Bearer | SecurityScheme::OpenIdConnect | SecurityScheme::OAuth2 { .. },
        )
        | (Credential::Basic { .. }, SecurityScheme::Basic)
        | (Credential::ApiKey(_), SecurityScheme::ApiKey { .. }) => true,
        // Swagger 2.0 can declare a bearer token only as an API key in `Authorization`.
        (Credential::Bearer(_) | Credential::Basic { .. }, scheme) if is_authorization(scheme) => {
            true
        }
        (Credential::ApiKey(_) | Credential::Bearer(_), SecurityScheme::OtherHttp(name)) => {
            !is_challenge_scheme(name)
        }
        (Credential::OAuth2(client), SecurityScheme::OAuth2 { token_url, .. }) => {
            client.token_url.is_some() || token_url.is_some()
        }
        (Credential::OAuth2(client), SecurityScheme::OpenIdConnect | SecurityScheme::Bearer) => {
            client.token_url.is_some()
        }
        _ => false,
    }
}

/// Whether a credential can be sent without a declared security scheme.
fn is_self_contained(credential: &Credential) -> bool {
    match credential {
        Credential::Bearer(_) | Credential::Basic { .. } => true,
        Credential::ApiKey(_) => false,
        Credential::OAuth2(client) => client.token_url.is_some(),
    }
}

fn is_authorization(scheme: &SecurityScheme) -> bool {
    matches!(scheme, SecurityScheme::ApiKey { location: ParameterLocation::Header, name }
        if name.eq_ignore_ascii_case("authorization"))
}

fn is_challenge_scheme(name: &str) -> bool {
    CHALLENGE_SCHEMES.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// Describes the missing credentials of a requirement and the configuration keys to set.
fn missing_credentials(credentials: &Credentials, requirement: &SecurityRequirement) -> String {
    let absent =
        requirement.iter().filter(|one| find_credential(credentials, requirement, one).is_none());
    let descriptions: Vec<String> =
        absent.map(|required| describe_missing(credentials, required)).collect();
    descriptions.join(" and ")
}

fn describe_missing(credentials: &Credentials, required: &SchemeRequirement) -> String {
    let name = &required.name;
    let (what, keys) = match &*required.scheme {
        SecurityScheme::Basic => ("a user and a password", "basic"),
        SecurityScheme::Bearer => ("a bearer token", "bearer"),
        SecurityScheme::OpenIdConnect => ("a bearer token of OpenID Connect", "bearer"),
        SecurityScheme::ApiKey { .. } => ("an API key", "api_key"),
        SecurityScheme::OAuth2 { token_url: Some(_), .. } => ("OAuth 2.0", "oauth2` or `bearer"),
        SecurityScheme::OAuth2 { .. } => ("OAuth 2.0", "oauth2` with its `token_url`, or `bearer"),
        SecurityScheme::MutualTls => {
            return format!("`{name}`, a certificate: set `auth.client_certificate`");
        }
        SecurityScheme::OtherHttp(scheme) if !is_challenge_scheme(scheme) => {
            ("a secret", "api_key")
        }
        SecurityScheme::OtherHttp(scheme) | SecurityScheme::Unknown(scheme) => {
            return format!("`{name}`, which is `{scheme}` and is not supported");
        }
    };
    let unfit = match credentials.schemes.get(name) {
        Some(other) => format!(" (`{}` is set, which is for another scheme)", other.config_key()),
        None => String::new(),
    };
    format!("`{name}`, {what}: set `auth.schemes.{name}` to `{keys}`{unfit}")
}
