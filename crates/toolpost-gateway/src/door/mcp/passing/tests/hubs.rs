//! Sources behind another hub.

use std::sync::Arc;

use serde_json::json;
use toolpost::Identity;
use toolpost::hub::{Hub, HubSettings, Spoke};
use toolpost::link::MemoryConnector;
use toolpost::mcp::method_of;
use toolpost::{Pipeline, Registry};

use super::world::{World, said};

#[tokio::test]
async fn resources_and_prompts_come_through_a_hub_as_they_are() {
    let there = World::new()
        .fixed("a", "prompts/list", r#"{"prompts":[{"name":"p","x":[ 1.50 ]}]}"#)
        .failing("b", "prompts/list", said(-32601, "no such method", &json!(null)))
        .telling("a", "prompts/get")
        .failing("b", "prompts/get", said(-32050, "out of paper", &json!({"left": 0})))
        .fixed("b", "resources/read", r#"{"contents":[ 1e2 ],"_meta":{}}"#);
    let hub = Hub::new(Pipeline::new(Registry::new()), HubSettings::default());
    let (connector, mut links) = MemoryConnector::new();
    let accepting = hub.clone();
    tokio::spawn(async move {
        while let Some(link) = links.recv().await {
            accepting.accept(link, Arc::new(Identity::new("far")));
        }
    });
    let session = Spoke::with("far", there.pipeline.registry().clone()).connect(connector);
    session.ready().await.unwrap();

    let catalog = hub.pipeline().registry().catalog();
    let far = catalog.list().iter().filter(|operation| operation.id().namespace() == "far");
    let methods: Vec<_> = far.filter_map(|operation| method_of(operation.spec())).collect();
    assert_eq!(methods.len(), 5, "{methods:?}");
    let mut here = World::of(hub.pipeline().clone());
    for (source, label, uri) in
        [(None, "far.a__", "toolpost:far.b:u"), (Some("far"), "a__", "toolpost:b:u")]
    {
        here.source = source;
        let listed = here.text("prompts/list", json!({})).await.unwrap();
        assert_eq!(listed, format!(r#"{{"prompts":[{{"name":"{label}p","x":[ 1.50 ]}}]}}"#));
        let told = here.value("prompts/get", json!({"name": format!("{label}p")})).await.unwrap();
        assert_eq!(told, json!({"at": "a", "got": {"name": "p"}}));
        let name = format!("{}p", label.replace("a__", "b__"));
        let fault = here.value("prompts/get", json!({"name": name})).await.unwrap_err();
        let found = (fault.code, &*fault.message, fault.data);
        assert_eq!(found, (-32050, "out of paper", Some(json!({"left": 0}))));
        let read = here.text("resources/read", json!({"uri": uri})).await.unwrap();
        assert_eq!(read, r#"{"contents":[ 1e2 ],"_meta":{}}"#);
    }
    session.close().await;
    hub.close().await;
}
