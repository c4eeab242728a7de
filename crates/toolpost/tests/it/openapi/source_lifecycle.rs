//! Documents that load, appear, change and disappear.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolpost::openapi::{
    Credential, DocumentLocation, OAuth2Client, OpenApiSettings, OpenApiSource,
};
use toolpost::protocol::Secret;
use toolpost::{Pipeline, Registry, ResultPolicy, RunningSource, SourceHooks, SourceStatus};

use super::fixture::{
    Fixture, ReceivedRequest, TestReply, TestService, assert_error, within_timeout,
};

const TIMEOUT: Duration = Duration::from_secs(20);

fn document(operations: &[&str]) -> Value {
    let paths = operations.iter().map(|name| {
        let get = json!({"operationId": name, "responses": {"200": {"description": "ok"}}});
        (format!("/{name}"), json!({"get": get}))
    });
    let paths: serde_json::Map<_, _> = paths.collect();
    json!({"openapi": "3.1.0", "info": {"title": "Pets", "version": "1.2"}, "paths": paths})
}

fn settings(service: &TestService) -> OpenApiSettings {
    let document_url = format!("{}/openapi.json", service.origin);
    let mut settings = OpenApiSettings::new(DocumentLocation::from_path_or_url(&document_url));
    settings.reload_backoff = (Duration::from_millis(20), Duration::from_millis(100));
    settings
}

fn is_document_request(seen: &ReceivedRequest) -> bool {
    seen.path == "/openapi.json"
}

#[tokio::test]
async fn document_is_loaded_and_its_service_called_at_its_url() {
    let service = TestService::start(|seen| match is_document_request(seen) {
        true => TestReply::json(200, &document(&["one", "two", "three"])),
        false => TestReply::json(200, &json!(seen.path)),
    })
    .await;
    let registry = Registry::new();
    let mut hooks = SourceHooks::default();
    hooks.transform = Some(Arc::new(|mut spec| {
        spec.name = format!("my_{}", spec.name);
        (spec.name != "my_two").then(|| (spec, ResultPolicy::default()))
    }));
    let source = RunningSource::start(
        &registry,
        OpenApiSource::new("pets", settings(&service)).unwrap(),
        hooks,
    );
    let pipeline = Pipeline::new(registry.clone());
    let found = source.ready(TIMEOUT).await.unwrap();
    assert_eq!((found.title.as_str(), found.version.as_str()), ("Pets", "1.2"));
    assert_eq!(found.operations, 2);
    let envelope = pipeline.call_trusted("pets.my_three", json!({})).await.unwrap();
    assert_eq!(envelope.data, "/three");
    assert_error(pipeline.call_trusted("pets.two", json!({})).await, "OPERATION_NOT_FOUND", &[]);

    source.close().await;
    assert_error(
        pipeline.call_trusted("pets.my_three", json!({})).await,
        "OPERATION_NOT_FOUND",
        &[],
    );
}

#[tokio::test]
async fn unavailable_document_is_retried_until_it_loads() {
    let ready = Arc::new(AtomicUsize::new(0));
    let is_ready = Arc::clone(&ready);
    let service = TestService::start(move |_| match is_ready.load(Ordering::SeqCst) {
        0 => TestReply::typed(500, "text/plain", "not now"),
        1 => TestReply::typed(200, "application/json", "{\"swagger\": 9}"),
        _ => TestReply::json(200, &document(&["one"])),
    })
    .await;
    let registry = Registry::new();
    let pipeline = Pipeline::new(registry.clone());
    let hooks = SourceHooks::default();
    let source = RunningSource::start(
        &registry,
        OpenApiSource::new("pets", settings(&service)).unwrap(),
        hooks,
    );
    let called = pipeline.call_trusted("pets.one", json!({})).await;
    assert_error(called, "UNAVAILABLE", &["`pets` is not ready yet", "500"]);
    assert_error(source.ready(TIMEOUT).await, "UNAVAILABLE", &["500"]);
    assert_error(pipeline.call_trusted("pets.one", json!({})).await, "UNAVAILABLE", &["500"]);
    for stage in 1..3 {
        ready.store(stage, Ordering::SeqCst);
        let mut status = source.status();
        let reached = status.wait_for(|status| match status {
            SourceStatus::Ready(_) => stage == 2,
            SourceStatus::Down { reason, .. } => stage == 1 && !reason.contains("500"),
            _ => false,
        });
        within_timeout(reached).await.unwrap();
    }
    pipeline.call_trusted("pets.one", json!({})).await.unwrap();
    source.close().await;
}

#[tokio::test]
async fn only_changed_documents_are_reloaded() {
    let version = Arc::new(AtomicUsize::new(0));
    let current = Arc::clone(&version);
    let service = TestService::start(move |seen| {
        let version = current.load(Ordering::SeqCst);
        let document = match version {
            0 => document(&["one", "two"]),
            _ => document(&["two", "three"]),
        };
        match is_document_request(seen) {
            true => TestReply::json(200, &document).with_header("etag", &format!("\"{version}\"")),
            false => TestReply::json(200, &json!(seen.path)),
        }
    })
    .await;
    let registry = Registry::new();
    let pipeline = Pipeline::new(registry.clone());
    let mut settings = settings(&service);
    settings.refresh = Some(Duration::from_millis(20));
    let hooks = SourceHooks::default();
    let source =
        RunningSource::start(&registry, OpenApiSource::new("pets", settings).unwrap(), hooks);
    source.ready(TIMEOUT).await.unwrap();
    let reads = || service.requests().iter().filter(|seen| seen.method == "GET").count();
    let looks = || service.requests().iter().filter(|seen| seen.method == "HEAD").count();
    let many_looks = async {
        while looks() < 5 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within_timeout(many_looks).await;
    assert_eq!(reads(), 1);
    let mut changes = registry.watch_changes();
    changes.mark_unchanged();
    version.store(1, Ordering::SeqCst);
    within_timeout(changes.changed()).await.unwrap();
    assert_eq!(pipeline.call_trusted("pets.three", json!({})).await.unwrap().data, "/three");
    assert_error(pipeline.call_trusted("pets.one", json!({})).await, "OPERATION_NOT_FOUND", &[]);
    source.close().await;
}

#[tokio::test]
async fn local_file_loads_with_its_references() {
    let service = TestService::start(|seen| TestReply::json(200, &json!(seen.path))).await;
    let folder = std::env::temp_dir().join(format!("toolpost-openapi-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let root = format!(
        "openapi: 3.0.3\ninfo: {{title: Files, version: '1'}}\nservers: [{{url: {}}}]\npaths:\n  /one: {{$ref: 'paths.yaml#/one'}}\n",
        service.origin
    );
    std::fs::write(folder.join("root.yaml"), root).unwrap();
    let other = "one: {get: {operationId: one, responses: {'200': {description: ok}}}}\n";
    std::fs::write(folder.join("paths.yaml"), other).unwrap();
    let registry = Registry::new();
    let settings = OpenApiSettings::new(DocumentLocation::File(folder.join("root.yaml")));
    let hooks = SourceHooks::default();
    let source =
        RunningSource::start(&registry, OpenApiSource::new("files", settings).unwrap(), hooks);
    let found = source.ready(TIMEOUT).await.unwrap();
    assert_eq!((found.operations, found.warnings.len()), (1, 0), "{:?}", found.warnings);
    let envelope = Pipeline::new(registry).call_trusted("files.one", json!({})).await.unwrap();
    assert_eq!(envelope.data, "/one");
    source.close().await;
    std::fs::remove_dir_all(folder).unwrap();
}

/// The token is fetched once, and again when the service rejects it.
#[tokio::test]
async fn oauth_token_is_fetched_once_and_replaced_after_401() {
    let service = TestService::start(|seen| match seen.path.as_str() {
        "/token" => {
            let token = format!("token-{}", seen.number);
            TestReply::json(200, &json!({"access_token": token, "token_type": "bearer"}))
        }
        _ if seen.header("authorization") == Some("Bearer token-0") && seen.number > 2 => {
            TestReply::json(401, &json!({"message": "over"}))
        }
        _ => TestReply::json(200, &json!(seen.header("authorization"))),
    })
    .await;
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "A service", "version": "1"},
        "servers": [{"url": service.origin}],
        "security": [{"oauth": []}],
        "paths": {"/": {"post": {"operationId": "write", "responses": {"200": {"description": "ok"}}}}},
        "components": {"securitySchemes": {"oauth": {"type": "oauth2", "flows": {
            "clientCredentials": {"tokenUrl": format!("{}/token", service.origin), "scopes": {}},
        }}}},
    });
    let mut settings = super::fixture::settings();
    let client = OAuth2Client::new("me", Secret::new("planted"));
    settings.credentials.schemes.insert("oauth".to_owned(), Credential::OAuth2(client));
    let fixture = Fixture::from_document(&document, settings.clone());
    let mut authorizations = Vec::new();
    for _ in 0..3 {
        authorizations.push(fixture.call("write", json!({})).await.unwrap().data);
    }
    assert_eq!(authorizations, ["Bearer token-0", "Bearer token-0", "Bearer token-4"]);

    // An external document cannot name a private token endpoint.
    settings.document = DocumentLocation::from_path_or_url("https://docs.example/openapi.json");
    settings.server.url = Some(service.origin.parse().unwrap());
    let mut other = document;
    let flows = "/components/securitySchemes/oauth/flows/clientCredentials/tokenUrl";
    *other.pointer_mut(flows).unwrap() = json!("http://127.0.0.1:1/token");
    let registry = Registry::new();
    let found =
        toolpost::openapi::from_openapi(&registry, "x", &other.to_string(), settings).unwrap();
    assert!(found.skipped[0].reason.contains("is a private address"), "{:?}", found.skipped);
}

/// Credentials for an undeclared scheme would never be sent.
#[tokio::test]
async fn config_for_missing_schemes_or_operations_is_reported() {
    let document = json!({
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/": {"get": {"operationId": "read"}}},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "x-key"}}},
    });
    let base_url = "http://127.0.0.1:9/openapi.json".parse().unwrap();
    let text = document.to_string().into();
    let mut settings = OpenApiSettings::new(DocumentLocation::Text { text, base_url });
    for name in ["key", "kye"] {
        let key = Credential::ApiKey(Secret::new("hush"));
        settings.credentials.schemes.insert(name.to_owned(), key);
    }
    let mut hooks = SourceHooks::default();
    hooks.lint = Some(Arc::new(|names| vec![format!("there are {names:?}")]));
    let source =
        RunningSource::start(&Registry::new(), OpenApiSource::new("x", settings).unwrap(), hooks);
    let found = source.ready(TIMEOUT).await.unwrap();
    let messages: Vec<_> = found.warnings.iter().map(|warning| &**warning).collect();
    let scheme = "`auth.schemes.kye` is for a security scheme that the document does not declare";
    assert_eq!(messages, [scheme, r#"there are ["read"]"#]);
}
