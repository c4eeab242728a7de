//! Which of the configured credentials an operation is called with.

use super::super::plan::{Credential as Wanted, Position, Requirement, Scheme};
use super::error::CredentialError;
use super::settings::{Credential, Credentials};

/// Schemes of the header `Authorization` that need more than a secret.
const CONVERSATIONS: [&str; 8] =
    ["digest", "hoba", "mutual", "negotiate", "ntlm", "oauth", "scram-sha-1", "scram-sha-256"];

/// What is shown together.
#[derive(Debug)]
pub(super) enum Choice<'a> {
    /// One requirement, whole.
    Requirement(Vec<(&'a Wanted, Option<&'a Credential>)>),
    /// What was given without a scheme in mind.
    Generic,
}

/// The first requirement that can be satisfied whole and asks for something; else whatever is sent
/// anyway.
pub(super) fn choose<'a>(
    credentials: &'a Credentials,
    security: &'a [Requirement],
) -> Result<Choice<'a>, CredentialError> {
    let asking = security.iter().filter(|requirement| !requirement.is_empty());
    if let Some(found) = asking.clone().find_map(|one| satisfied(credentials, one)) {
        return Ok(Choice::Requirement(found));
    }
    let is_open = security.is_empty() || security.iter().any(Vec::is_empty);
    let is_given = credentials.generic.iter().any(is_whole) || !credentials.headers.is_empty();
    if is_open || is_given || credentials.anonymous {
        return Ok(Choice::Generic);
    }
    let wanted: Vec<String> = asking.map(|one| missing(credentials, one)).collect();
    Err(CredentialError::Missing { wanted: wanted.join(", or ") })
}

fn satisfied<'a>(
    credentials: &'a Credentials,
    requirement: &'a Requirement,
) -> Option<Vec<(&'a Wanted, Option<&'a Credential>)>> {
    let each = requirement.iter().map(|wanted| found(credentials, requirement, wanted));
    each.collect()
}

fn found<'a>(
    credentials: &'a Credentials,
    requirement: &Requirement,
    wanted: &'a Wanted,
) -> Option<(&'a Wanted, Option<&'a Credential>)> {
    if *wanted.scheme == Scheme::MutualTls {
        return credentials.client_certificate.is_some().then_some((wanted, None));
    }
    let named = credentials.schemes.get(&wanted.name);
    let of_kind = || {
        // Two keys that go together are two keys, so one that has no name is neither.
        let keys = requirement.iter().filter(|one| matches!(*one.scheme, Scheme::ApiKey { .. }));
        let is_alone = keys.count() <= 1;
        let fitting = |one: &&Credential| {
            fits(one, &wanted.scheme) && (is_alone || !matches!(one, Credential::ApiKey(_)))
        };
        credentials.generic.iter().find(fitting)
    };
    let credential = named.filter(|named| fits(named, &wanted.scheme)).or_else(of_kind)?;
    Some((wanted, Some(credential)))
}

/// Whether a credential can be shown as a scheme asks for it.
fn fits(credential: &Credential, scheme: &Scheme) -> bool {
    match (credential, scheme) {
        (Credential::Bearer(_), Scheme::Bearer | Scheme::OpenIdConnect { .. }) => true,
        (Credential::Bearer(_), Scheme::OAuth2 { .. }) => true,
        (Credential::Basic { .. }, Scheme::Basic) => true,
        (Credential::ApiKey(_), Scheme::ApiKey { .. }) => true,
        // Documents of Swagger 2.0 have no other way to ask for a bearer token.
        (Credential::Bearer(_) | Credential::Basic { .. }, scheme) if is_authorization(scheme) => {
            true
        }
        (Credential::ApiKey(_) | Credential::Bearer(_), Scheme::OtherHttp(name)) => {
            !is_conversation(name)
        }
        (Credential::OAuth2(client), Scheme::OAuth2 { token_url, .. }) => {
            client.token_url.is_some() || token_url.is_some()
        }
        (Credential::OAuth2(client), Scheme::OpenIdConnect { .. } | Scheme::Bearer) => {
            client.token_url.is_some()
        }
        _ => false,
    }
}

/// Whether a credential can be shown without a document that says how.
fn is_whole(credential: &Credential) -> bool {
    match credential {
        Credential::Bearer(_) | Credential::Basic { .. } => true,
        Credential::ApiKey(_) => false,
        Credential::OAuth2(client) => client.token_url.is_some(),
    }
}

fn is_authorization(scheme: &Scheme) -> bool {
    matches!(scheme, Scheme::ApiKey { position: Position::Header, name }
        if name.eq_ignore_ascii_case("authorization"))
}

fn is_conversation(name: &str) -> bool {
    CONVERSATIONS.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// What of a requirement is not there, in words that say where it belongs.
fn missing(credentials: &Credentials, requirement: &Requirement) -> String {
    let absent = requirement.iter().filter(|one| found(credentials, requirement, one).is_none());
    let words: Vec<String> = absent.map(|wanted| words(credentials, wanted)).collect();
    words.join(" and ")
}

fn words(credentials: &Credentials, wanted: &Wanted) -> String {
    let name = &wanted.name;
    let (what, keys) = match &*wanted.scheme {
        Scheme::Basic => ("a user and a password", "basic"),
        Scheme::Bearer => ("a bearer token", "bearer"),
        Scheme::OpenIdConnect { .. } => ("a bearer token of OpenID Connect", "bearer"),
        Scheme::ApiKey { .. } => ("an API key", "api_key"),
        Scheme::OAuth2 { token_url: Some(_), .. } => ("OAuth 2.0", "oauth2` or `bearer"),
        Scheme::OAuth2 { .. } => ("OAuth 2.0", "oauth2` with its `token_url`, or `bearer"),
        Scheme::MutualTls => {
            return format!("`{name}`, a certificate: set `auth.client_certificate`");
        }
        Scheme::OtherHttp(scheme) if !is_conversation(scheme) => ("a secret", "api_key"),
        Scheme::OtherHttp(scheme) | Scheme::Unknown(scheme) => {
            return format!("`{name}`, which is `{scheme}` and is not supported");
        }
    };
    let unfit = match credentials.schemes.get(name) {
        Some(other) => format!(" (`{}` is set there, which does not fit)", other.key()),
        None => String::new(),
    };
    format!("`{name}`, {what}: set `auth.schemes.{name}` to `{keys}`{unfit}")
}
