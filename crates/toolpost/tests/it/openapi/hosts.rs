//! Allowed hosts and redirects.

use serde_json::{Value, json};
use toolpost::openapi::{Credential, DocumentLocation, OpenApiSettings};

use super::fixture::{Fixture, TestReply, TestService, assert_error, default_paths, settings};

/// Secret that must not be sent to another origin.
const PLANTED: &str = "planted-secret";

/// Starts a service that redirects every request to another service. Returns both.
async fn redirecting_pair(status: u16) -> (TestService, TestService) {
    let other = TestService::start(|seen| TestReply::json(200, &json!(seen.method))).await;
    let target = format!("{}/there?api_key={PLANTED}&q=1", other.origin);
    let service = TestService::start(move |_| TestReply::redirect(status, &target)).await;
    (service, other)
}

fn with_secrets(settings: &mut OpenApiSettings) {
    for name in ["authorization", "x-api-key", "cookie"] {
        let secret = toolpost::protocol::Secret::new(PLANTED);
        settings.credentials.headers.insert(name.to_owned(), secret);
    }
}

#[tokio::test]
async fn redirect_to_unlisted_host_is_rejected() {
    let (service, other) = redirecting_pair(302).await;
    let fixture = Fixture::with_default_paths(&service.origin, settings());
    let host = other.address.to_string();
    let message = [host.as_str(), "`hosts` of the source"];
    assert_error(fixture.call("read", json!({})).await, "EXECUTION_ERROR", &message);
    assert_eq!((service.request_count(), other.request_count()), (1, 0));
}

#[tokio::test]
async fn cross_origin_redirect_drops_credentials() {
    for (status, operation, method) in
        [(302, "read", "GET"), (307, "read", "GET"), (303, "write", "GET"), (308, "put", "PUT")]
    {
        let (service, other) = redirecting_pair(status).await;
        let mut settings = settings();
        with_secrets(&mut settings);
        settings.hosts = vec![other.address.to_string()];
        let fixture = Fixture::with_default_paths(&service.origin, settings);
        let input = if operation == "read" { json!({}) } else { json!({"body": {"a": 1}}) };
        let envelope = fixture.call(operation, input).await.unwrap();
        assert_eq!(envelope.data, method, "{status} {operation}");
        let first = &service.requests()[0];
        assert_eq!(first.header("authorization"), Some(PLANTED));
        let second = &other.requests()[0];
        let mut all = second.clone();
        // The redirect URL of the first service contains the secret, so the path is not checked.
        all.path = String::new();
        assert!(!format!("{all:?}").contains(PLANTED), "{status} {operation}: {second:?}");
        assert_eq!(second.body.is_empty(), operation != "put", "{status} {operation}");
    }
}

#[tokio::test]
async fn cross_origin_redirect_of_mutation_is_rejected() {
    let (service, other) = redirecting_pair(307).await;
    let mut settings = settings();
    settings.hosts = vec![other.address.to_string()];
    let fixture = Fixture::with_default_paths(&service.origin, settings);
    let called = fixture.call("write", json!({"body": 1})).await;
    assert_error(called, "EXECUTION_ERROR", &["neither a query nor idempotent"]);
    assert_eq!(other.request_count(), 0);
}

#[tokio::test]
async fn same_origin_redirect_keeps_headers_up_to_the_limit() {
    let service = TestService::start(|seen| match seen.number {
        0 => TestReply::redirect(307, "/next/"),
        _ => TestReply::json(200, &json!(seen.body)),
    })
    .await;
    let mut secret = settings();
    with_secrets(&mut secret);
    let fixture = Fixture::with_default_paths(&service.origin, secret);
    assert_eq!(fixture.call("write", json!({"body": [1]})).await.unwrap().data, "[1]");
    let second = &service.requests()[1];
    assert_eq!((second.path.as_str(), second.header("x-api-key")), ("/next/", Some(PLANTED)));

    let circle = TestService::start(|_| TestReply::redirect(302, "/")).await;
    let fixture = Fixture::with_default_paths(&circle.origin, settings());
    assert_error(fixture.call("read", json!({})).await, "EXECUTION_ERROR", &["more than 5 times"]);
    assert_eq!(circle.request_count(), 6);
}

/// Each row: the document URL, the server it names, the configured hosts and the expected result.
#[tokio::test]
async fn external_document_cannot_name_private_hosts() {
    let service = TestService::start(|_| TestReply::json(200, &json!("here"))).await;
    let port = service.address.port();
    let public = "https://docs.example/openapi.json";
    let own = format!("http://127.0.0.1:{port}");
    let rows = [
        (public, own.clone(), "", Err("is a private address")),
        (public, own.clone(), "127.0.0.1", Ok(())),
        (public, format!("http://localhost:{port}"), "", Err("is a private address")),
        (public, format!("http://localhost:{port}"), "localhost", Ok(())),
        (public, format!("http://[::ffff:127.0.0.1]:{port}"), "", Err("is a private address")),
        (public, format!("http://2130706433:{port}"), "", Err("is a private address")),
        (public, "http://10.255.255.1".to_owned(), "", Err("is a private address")),
        (public, "http://169.254.169.254".to_owned(), "", Err("link-local")),
        ("openapi.json", "http://169.254.169.254".to_owned(), "", Err("link-local")),
        ("openapi.json", "http://[fe80::1]".to_owned(), "", Err("link-local")),
        ("openapi.json", own.clone(), "", Ok(())),
        ("http://127.0.0.1:1/openapi.json", own.clone(), "", Ok(())),
    ];
    for (document, server, hosts, expected) in rows {
        let row = format!("{document} {server} {hosts}");
        let mut settings = settings();
        settings.document = DocumentLocation::from_path_or_url(document);
        settings.hosts.extend(Some(hosts.to_owned()).filter(|host| !host.is_empty()));
        let fixture = Fixture::new(&server, &default_paths(), settings);
        let before = service.request_count();
        let called = fixture.call("write", json!({})).await;
        match expected {
            Ok(()) => assert_eq!(called.unwrap().data, "here", "{row}"),
            Err(message) => {
                let error = assert_error(called, "EXECUTION_ERROR", &[message, "`hosts`"]);
                assert!(!error.may_have_run(), "{row}");
                assert_eq!(service.request_count(), before, "{row}");
            }
        }
    }
}

/// A configured server URL needs no entry in `hosts`.
#[tokio::test]
async fn configured_server_overrides_document_servers() {
    let service = TestService::start(|seen| TestReply::json(200, &json!(seen.path))).await;
    let mut settings = settings();
    settings.document = DocumentLocation::from_path_or_url("https://docs.example/openapi.json");
    settings.server.url = Some(format!("{}/base/", service.origin).parse().unwrap());
    let fixture = Fixture::with_default_paths("https://api.example", settings);
    let envelope = fixture.call("read", json!({})).await.unwrap();
    assert_eq!(envelope.data, Value::from("/base/"));
}

/// Each row: the servers of the document and of the operation, whether it requires credentials,
/// whether the other server is in `hosts`, and whether it is called with credentials or the error.
#[tokio::test]
async fn operation_on_other_server_gets_no_credentials() {
    let service = TestService::start(|_| TestReply::json(200, &json!("own"))).await;
    let other = TestService::start(|_| TestReply::json(200, &json!("other"))).await;
    let refused = Err("not on the server of the document, and requires credentials");
    let rows = [
        (&service, true, false, Ok(true)),
        (&other, true, false, refused),
        (&other, false, false, Ok(false)),
        (&other, true, true, Ok(true)),
    ];
    for (called, is_required, is_listed, expected) in rows {
        let row = format!("{} {is_required} {is_listed}", called.origin);
        let security = if is_required { json!([{"key": []}]) } else { json!([{}]) };
        let document = json!({
            "openapi": "3.1.0",
            "info": {"title": "A service", "version": "1"},
            "servers": [{"url": service.origin}],
            "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
            "paths": {"/": {"get": {
                "operationId": "read",
                "servers": [{"url": called.origin}],
                "security": security,
                "responses": {"200": {"description": "read"}},
            }}},
        });
        let mut settings = settings();
        with_secrets(&mut settings);
        let bearer = Credential::Bearer(toolpost::protocol::Secret::new(PLANTED));
        settings.credentials.generic.push(bearer);
        if is_listed {
            settings.hosts.push(other.address.to_string());
        }
        let before = called.request_count();
        let result = Fixture::from_document(&document, settings).call("read", json!({})).await;
        match expected {
            Ok(has_credentials) => {
                result.unwrap();
                let request = &called.requests()[before];
                assert_eq!(format!("{request:?}").contains(PLANTED), has_credentials, "{row}");
            }
            Err(message) => {
                assert_error(result, "EXECUTION_ERROR", &[message]);
                assert_eq!(called.request_count(), before, "{row}");
            }
        }
    }
}

/// No host has the address, which is reserved for documentation.
#[tokio::test]
async fn credentials_are_not_sent_to_another_machine_in_plain_text() {
    let mut settings = settings();
    with_secrets(&mut settings);
    let fixture = Fixture::with_default_paths("http://192.0.2.1", settings.clone());
    let called = fixture.call("read", json!({})).await;
    assert_error(called, "EXECUTION_ERROR", &["to another machine without encryption"]);
    settings.client.tls.insecure = true;
    settings.client.timeout = std::time::Duration::from_millis(50);
    let fixture = Fixture::with_default_paths("http://192.0.2.1", settings);
    let error = fixture.call("read", json!({})).await.unwrap_err().to_string();
    assert!(!error.contains("encryption"), "{error}");
}
