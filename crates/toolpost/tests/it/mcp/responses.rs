//! Malformed and unusual responses to a call.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolpost::mcp::{Elicitation, McpSettings, Root};
use toolpost::{
    Authority, CallRequest, ClientChannel, RespondToServer, ServerRequest, ServerRequestError,
};

use super::fixture::{GENERATIONS, McpFixture, TransportKind, assert_error, transport_matrix};

/// Calls `odd` while another call is in flight; neither that call nor the next one is affected.
async fn call_with_concurrent_call(
    fixture: &McpFixture,
) -> Result<toolpost::Envelope<Value>, toolpost::CallError> {
    let other = fixture.call("sleep", json!({"seconds": 0.3}));
    let (called, slept) = tokio::join!(fixture.call("odd", json!({})), other);
    assert_eq!(slept.unwrap().data[0]["text"], "slept");
    fixture.assert_responsive().await;
    called
}

#[tokio::test]
async fn malformed_stdio_response_is_accepted_in_isolation() {
    let rows = [
        ("plain", "plain"),
        ("twice", "first"),
        ("other-id", "right"),
        ("notifications-first", "done"),
        ("banner", "done"),
        ("batch", "batched"),
        ("string-ids", "plain"),
        ("stderr-flood", "flooded"),
        ("says-error", "no such city"),
    ];
    for generation in GENERATIONS {
        join_all(rows.map(async |(behavior, expected)| {
            let fixture =
                McpFixture::ready(TransportKind::Stdio, &[generation, &[behavior]].concat()).await;
            let envelope = call_with_concurrent_call(&fixture).await.unwrap();
            let written = serde_json::to_value(&envelope).unwrap();
            assert_eq!(
                written["meta"]["content"][0]["text"], expected,
                "{generation:?} {behavior}"
            );
            assert_eq!(envelope.is_error(), behavior == "says-error", "{generation:?} {behavior}");
            assert_eq!(fixture.count("tools/call"), 3, "{generation:?} {behavior}");
            fixture.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn invalid_stdio_response_fails_only_its_call() {
    let rows: [(&str, &str, &str, Value); 5] = [
        (
            "fails",
            "EXECUTION_ERROR",
            "the printer is out of paper",
            json!({"jsonrpcCode": -32050, "data": [1], "mayHaveRun": true}),
        ),
        (
            "bad-params",
            "VALIDATION_ERROR",
            "`size` must be even",
            json!([{"path": "", "message": "`size` must be even", "jsonrpcCode": -32602}]),
        ),
        (
            "no-result",
            "EXECUTION_ERROR",
            "neither a result nor an error",
            json!({"jsonrpcCode": 0, "mayHaveRun": true}),
        ),
        (
            "list-result",
            "EXECUTION_ERROR",
            "`x`: the result cannot be read",
            json!({"mayHaveRun": true}),
        ),
        (
            "bad-utf8",
            "EXECUTION_ERROR",
            "`x`: the response is not valid UTF-8",
            json!({"mayHaveRun": true}),
        ),
    ];
    for generation in GENERATIONS {
        join_all(rows.iter().map(async |(behavior, code, text, details)| {
            let fixture =
                McpFixture::ready(TransportKind::Stdio, &[generation, &[*behavior]].concat()).await;
            let failed = call_with_concurrent_call(&fixture).await;
            let error_details = failed.as_ref().err().and_then(|error| error.details()).cloned();
            assert_eq!(error_details.as_ref(), Some(details), "{behavior}");
            assert_error(failed, code, &[text]);
            fixture.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn tool_result_round_trips_without_loss() {
    join_all(transport_matrix().into_iter().map(async |(transport_kind, generation)| {
        let fixture =
            McpFixture::ready(transport_kind, &[generation, &["every-block"]].concat()).await;
        let envelope = fixture.call("odd", json!({})).await.unwrap();
        let lines = fixture.lines();
        let sent = lines.iter().find_map(|line| line.strip_prefix("result ")).unwrap();
        let sent: Value = serde_json::from_str(sent).unwrap();
        let mut decoded = serde_json::to_value(&envelope.meta).unwrap();
        let members = decoded.as_object_mut().unwrap();
        assert_eq!(members.remove("source"), Some(json!("mcp")));
        assert_eq!(members.remove("operationId"), Some(json!("x.odd")));
        assert!(members.remove("timestamp").unwrap().is_i64());
        assert_eq!(decoded, sent, "{transport_kind:?} {generation:?}");
        assert_eq!(envelope.data, sent["structuredContent"]);
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn unknown_content_block_becomes_text() {
    let fixture = McpFixture::ready(TransportKind::Stdio, &["unknown-block"]).await;
    let envelope = fixture.call("odd", json!({})).await.unwrap();
    let texts: Vec<_> = envelope.data.as_array().unwrap().iter().map(|b| &b["text"]).collect();
    let hologram = json!({"type": "hologram", "data": "AA==", "depth": 3});
    assert_eq!((texts[0], texts[2]), (&json!("before"), &json!("after")));
    let block: Value = serde_json::from_str(texts[1].as_str().unwrap()).unwrap();
    assert_eq!(block, hologram);
    fixture.close().await;
}

#[tokio::test]
async fn server_request_during_call_gets_response() {
    let nothing = json!({"ping": "result", "roots/list": "error", "sampling/createMessage": "error",
        "made/up": "error", "elicitation/create": "error"});
    let both = json!({"ping": "result", "roots/list": "result", "sampling/createMessage": "error",
        "made/up": "error", "elicitation/create": "result"});
    let rows = [
        (TransportKind::Stdio, false, nothing.clone()),
        (TransportKind::Stdio, true, both.clone()),
        (TransportKind::Http, false, nothing),
        (TransportKind::Http, true, both),
    ];
    join_all(rows.map(async |(transport_kind, has_roots, expected)| {
        let configure = |settings: &mut McpSettings| {
            if has_roots {
                settings.roots = vec![Root::new("file:///folder")].into();
                settings.elicitation = Elicitation::Decline;
            }
        };
        let fixture = match transport_kind {
            TransportKind::Stdio => McpFixture::stdio(&["notifications-first"], configure),
            TransportKind::Http => McpFixture::http(&["notifications-first"], configure),
        };
        fixture.server_info().await;
        assert_eq!(fixture.call("odd", json!({})).await.unwrap().data, expected);
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn elicitation_response_follows_settings() {
    let fields = json!({"color": "blue"}).as_object().unwrap().clone();
    let accept = |color: &str| json!({"action": "accept", "content": {"color": color}});
    let rows = [
        (Elicitation::Decline, json!({"action": "decline"})),
        (Elicitation::Cancel, json!({"action": "cancel"})),
        (Elicitation::Defaults, accept("red")),
        (Elicitation::Accept(fields), accept("blue")),
    ];
    for (transport_kind, generation) in transport_matrix() {
        join_all(rows.iter().map(async |(policy, expected)| {
            let arguments = [generation, &["needs-input-politely", "3"]].concat();
            let configure = |settings: &mut McpSettings| settings.elicitation = policy.clone();
            let fixture = match transport_kind {
                TransportKind::Stdio => McpFixture::stdio(&arguments, configure),
                TransportKind::Http => McpFixture::http(&arguments, configure),
            };
            fixture.server_info().await;
            let message: Value =
                serde_json::from_str(&fixture.text("odd", json!({})).await).unwrap();
            let message = if generation.is_empty() { &message["result"] } else { &message };
            assert_eq!(message, expected, "{transport_kind:?} {generation:?} {policy:?}");
            fixture.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn elicitation_without_client_fails_the_call() {
    let rows: [(&[&str], bool, &[&str]); 3] = [
        // The server requests input although the client does not declare the capability.
        (&["--modern", "needs-input"], false, &["`x`", "which color?", "`elicitation`"]),
        (&["--modern", "needs-input-politely"], false, &["elicitation is needed"]),
        (&["--modern", "needs-input", "50"], true, &["`x`", "requested input 10 times"]),
    ];
    join_all(rows.map(async |(arguments, responses, fragments)| {
        let fixture = McpFixture::stdio(arguments, |settings| {
            if responses {
                settings.elicitation = Elicitation::Defaults;
            }
        });
        fixture.server_info().await;
        assert_error(fixture.call("odd", json!({})).await, "EXECUTION_ERROR", fragments);
        fixture.assert_responsive().await;
        fixture.close().await;
    }))
    .await;
    let fixture = McpFixture::ready(TransportKind::Stdio, &["needs-input"]).await;
    let response: Value = serde_json::from_str(&fixture.text("odd", json!({})).await).unwrap();
    let message = response["error"]["message"].as_str().unwrap();
    assert!(message.contains("which color?") && message.contains("`elicitation`"), "{message}");
    fixture.close().await;
}

/// A client that sends the same response to every server request.
struct FixedResponder(Box<RawValue>);

impl RespondToServer for FixedResponder {
    fn client_capabilities(&self) -> &RawValue {
        &self.0
    }

    fn request(
        &self,
        question: ServerRequest,
    ) -> BoxFuture<'static, Result<Box<RawValue>, ServerRequestError>> {
        assert_eq!(&*question.method, "elicitation/create");
        let blue = r#"{"action":"accept","content":{"color":"blue"}}"#;
        std::future::ready(Ok(RawValue::from_string(blue.to_owned()).unwrap())).boxed()
    }
}

/// Calls `odd` with a client that supports elicitation.
async fn call_with_client(fixture: &McpFixture) -> String {
    let abilities = RawValue::from_string(r#"{"elicitation":{}}"#.to_owned()).unwrap();
    let responder = ClientChannel::Live(Arc::new(FixedResponder(abilities)));
    let request = CallRequest::new("x.odd", json!({})).client_channel(Some(responder));
    let called = fixture.pipeline.call(request, Authority::untrusted(None)).await;
    serde_json::to_string(&called.unwrap().envelope.data).unwrap()
}

#[tokio::test]
async fn ambiguous_elicitation_is_not_sent_to_other_caller() {
    join_all(transport_matrix().into_iter().map(async |(transport_kind, generation)| {
        let fixture =
            McpFixture::ready(transport_kind, &[generation, &["needs-input"]].concat()).await;
        assert!(
            call_with_client(&fixture).await.contains("blue"),
            "{transport_kind:?} {generation:?}"
        );
        // Over stdio, a legacy server request does not identify the call it belongs to.
        let is_plain = transport_kind == TransportKind::Http || !generation.is_empty();
        let other = async {
            fixture.scratch.wait_for_line("tools/call", 2).await;
            call_with_client(&fixture).await
        };
        let (_, message) = tokio::join!(fixture.call("sleep", json!({"seconds": 1})), other);
        assert_eq!(
            message.contains("blue"),
            is_plain,
            "{transport_kind:?} {generation:?} {message}"
        );
        assert!(
            is_plain || message.contains("does not accept `elicitation` requests"),
            "{message}"
        );
        fixture.close().await;
    }))
    .await;
}
