//! Hub and spokes in one process: registration, forwarding, disconnect and reconnect.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use toolpost::connection::{
    Client, Connection, ConnectionSettings, IncomingRequests, ReconnectSettings,
};
use toolpost::hub::{Hub, HubSettings, Spoke};
use toolpost::transport::{MemoryConnector, memory_pair};
use toolpost::{CallRequest, HandlerError, Identity, Operation, Pipeline, Registry};

fn hub() -> Hub {
    Hub::new(Pipeline::new(Registry::new()), HubSettings::default())
}

/// A connector whose channels the hub accepts as `identity`.
fn connector(hub: &Hub, identity: &str) -> MemoryConnector {
    let (connector, mut links) = MemoryConnector::new();
    let (hub, identity) = (hub.clone(), Arc::new(Identity::new(identity)));
    tokio::spawn(async move {
        while let Some(link) = links.recv().await {
            hub.accept(link, Arc::clone(&identity));
        }
    });
    connector
}

fn caller(hub: &Hub, identity: &str) -> Client {
    let (ours, theirs) = memory_pair();
    hub.accept(theirs, Arc::new(Identity::new(identity)));
    let (client, connection) =
        Connection::new(ours, IncomingRequests::Reject, ConnectionSettings::default());
    tokio::spawn(connection.run());
    client
}

fn spoke(name: &str) -> Spoke {
    let double = async |n: i64| Ok::<_, HandlerError>(n * 2);
    let count = |n: i64| futures::stream::iter((0..n).map(Ok::<_, HandlerError>));
    let mut settings = ReconnectSettings::default();
    settings.min_backoff = Duration::from_millis(1);
    Spoke::new(name)
        .settings(settings)
        .operation(Operation::query("math.double", double).build().unwrap())
        .unwrap()
        .operation(Operation::subscription("math.count", count).build().unwrap())
        .unwrap()
}

async fn data(client: &Client, operation: &str, input: Value) -> Result<Value, String> {
    let response = client.call_json(operation, input).await;
    response.map(|envelope| envelope.data).map_err(|error| error.code().to_string())
}

#[tokio::test]
async fn spoke_operations_callable_while_connected() {
    let hub = hub();
    let session = spoke("box").connect(connector(&hub, "box"));
    session.ready().await.unwrap();
    let client = caller(&hub, "caller");

    assert_eq!(data(&client, "box.math.double", json!(21)).await, Ok(json!(42)));
    let through_hub = json!({"id": "box.math.double", "input": 4});
    assert_eq!(data(&client, "hub.call", through_hub).await, Ok(json!(8)));
    let values = client.subscribe(CallRequest::new("box.math.count", json!(100_000)));
    assert_eq!(values.filter(|value| std::future::ready(value.is_ok())).count().await, 100_000);

    session.close().await;
    assert_eq!(data(&client, "box.math.double", json!(1)).await, Err("UNAVAILABLE".to_owned()));
    let listed = data(&client, "hub.list", json!({"namespace": "box"})).await.unwrap();
    assert_eq!(listed["operations"][0]["status"], "offline", "{listed}");

    let session = spoke("box").connect(connector(&hub, "box"));
    session.ready().await.unwrap();
    assert_eq!(data(&client, "box.math.double", json!(2)).await, Ok(json!(4)));
    assert_eq!(hub.stats().pending, 0);
    assert_eq!(client.pending_count(), 0);
}

#[tokio::test]
async fn closed_hub_rejects_new_connections() {
    let hub = hub();
    hub.close().await;
    let late = caller(&hub, "late");
    tokio::time::timeout(Duration::from_secs(10), late.closed()).await.unwrap();
    assert_eq!(late.close_reason().unwrap().code, 1001);
    tokio::time::timeout(Duration::from_secs(10), hub.close()).await.unwrap();
    assert_eq!(hub.stats().connections, 0);
}
