//! Room clients for both protocol families.

use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};
use toolpost_gateway::auth::Token;

use crate::journal::fixture::Gateway;

pub(super) const ROOM: &str = "lobby";

/// Maximum time to wait for an expected event.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProtocolFamily {
    Mew,
    Mcpx,
}

pub(super) const FAMILIES: [ProtocolFamily; 2] = [ProtocolFamily::Mew, ProtocolFamily::Mcpx];

/// An identity configured in the gateway.
pub(super) struct TestIdentity {
    pub(super) name: String,
    token: Token,
    capabilities: String,
}

impl TestIdentity {
    pub(super) fn new(name: &str, capabilities: &str) -> Self {
        let token = Token::generate().unwrap();
        Self { name: name.to_owned(), token, capabilities: capabilities.to_owned() }
    }

    pub(super) fn token(&self) -> &str {
        self.token.reveal()
    }

    pub(super) fn to_config(&self) -> String {
        let Self { name, token, capabilities } = self;
        let hash = token.hash();
        format!("[identity.{name}]\ntoken_hash = \"{hash}\"\ncapabilities = {capabilities}\n")
    }
}

/// A connection to the room.
pub(super) struct RoomMember {
    socket: WebSocket<TcpStream>,
    protocol: ProtocolFamily,
    /// The welcome message.
    pub(super) welcome: Value,
}

impl RoomMember {
    /// Joins the room; `None` if the gateway is not running.
    pub(super) fn join(
        address: &str,
        family: ProtocolFamily,
        test_identity: &TestIdentity,
    ) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).ok()?;
        stream.set_nodelay(true).ok()?;
        let query = match family {
            ProtocolFamily::Mew => String::new(),
            ProtocolFamily::Mcpx => format!("?topic={ROOM}"),
        };
        let mut request = format!("ws://{address}/ws{query}").into_client_request().unwrap();
        if family == ProtocolFamily::Mcpx {
            let bearer = format!("Bearer {}", test_identity.token());
            request.headers_mut().insert("authorization", bearer.parse().unwrap());
        }
        let (socket, _) = client(request, stream).ok()?;
        let mut member = Self { socket, protocol: family, welcome: Value::Null };
        if family == ProtocolFamily::Mew {
            let join = json!({"type": "join", "space": ROOM, "token": test_identity.token(),
                "participantId": test_identity.name, "capabilities": []});
            member.write(&join)?;
        }
        member.welcome = member.recv()?;
        assert_eq!(member.welcome["kind"], "system/welcome", "{}", member.welcome);
        Some(member)
    }

    /// Returns the number of tool capabilities on joining.
    pub(super) fn tool_capability_count(&self) -> usize {
        let capabilities = self.welcome["payload"]["you"]["capabilities"].as_array().unwrap();
        capabilities.iter().filter(|one| one.to_string().contains("tool-")).count()
    }

    pub(super) fn send(&mut self, mut message: Value) -> Option<()> {
        let protocol = match self.protocol {
            ProtocolFamily::Mew => "mew/v0.4",
            ProtocolFamily::Mcpx => "mcpx/v0.1",
        };
        message["protocol"] = protocol.into();
        self.write(&message)
    }

    fn write(&mut self, frame: &Value) -> Option<()> {
        self.socket.send(Message::text(frame.to_string())).ok()
    }

    /// Receives the next frame, or `None` if the connection is closed.
    pub(super) fn recv(&mut self) -> Option<Value> {
        loop {
            match self.socket.read().ok()? {
                Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }
}

/// Returns the whole history of the room, read page by page.
pub(super) fn history(gateway: &Gateway, test_identity: &TestIdentity) -> Vec<Value> {
    let bearer = format!("authorization: Bearer {}", test_identity.token());
    let mut all: Vec<Value> = Vec::new();
    loop {
        let before = all.last().and_then(|oldest| oldest["id"].as_str());
        let before = before.map(|id| format!("&before={id}")).unwrap_or_default();
        let path = format!("/v0.1/topics/{ROOM}/history?limit=500{before}");
        let (status, body) = gateway.get_with(&path, &[&bearer]);
        assert_eq!(status, 200, "{body}");
        let page: Value = serde_json::from_str(&body).unwrap();
        let page = page["messages"].as_array().unwrap();
        if page.is_empty() {
            break;
        }
        all.extend(page.iter().cloned());
    }
    all.reverse();
    all
}
