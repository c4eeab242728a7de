//! Calls and lists operations through each endpoint and returns the outcome in the same form.

use std::fmt;

use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio_tungstenite::tungstenite::Message;
use toolpost::OperationKind;
use toolpost::view::ListMode;
use toolpost_gateway::McpView;

use super::super::hub::{HubClient, request_event};
use super::super::mcp::message;
use super::fixture::{Fixture, OPERATIONS, Operation, TestCaller};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointKind {
    Post,
    Get,
    Mcp,
    Stdio,
    Hub,
    OpenApi,
    /// `hub.search`, called for each operation.
    Search,
    /// `hub.schema`, called for each operation.
    Schema,
}

/// An endpoint, and whether the operation is called through `hub.call`.
#[derive(Clone, Copy)]
pub(super) struct CallPath(EndpointKind, bool);

impl CallPath {
    /// Returns the outcome of a call with access.
    pub(super) fn outcome(self, operation: &Operation) -> &'static str {
        match operation.kind {
            // `hub.call` returns one response, and a subscription has many.
            OperationKind::Subscription if self.1 => "VALIDATION_ERROR",
            _ => operation.outcome,
        }
    }
}

impl fmt::Display for CallPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{}", self.0, if self.1 { " through hub.call" } else { "" })
    }
}

pub(super) const CALL_PATHS: [CallPath; 9] = [
    CallPath(EndpointKind::Post, false),
    CallPath(EndpointKind::Get, false),
    CallPath(EndpointKind::Mcp, false),
    CallPath(EndpointKind::Stdio, false),
    CallPath(EndpointKind::Hub, false),
    CallPath(EndpointKind::Post, true),
    CallPath(EndpointKind::Mcp, true),
    CallPath(EndpointKind::Stdio, true),
    CallPath(EndpointKind::Hub, true),
];

pub(super) const LIST_ENDPOINTS: [EndpointKind; 7] = [
    EndpointKind::Post,
    EndpointKind::OpenApi,
    EndpointKind::Mcp,
    EndpointKind::Stdio,
    EndpointKind::Hub,
    EndpointKind::Search,
    EndpointKind::Schema,
];

impl EndpointKind {
    /// Whether operations that are not tools are listed.
    pub(super) fn lists_non_tools(self) -> bool {
        !matches!(self, Self::Mcp | Self::Stdio)
    }

    /// Returns the name of an operation in the list of this endpoint.
    pub(super) fn name_of(self, id: &str) -> String {
        match self {
            Self::Mcp | Self::Stdio => tool_name(id),
            _ => id.to_owned(),
        }
    }
}

fn tool_name(id: &str) -> String {
    toolpost::view::tool_name(&id.parse().unwrap())
}

/// Returns `ok`, an error code or `UNAUTHENTICATED`; `None` if the endpoint does not support this
/// call.
pub(super) async fn call(
    fixture: &Fixture,
    CallPath(endpoint, through): CallPath,
    caller: &TestCaller,
    operation: &Operation,
) -> Option<String> {
    let by_hub = json!({"id": operation.id, "input": operation.input()});
    let (id, input) = match through {
        true => ("hub.call", by_hub),
        false => (operation.id, operation.input()),
    };
    let is_tool = through || operation.is_tool();
    Some(match endpoint {
        EndpointKind::Post => {
            http_outcome(with_token(caller, post(fixture, id).json(&input)).send().await.unwrap())
                .await
        }
        EndpointKind::Get if operation.kind != OperationKind::Mutation => {
            let pairs = input.as_object().unwrap().iter();
            let pairs = pairs.map(|(name, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                format!("{name}={text}")
            });
            let query: Vec<String> = pairs.collect();
            let url = format!("{}?{}", path(fixture, id), query.join("&"));
            http_outcome(with_token(caller, fixture.http.get(url)).send().await.unwrap()).await
        }
        EndpointKind::Mcp if is_tool => {
            let params = json!({"name": tool_name(id), "arguments": input});
            let response = mcp_request(fixture, caller, "tools/call", &params).await;
            match response.status().as_u16() {
                401 => "UNAUTHENTICATED".to_owned(),
                _ => mcp_outcome(&response.text().await.unwrap()),
            }
        }
        EndpointKind::Stdio if is_tool && caller.token.is_some() => {
            let params = json!({"name": tool_name(id), "arguments": input});
            mcp_outcome(&stdio_request(fixture, caller, "tools/call", &params).await)
        }
        EndpointKind::Hub => {
            hub_call(fixture, caller, id, &input).await.map_or_else(|code| code, |_| "ok".into())
        }
        _ => return None,
    })
}

/// Returns the listed names or `UNAUTHENTICATED`; `None` if the endpoint does not support this
/// list.
pub(super) async fn list(
    fixture: &Fixture,
    endpoint: EndpointKind,
    caller: &TestCaller,
) -> Option<Result<Vec<String>, String>> {
    Some(match endpoint {
        EndpointKind::Post => {
            let request = with_token(caller, post(fixture, "hub.list").json(&json!({})));
            let listed = body(request.send().await.unwrap()).await;
            listed.map(|listed| names(&listed["operations"], "id"))
        }
        EndpointKind::OpenApi => {
            let request =
                with_token(caller, fixture.http.get(fixture.running.url("/openapi.json")));
            let document = body(request.send().await.unwrap()).await;
            document.map(|document| {
                let paths = document["paths"].as_object().unwrap().keys();
                let ids = paths.filter_map(|path| path.strip_prefix("/api/"));
                ids.map(|path| path.replacen('/', ".", 1)).collect()
            })
        }
        EndpointKind::Mcp => {
            let listed = body(mcp_request(fixture, caller, "tools/list", &json!({})).await).await;
            listed.map(|listed| names(&listed["result"]["tools"], "name"))
        }
        EndpointKind::Stdio if caller.token.is_some() => {
            let listed = stdio_request(fixture, caller, "tools/list", &json!({})).await;
            let listed: Value = serde_json::from_str(&listed).unwrap();
            Ok(names(&listed["result"]["tools"], "name"))
        }
        EndpointKind::Hub => {
            let listed = hub_call(fixture, caller, "hub.list", &json!({})).await;
            listed.map(|listed| names(&listed["operations"], "id"))
        }
        EndpointKind::Search | EndpointKind::Schema => {
            visible_one_by_one(fixture, endpoint, caller).await
        }
        _ => return None,
    })
}

/// Returns the operations that are found or described when queried one by one.
async fn visible_one_by_one(
    fixture: &Fixture,
    endpoint: EndpointKind,
    caller: &TestCaller,
) -> Result<Vec<String>, String> {
    let mut ids: Vec<&str> = OPERATIONS.iter().map(|operation| operation.id).collect();
    ids.dedup();
    let mut seen = Vec::new();
    for id in ids {
        let is_seen = match endpoint {
            EndpointKind::Search => {
                let query = json!({"query": id, "limit": 100});
                let request = with_token(caller, post(fixture, "hub.search").json(&query));
                let found = body(request.send().await.unwrap()).await?;
                names(&found["operations"], "id").iter().any(|found| found == id)
            }
            _ => {
                let request =
                    with_token(caller, post(fixture, "hub.schema").json(&json!({"id": id})));
                match http_outcome(request.send().await.unwrap()).await.as_str() {
                    "ok" => true,
                    "ACCESS_DENIED" => false,
                    other => return Err(other.to_owned()),
                }
            }
        };
        seen.extend(is_seen.then(|| id.to_owned()));
    }
    Ok(seen)
}

fn names(list: &Value, key: &str) -> Vec<String> {
    let list = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    list.iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
}

async fn body(response: Response) -> Result<Value, String> {
    match response.status().as_u16() {
        401 => Err("UNAUTHENTICATED".to_owned()),
        _ => Ok(response.json().await.unwrap()),
    }
}

fn path(fixture: &Fixture, id: &str) -> String {
    let (namespace, name) = id.split_once('.').unwrap();
    fixture.running.url(&format!("/api/{namespace}/{name}"))
}

fn post(fixture: &Fixture, id: &str) -> RequestBuilder {
    fixture.http.post(path(fixture, id))
}

fn with_token(caller: &TestCaller, request: RequestBuilder) -> RequestBuilder {
    match &caller.token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

async fn http_outcome(response: Response) -> String {
    match response.status().as_u16() {
        200 => "ok".to_owned(),
        401 => "UNAUTHENTICATED".to_owned(),
        _ => {
            let problem: Value = response.json().await.unwrap();
            problem["error"]["code"].as_str().unwrap_or_else(|| panic!("{problem}")).to_owned()
        }
    }
}

/// Returns the outcome of an MCP call: `ok`, or the error code. The response is the last message;
/// others may precede it.
fn mcp_outcome(text: &str) -> String {
    let mut messages = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    let response = messages.rfind(|line| line.starts_with('{')).unwrap_or_default();
    let response: Value = serde_json::from_str(response).unwrap_or_else(|_| panic!("{text}"));
    if response.get("result").is_some_and(|result| result["isError"] != true) {
        return "ok".to_owned();
    }
    let codes =
        ["ACCESS_DENIED", "TIMEOUT", "OPERATION_NOT_FOUND", "VALIDATION_ERROR", "NOT_PENDING"];
    let code = codes.into_iter().find(|code| text.contains(code));
    code.unwrap_or(text).to_owned()
}

async fn mcp_request(
    fixture: &Fixture,
    caller: &TestCaller,
    method: &str,
    params: &Value,
) -> Response {
    let request = fixture.http.post(fixture.running.url("/mcp?tools=all"));
    let request = request.header("accept", "application/json, text/event-stream");
    with_token(caller, request.json(&message(1, method, params))).send().await.unwrap()
}

/// Sends one request over an in-memory stdio connection.
async fn stdio_request(
    fixture: &Fixture,
    caller: &TestCaller,
    method: &str,
    params: &Value,
) -> String {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (gateway, identity) = (fixture.running.gateway.clone(), caller.identity.clone());
    let mut view = McpView::default();
    view.tools = Some(ListMode::All);
    let serving = tokio::spawn(async move {
        let (reader, writer) = tokio::io::split(theirs);
        gateway.serve_mcp(reader, writer, identity, view, std::future::pending()).await
    });
    let (output, mut input) = tokio::io::split(ours);
    let request = format!("{}\n", message(1, method, params));
    input.write_all(request.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(output).lines();
    let line = loop {
        let line = lines.next_line().await.unwrap().unwrap();
        // The values of a stream are sent as notifications before the response.
        if !line.contains(r#""method":"notifications/"#) {
            break line;
        }
    };
    serving.abort();
    line
}

async fn hub_call(
    fixture: &Fixture,
    caller: &TestCaller,
    operation: &str,
    input: &Value,
) -> Result<Value, String> {
    let mut peer = match &caller.token {
        Some(token) => HubClient::with_token(fixture.running.address, token).await,
        None => HubClient::connect(fixture.running.address).await,
    };
    peer.send_json(&request_event("r", operation, input)).await;
    if operation == "gateway.logs" {
        // `gateway.logs` reports calls that end, so the test makes one.
        peer.send_json(&request_event("other", "demo.add", &json!({"a": 1, "b": 1}))).await;
    }
    loop {
        let text = match peer.recv_message().await {
            Message::Close(Some(frame)) if u16::from(frame.code) == 4401 => {
                return Err("UNAUTHENTICATED".to_owned());
            }
            Message::Text(text) => text,
            other => panic!("not an event: {other:?}"),
        };
        let event: Value = serde_json::from_str(&text).unwrap();
        if event["payload"]["requestId"] == "other" {
            continue;
        }
        match event["type"].as_str().unwrap() {
            "call.responded" => return Ok(event["payload"]["output"]["data"].clone()),
            "call.error" => return Err(event["payload"]["code"].as_str().unwrap().to_owned()),
            _ => {}
        }
    }
}
