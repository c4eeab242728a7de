//! Which tools are seen, and how results look, by the choice of the operator or of the client.

use serde_json::{Value, json};
use toolpost::view::{Dialect, Listed};
use toolpost::{HandlerError, Operation};
use toolpost_gateway::GatewaySettings;

use super::super::Running;
use super::{answer, names};

const COMPACT: [&str; 4] = ["hub__call", "hub__list", "hub__schema", "hub__search"];

#[tokio::test]
async fn a_client_chooses_what_is_listed() {
    let mut settings = GatewaySettings::default();
    settings.mcp.compact_above = 30;
    let many = (0..30).map(|number| {
        let echo = async |input: Value| Ok::<_, HandlerError>(input);
        Operation::query(&format!("many.op{number:02}"), echo).build().unwrap()
    });
    let gateway = Running::with(many, settings).await;
    let list = |query: &'static str| answer(gateway.ask(query, "tools/list", &json!({})));
    assert_eq!(names(&list("").await), COMPACT, "there are more than thirty");
    assert_eq!(names(&list("?tools=compact").await), COMPACT);
    let all = list("?tools=all").await;
    let all = names(&all);
    assert!(
        all.contains(&"demo__add") && all.contains(&"many__op29") && all.contains(&"hub__call")
    );
    assert!(!all.contains(&"hub__register"), "it is for peers");
    let one = list("?tools=all&source=demo").await;
    assert_eq!(names(&one), ["add", "clock", "fail", "messy", "note", "slow"]);
    let call = json!({"name": "add", "arguments": {"a": 1, "b": 2}});
    let sum = answer(gateway.ask("?source=demo", "tools/call", &call)).await;
    assert_eq!(sum["result"]["structuredContent"], json!({"sum": 3}));
    for (query, words) in [
        ("?source=nothing", "there is no source `nothing` here"),
        ("?tools=few", "`few` is not one of all, compact, auto"),
        ("?tolls=all", "there are only `tools`, `dialect` and `source`"),
    ] {
        let refused = gateway.ask(query, "tools/list", &json!({})).send().await.unwrap();
        assert_eq!(refused.status(), 400, "{query}");
        let said: Value = refused.json().await.unwrap();
        assert!(said["error"]["message"].as_str().unwrap().contains(words), "{said}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn what_is_not_listed_is_found_and_called_through_the_hub() {
    let mut settings = GatewaySettings::default();
    settings.mcp.tools = Listed::Compact;
    let gateway = Running::with([], settings).await;
    let params =
        json!({"name": "hub__call", "arguments": {"id": "demo.add", "input": {"a": 1, "b": 2}}});
    let called = answer(gateway.ask("", "tools/call", &params)).await;
    assert!(called["result"].to_string().contains(r#""sum":3"#), "{called}");
    gateway.stop().await;
}

#[tokio::test]
async fn results_have_the_dialect_of_the_endpoint_or_of_the_client() {
    let mut settings = GatewaySettings::default();
    settings.mcp.dialect = Dialect::Ok;
    let gateway = Running::with([], settings).await;
    let params = json!({"name": "demo__add", "arguments": {"a": 1, "b": 2}});
    for (query, expected) in [
        ("", json!({"ok": true, "data": {"sum": 3}})),
        ("?dialect=data", json!({"sum": 3})),
        ("?dialect=envelope", json!({"sum": 3})),
        ("?dialect=tool-envelope-v1", Value::Null),
    ] {
        let result = &answer(gateway.ask(query, "tools/call", &params)).await["result"];
        let structured = &result["structuredContent"];
        let data = if query.contains("envelope") { &structured["data"] } else { structured };
        assert_eq!(*data, expected, "{query} {result}");
    }
    gateway.stop().await;
}
