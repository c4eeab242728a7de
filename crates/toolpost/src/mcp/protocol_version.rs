//! Protocol versions and request metadata.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::elicitation::DeclaredCapabilities;
use super::request::ClientRequest;
use super::rpc::{self, Param};
use super::settings::McpSettings;
use crate::trace;

/// Versions with an `initialize` handshake, newest first.
pub(super) const LEGACY_VERSIONS: [&str; 4] =
    ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Versions in which every request carries its own metadata, newest first.
pub(super) const MODERN_VERSIONS: [&str; 1] = ["2026-07-28"];

/// Whether a server requires a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProtocolGeneration {
    /// Up to 2025-11-25: `initialize`, sessions and server requests.
    Legacy,
    /// From 2026-07-28: every request is self-contained.
    Modern,
}

/// How requests of one protocol version are encoded.
#[derive(Debug, Clone)]
pub(super) struct ProtocolProfile {
    pub(super) generation: ProtocolGeneration,
    pub(super) version: String,
    /// Capabilities declared to the server.
    capabilities: DeclaredCapabilities,
    /// Members of `_meta` in every modern request, without braces.
    meta_prefix: String,
    /// The `_meta` members with the maximal capabilities; `meta_without_client` has those of a call
    /// without a client channel.
    meta_maximal: String,
    meta_without_client: String,
}

impl ProtocolProfile {
    pub(super) fn new(version: &str, settings: &McpSettings) -> Self {
        let generation = if LEGACY_VERSIONS.contains(&version) {
            ProtocolGeneration::Legacy
        } else {
            ProtocolGeneration::Modern
        };
        let capabilities = DeclaredCapabilities::new(settings);
        let (meta_prefix, meta_maximal, meta_without_client) = match generation {
            ProtocolGeneration::Legacy => Default::default(),
            ProtocolGeneration::Modern => {
                let head = base_meta(version);
                let (at_most, alone) = (capabilities.maximal(), capabilities.for_call(None));
                (head.clone(), with_capabilities(&head, &at_most), with_capabilities(&head, &alone))
            }
        };
        Self {
            generation,
            version: version.to_owned(),
            capabilities,
            meta_prefix,
            meta_maximal,
            meta_without_client,
        }
    }

    /// Encodes the notification that cancels a request.
    pub(super) fn cancellation(&self, id: u64) -> Result<String, serde_json::Error> {
        let id = Value::from(id);
        let params = [
            ("requestId", Param::Value(&id)),
            ("reason", Param::Text("the caller canceled the request")),
        ];
        rpc::encode_request(None, "notifications/cancelled", &params, self.default_meta())
    }

    /// Returns the `_meta` members of messages that are not part of a call.
    pub(super) fn default_meta(&self) -> &str {
        &self.meta_maximal
    }

    /// Returns the `_meta` members of one request. A call declares the capabilities of its client;
    /// other requests declare the maximal capabilities.
    pub(super) fn request_meta(&self, request: &ClientRequest<'_>, id: u64) -> String {
        let meta = match (self.generation, request.client_channel) {
            (ProtocolGeneration::Modern, Some(channel)) => Cow::Owned(with_capabilities(
                &self.meta_prefix,
                &self.capabilities.for_call(Some(channel)),
            )),
            (ProtocolGeneration::Modern, None) if request.is_upstream_call() => {
                Cow::Borrowed(&*self.meta_without_client)
            }
            _ => Cow::Borrowed(self.default_meta()),
        };
        match request.is_upstream_call() {
            true => {
                let comma = if meta.is_empty() { "" } else { "," };
                format!(r#"{meta}{comma}"progressToken":{id}{}"#, request.trace)
            }
            false => meta.into_owned(),
        }
    }

    /// Returns the capabilities for the handshake.
    pub(super) fn capabilities(&self) -> String {
        self.capabilities.maximal()
    }
}

/// Returns the `_meta` members of the trace context, each with a leading comma.
pub(super) fn trace_members(metadata: Option<&Map<String, Value>>) -> String {
    let members = trace::trace_members(metadata);
    members.map(|(name, text)| format!(",\"{name}\":{}", Value::from(text))).collect()
}

const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

fn with_capabilities(head: &str, capabilities: &str) -> String {
    format!("{head},\"{CLIENT_CAPABILITIES}\":{capabilities}")
}

fn base_meta(version: &str) -> String {
    let members = [
        ("io.modelcontextprotocol/protocolVersion", version.into()),
        ("io.modelcontextprotocol/clientInfo", client_info()),
        ("io.modelcontextprotocol/logLevel", LOG_LEVEL.into()),
    ];
    members.map(|(name, value): (&str, Value)| format!("\"{name}\":{value}")).join(",")
}

/// Minimum level of the log messages to request.
pub(super) const LOG_LEVEL: &str = "info";

pub(super) fn client_info() -> Value {
    json!({"name": "toolpost", "version": env!("CARGO_PKG_VERSION")})
}

#[cfg(test)]
mod tests {
    use super::super::request::Timeouts;
    use super::super::settings::{Elicitation, McpTransport, StdioSettings};
    use super::*;
    use crate::handler::ProgressSender;

    #[test]
    fn modern_request_meta_declares_version_and_capabilities() {
        let stdio = StdioSettings::new("x", [""; 0]);
        let mut settings = McpSettings::new(McpTransport::Stdio(stdio));
        let form = json!({"elicitation": {"form": {}}});
        // A call without a client channel declares only what the settings handle.
        for (elicitation, before_call, during_call) in [
            (Elicitation::Reject, json!({}), json!({})),
            (Elicitation::Decline, form.clone(), form.clone()),
            (Elicitation::Client, form, json!({})),
        ] {
            settings.elicitation = elicitation;
            let mut request =
                ClientRequest::new("tools/call", &[], Timeouts::total(std::time::Duration::ZERO));
            for (progress, token, expected) in [
                (None, None, &before_call),
                (Some(ProgressSender::default()), Some(7), &during_call),
            ] {
                request.progress = progress;
                let modern = ProtocolProfile::new("2026-07-28", &settings);
                let text = format!("{{{}}}", modern.request_meta(&request, 7));
                let mut read: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(read[CLIENT_CAPABILITIES].take(), *expected);
                assert_eq!(read["progressToken"].as_u64(), token);
                assert_eq!(read["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
                let legacy =
                    ProtocolProfile::new("2025-06-18", &settings).request_meta(&request, 7);
                let expected = token.map(|token| format!(r#""progressToken":{token}"#));
                assert_eq!(legacy, expected.unwrap_or_default());
            }
        }
    }
}
