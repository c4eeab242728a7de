//! Documents that are read, appear, change and are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolpost::openapi::{
    Credential, Location, OAuth2Client, OpenApiSettings, OpenApiSource, SourceHooks, SourceStatus,
};
use toolpost::protocol::Secret;
use toolpost::{Pipeline, Registry, ResultPolicy};

use super::rig::{Reply, Rig, Seen, Service, says, soon};

const PATIENCE: Duration = Duration::from_secs(20);

fn document(operations: &[&str]) -> Value {
    let paths = operations.iter().map(|name| {
        let get = json!({"operationId": name, "responses": {"200": {"description": "ok"}}});
        (format!("/{name}"), json!({"get": get}))
    });
    let paths: serde_json::Map<_, _> = paths.collect();
    json!({"openapi": "3.1.0", "info": {"title": "Pets", "version": "1.2"}, "paths": paths})
}

fn settings(service: &Service) -> OpenApiSettings {
    let place = format!("{}/openapi.json", service.origin);
    let mut settings = OpenApiSettings::new(Location::of(&place));
    settings.restart = (Duration::from_millis(20), Duration::from_millis(100));
    settings
}

fn is_document(seen: &Seen) -> bool {
    seen.path == "/openapi.json"
}

#[tokio::test]
async fn a_document_is_read_from_where_it_is_and_its_service_called_there() {
    let service = Service::start(|seen| match is_document(seen) {
        true => Reply::json(200, &document(&["one", "two", "three"])),
        false => Reply::json(200, &json!(seen.path)),
    })
    .await;
    let registry = Registry::new();
    let mut hooks = SourceHooks::default();
    hooks.adjust = Some(Arc::new(|mut spec| {
        spec.name = format!("my_{}", spec.name);
        (spec.name != "my_two").then(|| (spec, ResultPolicy::default()))
    }));
    let source = OpenApiSource::start(&registry, "pets", settings(&service), hooks).unwrap();
    let pipeline = Pipeline::new(registry.clone());
    let found = source.ready(PATIENCE).await.unwrap();
    assert_eq!((found.title.as_str(), found.version.as_str()), ("Pets", "1.2"));
    assert_eq!(found.counts.queries, 2);
    let envelope = pipeline.execute("pets.my_three", json!({})).await.unwrap();
    assert_eq!(envelope.data, "/three");
    says(pipeline.execute("pets.two", json!({})).await, "OPERATION_NOT_FOUND", &[]);

    source.close().await;
    says(pipeline.execute("pets.my_three", json!({})).await, "OPERATION_NOT_FOUND", &[]);
}

#[tokio::test]
async fn a_document_that_is_not_there_yet_is_read_when_it_is() {
    let ready = Arc::new(AtomicUsize::new(0));
    let is_ready = Arc::clone(&ready);
    let service = Service::start(move |_| match is_ready.load(Ordering::SeqCst) {
        0 => Reply::typed(500, "text/plain", "not now"),
        1 => Reply::typed(200, "application/json", "{\"swagger\": 9}"),
        _ => Reply::json(200, &document(&["one"])),
    })
    .await;
    let registry = Registry::new();
    let pipeline = Pipeline::new(registry.clone());
    let hooks = SourceHooks::default();
    let source = OpenApiSource::start(&registry, "pets", settings(&service), hooks).unwrap();
    let called = pipeline.execute("pets.one", json!({})).await;
    says(called, "UNAVAILABLE", &["`pets` is not there yet", "is being read"]);
    says(source.ready(PATIENCE).await, "UNAVAILABLE", &["500"]);
    says(pipeline.execute("pets.one", json!({})).await, "UNAVAILABLE", &["500"]);
    for stage in 1..3 {
        ready.store(stage, Ordering::SeqCst);
        let mut status = source.status();
        let settled = status.wait_for(|status| match status {
            SourceStatus::Ready(_) => stage == 2,
            SourceStatus::Down { reason, .. } => stage == 1 && !reason.contains("500"),
            _ => false,
        });
        soon(settled).await.unwrap();
    }
    pipeline.execute("pets.one", json!({})).await.unwrap();
    source.close().await;
}

#[tokio::test]
async fn a_document_that_changes_is_read_again_and_one_that_does_not_is_not() {
    let version = Arc::new(AtomicUsize::new(0));
    let current = Arc::clone(&version);
    let service = Service::start(move |seen| {
        let version = current.load(Ordering::SeqCst);
        let document = match version {
            0 => document(&["one", "two"]),
            _ => document(&["two", "three"]),
        };
        match is_document(seen) {
            true => Reply::json(200, &document).with("etag", &format!("\"{version}\"")),
            false => Reply::json(200, &json!(seen.path)),
        }
    })
    .await;
    let registry = Registry::new();
    let pipeline = Pipeline::new(registry.clone());
    let mut settings = settings(&service);
    settings.refresh = Some(Duration::from_millis(20));
    let hooks = SourceHooks::default();
    let source = OpenApiSource::start(&registry, "pets", settings, hooks).unwrap();
    source.ready(PATIENCE).await.unwrap();
    let reads = || service.seen().iter().filter(|seen| seen.method == "GET").count();
    let looks = || service.seen().iter().filter(|seen| seen.method == "HEAD").count();
    let many_looks = async {
        while looks() < 5 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(many_looks).await;
    assert_eq!(reads(), 1);
    let mut changes = registry.changes();
    changes.mark_unchanged();
    version.store(1, Ordering::SeqCst);
    soon(changes.changed()).await.unwrap();
    assert_eq!(pipeline.execute("pets.three", json!({})).await.unwrap().data, "/three");
    says(pipeline.execute("pets.one", json!({})).await, "OPERATION_NOT_FOUND", &[]);
    source.close().await;
}

#[tokio::test]
async fn a_file_is_read_from_disk_with_what_it_refers_to() {
    let service = Service::start(|seen| Reply::json(200, &json!(seen.path))).await;
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
    let settings = OpenApiSettings::new(Location::File(folder.join("root.yaml")));
    let hooks = SourceHooks::default();
    let source = OpenApiSource::start(&registry, "files", settings, hooks).unwrap();
    let found = source.ready(PATIENCE).await.unwrap();
    assert_eq!((found.counts.queries, found.warnings.len()), (1, 0), "{:?}", found.warnings);
    let envelope = Pipeline::new(registry).execute("files.one", json!({})).await.unwrap();
    assert_eq!(envelope.data, "/one");
    source.close().await;
    std::fs::remove_dir_all(folder).unwrap();
}

/// A token is fetched once, and once more when the service does not take it any more.
#[tokio::test]
async fn tokens_are_fetched_shown_and_replaced() {
    let service = Service::start(|seen| match seen.path.as_str() {
        "/token" => {
            let token = format!("token-{}", seen.number);
            Reply::json(200, &json!({"access_token": token, "token_type": "bearer"}))
        }
        _ if seen.header("authorization") == Some("Bearer token-0") && seen.number > 2 => {
            Reply::json(401, &json!({"message": "over"}))
        }
        _ => Reply::json(200, &json!(seen.header("authorization"))),
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
    let mut settings = super::rig::settings();
    let client = OAuth2Client::new("me", Secret::new("planted"));
    settings.credentials.schemes.insert("oauth".to_owned(), Credential::OAuth2(client));
    let rig = Rig::of(&document, settings.clone());
    let mut shown = Vec::new();
    for _ in 0..3 {
        shown.push(rig.call("write", json!({})).await.unwrap().data);
    }
    assert_eq!(shown, ["Bearer token-0", "Bearer token-0", "Bearer token-4"]);

    // A document from elsewhere does not say that secrets go to something inside.
    settings.document = Location::of("https://docs.example/openapi.json");
    settings.server.address = Some(service.origin.parse().unwrap());
    let mut other = document;
    let flows = "/components/securitySchemes/oauth/flows/clientCredentials/tokenUrl";
    *other.pointer_mut(flows).unwrap() = json!("http://127.0.0.1:1/token");
    let registry = Registry::new();
    let found =
        toolpost::openapi::from_openapi(&registry, "x", &other.to_string(), settings).unwrap();
    assert!(found.skipped[0].reason.contains("inside this network"), "{:?}", found.skipped);
}

/// Credentials for a scheme that is not there would never be shown.
#[tokio::test]
async fn what_is_configured_for_something_that_is_not_there_is_told() {
    let document = json!({
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/": {"get": {"operationId": "read"}}},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "x-key"}}},
    });
    let address = "http://127.0.0.1:9/openapi.json".parse().unwrap();
    let text = document.to_string().into();
    let mut settings = OpenApiSettings::new(Location::Text { text, address });
    for name in ["key", "kye"] {
        let key = Credential::ApiKey(Secret::new("hush"));
        settings.credentials.schemes.insert(name.to_owned(), key);
    }
    let mut hooks = SourceHooks::default();
    hooks.review = Some(Arc::new(|names| vec![format!("there are {names:?}")]));
    let source = OpenApiSource::start(&Registry::new(), "x", settings, hooks).unwrap();
    let found = source.ready(PATIENCE).await.unwrap();
    let said: Vec<_> = found.warnings.iter().map(|odd| &*odd.message).collect();
    let scheme = "`auth.schemes.kye` is for a security scheme that is not there";
    assert_eq!(said, [scheme, r#"there are ["read"]"#]);
}
