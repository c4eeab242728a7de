//! Bodies, statuses and heads.

use futures::future::join_all;
use serde_json::{Value, json};
use toolpost::{Authority, CallRequest, Meta};

use super::rig::{Reply, Rig, Service, says, settings};

fn pet() -> Value {
    json!({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})
}

fn paths() -> Value {
    let content = |schema: Value| json!({"application/json": {"schema": schema}});
    json!({"/": {"get": {"operationId": "read", "responses": {
        "200": {"description": "a pet", "content": {
            "application/json": {"schema": pet()},
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
async fn an_answer_is_what_it_says_it_is() {
    let json_type = "application/json";
    let rows: Vec<(u16, &str, &[u8], Value, &[&str])> = vec![
        (200, json_type, b"{\"id\": 7}", json!({"id": 7}), &[]),
        (200, "application/problem+json; charset=utf-8", b"{\"id\": 7}", json!({"id": 7}), &[]),
        (200, json_type, b"{\"id\": \"7\", \"more\": 1}", json!({"id": 7}), &[]),
        (200, json_type, b"{}", json!({}), &["required"]),
        (200, json_type, b"{oops", json!("{oops"), &["says that this is JSON"]),
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
            true => Reply::Answer(status, Vec::new(), body.clone()),
            false => Reply::typed(status, &kind, body.clone()),
        };
        let service = Service::start(move |_| reply()).await;
        let rig = Rig::new(&service.origin, &paths(), settings());
        let request = CallRequest::new("x.read", json!({}));
        let outcome = rig.pipeline.call(request, Authority::outside(None)).await.unwrap();
        let said: Vec<String> =
            outcome.warnings().iter().map(|warning| warning.message.clone()).collect();
        assert_eq!(said.len(), warnings.len(), "{row}: {said:?}");
        for (said, expected) in said.iter().zip(warnings) {
            assert!(said.contains(expected), "{row}: {said}");
        }
        let Meta::Http(meta) = &outcome.envelope.meta else { panic!("{row}") };
        assert_eq!(meta.status_code, status, "{row}");
        assert_eq!(outcome.envelope.data.into_value().unwrap(), expected, "{row}");
    }))
    .await;
}

#[tokio::test]
async fn heads_are_kept_and_cookies_apart() {
    let service = Service::start(|_| {
        Reply::json(200, &json!({"id": 1}))
            .with("x-one", "a")
            .with("X-One", "b")
            .with("set-cookie", "a=1; Path=/")
            .with("set-cookie", "b=2")
    })
    .await;
    let rig = Rig::new(&service.origin, &paths(), settings());
    let envelope = rig.call("read", json!({})).await.unwrap();
    let meta = serde_json::to_value(&envelope.meta).unwrap();
    assert_eq!(meta["source"], "http");
    assert_eq!(meta["statusCode"], 200);
    assert_eq!(meta["contentType"], "application/json");
    assert_eq!(meta["headers"]["x-one"], "a, b");
    assert_eq!(meta["headers"].get("set-cookie"), None);
    assert_eq!(meta["setCookie"], json!(["a=1; Path=/", "b=2"]));
    let seen = service.seen();
    assert_eq!(
        seen[0].header("accept"),
        Some("application/json, text/plain;q=0.8, image/png;q=0.8, */*;q=0.1")
    );
    for packing in ["gzip", "br", "zstd"] {
        assert!(seen[0].header("accept-encoding").unwrap().contains(packing));
    }
}

#[tokio::test]
async fn what_is_no_success_is_an_error_with_everything_in_it() {
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
        let service = Service::start(move |_| Reply::typed(status, kind, body)).await;
        let mut settings = settings();
        settings.client.retry.retries = 0;
        let rig = Rig::new(&service.origin, &paths(), settings);
        let error = rig.call("read", json!({})).await.unwrap_err();
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
        assert_eq!(service.count(), 1);
    }))
    .await;
}

#[tokio::test]
async fn an_error_that_nobody_declared_is_an_execution_error() {
    let service = Service::start(|_| Reply::json(418, &json!({"error": {"message": "tea"}}))).await;
    let rig = Rig::usual(&service.origin, settings());
    let error = rig.call("write", json!({"body": 1})).await;
    let error = says(error, "EXECUTION_ERROR", &["HTTP 418", "tea"]);
    assert!(error.may_have_run() && !error.is_retryable());
}
