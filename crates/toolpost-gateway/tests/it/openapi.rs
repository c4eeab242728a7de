//! `/openapi.json`: the operations that a caller can access, with ETags.

use reqwest::header::{self, HeaderMap};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use toolpost::{
    AccessControl, Change, HandlerError, Identity, Operation, OperationKind, OperationSpec,
};
use toolpost::{Handler, HandlerOutput, Schema};
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::{Gateway, GatewaySettings, builtin};

use super::{TestGateway, client};

async fn request_document(
    running: &TestGateway,
    method: Method,
    headers: HeaderMap,
) -> reqwest::Response {
    client().request(method, running.url("/openapi.json")).headers(headers).send().await.unwrap()
}

async fn document(running: &TestGateway) -> Value {
    request_document(running, Method::GET, HeaderMap::new()).await.json().await.unwrap()
}

fn header_map(name: header::HeaderName, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(name, value.parse().unwrap())])
}

#[tokio::test]
async fn openapi_document_describes_served_operations() {
    let gateway = TestGateway::start().await;
    let document = document(&gateway).await;
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["servers"], json!([{"url": "/"}]));
    assert_eq!(document["x-toolpost"]["version"], env!("CARGO_PKG_VERSION"));
    for (path, methods) in [
        ("/api/demo/add", 2),
        ("/api/demo/note", 1),
        ("/api/demo/clock", 2),
        ("/api/hub/call", 1),
        ("/api/hub/list", 2),
    ] {
        assert_eq!(document["paths"][path].as_object().unwrap().len(), methods, "{path}");
    }
    // `hub.register` requires a hub connection.
    assert!(document["paths"].get("/api/hub/register").is_none());
    // Every path allows exactly the methods in the document.
    for (path, item) in document["paths"].as_object().unwrap() {
        let allowed = client().request(Method::OPTIONS, gateway.url(path)).send().await.unwrap();
        let allowed = allowed.headers()[header::ALLOW].to_str().unwrap().to_owned();
        for method in ["get", "post", "put", "patch", "delete"] {
            let is_allowed = allowed.contains(&method.to_uppercase());
            assert_eq!(item.get(method).is_some(), is_allowed, "{method} {path}");
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn openapi_examples_are_valid_requests() {
    let gateway = TestGateway::start().await;
    let document = document(&gateway).await;
    for name in ["add", "note", "clock", "slow"] {
        let path = format!("/api/demo/{name}");
        let body = &document["paths"][&path]["post"]["requestBody"]["content"]["application/json"];
        let schema_pointer = body["schema"]["$ref"].as_str().unwrap().trim_start_matches('#');
        let example = &document.pointer(schema_pointer).unwrap()["examples"][0];
        assert!(example.is_object(), "{name}: {example}");
        let response = client().post(gateway.url(&path)).json(example).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{name}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn matching_etag_returns_304() {
    let gateway = TestGateway::start().await;
    let first = request_document(&gateway, Method::GET, HeaderMap::new()).await;
    let head = first.headers().clone();
    assert_eq!(head[header::CONTENT_TYPE], "application/json");
    assert_eq!(head[header::CACHE_CONTROL], "private, no-cache");
    let tag = head[header::ETAG].to_str().unwrap().to_owned();
    let bytes = first.bytes().await.unwrap();
    assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag} is strong");

    let again = request_document(&gateway, Method::GET, HeaderMap::new()).await;
    assert_eq!(again.headers()[header::ETAG], *tag);
    assert_eq!(again.bytes().await.unwrap(), bytes);

    let only_head = request_document(&gateway, Method::HEAD, HeaderMap::new()).await;
    assert_eq!(only_head.headers()[header::ETAG], *tag);
    assert_eq!(only_head.headers()[header::CONTENT_LENGTH], bytes.len().to_string());
    assert!(only_head.bytes().await.unwrap().is_empty());

    for (known, status) in [
        (tag.clone(), 304),
        (format!("\"x\", W/{tag}"), 304),
        ("*".to_owned(), 304),
        ("\"x\"".to_owned(), 200),
        (String::new(), 200),
    ] {
        let response =
            request_document(&gateway, Method::GET, header_map(header::IF_NONE_MATCH, &known))
                .await;
        assert_eq!(
            (response.status().as_u16(), &response.headers()[header::ETAG]),
            (status, &head[header::ETAG]),
            "{known}"
        );
        assert_eq!(response.bytes().await.unwrap().is_empty(), status == 304, "{known}");
    }

    let packed =
        request_document(&gateway, Method::GET, header_map(header::ACCEPT_ENCODING, "gzip")).await;
    assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
    let other = packed.headers()[header::ETAG].to_str().unwrap().to_owned();
    assert_ne!(other, tag, "different bytes have different ETags");
    assert!(packed.bytes().await.unwrap().len() < bytes.len() / 4);
    let mut known = header_map(header::ACCEPT_ENCODING, "gzip");
    known.insert(header::IF_NONE_MATCH, other.parse().unwrap());
    assert_eq!(
        request_document(&gateway, Method::GET, known).await.status(),
        StatusCode::NOT_MODIFIED
    );

    let posted = request_document(&gateway, Method::POST, HeaderMap::new()).await;
    assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);

    // A catalog change changes the document.
    let echo = async |word: String| Ok::<_, HandlerError>(word);
    let operation = Operation::query("late.echo", echo).build().unwrap();
    gateway.gateway.pipeline().registry().apply([Change::Register(operation)]).unwrap();
    let later =
        request_document(&gateway, Method::GET, header_map(header::IF_NONE_MATCH, &tag)).await;
    assert_eq!(later.status(), StatusCode::OK);
    let later: Value = later.json().await.unwrap();
    assert!(later["paths"].get("/api/late/echo").is_some());
    gateway.stop().await;
}

/// The document omits operations that the caller cannot access.
#[tokio::test]
async fn openapi_document_lists_only_accessible_operations() {
    let registry = builtin::registry();
    let echo = async |word: String| Ok::<_, HandlerError>(word);
    let mut access = AccessControl::default();
    access.required_scopes.push("secrets".to_owned());
    let secret = Operation::query("vault.open", echo).access(access).build().unwrap();
    registry.register(secret).unwrap();
    // An operation without a handler cannot be called.
    let spec = OperationSpec::new(&"vault.planned".parse().unwrap(), OperationKind::Query);
    registry.register(Operation::from_spec(spec).build().unwrap()).unwrap();
    let tokens = ["guest", "owner"].map(|_| Token::generate().unwrap());
    let known = [
        (tokens[0].hash(), Identity::new("guest")),
        (tokens[1].hash(), Identity::new("owner").with_scopes(["secrets"])),
    ];
    let gateway = Gateway::builder(registry);
    let gateway = gateway.authenticator(Authenticator::with_tokens(known));
    let gateway = TestGateway::serve(gateway, "127.0.0.1:0").await;

    let anonymous_response = request_document(&gateway, Method::GET, HeaderMap::new()).await;
    assert_eq!(anonymous_response.status(), StatusCode::UNAUTHORIZED);
    assert!(anonymous_response.headers().contains_key(header::WWW_AUTHENTICATE));
    for (token, sees) in tokens.iter().zip([false, true]) {
        let header = header_map(header::AUTHORIZATION, &format!("Bearer {}", token.reveal()));
        let document: Value =
            request_document(&gateway, Method::GET, header).await.json().await.unwrap();
        assert_eq!(document["paths"].get("/api/vault/open").is_some(), sees);
        assert_eq!(document.to_string().contains("vault"), sees);
        assert!(document["paths"].get("/api/vault/planned").is_none());
        assert_eq!(document["security"], json!([{"token": []}]));
    }
    gateway.stop().await;
}

/// Data that does not match the output schema is sent with the number of mismatches, in the data
/// form as a documented header.
#[tokio::test]
async fn undeclared_data_is_returned_with_warnings() {
    let mut spec = OperationSpec::new(&"odd.write".parse().unwrap(), OperationKind::Mutation);
    spec.output_schema = Schema::new(json!({"type": "object", "required": ["id"]})).unwrap();
    let handler =
        Handler::once_fn(async |_, _| Ok(HandlerOutput::Data(json!({"name": "x"}).into())));
    let write = Operation::from_spec(spec).handler(handler).build().unwrap();
    let gateway = TestGateway::start_with([write], GatewaySettings::default()).await;
    let document = request_document(&gateway, Method::GET, HeaderMap::new()).await;
    let document: Value = document.json().await.unwrap();
    let header = &document["components"]["headers"]["Warnings"];
    assert_eq!(header["schema"]["type"], "integer", "{header}");
    for (path, paths) in [("/api/demo/messy", ["/score"]), ("/api/odd/write", ["/id"])] {
        let response = client().post(gateway.url(path)).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()["toolpost-warnings"], "1", "{path}");
        let documented = &document["paths"][path]["post"]["responses"]["200"]["headers"];
        let reference = json!({"$ref": "#/components/headers/Warnings"});
        assert_eq!(documented["Toolpost-Warnings"], reference, "{path}");
        let data: Value = response.json().await.unwrap();
        let url = gateway.url(&format!("{path}?envelope=true"));
        let enveloped = client().post(url).send().await.unwrap();
        assert_eq!(enveloped.status(), StatusCode::OK);
        assert_eq!(enveloped.headers().get("toolpost-warnings"), None);
        let enveloped: Value = enveloped.json().await.unwrap();
        assert_eq!(enveloped["data"], data);
        let warnings = enveloped["warnings"].as_array().unwrap().iter();
        assert!(warnings.map(|warning| warning["path"].as_str().unwrap()).eq(paths), "{path}");
    }
    gateway.stop().await;
}
