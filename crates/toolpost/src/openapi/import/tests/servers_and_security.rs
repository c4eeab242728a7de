//! Servers and security requirements.

use super::*;
use crate::openapi::plan::{ParameterLocation, SecurityScheme};

fn server_urls(document: &Value) -> Vec<String> {
    import_single(document).plan.servers.iter().map(|server| server.url.clone()).collect()
}

#[test]
fn innermost_servers_take_precedence() {
    let server = |url: &str| json!([{ "url": url }]);
    let mut members = json!({"paths": {"/a": {"get": {}}}});
    assert_eq!(server_urls(&document("3.0.0", &members)), ["/"]);
    members["servers"] = server("https://document.test");
    assert_eq!(server_urls(&document("3.0.0", &members)), ["https://document.test"]);
    members["paths"]["/a"]["servers"] = server("https://path.test");
    assert_eq!(server_urls(&document("3.0.0", &members)), ["https://path.test"]);
    members["paths"]["/a"]["get"]["servers"] = server("/here");
    assert_eq!(server_urls(&document("3.0.0", &members)), ["/here"]);
    let base = import_single(&document("3.0.0", &members)).plan.servers[0].base.clone();
    assert_eq!(base.unwrap().as_str(), "https://example.test/api/openapi.json");
}

#[test]
fn server_variables_have_defaults() {
    let members = json!({"paths": {"/a": {"get": {}}}, "servers": [{"url": "https://{host}:{port}",
        "variables": {"host": {"default": "a", "enum": ["a", "b"]}, "port": {"default": 8443}}}]});
    let plan = import_single(&document("3.0.0", &members)).plan;
    let found: Vec<_> = plan.servers[0]
        .variables
        .iter()
        .map(|one| (&*one.name, &*one.default, one.allowed.len()))
        .collect();
    assert_eq!(found, [("host", "a", 2), ("port", "8443", 0)]);
}

#[test]
fn swagger_host_and_schemes_become_servers() {
    for (members, expected) in [
        (
            json!({"host": "a.test", "basePath": "/v1", "schemes": ["http", "https", "ws"]}),
            vec!["https://a.test/v1", "http://a.test/v1"],
        ),
        (json!({"host": "a.test:8080"}), vec!["https://a.test:8080/"]),
        (
            json!({"host": "a.test", "basePath": "v1", "schemes": ["http"]}),
            vec!["http://a.test/v1"],
        ),
        (json!({"basePath": "/v1"}), vec!["/v1"]),
        (json!({}), vec!["/"]),
    ] {
        let mut document = document("2.0", &members);
        document["paths"] = json!({"/a": {"get": {}}});
        assert_eq!(server_urls(&document), expected, "{members}");
    }
    let paths = json!({"host": "a.test", "schemes": ["http"], "paths": {"/a": {"get": {"schemes": ["https"]}}}});
    assert_eq!(server_urls(&document("2.0", &paths)), ["https://a.test/"]);
}

fn required_schemes(
    version: &str,
    document_wide: Option<Value>,
    own: Option<Value>,
) -> Vec<Vec<String>> {
    let mut document = document(
        version,
        &json!({"paths": {"/a": {"get": {}}}, "components": {"securitySchemes":
        {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}, "bearer": {"type": "http", "scheme": "Bearer"}}}}),
    );
    if let Some(security) = document_wide {
        document["security"] = security;
    }
    if let Some(security) = own {
        document["paths"]["/a"]["get"]["security"] = security;
    }
    let names = |requirement: &Vec<crate::openapi::plan::SchemeRequirement>| {
        requirement.iter().map(|one| format!("{}{}", one.name, one.scopes.concat())).collect()
    };
    import_single(&document).plan.security.iter().map(names).collect()
}

#[test]
fn operation_security_overrides_document_security() {
    let none: Vec<Vec<String>> = Vec::new();
    assert_eq!(required_schemes("3.0.0", None, None), none);
    let both = json!([{"key": [], "bearer": ["r"]}, {}]);
    assert_eq!(
        required_schemes("3.0.0", Some(both.clone()), None),
        [vec!["key".to_owned(), "bearerr".to_owned()], vec![]]
    );
    assert_eq!(required_schemes("3.0.0", Some(both.clone()), Some(json!([]))), none);
    assert_eq!(required_schemes("3.0.0", Some(both), Some(json!([{"key": []}]))), [["key"]]);
}

#[test]
fn security_schemes_are_imported() {
    let url = |path: &str| Some(format!("https://example.test{path}").parse().unwrap());
    let key = |location| SecurityScheme::ApiKey { location, name: "k".to_owned() };
    let rows = [
        ("2.0", json!({"type": "basic"}), SecurityScheme::Basic),
        (
            "2.0",
            json!({"type": "apiKey", "in": "query", "name": "k"}),
            key(ParameterLocation::Query),
        ),
        (
            "2.0",
            json!({"type": "oauth2", "flow": "application", "tokenUrl": "https://example.test/token"}),
            SecurityScheme::OAuth2 { token_url: url("/token") },
        ),
        (
            "2.0",
            json!({"type": "oauth2", "flow": "accessCode", "tokenUrl": "/token"}),
            SecurityScheme::OAuth2 { token_url: url("/token") },
        ),
        ("3.0.0", json!({"type": "http", "scheme": "Basic"}), SecurityScheme::Basic),
        ("3.0.0", json!({"type": "http", "scheme": "bearer"}), SecurityScheme::Bearer),
        (
            "3.0.0",
            json!({"type": "http", "scheme": "Digest"}),
            SecurityScheme::OtherHttp("digest".to_owned()),
        ),
        (
            "3.0.0",
            json!({"type": "apiKey", "in": "header", "name": "k"}),
            key(ParameterLocation::Header),
        ),
        (
            "3.0.0",
            json!({"type": "apiKey", "in": "cookie", "name": "k"}),
            key(ParameterLocation::Cookie),
        ),
        (
            "3.0.0",
            json!({"type": "oauth2", "flows": {"implicit": {}, "clientCredentials": {"tokenUrl": "token", "refreshUrl": "/r"}}}),
            SecurityScheme::OAuth2 { token_url: url("/api/token") },
        ),
        (
            "3.0.0",
            json!({"type": "openIdConnect", "openIdConnectUrl": "https://example.test/o"}),
            SecurityScheme::OpenIdConnect,
        ),
        ("3.1.0", json!({"type": "mutualTLS"}), SecurityScheme::MutualTls),
    ];
    for (version, scheme, expected) in rows {
        let mut document =
            document(version, &json!({"paths": {"/a": {"get": {}}}, "security": [{"s": []}]}));
        match version {
            "2.0" => document["securityDefinitions"] = json!({ "s": scheme }),
            _ => {
                document["components"] = json!({"securitySchemes": {"t": scheme, "s": {"$ref": "#/components/securitySchemes/t"}}});
            }
        }
        assert_eq!(*import_single(&document).plan.security[0][0].scheme, expected, "{scheme}");
    }
}

#[test]
fn unknown_security_schemes_are_reported() {
    for (schemes, message) in [
        (json!({}), "unknown security scheme `s`"),
        (json!({"s": {"type": "magic"}}), "unknown security scheme type `magic`"),
        (json!({"s": {"type": "apiKey", "in": "body", "name": "k"}}), "not `body`"),
        (json!({"s": {"type": "apiKey", "in": "query"}}), "has no name"),
    ] {
        let members = json!({"paths": {"/a": {"get": {}}}, "security": [{"s": []}], "components": {"securitySchemes": schemes}});
        let (operation, warnings) = import_single_with_warnings(&document("3.0.0", &members));
        assert!(warnings.len() == 1 && warnings[0].contains(message), "{warnings:?}");
        assert!(matches!(*operation.plan.security[0][0].scheme, SecurityScheme::Unknown(_)));
    }
}
