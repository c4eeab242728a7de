//! What a caller has to show.

use std::sync::Arc;

use url::Url;

use super::super::document::{Node, Place};
use super::super::plan::{Credential, Position, Requirement, Scheme};
use super::super::schema::Spot;
use super::Importer;
use super::version::Version;

impl Importer<'_> {
    /// The requirements that a document or an operation names; `None` if it names none.
    pub(super) fn security(&mut self, owner: Place, spot: &Spot<'_>) -> Option<Arc<[Requirement]>> {
        let listed = self.library.node(owner).get("security")?;
        let spot = spot.member("security");
        if !listed.is_array() {
            self.warn(&spot, format!("`security` must be a list, found {}", listed.type_name()));
            return None;
        }
        let mut requirements = Vec::new();
        for (index, requirement) in listed.items().enumerate() {
            requirements.push(self.requirement(requirement, &spot.item(index)));
        }
        Some(requirements.into())
    }

    fn requirement(&mut self, requirement: Node<'_>, spot: &Spot<'_>) -> Requirement {
        let mut credentials = Vec::new();
        for (name, scopes) in requirement.members() {
            let scopes = scopes.items().filter_map(Node::as_str).map(str::to_owned).collect();
            let scheme = self.scheme(name, &spot.member(name));
            credentials.push(Credential { name: name.to_owned(), scheme, scopes });
        }
        credentials
    }

    fn scheme(&mut self, name: &str, spot: &Spot<'_>) -> Arc<Scheme> {
        if let Some(scheme) = self.schemes.get(name) {
            return Arc::clone(scheme);
        }
        let scheme = match self.scheme_place(name) {
            Some(place) => self.read_scheme(place, spot),
            None => {
                self.warn(spot, format!("there is no security scheme `{name}`"));
                Scheme::Unknown("not declared".to_owned())
            }
        };
        let scheme = Arc::new(scheme);
        self.schemes.insert(name.to_owned(), Arc::clone(&scheme));
        scheme
    }

    /// By name, or in OpenAPI 3.2 by reference.
    fn scheme_place(&self, name: &str) -> Option<Place> {
        let root = self.library.root();
        let schemes = match self.version {
            Version::V2 => self.library.get(root, "securityDefinitions"),
            _ => self
                .library
                .get(root, "components")
                .and_then(|components| self.library.get(components, "securitySchemes")),
        };
        let named = schemes.and_then(|schemes| self.library.get(schemes, name));
        let referred = || {
            let is_reference = self.version >= Version::V32 && name.contains(['#', '/', '.']);
            is_reference.then(|| self.library.resolve(root, name).ok()).flatten()
        };
        named.or_else(referred).and_then(|place| self.library.follow(place).ok())
    }

    fn read_scheme(&mut self, place: Place, spot: &Spot<'_>) -> Scheme {
        let node = self.library.node(place);
        let text = |name| node.get(name).and_then(Node::as_str);
        match text("type") {
            Some("basic") => Scheme::Basic,
            Some("http") => {
                match text("scheme").unwrap_or_default().to_ascii_lowercase().as_str() {
                    "basic" => Scheme::Basic,
                    "bearer" => Scheme::Bearer,
                    other => Scheme::OtherHttp(other.to_owned()),
                }
            }
            Some("apiKey") => self.api_key(node, spot),
            Some("oauth2") => self.oauth2(place, node),
            Some("openIdConnect") => {
                Scheme::OpenIdConnect { url: self.url(place, text("openIdConnectUrl")) }
            }
            Some("mutualTLS") => Scheme::MutualTls,
            other => {
                let other = other.unwrap_or("none");
                self.warn(spot, format!("security schemes of the type `{other}` are not known"));
                Scheme::Unknown(other.to_owned())
            }
        }
    }

    fn api_key(&mut self, node: Node<'_>, spot: &Spot<'_>) -> Scheme {
        let text = |name| node.get(name).and_then(Node::as_str);
        let position = match text("in") {
            Some("query") => Position::Query,
            Some("cookie") => Position::Cookie,
            Some("header") => Position::Header,
            other => {
                let other = other.unwrap_or("nowhere");
                self.warn(
                    spot,
                    format!("an API key must be in header, query or cookie, not `{other}`"),
                );
                return Scheme::Unknown(format!("apiKey in {other}"));
            }
        };
        match text("name") {
            Some(name) => Scheme::ApiKey { position, name: name.to_owned() },
            None => {
                self.warn(spot, "an API key has no name");
                Scheme::Unknown("apiKey without a name".to_owned())
            }
        }
    }

    fn oauth2(&self, place: Place, node: Node<'_>) -> Scheme {
        let (flows, has_client_credentials) = match node.get("flows") {
            Some(flows) => {
                let names = [
                    "clientCredentials",
                    "authorizationCode",
                    "password",
                    "deviceAuthorization",
                    "implicit",
                ];
                let found = names.into_iter().filter_map(|name| flows.get(name)).collect();
                (found, flows.get("clientCredentials").is_some())
            }
            None => (vec![node], node.get("flow").and_then(Node::as_str) == Some("application")),
        };
        let first = |name: &str| {
            let url = flows.iter().find_map(|flow| flow.get(name).and_then(Node::as_str));
            self.url(place, url)
        };
        Scheme::OAuth2 {
            token_url: first("tokenUrl"),
            refresh_url: first("refreshUrl"),
            has_client_credentials,
        }
    }

    /// An address of its own, or one beside the document.
    fn url(&self, place: Place, url: Option<&str>) -> Option<Url> {
        let url = self.library.file(place).address.join(url?.trim()).ok()?;
        matches!(url.scheme(), "http" | "https").then_some(url)
    }
}
