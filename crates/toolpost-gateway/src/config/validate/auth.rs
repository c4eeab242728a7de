//! Validation of `[auth]`.

use std::time::Duration;

use url::Url;

use super::super::document::TomlDocument;
use super::super::file::AuthorizationText;
use super::super::suggest::suggestion;
use crate::admin::OPERATOR;
use crate::auth::{Algorithm, JwtSettings, LOCAL, ScopesClaim, is_secure_url};

/// Maximum configurable clock skew.
const MAX_LEEWAY: Duration = Duration::from_secs(300);

/// Validates the settings. `names` are the identities with tokens of this gateway.
pub(super) fn settings(
    document: &TomlDocument<'_>,
    text: AuthorizationText,
    names: impl Iterator<Item = String>,
) -> JwtSettings {
    let resource = text.resource.as_deref().and_then(|text| address(document, "resource", text));
    let mut settings =
        JwtSettings::new(text.issuer, audience(document, text.audience, resource.as_ref()));
    if !Url::parse(&settings.issuer).is_ok_and(|issuer| is_secure_url(&issuer)) {
        document.report(&["auth", "issuer"], INSECURE_URL);
    }
    settings.resource = resource;
    settings.jwks = text.jwks.as_deref().and_then(|text| address(document, "jwks", text));
    if let Some(algorithm_names) = text.algorithms {
        settings.algorithms = algorithms(document, &algorithm_names);
    }
    for (key, claim) in [
        ("scopes", &text.scopes),
        ("resources", &text.resources),
        ("capabilities", &text.capabilities),
        ("identity", &text.identity),
    ] {
        if claim.as_ref().is_some_and(String::is_empty) {
            document
                .report(&["auth", key], "an empty text names no claim; write one, or remove this");
        }
    }
    settings.resources_claim = text.resources;
    settings.capabilities_claim = text.capabilities;
    settings.scopes_claim = text.scopes.map_or(ScopesClaim::Standard, ScopesClaim::Custom);
    settings.identity_claim = text.identity.unwrap_or(settings.identity_claim);
    if let Some(leeway) = text.leeway {
        if leeway.0 > MAX_LEEWAY {
            document.report(&["auth", "leeway"], "clocks are at most 5m apart; write less");
        }
        settings.leeway = leeway.0;
    }
    settings.reserved_names = names.chain([LOCAL, OPERATOR].map(str::to_owned)).collect();
    settings
}

const INSECURE_URL: &str =
    "this is an address with https://, or on this machine, such as https://as.example";

fn address(document: &TomlDocument<'_>, key: &str, text: &str) -> Option<Url> {
    let address = Url::parse(text).ok().filter(is_secure_url);
    if address.is_none() {
        document.report(&["auth", key], INSECURE_URL);
    }
    address
}

/// Returns the accepted audiences. They are required, or derived from `resource`, so that a token
/// for another service is not accepted here.
fn audience(
    document: &TomlDocument<'_>,
    configured: Vec<String>,
    resource: Option<&Url>,
) -> Vec<String> {
    match resource {
        Some(resource) if configured.is_empty() => {
            let base = resource.as_str().trim_end_matches('/');
            vec![base.to_owned(), format!("{base}/"), format!("{base}/mcp")]
        }
        None if configured.is_empty() && !document.contains(&["auth", "resource"]) => {
            let message = "add `audience`, what tokens for this gateway have in their claim `aud`, or `resource`";
            document.report(&["auth"], message);
            configured
        }
        _ => configured,
    }
}

fn algorithms(document: &TomlDocument<'_>, names: &[String]) -> Vec<Algorithm> {
    let key_path = ["auth", "algorithms"];
    if names.is_empty() {
        document.report(&key_path, "no token could be signed; leave it out if every way is meant");
    }
    let known = Algorithm::ALL.map(Algorithm::as_str);
    let read = names.iter().filter_map(|name| match name.parse() {
        Ok(algorithm) => Some(algorithm),
        Err(_) if name.eq_ignore_ascii_case("none") || name.to_uppercase().starts_with("HS") => {
            let message = "symmetric algorithms are not accepted; name one with public keys";
            document.report(&key_path, message);
            None
        }
        Err(_) => {
            document
                .report(&key_path, format!("unknown way to sign; {}", suggestion(name, &known)));
            None
        }
    });
    read.collect()
}
