//! The MCP endpoint over HTTP and stdio, with clients of every protocol version.

mod calls;
mod list_changed;
mod resource_subscriptions;
mod server_requests;
mod sessions;
mod stdio;
mod views;

use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use super::{TestGateway, client};

/// A version of each protocol generation.
const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

pub(super) fn message(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Adds the `_meta` members that every request of 2026-07-28 has.
fn modern(params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params
}

impl TestGateway {
    fn post(&self, query: &str) -> RequestBuilder {
        let url = self.url(&format!("/mcp{query}"));
        client().post(url).header("accept", "application/json, text/event-stream")
    }

    /// Builds a request of a version before 2026-07-28, without a session.
    fn legacy_request(&self, query: &str, method: &str, params: &Value) -> RequestBuilder {
        self.post(query).json(&message(1, method, params))
    }

    /// Builds a request of 2026-07-28.
    fn modern_request(&self, query: &str, method: &str, params: &Value) -> RequestBuilder {
        let name = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str);
        let request = self.post(query).json(&message(1, method, &modern(params)));
        let request = request.header("mcp-protocol-version", MODERN).header("mcp-method", method);
        match name {
            Some(name) => request.header("mcp-name", name),
            None => request,
        }
    }

    /// Starts a session and returns its id.
    async fn start_session(&self) -> String {
        let hello = json!({"protocolVersion": LEGACY, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let response = self.legacy_request("", "initialize", &hello).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }
}

/// Sends a request and returns its JSON response.
async fn response_json(request: RequestBuilder) -> Value {
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
    response.json().await.unwrap()
}

/// The messages of an event stream, read as they arrive.
pub(super) struct McpEvents {
    response: Response,
    text: String,
}

impl McpEvents {
    pub(super) async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// Returns the next message; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                let message = data.map(|data| serde_json::from_str(data).unwrap());
                self.text = rest.to_owned();
                match message {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            let chunk = self.response.chunk().await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    pub(super) async fn all(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }
}

/// Returns the names of the tools in a `tools/list` response.
fn tool_names(response: &Value) -> Vec<&str> {
    let tools = response["result"]["tools"].as_array().unwrap_or_else(|| panic!("{response}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}
