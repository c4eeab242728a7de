//! Where requests go and where they do not.

use serde_json::{Value, json};
use toolpost::openapi::{Location, OpenApiSettings};

use super::rig::{Reply, Rig, Service, says, settings, usual_paths};

/// What must not leave its origin.
const PLANTED: &str = "planted-secret";

/// A service that sends everything to another, and that other one.
async fn two(status: u16) -> (Service, Service) {
    let other = Service::start(|seen| Reply::json(200, &json!(seen.method))).await;
    let target = format!("{}/there?api_key={PLANTED}&q=1", other.origin);
    let service = Service::start(move |_| Reply::redirect(status, &target)).await;
    (service, other)
}

fn with_secrets(settings: &mut OpenApiSettings) {
    for name in ["authorization", "x-api-key", "cookie"] {
        let secret = toolpost::protocol::Secret::new(PLANTED);
        settings.credentials.headers.insert(name.to_owned(), secret);
    }
}

#[tokio::test]
async fn a_request_is_sent_elsewhere_only_if_that_is_named() {
    let (service, other) = two(302).await;
    let rig = Rig::usual(&service.origin, settings());
    let host = other.address.to_string();
    let words = [host.as_str(), "`hosts` of the source"];
    says(rig.call("read", json!({})).await, "EXECUTION_ERROR", &words);
    assert_eq!((service.count(), other.count()), (1, 0));
}

#[tokio::test]
async fn credentials_do_not_go_along() {
    for (status, operation, method) in
        [(302, "read", "GET"), (307, "read", "GET"), (303, "write", "GET"), (308, "put", "PUT")]
    {
        let (service, other) = two(status).await;
        let mut settings = settings();
        with_secrets(&mut settings);
        settings.hosts = vec![other.address.to_string()];
        let rig = Rig::usual(&service.origin, settings);
        let input = if operation == "read" { json!({}) } else { json!({"body": {"a": 1}}) };
        let envelope = rig.call(operation, input).await.unwrap();
        assert_eq!(envelope.data, method, "{status} {operation}");
        let first = &service.seen()[0];
        assert_eq!(first.header("authorization"), Some(PLANTED));
        let second = &other.seen()[0];
        let mut all = second.clone();
        // What the first service itself has put into the address is its own affair.
        all.path = String::new();
        assert!(!format!("{all:?}").contains(PLANTED), "{status} {operation}: {second:?}");
        assert_eq!(second.body.is_empty(), operation != "put", "{status} {operation}");
    }
}

#[tokio::test]
async fn a_request_that_writes_is_not_sent_to_another_service() {
    let (service, other) = two(307).await;
    let mut settings = settings();
    settings.hosts = vec![other.address.to_string()];
    let rig = Rig::usual(&service.origin, settings);
    let called = rig.call("write", json!({"body": 1})).await;
    says(called, "EXECUTION_ERROR", &["neither a query nor idempotent"]);
    assert_eq!(other.count(), 0);
}

#[tokio::test]
async fn within_an_origin_everything_goes_along_and_not_for_ever() {
    let service = Service::start(|seen| match seen.number {
        0 => Reply::redirect(307, "/next/"),
        _ => Reply::json(200, &json!(seen.body)),
    })
    .await;
    let mut secret = settings();
    with_secrets(&mut secret);
    let rig = Rig::usual(&service.origin, secret);
    assert_eq!(rig.call("write", json!({"body": [1]})).await.unwrap().data, "[1]");
    let second = &service.seen()[1];
    assert_eq!((second.path.as_str(), second.header("x-api-key")), ("/next/", Some(PLANTED)));

    let circle = Service::start(|_| Reply::redirect(302, "/")).await;
    let rig = Rig::usual(&circle.origin, settings());
    says(rig.call("read", json!({})).await, "EXECUTION_ERROR", &["more than 5 times"]);
    assert_eq!(circle.count(), 6);
}

/// Each row: where the document is from, what it names, what is configured, and what is said.
#[tokio::test]
async fn a_document_names_no_hosts_inside_that_it_could_not_know() {
    let service = Service::start(|_| Reply::json(200, &json!("here"))).await;
    let port = service.address.port();
    let public = "https://docs.example/openapi.json";
    let own = format!("http://127.0.0.1:{port}");
    let rows = [
        (public, own.clone(), "", Err("inside this network")),
        (public, own.clone(), "127.0.0.1", Ok(())),
        (public, format!("http://localhost:{port}"), "", Err("inside this network")),
        (public, format!("http://localhost:{port}"), "localhost", Ok(())),
        (public, format!("http://[::ffff:127.0.0.1]:{port}"), "", Err("inside this network")),
        (public, format!("http://2130706433:{port}"), "", Err("inside this network")),
        (public, "http://10.255.255.1".to_owned(), "", Err("inside this network")),
        (public, "http://169.254.169.254".to_owned(), "", Err("link-local")),
        ("openapi.json", "http://169.254.169.254".to_owned(), "", Err("link-local")),
        ("openapi.json", "http://[fe80::1]".to_owned(), "", Err("link-local")),
        ("openapi.json", own.clone(), "", Ok(())),
        ("http://127.0.0.1:1/openapi.json", own.clone(), "", Ok(())),
    ];
    for (document, server, hosts, expected) in rows {
        let row = format!("{document} {server} {hosts}");
        let mut settings = settings();
        settings.document = Location::of(document);
        settings.hosts.extend(Some(hosts.to_owned()).filter(|host| !host.is_empty()));
        let rig = Rig::new(&server, &usual_paths(), settings);
        let before = service.count();
        let called = rig.call("write", json!({})).await;
        match expected {
            Ok(()) => assert_eq!(called.unwrap().data, "here", "{row}"),
            Err(words) => {
                let error = says(called, "EXECUTION_ERROR", &[words, "`hosts`"]);
                assert!(!error.may_have_run(), "{row}");
                assert_eq!(service.count(), before, "{row}");
            }
        }
    }
}

/// A server that the configuration names instead of the document's needs no further leave.
#[tokio::test]
async fn the_configured_server_is_called_instead() {
    let service = Service::start(|seen| Reply::json(200, &json!(seen.path))).await;
    let mut settings = settings();
    settings.document = Location::of("https://docs.example/openapi.json");
    settings.server.address = Some(format!("{}/base/", service.origin).parse().unwrap());
    let rig = Rig::usual("https://api.example", settings);
    let envelope = rig.call("read", json!({})).await.unwrap();
    assert_eq!(envelope.data, Value::from("/base/"));
}
