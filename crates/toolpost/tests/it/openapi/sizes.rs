//! Answers that are too large, packed or not.

use bytes::Bytes;
use data_encoding::BASE64;
use futures::StreamExt;
use futures::future::join_all;
use serde_json::json;
use toolpost::Kind;

use super::rig::{Reply, Rig, Service, says, settings, soon};

/// `{"packed":true}`.
const PACKED: [(&str, &str); 3] = [
    ("gzip", "H4sIAAAAAAAAA6tWKkhMzk5NUbIqKSpNrQUAieC13A8AAAA="),
    ("br", "CweAeyJwYWNrZWQiOnRydWV9Aw=="),
    ("zstd", "KLUv/QRYeQAAeyJwYWNrZWQiOnRydWV92TN4Hw=="),
];

/// Blanks: 300 KiB, 64 MiB and 4 MiB.
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

fn packed(packing: &str, text: &str) -> Reply {
    let body = BASE64.decode(text.as_bytes()).unwrap();
    Reply::typed(200, "application/json", body).with("content-encoding", packing)
}

#[tokio::test]
async fn packed_answers_are_unpacked() {
    for (packing, text) in PACKED {
        let service = Service::start(move |_| packed(packing, text)).await;
        let rig = Rig::usual(&service.origin, settings());
        let envelope = rig.call("read", json!({})).await.unwrap();
        assert_eq!(envelope.data, json!({"packed": true}), "{packing}");
    }
}

#[tokio::test]
async fn what_is_larger_than_the_limit_is_refused_and_never_held() {
    let plain = |length: usize| move || Reply::typed(200, "application/json", vec![b' '; length]);
    let endless = || {
        let chunk = Bytes::from(vec![b' '; 16 * 1024]);
        let chunks = futures::stream::repeat_with(move || Ok(chunk.clone()));
        Reply::Flow(vec![("content-type", "text/plain".to_owned())], chunks.boxed())
    };
    let mut rows: Vec<(&str, Box<dyn Fn() -> Reply + Send + Sync>, bool)> = vec![
        ("as large as allowed", Box::new(plain(100 * 1024)), true),
        ("one byte too many", Box::new(plain(100 * 1024 + 1)), false),
        ("endless", Box::new(endless), false),
    ];
    for (packing, text) in BOMBS {
        rows.push((packing, Box::new(move || packed(packing, text)), false));
    }
    join_all(rows.into_iter().map(async |(name, reply, fits)| {
        let service = Service::start(move |_| reply()).await;
        let mut settings = settings();
        settings.client.response_bytes = 100 * 1024;
        let rig = Rig::usual(&service.origin, settings);
        let called = soon(rig.call("read", json!({}))).await;
        assert_eq!(called.is_ok(), fits, "{name}: {called:?}");
        if !fits {
            says(called, "EXECUTION_ERROR", &["102400 bytes", "response_bytes"]);
        }
        // Too much of an answer is no reason to ask for it again.
        assert_eq!(service.count(), 1, "{name}");
    }))
    .await;
}

#[tokio::test]
async fn a_packed_answer_that_is_broken_says_so() {
    let service =
        Service::start(|_| packed("gzip", "H4sIAAAAAAAAA6tWKkhMzk5NUbIqKSpN//////8=")).await;
    let rig = Rig::usual(&service.origin, settings());
    says(rig.call("read", json!({})).await, "EXECUTION_ERROR", &["cannot be unpacked"]);
}

#[tokio::test]
async fn nothing_is_unpacked_where_there_is_nothing() {
    let paths = json!({"/": {"head": {"operationId": "look", "responses": {"200": {"description": "ok"}}}}});
    for status in [200, 204] {
        let service = Service::start(move |_| {
            Reply::Answer(
                status,
                vec![("content-encoding", "gzip".to_owned()), ("x-y", "z".to_owned())],
                Vec::new(),
            )
        })
        .await;
        let rig = Rig::new(&service.origin, &paths, settings());
        assert_eq!(
            rig.pipeline.registry().catalog().get("x.look").unwrap().spec().kind,
            Kind::Query
        );
        let envelope = rig.call("look", json!({})).await.unwrap();
        assert!(envelope.data.is_null(), "{status}");
        let meta = serde_json::to_value(&envelope.meta).unwrap();
        assert_eq!(meta["headers"]["x-y"], "z");
    }
}

#[tokio::test]
async fn heads_are_limited_too() {
    let service =
        Service::start(|_| Reply::json(200, &json!(1)).with("x-large", &"x".repeat(80 * 1024)))
            .await;
    let rig = Rig::usual(&service.origin, settings());
    says(rig.call("read", json!({})).await, "EXECUTION_ERROR", &["65536 bytes", "header_bytes"]);
}
