//! Security requirements and schemes.

use std::sync::Arc;

use url::Url;

use super::super::document::Node;
use super::super::plan::{
    ParameterLocation, SchemeRequirement, SecurityRequirement, SecurityScheme,
};
use super::Importer;
use super::version::SpecVersion;
use crate::json::ValuePath;

impl<'l> Importer<'l> {
    /// Returns the requirements that a document or an operation declares, if any.
    pub(super) fn security(
        &mut self,
        owner: Node<'_>,
        path: &ValuePath<'_>,
    ) -> Option<Arc<[SecurityRequirement]>> {
        let listed = owner.get("security")?;
        let path = path.member("security");
        if !listed.is_array() {
            let found = listed.type_name();
            self.warn(&path, format!("`security` must be a list, found {found}"));
            return None;
        }
        let mut requirements = Vec::new();
        for (index, requirement) in listed.items().enumerate() {
            requirements.push(self.security_requirement(requirement, &path.item(index)));
        }
        Some(requirements.into())
    }

    fn security_requirement(
        &mut self,
        requirement: Node<'_>,
        path: &ValuePath<'_>,
    ) -> SecurityRequirement {
        let mut credentials = Vec::new();
        for (name, _) in requirement.members() {
            let scopes = requirement.texts_of(name).map(str::to_owned).collect();
            let scheme = self.security_scheme(name, &path.member(name));
            credentials.push(SchemeRequirement { name: name.to_owned(), scheme, scopes });
        }
        credentials
    }

    fn security_scheme(&mut self, name: &str, path: &ValuePath<'_>) -> Arc<SecurityScheme> {
        if let Some(scheme) = self.security_schemes.get(name) {
            return Arc::clone(scheme);
        }
        let parsed = match self.find_scheme(name) {
            Some(node) => parse_scheme(node),
            None => Err((format!("unknown security scheme `{name}`"), "not declared".to_owned())),
        };
        let scheme = Arc::new(parsed.unwrap_or_else(|(problem, name)| {
            self.warn(path, problem);
            SecurityScheme::Unknown(name)
        }));
        self.security_schemes.insert(name.to_owned(), Arc::clone(&scheme));
        scheme
    }

    /// Finds a security scheme by name, or from OpenAPI 3.2 on also by reference.
    fn find_scheme(&self, name: &str) -> Option<Node<'l>> {
        let root = self.documents.root();
        let schemes = match self.version {
            SpecVersion::V2 => root.get("securityDefinitions"),
            _ => root.get("components").and_then(|components| components.get("securitySchemes")),
        };
        let by_name = schemes.and_then(|schemes| schemes.get(name));
        let referred = || {
            let is_reference = self.version >= SpecVersion::V32 && name.contains(['#', '/', '.']);
            is_reference.then(|| root.resolve(name).ok()).flatten()
        };
        by_name.or_else(referred)?.target().ok()
    }
}

/// Parses a security scheme. The error is a warning and the name of the unknown scheme.
fn parse_scheme(node: Node<'_>) -> Result<SecurityScheme, (String, String)> {
    Ok(match node.text("type") {
        Some("basic") => SecurityScheme::Basic,
        Some("http") => match &*node.text("scheme").unwrap_or_default().to_ascii_lowercase() {
            "basic" => SecurityScheme::Basic,
            "bearer" => SecurityScheme::Bearer,
            other => SecurityScheme::OtherHttp(other.to_owned()),
        },
        Some("apiKey") => return parse_api_key(node),
        Some("oauth2") => SecurityScheme::OAuth2 { token_url: token_url(node) },
        Some("openIdConnect") => SecurityScheme::OpenIdConnect,
        Some("mutualTLS") => SecurityScheme::MutualTls,
        other => {
            let other = other.unwrap_or("none");
            let problem = format!("unknown security scheme type `{other}`");
            return Err((problem, other.to_owned()));
        }
    })
}

fn parse_api_key(node: Node<'_>) -> Result<SecurityScheme, (String, String)> {
    let location = match node.text("in") {
        Some("query") => ParameterLocation::Query,
        Some("cookie") => ParameterLocation::Cookie,
        Some("header") => ParameterLocation::Header,
        other => {
            let other = other.unwrap_or("nowhere");
            let problem = format!("an API key must be in header, query or cookie, not `{other}`");
            return Err((problem, format!("apiKey in {other}")));
        }
    };
    match node.text("name") {
        Some(name) => Ok(SecurityScheme::ApiKey { location, name: name.to_owned() }),
        None => Err(("an API key has no name".to_owned(), "apiKey without a name".to_owned())),
    }
}

/// Returns the absolute token URL of the best flow, if it is HTTP or HTTPS.
fn token_url(scheme: Node<'_>) -> Option<Url> {
    const FLOWS: [&str; 5] =
        ["clientCredentials", "authorizationCode", "password", "deviceAuthorization", "implicit"];
    let url = match scheme.get("flows") {
        Some(flows) => FLOWS.iter().find_map(|flow| flows.get(flow)?.text("tokenUrl")),
        None => scheme.text("tokenUrl"),
    };
    let url = scheme.file_url().join(url?.trim()).ok()?;
    matches!(url.scheme(), "http" | "https").then_some(url)
}
