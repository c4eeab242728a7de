//! Secrets do not appear in errors or logs.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;
use toolpost::protocol::Secret;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::fixture::{Fixture, TestReply, TestService, settings};

const PLANTED: &str = "planted-5e6f";

/// Records all log output at every level.
#[derive(Clone, Default)]
struct RecordingSubscriber(Arc<Mutex<String>>);

struct FieldWriter<'a>(&'a mut String);

impl Visit for FieldWriter<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for RecordingSubscriber {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut FieldWriter(&mut self.0.lock().unwrap()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut FieldWriter(&mut self.0.lock().unwrap()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = self.0.lock().unwrap();
        text.push_str(event.metadata().target());
        event.record(&mut FieldWriter(&mut text));
        text.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The services include some that echo the credentials they received.
#[tokio::test(flavor = "current_thread")]
async fn secrets_never_appear_in_errors_logs_or_debug_output() {
    let log = RecordingSubscriber::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    tracing::callsite::rebuild_interest_cache();
    let replies: [fn(&super::fixture::ReceivedRequest) -> TestReply; 7] = [
        |_| TestReply::json(200, &json!(1)),
        |seen| TestReply::json(401, &json!({"message": format!("{:?} is wrong", seen.headers)})),
        |seen| {
            TestReply::json(500, &json!({"you": {"sent": seen.headers}}))
                .with_header("x-echo", seen.header("x-api-key").unwrap())
        },
        |_| TestReply::Close,
        |_| TestReply::redirect(302, "http://elsewhere.example/?x=1"),
        |_| TestReply::json(503, &json!({})),
        |_| TestReply::typed(200, "application/json", "{nonsense"),
    ];
    let mut printed = String::new();
    for reply in replies {
        let service = TestService::start(reply).await;
        let mut settings = settings();
        for (name, value) in [
            ("authorization", format!("Bearer {PLANTED}")),
            ("x-api-key", PLANTED.to_owned()),
            ("cookie", format!("session={PLANTED}")),
        ] {
            settings.credentials.headers.insert(name.to_owned(), Secret::new(value));
        }
        let _ = write!(printed, "{settings:?}");
        let fixture = Fixture::with_default_paths(&service.origin, settings);
        let _ = write!(
            printed,
            "{:?} {:?}",
            fixture.info,
            fixture.pipeline.registry().catalog().get("x.read")
        );
        for operation in ["read", "write"] {
            let called = fixture.call(operation, json!({})).await;
            assert!(service.requests()[0].header("x-api-key") == Some(PLANTED));
            if let Err(error) = called {
                let _ =
                    write!(printed, "{error} {error:?} {}", serde_json::to_string(&error).unwrap());
            }
        }
    }
    // The service messages are included, without the secrets.
    assert!(printed.contains("is wrong") && printed.contains("x-echo"));
    assert!(!printed.contains(PLANTED), "{printed}");
    let log = log.0.lock().unwrap();
    assert!(log.contains("toolpost"), "nothing was logged: {log}");
    assert!(!log.contains(PLANTED), "{log}");
}

/// The service echoes a secret input. The caller receives it in the error, but it is not logged.
#[tokio::test(flavor = "current_thread")]
async fn echoed_secret_input_is_not_logged() {
    let log = RecordingSubscriber::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    let service = TestService::start(|seen| {
        TestReply::json(500, &json!({"message": format!("cannot log in with {}", seen.body)}))
    })
    .await;
    let secret =
        json!({"type": "object", "properties": {"pin": {"type": "string", "writeOnly": true}}});
    let document = json!({
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": service.origin}],
        "paths": {"/": {"post": {"operationId": "login", "requestBody": {
            "required": true, "content": {"application/json": {"schema": secret}}}}}},
    });
    let fixture = Fixture::from_document(&document, settings());
    // `tracing` caches for each event whether a subscriber wants it. A test that registers the event at
    // this moment may cache "no", so the cache is rebuilt and the call is made again.
    let attempts = 50;
    for attempt in 1..=attempts {
        tracing::callsite::rebuild_interest_cache();
        let error = fixture.call("login", json!({"body": {"pin": PLANTED}})).await.unwrap_err();
        assert!(error.to_string().contains(PLANTED), "the service repeats it: {error}");
        let log = log.0.lock().unwrap();
        if log.contains("x.login") {
            assert!(!log.contains(PLANTED), "{log}");
            return;
        }
        assert!(attempt < attempts, "the call was not logged: {log}");
    }
}

/// Each row: the location of an API key, and whether it is configured. The required parameter is
/// optional in the input if the configuration provides it.
#[tokio::test]
async fn credential_parameters_are_optional_in_the_input() {
    for (location, configured) in
        [("header", true), ("query", true), ("cookie", true), ("header", false)]
    {
        let service = TestService::start(|_| TestReply::json(200, &json!({}))).await;
        let parameters = json!([
            {"name": "x-key", "in": location, "required": true, "schema": {"type": "string"}},
            {"name": "id", "in": "query", "required": true, "schema": {"type": "integer"}},
        ]);
        let security = if configured { json!([{"key": []}]) } else { json!([]) };
        let document = json!({
            "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": service.origin}],
            "paths": {"/": {"get": {"operationId": "read", "parameters": parameters, "security": security}}},
            "components": {"securitySchemes": {"key": {"type": "apiKey", "in": location, "name": "x-key"}}},
        });
        let mut settings = settings();
        let key = toolpost::openapi::Credential::ApiKey(Secret::new(PLANTED));
        settings.credentials.schemes.insert("key".to_owned(), key);
        let fixture = Fixture::from_document(&document, settings);
        let read = fixture.pipeline.registry().catalog().get("x.read").unwrap().spec().clone();
        let required = if configured { json!(["id"]) } else { json!(["x-key", "id"]) };
        assert_eq!(read.input_schema.json()["required"], required, "{location}");
        let called = fixture.call("read", json!({"id": 1})).await;
        assert_eq!(called.is_ok(), configured, "{location}: {called:?}");
        if configured {
            let seen = service.requests().remove(0);
            let all = format!("{} {:?}", seen.path, seen.headers);
            assert!(all.contains(PLANTED), "{location}: {all}");
        }
    }
}
