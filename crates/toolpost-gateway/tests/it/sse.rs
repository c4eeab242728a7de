//! Subscriptions as server-sent events.

mod resume;

use futures::StreamExt;
use serde_json::{Value, json};
use toolpost::{
    Handler, HandlerError, HandlerOutput, Operation, OperationKind, OperationSpec, Schema,
};
use toolpost_gateway::GatewaySettings;

use super::{TestGateway, client};

#[tokio::test]
async fn subscription_streams_values_then_complete() {
    let gateway = TestGateway::start().await;
    let request = client().post(gateway.url("/api/demo/clock"));
    let response = request.json(&json!({"count": 3, "everyMs": 5})).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    let events: Vec<&str> = text.split_terminator("\n\n").collect();
    assert_eq!(events.len(), 4, "{text}");
    for (position, event) in events[..3].iter().enumerate() {
        let (id, data) = event.split_once('\n').unwrap();
        let (stream, number) = id.strip_prefix("id: ").unwrap().split_once('-').unwrap();
        assert_eq!((stream.len(), number), (32, &*(position + 1).to_string()));
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data["tick"], json!(position + 1));
    }
    assert!(events[3].starts_with("event: complete\nid: ") && events[3].ends_with("-4\ndata: {}"));
    gateway.stop().await;
}

#[tokio::test]
async fn events_can_be_envelopes() {
    let gateway = TestGateway::start().await;
    let request = client().post(gateway.url("/api/demo/clock?envelope=true"));
    let text = request
        .json(&json!({"count": 1, "everyMs": 1}))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let envelope: Value = serde_json::from_str(data).unwrap();
    assert_eq!(envelope["meta"]["operationId"], "demo.clock");
    gateway.stop().await;
}

#[tokio::test]
async fn stream_mismatch_is_sent_as_value_and_counted() {
    let mut spec = OperationSpec::new(&"t.feed".parse().unwrap(), OperationKind::Subscription);
    spec.output_schema = Schema::new(json!({"type": "integer"})).unwrap();
    let values = Handler::stream_fn(|_, _| {
        let values = [json!(1), json!("no number"), json!(3)]
            .map(|value| Ok::<_, HandlerError>(HandlerOutput::Data(value.into())));
        futures::stream::iter(values).boxed()
    });
    let feed = Operation::from_spec(spec).handler(values).build().unwrap();
    let gateway = TestGateway::start_with([feed], GatewaySettings::default()).await;
    for form in ["false", "true"] {
        let request = client().get(gateway.url(&format!("/api/t/feed?envelope={form}")));
        let text = request.send().await.unwrap().text().await.unwrap();
        let events: Vec<&str> = text.split_terminator("\n\n").collect();
        let names = events.iter().map(|event| {
            event.lines().find_map(|line| line.strip_prefix("event: ")).unwrap_or_default()
        });
        assert_eq!(names.collect::<Vec<_>>(), ["", "", "", "complete"], "{text}");
        assert!(events[3].ends_with("data: {\"warnings\":1}"), "{text}");
        let message = events[1].lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let message: Value = serde_json::from_str(message).unwrap();
        match form {
            "false" => assert_eq!(message, "no number"),
            _ => assert_eq!(message["data"], "no number"),
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn rejected_subscription_returns_status() {
    let gateway = TestGateway::start().await;
    let request = client().post(gateway.url("/api/demo/clock"));
    let response = request.json(&json!({"everyMs": 0})).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 422);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    gateway.stop().await;
}

#[tokio::test]
async fn idle_stream_sends_keep_alive() {
    let mut settings = GatewaySettings::default();
    settings.heartbeat_interval = std::time::Duration::from_millis(20);
    let gateway = TestGateway::start_with([], settings).await;
    let request = client().post(gateway.url("/api/demo/clock"));
    let response = request.json(&json!({"count": 2, "everyMs": 300})).send().await.unwrap();
    let text = response.text().await.unwrap();
    assert!(text.contains(": keep-alive\n\n"), "{text}");
    assert!(text.contains("event: complete\n") && text.ends_with("-3\ndata: {}\n\n"), "{text}");
    gateway.stop().await;
}

#[tokio::test]
async fn disconnected_client_ends_subscription_after_window() {
    let mut settings = GatewaySettings::default();
    settings.http.resume_window = std::time::Duration::from_millis(20);
    let gateway = TestGateway::start_with([], settings).await;
    let request = client().post(gateway.url("/api/demo/clock"));
    let response = request.json(&json!({"count": 100_000, "everyMs": 5})).send().await.unwrap();
    let mut body = response.bytes_stream();
    body.next().await.unwrap().unwrap();
    assert_eq!(gateway.gateway.pipeline().in_flight(), 1);
    drop(body);
    while gateway.gateway.pipeline().in_flight() > 0 {
        tokio::task::yield_now().await;
    }
    assert!(gateway.stop().await.in_time);
}
