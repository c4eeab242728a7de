//! Frames that are too large for their receiver.

use serde_json::json;
use toolpost::hub::Spoke;
use toolpost::transport::WsConnector;
use toolpost::{HandlerError, Operation};
use toolpost_gateway::GatewaySettings;

use super::{TestGateway, call_data, caller, with_timeout};

#[tokio::test(flavor = "multi_thread")]
async fn oversized_frame_fails_one_call_and_keeps_connections() {
    let mut settings = GatewaySettings::default();
    settings.websocket.max_frame_bytes = 4_000;
    let websocket = settings.websocket;
    let gateway = TestGateway::start_with([], settings).await;
    let length = async |text: String| Ok::<_, HandlerError>(text.len());
    let repeat = async |times: usize| Ok::<_, HandlerError>("x".repeat(times));
    let session = Spoke::new("box")
        .operation(Operation::query("text.length", length).build().unwrap())
        .unwrap()
        .operation(Operation::query("text.repeat", repeat).build().unwrap())
        .unwrap()
        .connect(WsConnector::with_settings(&gateway.hub_url(), None, websocket).unwrap());
    with_timeout("registering", session.ready()).await.unwrap();
    let client = caller(&gateway, None).await;

    // The hub accepts the request, but the fields that it adds make the request exceed the frame
    // limit.
    let growing = (3_600..3_990).step_by(10);
    let mut rejected = 0;
    for size in growing {
        match call_data(&client, "box.text.length", json!("x".repeat(size))).await {
            Ok(length) => assert_eq!(length, json!(size)),
            Err(error) => {
                assert!(error.contains("VALIDATION_ERROR"), "{size}: {error}");
                rejected += 1;
                break;
            }
        }
    }
    assert_eq!(rejected, 1, "one size is too large for the spoke but not for the hub");
    assert_eq!(call_data(&client, "box.text.length", json!("still there")).await, Ok(json!(11)));

    // A response that is too large for the hub.
    let response = call_data(&client, "box.text.repeat", json!(5_000)).await;
    assert_eq!(response, Err("EXECUTION_ERROR".to_owned()));
    assert_eq!(call_data(&client, "box.text.length", json!("and here")).await, Ok(json!(8)));
    session.close().await;
    gateway.stop().await;
}
