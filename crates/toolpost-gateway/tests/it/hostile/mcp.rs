//! The same at the door of MCP.

mod headers;
mod lines;
mod messages;
mod sessions;
mod streams;

use reqwest::Method;
use serde_json::Value;
use toolpost_gateway::auth::Token;

use super::super::spokes::in_time;
use super::{Running, client};

/// A client that says what it likes.
struct Tester(reqwest::Client, String);

/// What came back: a status, the code of JSON-RPC if there is one, and the whole text.
#[derive(Debug)]
struct Verdict {
    status: u16,
    code: i64,
    text: String,
}

impl Tester {
    fn new(gateway: &Running) -> Self {
        Self(client(), gateway.url("/mcp"))
    }

    async fn send(&self, method: Method, headers: &[(&str, &[u8])], body: Vec<u8>) -> Verdict {
        let mut request = self.0.request(method, &self.1).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = in_time("an answer", request.send()).await.unwrap();
        let status = response.status().as_u16();
        let text = in_time("a body", response.text()).await.unwrap();
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        Verdict { status, code: body["error"]["code"].as_i64().unwrap_or_default(), text }
    }

    async fn post(&self, headers: &[(&str, &[u8])], body: impl Into<Vec<u8>>) -> Verdict {
        let json: (&str, &[u8]) = ("content-type", b"application/json");
        let headers: Vec<_> = headers.iter().copied().chain([json]).collect();
        self.send(Method::POST, &headers, body.into()).await
    }

    /// Says hello, and gives the id of the session.
    async fn hello(&self, token: Option<&Token>) -> Result<String, Verdict> {
        let mut request = self.0.post(&self.1).json(&super::hello());
        if let Some(token) = token {
            request = request.bearer_auth(token.reveal());
        }
        let response = in_time("a welcome", request.send()).await.unwrap();
        match response.headers().get("mcp-session-id") {
            Some(session) => Ok(session.to_str().unwrap().to_owned()),
            None => {
                let status = response.status().as_u16();
                let text = response.text().await.unwrap();
                let body: Value = serde_json::from_str(&text).unwrap();
                Err(Verdict { status, code: body["error"]["code"].as_i64().unwrap(), text })
            }
        }
    }
}

impl Verdict {
    /// What a row expects: a status, a code (0 is none) and words that are said.
    fn check(&self, what: &str, (status, code, words): (u16, i64, &str), wrong: &mut Vec<String>) {
        if (self.status, self.code) != (status, code) || !self.text.contains(words) {
            let text: String = self.text.chars().take(300).collect();
            wrong.push(format!("{what}: {} {} {text}", self.status, self.code));
        }
    }
}
