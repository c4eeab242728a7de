//! Passthrough to sources behind another hub.

use std::sync::Arc;

use serde_json::json;
use toolpost::Identity;
use toolpost::hub::{Hub, HubSettings, Spoke};
use toolpost::mcp::method_of;
use toolpost::transport::MemoryConnector;
use toolpost::{Pipeline, Registry};

use super::fixture::{Fixture, server_error};

#[tokio::test]
async fn resources_and_prompts_pass_through_hub_unchanged() {
    let there = Fixture::new()
        .fixed("a", "prompts/list", r#"{"prompts":[{"name":"p","x":[ 1.50 ]}]}"#)
        .failing("b", "prompts/list", server_error(-32601, "no such method", &json!(null)))
        .echoing("a", "prompts/get")
        .failing("b", "prompts/get", server_error(-32050, "out of paper", &json!({"left": 0})))
        .fixed("b", "resources/read", r#"{"contents":[ 1e2 ],"_meta":{}}"#);
    let hub = Hub::new(Pipeline::new(Registry::new()), HubSettings::default());
    let (connector, mut channels) = MemoryConnector::new();
    let accepting = hub.clone();
    tokio::spawn(async move {
        while let Some(channel) = channels.recv().await {
            accepting.accept(channel, Arc::new(Identity::new("far")));
        }
    });
    let session = Spoke::with_registry("far", there.pipeline.registry().clone()).connect(connector);
    session.ready().await.unwrap();

    let catalog = hub.pipeline().registry().catalog();
    let far_operations =
        catalog.list().iter().filter(|operation| operation.id().namespace() == "far");
    let methods: Vec<_> =
        far_operations.filter_map(|operation| method_of(operation.spec())).collect();
    assert_eq!(methods.len(), 5, "{methods:?}");
    let mut here = Fixture::from_pipeline(hub.pipeline().clone());
    for (source, label, uri) in
        [(None, "far.a__", "toolpost:far.b:u"), (Some("far"), "a__", "toolpost:b:u")]
    {
        here.source = source;
        let listed = here.request_text("prompts/list", json!({})).await.unwrap();
        assert_eq!(listed, format!(r#"{{"prompts":[{{"name":"{label}p","x":[ 1.50 ]}}]}}"#));
        let response =
            here.request_json("prompts/get", json!({"name": format!("{label}p")})).await.unwrap();
        assert_eq!(response, json!({"at": "a", "got": {"name": "p"}}));
        let name = format!("{}p", label.replace("a__", "b__"));
        let rpc_error = here.request_json("prompts/get", json!({"name": name})).await.unwrap_err();
        let found = (rpc_error.code, &*rpc_error.message, rpc_error.data);
        assert_eq!(found, (-32050, "out of paper", Some(json!({"left": 0}))));
        let read = here.request_text("resources/read", json!({"uri": uri})).await.unwrap();
        assert_eq!(read, r#"{"contents":[ 1e2 ],"_meta":{}}"#);
    }
    session.close().await;
    hub.close().await;
}
