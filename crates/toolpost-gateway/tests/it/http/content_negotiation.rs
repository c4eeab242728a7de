//! Response headers: content type, compression and `Retry-After`.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use toolpost::{CallError, Handler, HandlerOutput, Operation, OperationKind, OperationSpec};
use toolpost_gateway::GatewaySettings;

use super::methods::echo;
use crate::{TestGateway, client};

const ENVELOPE: &str = "application/vnd.toolpost.envelope+json";

/// Each row: the operation, the `Accept` header, and the expected status and content type.
#[tokio::test]
async fn accept_header_selects_content_type() {
    let gateway = TestGateway::start().await;
    let (json, problem, events) =
        ("application/json", "application/problem+json", "text/event-stream");
    for (operation, accept, status, content_type) in [
        ("add?a=1&b=2", json, 200, json),
        ("add?a=1&b=2", "*/*", 200, json),
        ("add?a=1&b=2", "application/*;q=0.2, text/html", 200, json),
        ("add?a=1&b=2", ENVELOPE, 200, ENVELOPE),
        (
            "add?a=1&b=2",
            "application/json;q=0.1, application/vnd.toolpost.envelope+json",
            200,
            ENVELOPE,
        ),
        ("add?a=1&b=2&envelope=true", json, 200, ENVELOPE),
        ("add?a=1&b=2", events, 406, problem),
        ("add?a=1&b=2", "text/html", 406, problem),
        ("add?a=1&b=2", "application/json;q=0", 406, problem),
        ("clock?count=0", events, 200, events),
        ("clock?count=0", "*/*", 200, events),
        ("clock?count=0", json, 406, problem),
        ("clock?count=0", ENVELOPE, 406, problem),
        // Errors are problems, regardless of `Accept`.
        ("none", "text/html", 404, problem),
        ("fail", json, 409, problem),
    ] {
        let request = client().get(gateway.url(&format!("/api/demo/{operation}")));
        let response = request.header("accept", accept).send().await.unwrap();
        let row = format!("{operation} for {accept}");
        assert_eq!(response.status().as_u16(), status, "{row}");
        assert_eq!(response.headers()["content-type"], content_type, "{row}");
    }
    gateway.stop().await;
}

/// Each row: the number of letters echoed, the `Accept-Encoding` header, and whether the response
/// is compressed.
#[tokio::test]
async fn large_response_is_gzipped_if_accepted() {
    let echo = echo("t.echo", OperationKind::Query, json!(true));
    let gateway = TestGateway::start_with([echo], GatewaySettings::default()).await;
    for (letters, accept, is_packed) in [
        (10_000, Some("gzip, br"), true),
        (500_000, Some("gzip"), true),
        (10, Some("gzip"), false),
        (10_000, None, false),
        (10_000, Some("br"), false),
        (10_000, Some("gzip;q=0"), false),
    ] {
        let text = "ab".repeat(letters / 2);
        let mut request = client().post(gateway.url("/api/t/echo")).json(&text);
        if let Some(accept) = accept {
            request = request.header("accept-encoding", accept);
        }
        let response = request.send().await.unwrap();
        let row = format!("{letters} for {accept:?}");
        let coding = response.headers().get("content-encoding").cloned();
        assert_eq!(coding.is_some_and(|coding| coding == "gzip"), is_packed, "{row}");
        let body = response.bytes().await.unwrap();
        let mut unpacked = Vec::new();
        match is_packed {
            true => drop(GzDecoder::new(&body[..]).read_to_end(&mut unpacked).unwrap()),
            false => unpacked.extend_from_slice(&body),
        }
        assert_eq!(serde_json::from_slice::<Value>(&unpacked).unwrap(), text, "{row}");
    }
    let packed = client().post(gateway.url("/api/t/echo")).header("content-encoding", "gzip");
    let response = packed.body(vec![0x1f, 0x8b, 8]).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 415);
    assert_eq!(response.headers()["accept-encoding"], "identity");
    gateway.stop().await;
}

#[tokio::test]
async fn retryable_errors_have_retry_after() {
    let failing = |code: &'static str| {
        let spec = OperationSpec::new(&format!("t.{code}").parse().unwrap(), OperationKind::Query);
        let handler = Handler::once_fn(move |_, _| async move {
            Err::<HandlerOutput, _>(CallError::new(code.into(), "no").into())
        });
        Operation::from_spec(spec).handler(handler).build().unwrap()
    };
    let rows = [
        ("OVERLOADED", 429, true),
        ("UNAVAILABLE", 503, true),
        ("TIMEOUT", 504, false),
        ("EXECUTION_ERROR", 502, false),
        ("UNKNOWN_ERROR", 500, false),
    ];
    let operations = rows.map(|(code, ..)| failing(code));
    let gateway = TestGateway::start_with(operations, GatewaySettings::default()).await;
    for (code, status, has_retry_after) in rows {
        let response = client().get(gateway.url(&format!("/api/t/{code}"))).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{code}");
        assert_eq!(response.headers().contains_key("retry-after"), has_retry_after, "{code}");
        let problem: Value = response.json().await.unwrap();
        assert_eq!(problem["error"]["code"], code);
    }
    gateway.stop().await;
}
