//! Security requirements and schemes.

use std::sync::Arc;

use url::Url;

use super::super::document::{NodeRef, TreeNode};
use super::super::plan::{
    ParameterLocation, SchemeRequirement, SecurityRequirement, SecurityScheme,
};
use super::super::schema::DocumentPath;
use super::Importer;
use super::version::SpecVersion;

impl Importer<'_> {
    /// Returns the requirements that a document or an operation declares, or `None` if it declares
    /// none.
    pub(super) fn security(
        &mut self,
        owner: NodeRef,
        doc_path: &DocumentPath<'_>,
    ) -> Option<Arc<[SecurityRequirement]>> {
        let listed = self.documents.node(owner).get("security")?;
        let doc_path = doc_path.member("security");
        if !listed.is_array() {
            self.warn(
                &doc_path,
                format!("`security` must be a list, found {}", listed.type_name()),
            );
            return None;
        }
        let mut requirements = Vec::new();
        for (index, requirement) in listed.items().enumerate() {
            requirements.push(self.security_requirement(requirement, &doc_path.item(index)));
        }
        Some(requirements.into())
    }

    fn security_requirement(
        &mut self,
        requirement: TreeNode<'_>,
        doc_path: &DocumentPath<'_>,
    ) -> SecurityRequirement {
        let mut credentials = Vec::new();
        for (name, scopes) in requirement.members() {
            let scopes = scopes.items().filter_map(TreeNode::as_str).map(str::to_owned).collect();
            let scheme = self.security_scheme(name, &doc_path.member(name));
            credentials.push(SchemeRequirement { name: name.to_owned(), scheme, scopes });
        }
        credentials
    }

    fn security_scheme(&mut self, name: &str, doc_path: &DocumentPath<'_>) -> Arc<SecurityScheme> {
        if let Some(scheme) = self.security_schemes.get(name) {
            return Arc::clone(scheme);
        }
        let scheme = match self.find_scheme(name) {
            Some(node_ref) => self.parse_scheme(node_ref, doc_path),
            None => {
                self.warn(doc_path, format!("there is no security scheme `{name}`"));
                SecurityScheme::Unknown("not declared".to_owned())
            }
        };
        let scheme = Arc::new(scheme);
        self.security_schemes.insert(name.to_owned(), Arc::clone(&scheme));
        scheme
    }

    /// Finds a security scheme by name, or from OpenAPI 3.2 on also by reference.
    fn find_scheme(&self, name: &str) -> Option<NodeRef> {
        let root = self.documents.root();
        let schemes = match self.version {
            SpecVersion::V2 => self.documents.get(root, "securityDefinitions"),
            _ => self
                .documents
                .get(root, "components")
                .and_then(|components| self.documents.get(components, "securitySchemes")),
        };
        let by_name = schemes.and_then(|schemes| self.documents.get(schemes, name));
        let referred = || {
            let is_reference = self.version >= SpecVersion::V32 && name.contains(['#', '/', '.']);
            is_reference.then(|| self.documents.resolve(root, name).ok()).flatten()
        };
        by_name.or_else(referred).and_then(|node_ref| self.documents.resolve_chain(node_ref).ok())
    }

    fn parse_scheme(&mut self, node_ref: NodeRef, doc_path: &DocumentPath<'_>) -> SecurityScheme {
        let node = self.documents.node(node_ref);
        let text = |name| node.get(name).and_then(TreeNode::as_str);
        match text("type") {
            Some("basic") => SecurityScheme::Basic,
            Some("http") => {
                match text("scheme").unwrap_or_default().to_ascii_lowercase().as_str() {
                    "basic" => SecurityScheme::Basic,
                    "bearer" => SecurityScheme::Bearer,
                    other => SecurityScheme::OtherHttp(other.to_owned()),
                }
            }
            Some("apiKey") => self.parse_api_key(node, doc_path),
            Some("oauth2") => self.parse_oauth2(node_ref, node),
            Some("openIdConnect") => SecurityScheme::OpenIdConnect {
                url: self.resolve_url(node_ref, text("openIdConnectUrl")),
            },
            Some("mutualTLS") => SecurityScheme::MutualTls,
            other => {
                let other = other.unwrap_or("none");
                self.warn(
                    doc_path,
                    format!("security schemes of the type `{other}` are not known"),
                );
                SecurityScheme::Unknown(other.to_owned())
            }
        }
    }

    fn parse_api_key(&mut self, node: TreeNode<'_>, doc_path: &DocumentPath<'_>) -> SecurityScheme {
        let text = |name| node.get(name).and_then(TreeNode::as_str);
        let location = match text("in") {
            Some("query") => ParameterLocation::Query,
            Some("cookie") => ParameterLocation::Cookie,
            Some("header") => ParameterLocation::Header,
            other => {
                let other = other.unwrap_or("nowhere");
                self.warn(
                    doc_path,
                    format!("an API key must be in header, query or cookie, not `{other}`"),
                );
                return SecurityScheme::Unknown(format!("apiKey in {other}"));
            }
        };
        match text("name") {
            Some(name) => SecurityScheme::ApiKey { location, name: name.to_owned() },
            None => {
                self.warn(doc_path, "an API key has no name");
                SecurityScheme::Unknown("apiKey without a name".to_owned())
            }
        }
    }

    fn parse_oauth2(&self, node_ref: NodeRef, node: TreeNode<'_>) -> SecurityScheme {
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
            None => {
                (vec![node], node.get("flow").and_then(TreeNode::as_str) == Some("application"))
            }
        };
        let first = |name: &str| {
            let url = flows.iter().find_map(|flow| flow.get(name).and_then(TreeNode::as_str));
            self.resolve_url(node_ref, url)
        };
        SecurityScheme::OAuth2 {
            token_url: first("tokenUrl"),
            refresh_url: first("refreshUrl"),
            has_client_credentials,
        }
    }

    /// Resolves a URL against the URL of its file. Returns `None` unless it is HTTP or HTTPS.
    fn resolve_url(&self, node_ref: NodeRef, url: Option<&str>) -> Option<Url> {
        let url = self.documents.file(node_ref).url.join(url?.trim()).ok()?;
        matches!(url.scheme(), "http" | "https").then_some(url)
    }
}
