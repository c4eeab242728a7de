//! What clients of either era send, ready on the wire but for its number.

use serde_json::{Value, json};

use super::server::Era;

/// Stands for the number of a request; every number has as many digits.
const NUMBER: &str = "1000000000";

/// A request that is sent again and again under numbers of its own.
#[derive(Clone)]
pub(crate) struct Message {
    bytes: Vec<u8>,
    number_at: usize,
}

impl Message {
    /// A request as a line.
    pub(crate) fn line(body: &str) -> Self {
        Self::numbered(String::new(), &format!("{body}\n"))
    }

    /// A request over HTTP; `headers` are lines of their own.
    pub(crate) fn post(path: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{headers}content-length: {length}\r\n\r\n"
        );
        Self::numbered(head, body)
    }

    fn numbered(head: String, body: &str) -> Self {
        let mark = format!(r#""id":{NUMBER}"#);
        // A notification has no number, and is written to in a place where it ends.
        let number_at = body.find(&mark).map_or(usize::MAX, |at| head.len() + at + 5);
        Self { bytes: (head + body).into_bytes(), number_at }
    }

    /// The bytes under such a number, and the number as it stands in them.
    pub(crate) fn under(&mut self, number: u32) -> (&[u8], [u8; 10]) {
        let mut digits = [b'0'; 10];
        let mut left = number;
        for digit in digits.iter_mut().rev() {
            *digit += (left % 10) as u8;
            left /= 10;
        }
        // No number begins with a zero.
        digits[0] = b'1';
        if let Some(place) = self.bytes.get_mut(self.number_at..) {
            place[..10].copy_from_slice(&digits);
        }
        (&self.bytes, digits)
    }
}

/// The JSON of a request, with the mark in the place of its number.
pub(crate) fn request(era: Era, method: &str, mut params: Value) -> String {
    if era == Era::Modern {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": era.version(),
            "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    format!(r#"{{"jsonrpc":"2.0","id":{NUMBER},"method":"{method}","params":{params}}}"#)
}

/// What a client of 2025-11-25 says first, and then.
pub(crate) fn greetings() -> [String; 2] {
    let info = json!({"name": "load", "version": "1"});
    let version = Era::Legacy.version();
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": info});
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    [request(Era::Legacy, "initialize", params), done.to_string()]
}

/// The headers of a request; a session is one of 2025-11-25.
pub(crate) fn headers(era: Era, session: &str, method: &str, name: &str) -> String {
    let version = era.version();
    match era {
        Era::Legacy => {
            format!("mcp-protocol-version: {version}\r\nmcp-session-id: {session}\r\n")
        }
        Era::Modern => {
            let name =
                if name.is_empty() { String::new() } else { format!("mcp-name: {name}\r\n") };
            format!("mcp-protocol-version: {version}\r\nmcp-method: {method}\r\n{name}")
        }
    }
}
