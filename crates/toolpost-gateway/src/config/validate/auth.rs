//! An authorization server, from what was typed to what can be believed.

use std::time::Duration;

use url::Url;

use super::super::document::Document;
use super::super::file::AuthorizationText;
use super::super::nearest::suggestion;
use crate::admin::OPERATOR;
use crate::auth::{Algorithm, JwtSettings, LOCAL, ScopesClaim, is_safe};

/// Clocks that are further apart than this are wrong.
const MOST_LEEWAY: Duration = Duration::from_secs(300);

/// The settings; `names` belong to those who have tokens of this gateway.
pub(super) fn settings(
    document: &Document<'_>,
    text: AuthorizationText,
    names: impl Iterator<Item = String>,
) -> JwtSettings {
    let resource = text.resource.as_deref().and_then(|text| address(document, "resource", text));
    let mut settings =
        JwtSettings::new(text.issuer, audience(document, text.audience, resource.as_ref()));
    if !Url::parse(&settings.issuer).is_ok_and(|issuer| is_safe(&issuer)) {
        document.report(&["auth", "issuer"], UNSAFE);
    }
    settings.resource = resource;
    settings.jwks = text.jwks.as_deref().and_then(|text| address(document, "jwks", text));
    if let Some(named) = text.algorithms {
        settings.algorithms = algorithms(document, &named);
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
    settings.scopes_claim = text.scopes.map_or(ScopesClaim::Usual, ScopesClaim::Named);
    settings.identity_claim = text.identity.unwrap_or(settings.identity_claim);
    if let Some(leeway) = text.leeway {
        if leeway.0 > MOST_LEEWAY {
            document.report(&["auth", "leeway"], "clocks are at most 5m apart; write less");
        }
        settings.leeway = leeway.0;
    }
    settings.taken_names = names.chain([LOCAL, OPERATOR].map(str::to_owned)).collect();
    settings
}

const UNSAFE: &str =
    "this is an address with https://, or on this machine, such as https://as.example";

fn address(document: &Document<'_>, key: &str, text: &str) -> Option<Url> {
    let address = Url::parse(text).ok().filter(is_safe);
    if address.is_none() {
        document.report(&["auth", key], UNSAFE);
    }
    address
}

/// A token for another service must not open this one, so that somebody has to say what is meant.
fn audience(document: &Document<'_>, named: Vec<String>, resource: Option<&Url>) -> Vec<String> {
    match resource {
        Some(resource) if named.is_empty() => {
            let base = resource.as_str().trim_end_matches('/');
            vec![base.to_owned(), format!("{base}/"), format!("{base}/mcp")]
        }
        None if named.is_empty() && !document.has(&["auth", "resource"]) => {
            let message = "add `audience`, what tokens for this gateway have in their claim `aud`, or `resource`";
            document.report(&["auth"], message);
            named
        }
        _ => named,
    }
}

fn algorithms(document: &Document<'_>, named: &[String]) -> Vec<Algorithm> {
    let place = ["auth", "algorithms"];
    if named.is_empty() {
        document.report(&place, "no token could be signed; leave it out if every way is meant");
    }
    let known = Algorithm::ALL.map(Algorithm::as_str);
    let read = named.iter().filter_map(|name| match name.parse() {
        Ok(algorithm) => Some(algorithm),
        Err(_) if name.eq_ignore_ascii_case("none") || name.to_uppercase().starts_with("HS") => {
            let message =
                "whoever can check such a token can make one; name a way with public keys";
            document.report(&place, message);
            None
        }
        Err(_) => {
            document.report(&place, format!("unknown way to sign; {}", suggestion(name, &known)));
            None
        }
    });
    read.collect()
}
