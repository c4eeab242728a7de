//! The ways in: each calls, or lists, and tells what came of it in the same words.

use std::fmt;

use manila::view::Listed;
use manila_gateway::McpView;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio_tungstenite::tungstenite::Message;

use super::super::call::{Raw, requested};
use super::super::client;
use super::super::mcp::message;
use super::world::{Operation, Who, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    Post,
    Get,
    Mcp,
    Stdio,
    Hub,
    OpenApi,
}

/// A door, and whether it is asked for `hub.call` instead.
#[derive(Clone, Copy)]
pub(super) struct Way(Door, bool);

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

pub(super) const LISTS: [Door; 5] = [Door::Post, Door::OpenApi, Door::Mcp, Door::Stdio, Door::Hub];

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
    manila::view::tool_name(&id.parse().unwrap())
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
        Door::Get => {
            let pairs = input.as_object().unwrap().iter();
            let pairs = pairs.map(|(name, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                format!("{name}={text}")
            });
            let query: Vec<String> = pairs.collect();
            let url = format!("{}?{}", path(world, id), query.join("&"));
            of_http(with(who, client().get(url)).send().await.unwrap()).await
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

/// The names that are listed; nothing where nobody is let in.
pub(super) async fn list(world: &World, door: Door, who: &Who) -> Option<Vec<String>> {
    let names = |list: &Value, key: &str| -> Vec<String> {
        let list = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
        list.iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
    };
    if who.token.is_none() && !world.is_open {
        return None;
    }
    Some(match door {
        Door::Post => {
            let request = with(who, post(world, "hub.list").json(&json!({})));
            let listed: Value = request.send().await.unwrap().json().await.unwrap();
            names(&listed["operations"], "id")
        }
        Door::OpenApi => {
            let request = with(who, client().get(world.running.url("/openapi.json")));
            let document: Value = request.send().await.unwrap().json().await.unwrap();
            let paths = document["paths"].as_object().unwrap().keys();
            let ids = paths.filter_map(|path| path.strip_prefix("/api/"));
            ids.map(|path| path.replacen('/', ".", 1)).collect()
        }
        Door::Mcp => {
            let response = over_mcp(world, who, "tools/list", &json!({})).await;
            let listed: Value = response.json().await.unwrap();
            names(&listed["result"]["tools"], "name")
        }
        Door::Stdio if who.token.is_some() => {
            let listed = over_streams(world, who, "tools/list", &json!({})).await;
            let listed: Value = serde_json::from_str(&listed).unwrap();
            names(&listed["result"]["tools"], "name")
        }
        Door::Hub => {
            let listed = over_hub(world, who, "hub.list", &json!({})).await.unwrap();
            names(&listed["operations"], "id")
        }
        _ => return None,
    })
}

fn path(world: &World, id: &str) -> String {
    let (namespace, name) = id.split_once('.').unwrap();
    world.running.url(&format!("/api/{namespace}/{name}"))
}

fn post(world: &World, id: &str) -> RequestBuilder {
    client().post(path(world, id))
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

/// What an MCP client is told: a result that is no failure, or one with a code in it.
fn of_text(text: &str) -> String {
    let codes = ["ACCESS_DENIED", "TIMEOUT", "OPERATION_NOT_FOUND", "VALIDATION_ERROR"];
    match codes.into_iter().find(|code| text.contains(code)) {
        Some(code) => code.to_owned(),
        None if text.contains("\"result\"") && !text.contains("\"isError\":true") => "ok".into(),
        None => text.to_owned(),
    }
}

async fn over_mcp(world: &World, who: &Who, method: &str, params: &Value) -> Response {
    let request = client().post(world.running.url("/mcp?tools=all"));
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
    let line = lines.next_line().await.unwrap().unwrap();
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
    loop {
        let text = match peer.message().await {
            Message::Close(Some(frame)) if u16::from(frame.code) == 4401 => {
                return Err("UNAUTHENTICATED".to_owned());
            }
            Message::Text(text) => text,
            other => panic!("not an event: {other:?}"),
        };
        let event: Value = serde_json::from_str(&text).unwrap();
        match event["type"].as_str().unwrap() {
            "call.responded" => return Ok(event["payload"]["output"]["data"].clone()),
            "call.error" => return Err(event["payload"]["code"].as_str().unwrap().to_owned()),
            _ => {}
        }
    }
}
