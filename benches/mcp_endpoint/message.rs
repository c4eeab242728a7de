//! The serialized messages of both protocol generations, with a placeholder for the request id.

use serde_json::{Value, json};

use super::echo_server::ProtocolGeneration;

/// The placeholder for the request id; every id has the same number of digits.
const ID_PLACEHOLDER: &str = "1000000000";

/// A message that is sent many times, each time with another id.
#[derive(Clone)]
pub(crate) struct MessageTemplate {
    bytes: Vec<u8>,
    id_offset: usize,
}

impl MessageTemplate {
    /// A message as a line.
    pub(crate) fn line(body: &str) -> Self {
        Self::new(String::new(), &format!("{body}\n"))
    }

    /// A message as an HTTP request; `headers` are complete header lines.
    pub(crate) fn post(path: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{headers}content-length: {length}\r\n\r\n"
        );
        Self::new(head, body)
    }

    fn new(head: String, body: &str) -> Self {
        let field = format!(r#""id":{ID_PLACEHOLDER}"#);
        // A notification has no id; an offset out of bounds leaves it unchanged.
        let id_offset = body.find(&field).map_or(usize::MAX, |at| head.len() + at + 5);
        Self { bytes: (head + body).into_bytes(), id_offset }
    }

    /// Writes the id and returns the bytes and the digits of the id.
    pub(crate) fn with_id(&mut self, id: u32) -> (&[u8], [u8; 10]) {
        let mut digits = [b'0'; 10];
        let mut remaining = id;
        for digit in digits.iter_mut().rev() {
            *digit += (remaining % 10) as u8;
            remaining /= 10;
        }
        // A JSON number has no leading zero.
        digits[0] = b'1';
        if let Some(id) = self.bytes.get_mut(self.id_offset..) {
            id[..10].copy_from_slice(&digits);
        }
        (&self.bytes, digits)
    }
}

/// The JSON of a request, with the placeholder as its id.
pub(crate) fn request(generation: ProtocolGeneration, method: &str, mut params: Value) -> String {
    if generation == ProtocolGeneration::Modern {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": generation.version(),
            "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    format!(r#"{{"jsonrpc":"2.0","id":{ID_PLACEHOLDER},"method":"{method}","params":{params}}}"#)
}

/// The `initialize` request and the `initialized` notification of 2025-11-25.
pub(crate) fn initialize_messages() -> [String; 2] {
    let info = json!({"name": "load", "version": "1"});
    let version = ProtocolGeneration::Legacy.version();
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": info});
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    [request(ProtocolGeneration::Legacy, "initialize", params), initialized.to_string()]
}

/// The headers of a request; only 2025-11-25 has a session.
pub(crate) fn headers(
    generation: ProtocolGeneration,
    session: &str,
    method: &str,
    name: &str,
) -> String {
    let version = generation.version();
    match generation {
        ProtocolGeneration::Legacy => {
            format!("mcp-protocol-version: {version}\r\nmcp-session-id: {session}\r\n")
        }
        ProtocolGeneration::Modern => {
            let name =
                if name.is_empty() { String::new() } else { format!("mcp-name: {name}\r\n") };
            format!("mcp-protocol-version: {version}\r\nmcp-method: {method}\r\n{name}")
        }
    }
}
