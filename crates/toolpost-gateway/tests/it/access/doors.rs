//! The ways in: each calls, or lists, and tells what came of it in the same words.

use std::fmt;

use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio_tungstenite::tungstenite::Message;
use toolpost::Kind;
use toolpost::view::Listed;
use toolpost_gateway::McpView;

use super::super::call::{Raw, requested};
use super::super::mcp::message;
use super::world::{OPERATIONS, Operation, Who, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    Post,
    Get,
    Mcp,
    Stdio,
    Hub,
    OpenApi,
    /// `hub.search`, asked for each.
    Search,
    /// `hub.schema`, asked for each.
    Schema,
}

/// A door, and whether it is asked for `hub.call` instead.
#[derive(Clone, Copy)]
pub(super) struct Way(Door, bool);

impl Way {
    /// What becomes of the call of somebody who may.
    pub(super) fn outcome(self, operation: &Operation) -> &'static str {
        match operation.kind {
            // It has one answer, and a subscription has many.
            Kind::Subscription if self.1 => "VALIDATION_ERROR",
            _ => operation.outcome,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{}", self.0, if self.1 { " through hub.call" } else { "" })
    }
}

pub(super) const CALLS: [Way; 9] = [
    Way(Door::Post, false),
    Way(Door::Get, false),
    Way(Door::Mcp, false),
    Way(Door::Stdio, false),
    Way(Door::Hub, false),
    Way(Door::Post, true),
    Way(Door::Mcp, true),
    Way(Door::Stdio, true),
    Way(Door::Hub, true),
];

pub(super) const LISTS: [Door; 7] =
    [Door::Post, Door::OpenApi, Door::Mcp, Door::Stdio, Door::Hub, Door::Search, Door::Schema];

impl Door {
    /// Whether operations are listed that are no tools.
    pub(super) fn lists_all(self) -> bool {
        !matches!(self, Self::Mcp | Self::Stdio)
    }

    /// What an operation is called in its lists.
    pub(super) fn name_of(self, id: &str) -> String {
        match self {
            Self::Mcp | Self::Stdio => tool(id),
            _ => id.to_owned(),
        }
    }
}

fn tool(id: &str) -> String {
    toolpost::view::tool_name(&id.parse().unwrap())
}

/// `ok`, the code of an error, or `UNAUTHENTICATED`; nothing where the way does not lead there.
pub(super) async fn call(
    world: &World,
    Way(door, through): Way,
    who: &Who,
    operation: &Operation,
) -> Option<String> {
    let by_hub = json!({"id": operation.id, "input": operation.input()});
    let (id, input) = match through {
        true => ("hub.call", by_hub),
        false => (operation.id, operation.input()),
    };
    let is_tool = through || operation.is_tool();
    Some(match door {
        Door::Post => of_http(with(who, post(world, id).json(&input)).send().await.unwrap()).await,
        Door::Get if operation.kind != Kind::Mutation => {
            let pairs = input.as_object().unwrap().iter();
            let pairs = pairs.map(|(name, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                format!("{name}={text}")
            });
            let query: Vec<String> = pairs.collect();
            let url = format!("{}?{}", path(world, id), query.join("&"));
            of_http(with(who, world.http.get(url)).send().await.unwrap()).await
        }
        Door::Mcp if is_tool => {
            let params = json!({"name": tool(id), "arguments": input});
            let response = over_mcp(world, who, "tools/call", &params).await;
            match response.status().as_u16() {
                401 => "UNAUTHENTICATED".to_owned(),
                _ => of_text(&response.text().await.unwrap()),
            }
        }
        Door::Stdio if is_tool && who.token.is_some() => {
            let params = json!({"name": tool(id), "arguments": input});
            of_text(&over_streams(world, who, "tools/call", &params).await)
        }
        Door::Hub => {
            over_hub(world, who, id, &input).await.map_or_else(|code| code, |_| "ok".into())
        }
        _ => return None,
    })
}

/// The names that are listed, or `UNAUTHENTICATED`; nothing where the way does not lead there.
pub(super) async fn list(
    world: &World,
    door: Door,
    who: &Who,
) -> Option<Result<Vec<String>, String>> {
    Some(match door {
        Door::Post => {
            let request = with(who, post(world, "hub.list").json(&json!({})));
            let listed = body(request.send().await.unwrap()).await;
            listed.map(|listed| names(&listed["operations"], "id"))
        }
        Door::OpenApi => {
            let request = with(who, world.http.get(world.running.url("/openapi.json")));
            let document = body(request.send().await.unwrap()).await;
            document.map(|document| {
                let paths = document["paths"].as_object().unwrap().keys();
                let ids = paths.filter_map(|path| path.strip_prefix("/api/"));
                ids.map(|path| path.replacen('/', ".", 1)).collect()
            })
        }
        Door::Mcp => {
            let listed = body(over_mcp(world, who, "tools/list", &json!({})).await).await;
            listed.map(|listed| names(&listed["result"]["tools"], "name"))
        }
        Door::Stdio if who.token.is_some() => {
            let listed = over_streams(world, who, "tools/list", &json!({})).await;
            let listed: Value = serde_json::from_str(&listed).unwrap();
            Ok(names(&listed["result"]["tools"], "name"))
        }
        Door::Hub => {
            let listed = over_hub(world, who, "hub.list", &json!({})).await;
            listed.map(|listed| names(&listed["operations"], "id"))
        }
        Door::Search | Door::Schema => asked_for_each(world, door, who).await,
        _ => return None,
    })
}

/// The operations that are found, or described, when they are asked for one by one.
async fn asked_for_each(world: &World, door: Door, who: &Who) -> Result<Vec<String>, String> {
    let mut ids: Vec<&str> = OPERATIONS.iter().map(|operation| operation.id).collect();
    ids.dedup();
    let mut seen = Vec::new();
    for id in ids {
        let is_seen = match door {
            Door::Search => {
                let query = json!({"query": id, "limit": 100});
                let request = with(who, post(world, "hub.search").json(&query));
                let found = body(request.send().await.unwrap()).await?;
                names(&found["operations"], "id").iter().any(|found| found == id)
            }
            _ => {
                let request = with(who, post(world, "hub.schema").json(&json!({"id": id})));
                match of_http(request.send().await.unwrap()).await.as_str() {
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

fn path(world: &World, id: &str) -> String {
    let (namespace, name) = id.split_once('.').unwrap();
    world.running.url(&format!("/api/{namespace}/{name}"))
}

fn post(world: &World, id: &str) -> RequestBuilder {
    world.http.post(path(world, id))
}

fn with(who: &Who, request: RequestBuilder) -> RequestBuilder {
    match &who.token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

async fn of_http(response: Response) -> String {
    match response.status().as_u16() {
        200 => "ok".to_owned(),
        401 => "UNAUTHENTICATED".to_owned(),
        _ => {
            let problem: Value = response.json().await.unwrap();
            problem["error"]["code"].as_str().unwrap_or_else(|| panic!("{problem}")).to_owned()
        }
    }
}

/// What an MCP client is told: a result that is no failure, or one with a code in it. The answer is
/// the last message, whether or not others came before it.
fn of_text(text: &str) -> String {
    let mut messages = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    let answer = messages.rfind(|line| line.starts_with('{')).unwrap_or_default();
    let answer: Value = serde_json::from_str(answer).unwrap_or_else(|_| panic!("{text}"));
    if answer.get("result").is_some_and(|result| result["isError"] != true) {
        return "ok".to_owned();
    }
    let codes =
        ["ACCESS_DENIED", "TIMEOUT", "OPERATION_NOT_FOUND", "VALIDATION_ERROR", "NOT_WAITING"];
    let code = codes.into_iter().find(|code| text.contains(code));
    code.unwrap_or(text).to_owned()
}

async fn over_mcp(world: &World, who: &Who, method: &str, params: &Value) -> Response {
    let request = world.http.post(world.running.url("/mcp?tools=all"));
    let request = request.header("accept", "application/json, text/event-stream");
    with(who, request.json(&message(1, method, params))).send().await.unwrap()
}

/// One client on a pair of streams, for one request.
async fn over_streams(world: &World, who: &Who, method: &str, params: &Value) -> String {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (gateway, identity) = (world.running.gateway.clone(), who.identity.clone());
    let mut view = McpView::default();
    view.tools = Some(Listed::All);
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
        // The values of a stream are told before its end.
        if !line.contains(r#""method":"notifications/"#) {
            break line;
        }
    };
    serving.abort();
    line
}

async fn over_hub(
    world: &World,
    who: &Who,
    operation: &str,
    input: &Value,
) -> Result<Value, String> {
    let mut peer = match &who.token {
        Some(token) => Raw::with_token(world.running.address, token).await,
        None => Raw::connect(world.running.address).await,
    };
    peer.say(&requested("r", operation, input)).await;
    if operation == "gateway.logs" {
        // It tells of calls that end, so one has to.
        peer.say(&requested("other", "demo.add", &json!({"a": 1, "b": 1}))).await;
    }
    loop {
        let text = match peer.message().await {
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
