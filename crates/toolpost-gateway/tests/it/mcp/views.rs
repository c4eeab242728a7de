//! Listed tools and result dialects, selected by the operator or by the client.

use serde_json::{Value, json};
use toolpost::view::{Dialect, ListMode};
use toolpost::{HandlerError, Operation};
use toolpost_gateway::GatewaySettings;

use super::super::TestGateway;
use super::{response_json, tool_names};

const COMPACT: [&str; 4] = ["hub__call", "hub__list", "hub__schema", "hub__search"];

#[tokio::test]
async fn view_query_selects_listed_tools() {
    let mut settings = GatewaySettings::default();
    settings.mcp.compact_above = 30;
    let many = (0..30).map(|number| {
        let echo = async |input: Value| Ok::<_, HandlerError>(input);
        Operation::query(&format!("many.op{number:02}"), echo).build().unwrap()
    });
    let gateway = TestGateway::start_with(many, settings).await;
    let list = |query: &'static str| {
        response_json(gateway.legacy_request(query, "tools/list", &json!({})))
    };
    assert_eq!(tool_names(&list("").await), COMPACT, "there are more than thirty");
    assert_eq!(tool_names(&list("?tools=compact").await), COMPACT);
    let all = list("?tools=all").await;
    let all = tool_names(&all);
    assert!(
        all.contains(&"demo__add") && all.contains(&"many__op29") && all.contains(&"hub__call")
    );
    assert!(!all.contains(&"hub__register"), "the operation is only for peers");
    let one = list("?tools=all&source=demo").await;
    assert_eq!(tool_names(&one), ["add", "clock", "fail", "messy", "note", "slow"]);
    let call = json!({"name": "add", "arguments": {"a": 1, "b": 2}});
    let sum = response_json(gateway.legacy_request("?source=demo", "tools/call", &call)).await;
    assert_eq!(sum["result"]["structuredContent"], json!({"sum": 3}));
    for (query, text) in [
        ("?source=nothing", "unknown source `nothing`"),
        ("?tools=few", "`few` is not one of all, compact, auto"),
        ("?tolls=all", "expected `tools`, `dialect` or `source`"),
    ] {
        let rejected =
            gateway.legacy_request(query, "tools/list", &json!({})).send().await.unwrap();
        assert_eq!(rejected.status(), 400, "{query}");
        let response_body: Value = rejected.json().await.unwrap();
        assert!(
            response_body["error"]["message"].as_str().unwrap().contains(text),
            "{response_body}"
        );
    }
    gateway.stop().await;
}

#[tokio::test]
async fn unlisted_tool_is_callable_through_hub() {
    let mut settings = GatewaySettings::default();
    settings.mcp.tools = ListMode::Compact;
    let gateway = TestGateway::start_with([], settings).await;
    let params =
        json!({"name": "hub__call", "arguments": {"id": "demo.add", "input": {"a": 1, "b": 2}}});
    let called = response_json(gateway.legacy_request("", "tools/call", &params)).await;
    assert!(called["result"].to_string().contains(r#""sum":3"#), "{called}");
    gateway.stop().await;
}

#[tokio::test]
async fn result_dialect_is_configured_or_selected() {
    let mut settings = GatewaySettings::default();
    settings.mcp.dialect = Dialect::Ok;
    let gateway = TestGateway::start_with([], settings).await;
    let params = json!({"name": "demo__add", "arguments": {"a": 1, "b": 2}});
    for (query, expected) in [
        ("", json!({"ok": true, "data": {"sum": 3}})),
        ("?dialect=data", json!({"sum": 3})),
        ("?dialect=envelope", json!({"sum": 3})),
        ("?dialect=tool-envelope-v1", Value::Null),
    ] {
        let result =
            &response_json(gateway.legacy_request(query, "tools/call", &params)).await["result"];
        let structured = &result["structuredContent"];
        let data = if query.contains("envelope") { &structured["data"] } else { structured };
        assert_eq!(*data, expected, "{query} {result}");
    }
    gateway.stop().await;
}
