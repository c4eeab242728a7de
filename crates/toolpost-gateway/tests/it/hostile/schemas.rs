//! Hostile schemas and values from every kind of source: other callers are served meanwhile.

#[path = "../../../../toolpost/tests/it/schema_attacks.rs"]
mod attacks;

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolpost::mcp::{HttpSettings, McpSettings, McpSource, McpTransport};
use toolpost::openapi::{DocumentLocation, OpenApiSettings, OpenApiSource};
use toolpost::{
    Handler, HandlerOutput, Operation, OperationKind, OperationSpec, RunningSource, Schema,
    SourceHooks,
};
use toolpost_gateway::GatewaySettings;

use super::super::hub::HubClient;
use super::super::spokes::{TIMEOUT, with_timeout};
use super::super::{TestGateway, client};

/// Calls `demo.add`, which must respond within a bound, however busy the gateway is.
async fn assert_responsive(gateway: &TestGateway, row: &str) {
    let request = client().post(gateway.url("/api/demo/add")).json(&json!({"a": 2, "b": 3}));
    let call = async { request.send().await.unwrap().json::<Value>().await.unwrap() };
    assert_eq!(with_timeout(row, call).await, json!({"sum": 5}), "{row}");
}

/// Calls an operation over HTTP. Returns the status and the body.
async fn call(gateway: &TestGateway, path: &str, input: &Value) -> (StatusCode, String) {
    let request = client().post(gateway.url(path)).json(input);
    let response = with_timeout(path, async {
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    });
    let (status, body) = response.await;
    (StatusCode::from_u16(status).unwrap(), body)
}

/// Returns the message of the error in a response.
fn error_message(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap();
    body["error"]["message"].as_str().unwrap_or_default().to_owned()
}

/// Schemas that no validator should need long for, then one that is over budget.
fn schemas() -> Vec<(&'static str, Value)> {
    let mut all = attacks::small_schemas();
    all.push(("expression tree", attacks::expression_tree()));
    all.push(("over budget", attacks::schema_over_budget()));
    all
}

fn operation(name: &str, input: Value, data: Value) -> Operation {
    let id = format!("box.{name}").parse().unwrap();
    let mut spec = OperationSpec::new(&id, OperationKind::Query);
    spec.input_schema = Schema::new(input).unwrap();
    let handler = Handler::once_fn(move |_, _| {
        let data = data.clone();
        async { Ok(HandlerOutput::dynamic(data)) }
    });
    Operation::from_spec(spec).handler(handler).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_schemas_registered_by_a_spoke_are_harmless() {
    let gateway = TestGateway::start().await;
    let mut spoke = HubClient::connect(gateway.address).await;
    let operations: Vec<Value> = schemas()
        .into_iter()
        .enumerate()
        .map(|(at, (_, schema))| {
            json!({"namespace": "box", "name": format!("op{at}"), "type": "query",
                "inputSchema": schema, "outputSchema": schema})
        })
        .collect();
    let operations = Value::Array(operations);
    let register = spoke.register("box", &operations);
    let (registered, ()) = tokio::join!(
        with_timeout("registering", register),
        assert_responsive(&gateway, "while a spoke registers"),
    );
    let registered = registered.unwrap();
    assert_eq!(registered["refused"], json!([]), "{registered}");
    let over_budget = schemas().len() - 1;
    for at in 0..over_budget {
        let path = format!("/api/box/box.op{at}");
        let input = json!({"tree": attacks::nested_value(20)});
        let (status, body) = call(&gateway, &path, &input).await;
        assert!(status.is_client_error() && body.len() < 40_000, "{path}: {status} {body}");
    }
    // The operation is listed with the reason, and its calls are rejected.
    let listed = call(&gateway, "/api/hub/list", &json!({"namespace": "box"})).await.1;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let id = format!("box.box.op{over_budget}");
    let listed = listed["operations"].as_array().unwrap().iter().find(|one| one["id"] == *id);
    let listed = listed.unwrap_or_else(|| panic!("{id} is not listed"));
    assert_eq!(listed["status"], "unavailable");
    assert!(listed["reason"].as_str().unwrap().contains("over budget"), "{listed}");
    let path = format!("/api/box/box.op{over_budget}");
    let (status, body) = call(&gateway, &path, &json!({})).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
    assert!(error_message(&body).contains("over budget"), "{body}");
    drop(spoke);
    gateway.stop().await;
}

fn json_response(body: &Value) -> Response {
    ([("content-type", "application/json")], body.to_string()).into_response()
}

/// Serves an MCP server whose tools have `schemas()`, and an OpenAPI document.
async fn serve_hostile_source() -> std::net::SocketAddr {
    async fn respond(body: String) -> Response {
        let request: Value = serde_json::from_str(&body).unwrap();
        let result = match request["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "box", "version": "1"},
            }),
            "tools/list" => {
                let tool = |(at, (_, schema)): (usize, (&str, Value))| json!({"name": format!("op{at}"), "inputSchema": schema, "outputSchema": schema});
                json!({"tools": schemas().into_iter().enumerate().map(tool).collect::<Vec<_>>()})
            }
            "ping" => json!({}),
            method if method.starts_with("notifications/") => {
                return StatusCode::ACCEPTED.into_response();
            }
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                let body = json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
                return json_response(&body);
            }
        };
        json_response(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
    }
    let mcp = post(respond).get(|| async { StatusCode::METHOD_NOT_ALLOWED });
    let echo = post(|| async { json_response(&json!({"tree": 1})) });
    let router = Router::new().route("/mcp", mcp);
    let router = (0..schemas().len())
        .fold(router, |router, at| router.route(&format!("/op{at}"), echo.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_tool_list_of_an_mcp_server_is_harmless() {
    let gateway = TestGateway::start().await;
    let address = serve_hostile_source().await;
    let url = format!("http://{address}/mcp").parse().unwrap();
    let settings = McpSettings::new(McpTransport::Http(HttpSettings::new(url)));
    let registry = gateway.gateway.pipeline().registry();
    let source =
        RunningSource::start(registry, McpSource::new("box", settings), SourceHooks::default());
    let (ready, ()) =
        tokio::join!(source.ready(TIMEOUT), assert_responsive(&gateway, "while tools are listed"));
    ready.unwrap();
    for (at, (name, _)) in schemas().into_iter().enumerate() {
        let (status, body) = call(&gateway, &format!("/api/box/op{at}"), &json!({"tree": 1})).await;
        assert!(!status.is_success() && body.len() < 40_000, "{name}: {status} {body}");
        if name == "over budget" {
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
            assert!(error_message(&body).contains("over budget"), "{body}");
        }
    }
    for path in ["/openapi.json", "/health"] {
        let response = client().get(gateway.url(path)).send();
        assert_eq!(with_timeout(path, response).await.unwrap().status(), StatusCode::OK, "{path}");
    }
    source.close().await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_schemas_of_an_openapi_document_are_harmless() {
    let gateway = TestGateway::start().await;
    let address = serve_hostile_source().await;
    let definition = |at: usize| format!("#/components/schemas/s{at}/$defs");
    let moved = |at: usize, schema: &Value| {
        let text = schema.to_string().replace("#/$defs", &definition(at));
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let components: serde_json::Map<String, Value> = schemas()
        .iter()
        .enumerate()
        .map(|(at, (_, schema))| (format!("s{at}"), moved(at, schema)))
        .collect();
    let paths: serde_json::Map<String, Value> = (0..components.len())
        .map(|at| {
            let content = json!({"application/json":
                {"schema": {"$ref": format!("#/components/schemas/s{at}")}}});
            let operation = json!({
                "operationId": format!("op{at}"),
                "requestBody": {"required": true, "content": content},
                "responses": {"200": {"description": "ok", "content": content}},
            });
            (format!("/op{at}"), json!({"post": operation}))
        })
        .collect();
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "box", "version": "1"},
        "servers": [{"url": format!("http://{address}")}],
        "paths": paths,
        "components": {"schemas": components},
    });
    let location = DocumentLocation::Text {
        text: document.to_string().into_bytes(),
        base_url: format!("http://{address}/openapi.json").parse().unwrap(),
    };
    let source = OpenApiSource::new("box", OpenApiSettings::new(location)).unwrap();
    let registry = gateway.gateway.pipeline().registry();
    let source = RunningSource::start(registry, source, SourceHooks::default());
    let (ready, ()) =
        tokio::join!(source.ready(TIMEOUT), assert_responsive(&gateway, "while it is imported"));
    ready.unwrap();
    let calls = async {
        for (at, (name, _)) in schemas().into_iter().enumerate() {
            let input = json!({"body": {"tree": 1}});
            let (status, body) = call(&gateway, &format!("/api/box/op{at}"), &input).await;
            assert!(!status.is_success() && body.len() < 40_000, "{name}: {status} {body}");
            if name == "over budget" {
                assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
            }
        }
    };
    tokio::join!(calls, assert_responsive(&gateway, "while it is called"));
    let response = client().get(gateway.url("/openapi.json")).send();
    assert_eq!(with_timeout("the document", response).await.unwrap().status(), StatusCode::OK);
    source.close().await;
    gateway.stop().await;
}

/// A single worker thread serves another caller while large values are checked.
#[tokio::test]
async fn large_inputs_are_rejected_while_others_are_served() {
    let (schema, input) = attacks::value_over_budget();
    let numbers = json!({"properties": {"list": {"items": {"type": "integer"}}}});
    let gateway = TestGateway::start_with(
        [
            operation("slow", schema, json!(1)),
            operation("numbers", numbers, json!(1)),
            operation("tree", attacks::expression_tree(), json!(1)),
        ],
        GatewaySettings::default(),
    )
    .await;
    let wrong = json!({"list": vec![json!("wrong value"); 200_000]});
    let large = async {
        let (status, body) = call(&gateway, "/api/box/slow", &input).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
        assert!(body.contains("more than 10000000 steps"), "{body}");
    };
    tokio::join!(large, async {
        for _ in 0..5 {
            assert_responsive(&gateway, "while a large input is checked").await;
        }
    });
    let (status, body) = call(&gateway, "/api/box/numbers", &wrong).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(body.len() < 10_000 && body.contains("/list/19"), "{} bytes", body.len());
    let (status, body) = call(&gateway, "/api/box/tree", &attacks::expression_input()).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
    assert!(body.len() < 4_000, "{body}");
    gateway.stop().await;
}

/// A result over budget is returned unchanged, with a warning.
#[tokio::test]
async fn large_output_is_returned_with_a_warning() {
    let (schema, data) = attacks::value_over_budget();
    let mut made = operation("slow", json!({}), data.clone());
    let mut spec = made.spec().clone();
    spec.output_schema = Schema::new(schema).unwrap();
    made = Operation::from_spec(spec).handler(made.handler().unwrap().clone()).build().unwrap();
    let gateway = TestGateway::start_with([made], GatewaySettings::default()).await;
    let pipeline = gateway.gateway.pipeline().clone();
    let request = toolpost::CallRequest::new("box.slow", json!({}));
    let outcome =
        with_timeout("the call", pipeline.call(request, toolpost::Authority::untrusted(None)));
    let outcome = outcome.await.unwrap();
    let warnings: Vec<String> = outcome.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("more than 10000000 steps"), "{warnings:?}");
    assert_eq!(outcome.envelope.into_value().unwrap().data, data);
    gateway.stop().await;
}

/// The deadline of a call also covers the check of its input, which stops.
#[tokio::test]
async fn deadline_stops_the_check_of_a_large_input() {
    let variants: Vec<Value> = (0..1_000)
        .map(|at| json!({"required": [format!("p{at}")], "type": "object"}))
        .chain([json!({"type": "integer"})])
        .collect();
    let schema = json!({"items": {"anyOf": variants}});
    let gateway =
        TestGateway::start_with([operation("slow", schema, json!(1))], GatewaySettings::default())
            .await;
    let pipeline = gateway.gateway.pipeline().clone();
    let request = toolpost::CallRequest::new("box.slow", json!(vec![0; 9_000]))
        .timeout(Duration::from_micros(1));
    let call = pipeline.call(request, toolpost::Authority::untrusted(None));
    let error = with_timeout("the deadline", call).await.unwrap_err();
    assert_eq!(error.code().as_str(), "TIMEOUT", "{error}");
    gateway.stop().await;
}
