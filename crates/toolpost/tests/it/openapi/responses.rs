//! Bodies, statuses and headers.

use futures::future::join_all;
use serde_json::{Value, json};
use toolpost::{Authority, CallRequest, Meta};

use super::fixture::{Fixture, TestReply, TestService, assert_error, settings};

fn pet_schema() -> Value {
    json!({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})
}

fn paths() -> Value {
    let content = |schema: Value| json!({"application/json": {"schema": schema}});
    json!({"/": {"get": {"operationId": "read", "responses": {
        "200": {"description": "a pet", "content": {
            "application/json": {"schema": pet_schema()},
            "text/plain": {"schema": {"type": "string"}},
            "image/png": {},
        }},
        "201": {"description": "a name", "content": content(json!({"type": "string"}))},
        "204": {"description": "nothing"},
        "404": {"description": "no pet", "content": content(json!({"type": "object"}))},
        "4XX": {"description": "your fault"},
        "default": {"description": "an error", "content": content(json!({"type": "object", "properties": {"message": {}}}))},
    }}}})
}

#[tokio::test]
async fn response_body_is_decoded_by_content_type() {
    let json_type = "application/json";
    let rows: Vec<(u16, &str, &[u8], Value, &[&str])> = vec![
        (200, json_type, b"{\"id\": 7}", json!({"id": 7}), &[]),
        (200, "application/problem+json; charset=utf-8", b"{\"id\": 7}", json!({"id": 7}), &[]),
        (200, json_type, b"{\"id\": \"7\", \"more\": 1}", json!({"id": 7}), &[]),
        (200, json_type, b"{}", json!({}), &["required"]),
        (200, json_type, b"{oops", json!("{oops"), &["the content type is JSON"]),
        (200, json_type, b"", Value::Null, &["not of type"]),
        (200, "text/plain", b"hello", json!("hello"), &[]),
        (200, "text/plain; charset=iso-8859-1", b"gr\xfc\xdfe", json!("grüße"), &[]),
        (
            200,
            "image/png",
            b"\x89PNG",
            json!({"$binary": "iVBORw==", "contentType": "image/png", "size": 4}),
            &[],
        ),
        (200, "text/html", b"<p>", json!("<p>"), &["which the document does not declare"]),
        (201, json_type, b"\"Rex\"", json!("Rex"), &[]),
        (202, json_type, b"{\"free\": true}", json!({"free": true}), &[]),
        (204, "", b"", Value::Null, &[]),
    ];
    join_all(rows.into_iter().map(async |(status, kind, body, expected, warnings)| {
        let (kind, body) = (kind.to_owned(), body.to_vec());
        let row = format!("{status} {kind} {}", String::from_utf8_lossy(&body));
        let reply = move || match kind.is_empty() {
            true => TestReply::Response(status, Vec::new(), body.clone()),
            false => TestReply::typed(status, &kind, body.clone()),
        };
        let service = TestService::start(move |_| reply()).await;
        let fixture = Fixture::new(&service.origin, &paths(), settings());
        let request = CallRequest::new("x.read", json!({}));
        let outcome = fixture.pipeline.call(request, Authority::untrusted(None)).await.unwrap();
        let actual: Vec<String> =
            outcome.warnings().iter().map(|warning| warning.message.clone()).collect();
        assert_eq!(actual.len(), warnings.len(), "{row}: {actual:?}");
        for (actual, expected) in actual.iter().zip(warnings) {
            assert!(actual.contains(expected), "{row}: {actual}");
        }
        let Meta::Http(meta) = &outcome.envelope.meta else { panic!("{row}") };
        assert_eq!(meta.status_code, status, "{row}");
        assert_eq!(outcome.envelope.data.into_value().unwrap(), expected, "{row}");
    }))
    .await;
}

#[tokio::test]
async fn response_headers_are_kept_in_meta_with_set_cookie_list() {
    let service = TestService::start(|_| {
        TestReply::json(200, &json!({"id": 1}))
            .with_header("x-one", "a")
            .with_header("X-One", "b")
            .with_header("set-cookie", "a=1; Path=/")
            .with_header("set-cookie", "b=2")
    })
    .await;
    let fixture = Fixture::new(&service.origin, &paths(), settings());
    let envelope = fixture.call("read", json!({})).await.unwrap();
    let meta = serde_json::to_value(&envelope.meta).unwrap();
    assert_eq!(meta["source"], "http");
    assert_eq!(meta["statusCode"], 200);
    assert_eq!(meta["contentType"], "application/json");
    assert_eq!(meta["headers"]["x-one"], "a, b");
    assert_eq!(meta["headers"].get("set-cookie"), None);
    assert_eq!(meta["setCookie"], json!(["a=1; Path=/", "b=2"]));
    let seen = service.requests();
    assert_eq!(
        seen[0].header("accept"),
        Some("application/json, text/plain;q=0.8, image/png;q=0.8, */*;q=0.1")
    );
    for packing in ["gzip", "br", "zstd"] {
        assert!(seen[0].header("accept-encoding").unwrap().contains(packing));
    }
}

#[tokio::test]
async fn error_status_returns_error_with_status_headers_and_body() {
    let rows = [
        (
            404,
            "application/json",
            r#"{"message": "no such pet", "id": 7}"#,
            "HTTP_404",
            "HTTP 404 Not Found: no such pet",
            false,
        ),
        (
            409,
            "application/problem+json",
            r#"{"title": "Conflict", "detail": "taken"}"#,
            "HTTP_4XX",
            "HTTP 409 Conflict: taken",
            false,
        ),
        (429, "text/plain", "slow down", "HTTP_4XX", "HTTP 429 Too Many Requests: slow down", true),
        (
            500,
            "text/html",
            "<html><h1>Oops</h1></html>",
            "HTTP_ERROR",
            "HTTP 500 Internal Server Error: Oops",
            false,
        ),
        (503, "application/json", "{}", "HTTP_ERROR", "HTTP 503 Service Unavailable", true),
        (304, "application/json", "", "HTTP_ERROR", "HTTP 304 Not Modified", false),
        (399, "application/json", "null", "HTTP_ERROR", "HTTP 399", false),
    ];
    join_all(rows.map(async |(status, kind, body, code, message, is_retryable)| {
        let service = TestService::start(move |_| TestReply::typed(status, kind, body)).await;
        let mut settings = settings();
        settings.client.retry.retries = 0;
        let fixture = Fixture::new(&service.origin, &paths(), settings);
        let error = fixture.call("read", json!({})).await.unwrap_err();
        assert_eq!((error.code().as_str(), error.message()), (code, message));
        assert_eq!(error.is_retryable(), is_retryable, "{message}");
        let details = error.details().unwrap();
        assert_eq!(details["statusCode"], status);
        assert_eq!(details["headers"]["content-type"], kind);
        let parsed = match body {
            "" => Value::Null,
            body => serde_json::from_str(body).unwrap_or_else(|_| json!(body)),
        };
        assert_eq!(details["body"], parsed, "{message}");
        assert_eq!(service.request_count(), 1);
    }))
    .await;
}

#[tokio::test]
async fn undeclared_error_status_is_an_execution_error() {
    let service =
        TestService::start(|_| TestReply::json(418, &json!({"error": {"message": "tea"}}))).await;
    let fixture = Fixture::with_default_paths(&service.origin, settings());
    let error = fixture.call("write", json!({"body": 1})).await;
    let error = assert_error(error, "EXECUTION_ERROR", &["HTTP 418", "tea"]);
    assert!(error.may_have_run() && !error.is_retryable());
}
