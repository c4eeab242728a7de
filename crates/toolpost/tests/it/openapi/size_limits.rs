//! Size limits of responses, compressed or not.

use bytes::Bytes;
use data_encoding::BASE64;
use futures::StreamExt;
use futures::future::join_all;
use serde_json::json;
use toolpost::OperationKind;

use super::fixture::{Fixture, TestReply, TestService, assert_error, settings, within_timeout};

/// `{"packed":true}`, compressed and base64-encoded.
const COMPRESSED: [(&str, &str); 3] = [
    ("gzip", "H4sIAAAAAAAAA6tWKkhMzk5NUbIqKSpNrQUAieC13A8AAAA="),
    ("br", "CweAeyJwYWNrZWQiOnRydWV9Aw=="),
    ("zstd", "KLUv/QRYeQAAeyJwYWNrZWQiOnRydWV92TN4Hw=="),
];

/// Spaces, compressed and base64-encoded: 300 KiB, 64 MiB and 4 MiB.
const BOMBS: [(&str, &str); 3] = [
    (
        "gzip",
        "H4sIAAAAAAACA+3BAQ0AAADCoCrvn9IcbkABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADAnwFZZ/RiALAEAA==",
    ),
    (
        "br",
        "y///P/glQOKxQCD3/o///3/wSwDEYRGA7v0f////4JcAiMMCAN37P/7//8EvARCHBQC693/8//+DXwIgDgsAdO//+P//B78EQBwWAOje//H//w9+CYA4LADQvf/L//8//BIAcVgAoHv/Bw==",
    ),
    (
        "zstd",
        "KLUv/QRoTAAACCABAPz/ORACAgAQIAIAECACABAgAgAQIAIAECACABAgAgAQIAIAECACABAgAgAQIAIAECACABAgAgAQIAIAECACABAgAgAQIAIAECACABAgAgAQIAIAECACABAgAgAQIAIAECACABAgAgAQIAIAECACABAgAgAQIAIAECACABAgAwAQIA2ZvPs=",
    ),
];

fn compressed_reply(encoding: &str, text: &str) -> TestReply {
    let body = BASE64.decode(text.as_bytes()).unwrap();
    TestReply::typed(200, "application/json", body).with_header("content-encoding", encoding)
}

#[tokio::test]
async fn compressed_responses_are_decompressed() {
    for (encoding, text) in COMPRESSED {
        let service = TestService::start(move |_| compressed_reply(encoding, text)).await;
        let fixture = Fixture::with_default_paths(&service.origin, settings());
        let envelope = fixture.call("read", json!({})).await.unwrap();
        assert_eq!(envelope.data, json!({"packed": true}), "{encoding}");
    }
}

#[tokio::test]
async fn oversized_responses_are_rejected_without_buffering() {
    let plain =
        |length: usize| move || TestReply::typed(200, "application/json", vec![b' '; length]);
    let endless = || {
        let chunk = Bytes::from(vec![b' '; 16 * 1024]);
        let chunks = futures::stream::repeat_with(move || Ok(chunk.clone()));
        TestReply::Stream(vec![("content-type", "text/plain".to_owned())], chunks.boxed())
    };
    let mut rows: Vec<(&str, Box<dyn Fn() -> TestReply + Send + Sync>, bool)> = vec![
        ("as large as allowed", Box::new(plain(100 * 1024)), true),
        ("one byte too many", Box::new(plain(100 * 1024 + 1)), false),
        ("endless", Box::new(endless), false),
    ];
    for (encoding, text) in BOMBS {
        rows.push((encoding, Box::new(move || compressed_reply(encoding, text)), false));
    }
    join_all(rows.into_iter().map(async |(name, reply, fits)| {
        let service = TestService::start(move |_| reply()).await;
        let mut settings = settings();
        settings.client.response_bytes = 100 * 1024;
        let fixture = Fixture::with_default_paths(&service.origin, settings);
        let called = within_timeout(fixture.call("read", json!({}))).await;
        assert_eq!(called.is_ok(), fits, "{name}: {called:?}");
        if !fits {
            assert_error(called, "EXECUTION_ERROR", &["102400 bytes", "response_bytes"]);
        }
        // A response that is too large is not requested again.
        assert_eq!(service.request_count(), 1, "{name}");
    }))
    .await;
}

#[tokio::test]
async fn corrupt_compressed_response_is_reported() {
    let service = TestService::start(|_| {
        compressed_reply("gzip", "H4sIAAAAAAAAA6tWKkhMzk5NUbIqKSpN//////8=")
    })
    .await;
    let fixture = Fixture::with_default_paths(&service.origin, settings());
    assert_error(
        fixture.call("read", json!({})).await,
        "EXECUTION_ERROR",
        &["cannot be decompressed"],
    );
}

#[tokio::test]
async fn empty_responses_are_not_decompressed() {
    let paths = json!({"/": {"head": {"operationId": "look", "responses": {"200": {"description": "ok"}}}}});
    for status in [200, 204] {
        let service = TestService::start(move |_| {
            TestReply::Response(
                status,
                vec![("content-encoding", "gzip".to_owned()), ("x-y", "z".to_owned())],
                Vec::new(),
            )
        })
        .await;
        let fixture = Fixture::new(&service.origin, &paths, settings());
        assert_eq!(
            fixture.pipeline.registry().catalog().get("x.look").unwrap().spec().kind,
            OperationKind::Query
        );
        let envelope = fixture.call("look", json!({})).await.unwrap();
        assert!(envelope.data.is_null(), "{status}");
        let meta = serde_json::to_value(&envelope.meta).unwrap();
        assert_eq!(meta["headers"]["x-y"], "z");
    }
}

#[tokio::test]
async fn oversized_response_headers_are_rejected() {
    let service = TestService::start(|_| {
        TestReply::json(200, &json!(1)).with_header("x-large", &"x".repeat(80 * 1024))
    })
    .await;
    let fixture = Fixture::with_default_paths(&service.origin, settings());
    assert_error(
        fixture.call("read", json!({})).await,
        "EXECUTION_ERROR",
        &["65536 bytes", "header_bytes"],
    );
}
