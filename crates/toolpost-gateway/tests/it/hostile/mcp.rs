//! Hostile clients of the MCP endpoint.

mod headers;
mod messages;
mod sessions;
mod stdio;
mod streams;

use reqwest::Method;
use serde_json::Value;
use toolpost_gateway::auth::Token;

use super::super::spokes::with_timeout;
use super::{TestGateway, client};

/// A client that sends arbitrary requests.
struct McpTester(reqwest::Client, String);

/// A reply: the status, the JSON-RPC error code if there is one, and the body.
#[derive(Debug)]
struct McpReply {
    status: u16,
    code: i64,
    text: String,
}

impl McpTester {
    fn new(gateway: &TestGateway) -> Self {
        Self(client(), gateway.url("/mcp"))
    }

    async fn send(&self, method: Method, headers: &[(&str, &[u8])], body: Vec<u8>) -> McpReply {
        let mut request = self.0.request(method, &self.1).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = with_timeout("a response", request.send()).await.unwrap();
        let status = response.status().as_u16();
        let text = with_timeout("a body", response.text()).await.unwrap();
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        McpReply { status, code: body["error"]["code"].as_i64().unwrap_or_default(), text }
    }

    async fn post(&self, headers: &[(&str, &[u8])], body: impl Into<Vec<u8>>) -> McpReply {
        let json: (&str, &[u8]) = ("content-type", b"application/json");
        let headers: Vec<_> = headers.iter().copied().chain([json]).collect();
        self.send(Method::POST, &headers, body.into()).await
    }

    /// Sends `initialize` and returns the session id.
    async fn initialize(&self, token: Option<&Token>) -> Result<String, McpReply> {
        let mut request = self.0.post(&self.1).json(&super::initialize_message());
        if let Some(token) = token {
            request = request.bearer_auth(token.reveal());
        }
        let response = with_timeout("the initialize response", request.send()).await.unwrap();
        match response.headers().get("mcp-session-id") {
            Some(session) => Ok(session.to_str().unwrap().to_owned()),
            None => {
                let status = response.status().as_u16();
                let text = response.text().await.unwrap();
                let body: Value = serde_json::from_str(&text).unwrap();
                Err(McpReply { status, code: body["error"]["code"].as_i64().unwrap(), text })
            }
        }
    }
}

impl McpReply {
    /// Compares the reply with a row: the status, the error code (0 for none) and part of the body.
    fn check(
        &self,
        what: &str,
        (status, code, message): (u16, i64, &str),
        wrong: &mut Vec<String>,
    ) {
        if (self.status, self.code) != (status, code) || !self.text.contains(message) {
            let text: String = self.text.chars().take(300).collect();
            wrong.push(format!("{what}: {} {} {text}", self.status, self.code));
        }
    }
}
