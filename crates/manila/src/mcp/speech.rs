//! What is said in which era: protocol versions, and what every request carries.

use serde_json::{Value, json};

use super::rpc::{self, Param};
use super::settings::{Elicitation, McpSettings};

/// The versions that begin with a handshake, newest first.
pub(super) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The versions in which every request says what it is, newest first.
pub(super) const MODERN: [&str; 1] = ["2026-07-28"];

/// Whether a server wants a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// Up to 2025-11-25: `initialize`, sessions, requests of the server.
    Legacy,
    /// From 2026-07-28 on: every request stands for itself.
    Modern,
}

/// How requests are worded.
#[derive(Debug, Clone)]
pub(super) struct Speech {
    pub(super) era: Era,
    pub(super) version: String,
    /// The members of `_meta` that every request has, without braces.
    meta: String,
}

impl Speech {
    pub(super) fn new(version: &str, settings: &McpSettings) -> Self {
        let era = if LEGACY.contains(&version) { Era::Legacy } else { Era::Modern };
        let meta = match era {
            Era::Legacy => String::new(),
            Era::Modern => modern_meta(version, settings),
        };
        Self { era, version: version.to_owned(), meta }
    }

    /// The text that says that nobody waits for an answer any more.
    pub(super) fn cancellation(&self, id: u64) -> Result<String, serde_json::Error> {
        let id = Value::from(id);
        let params = [
            ("requestId", Param::Value(&id)),
            ("reason", Param::Text("nobody waits for the answer any more")),
        ];
        rpc::write(None, "notifications/cancelled", &params, &self.meta(None))
    }

    /// The members of `_meta` for one request.
    pub(super) fn meta(&self, progress_token: Option<u64>) -> String {
        let token = progress_token.map(|token| format!(r#""progressToken":{token}"#));
        match token {
            Some(token) if self.meta.is_empty() => token,
            Some(token) => format!("{},{token}", self.meta),
            None => self.meta.clone(),
        }
    }
}

fn modern_meta(version: &str, settings: &McpSettings) -> String {
    let members = [
        ("io.modelcontextprotocol/protocolVersion", version.into()),
        ("io.modelcontextprotocol/clientInfo", client_info()),
        ("io.modelcontextprotocol/clientCapabilities", capabilities(settings)),
        ("io.modelcontextprotocol/logLevel", LOG_LEVEL.into()),
    ];
    members.map(|(name, value): (&str, Value)| format!("\"{name}\":{value}")).join(",")
}

/// The least important messages that are asked for.
pub(super) const LOG_LEVEL: &str = "info";

pub(super) fn client_info() -> Value {
    json!({"name": "manila", "version": env!("CARGO_PKG_VERSION")})
}

/// What a server may ask of us.
pub(super) fn capabilities(settings: &McpSettings) -> Value {
    let mut capabilities = json!({});
    if settings.elicitation != Elicitation::Refuse {
        capabilities["elicitation"] = json!({"form": {}});
    }
    if !settings.roots.is_empty() {
        capabilities["roots"] = json!({});
    }
    capabilities
}

#[cfg(test)]
mod tests {
    use super::super::settings::{McpTransport, Root, StdioSettings};
    use super::*;

    #[test]
    fn a_modern_request_says_what_it_is() {
        let stdio = StdioSettings::new("x", [""; 0]);
        let mut settings = McpSettings::new(McpTransport::Stdio(stdio));
        for (elicitation, roots, expected) in [
            (Elicitation::Refuse, vec![], json!({})),
            (Elicitation::Decline, vec![], json!({"elicitation": {"form": {}}})),
            (
                Elicitation::Defaults,
                vec![Root::new("file:///x")],
                json!({"elicitation": {"form": {}}, "roots": {}}),
            ),
        ] {
            (settings.elicitation, settings.roots) = (elicitation, roots);
            let speech = Speech::new("2026-07-28", &settings);
            for token in [None, Some(7)] {
                let text = format!("{{{}}}", speech.meta(token));
                let mut read: Value = serde_json::from_str(&text).unwrap();
                let said = read["io.modelcontextprotocol/clientCapabilities"].take();
                assert_eq!((said, read["progressToken"].as_u64()), (expected.clone(), token));
                assert_eq!(read["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
            }
            let legacy = Speech::new("2025-06-18", &settings);
            assert_eq!(legacy.meta(None), "");
            assert_eq!(legacy.meta(Some(1)), r#""progressToken":1"#);
        }
    }
}
