//! Negotiates the protocol version with a server.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::error::RequestError;
use super::protocol_version::{
    self, LEGACY_VERSIONS, MODERN_VERSIONS, ProtocolGeneration, ProtocolProfile,
};
use super::request::{ClientRequest, Timeouts};
use super::rpc::{self, Param, RpcError};
use super::settings::McpSettings;
use super::transport::ClientTransport;
use crate::json::error_message;

/// How long to wait for the response of a process to `ping` before also sending `initialize`. The
/// process may start slowly or ignore requests before `initialize`.
const PING_GRACE: Duration = Duration::from_secs(3);

/// A server after the handshake.
#[derive(Debug, Clone)]
pub(super) struct RemoteServer {
    pub(super) protocol: ProtocolProfile,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) capabilities: Value,
    pub(super) instructions: Option<String>,
}

impl RemoteServer {
    /// Whether the server declares a capability.
    pub(super) fn has_capability(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(|value| !value.is_null())
    }

    /// Whether the server supports resource subscriptions.
    pub(super) fn supports_resource_subscribe(&self) -> bool {
        self.capabilities.pointer("/resources/subscribe") == Some(&Value::Bool(true))
    }
}

/// Performs the handshake of the configured or previously detected generation, or detects it.
pub(super) async fn negotiate(
    transport: &ClientTransport,
    settings: &McpSettings,
    known: Option<ProtocolGeneration>,
) -> Result<RemoteServer, RequestError> {
    let handshake = Handshake { transport, settings };
    let pinned = settings.protocol.as_deref();
    let generation =
        pinned.map(|version| ProtocolProfile::new(version, settings).generation).or(known);
    match (generation, transport) {
        (Some(ProtocolGeneration::Legacy), _) => {
            handshake.initialize(pinned.unwrap_or(LEGACY_VERSIONS[0])).await
        }
        (Some(ProtocolGeneration::Modern), _) => {
            handshake.discover(pinned.unwrap_or(MODERN_VERSIONS[0])).await
        }
        (None, ClientTransport::Http(_)) => handshake.discover_then_initialize().await,
        (None, ClientTransport::Stdio(_)) => handshake.ping_then_negotiate().await,
    }
}

struct Handshake<'a> {
    transport: &'a ClientTransport,
    settings: &'a McpSettings,
}

impl Handshake<'_> {
    /// Sends `server/discover`, then `initialize` if the server is a legacy one.
    async fn discover_then_initialize(&self) -> Result<RemoteServer, RequestError> {
        match self.discover(MODERN_VERSIONS[0]).await {
            Err(failure) => self.initialize(legacy_fallback(&failure).ok_or(failure)?).await,
            found => found,
        }
    }

    /// Detects the generation of a process. A legacy server responds to `ping` at any time, and a
    /// modern one rejects it or the following `initialize`. Many legacy servers log dozens of lines
    /// when they get `server/discover`, so it is sent only after such a rejection.
    async fn ping_then_negotiate(&self) -> Result<RemoteServer, RequestError> {
        let modern = ProtocolProfile::new(MODERN_VERSIONS[0], self.settings);
        let ping = ClientRequest::new("ping", &[], self.timeouts());
        // It stays pending during the handshake, because dropping it would cancel it at the server.
        let mut pinging = std::pin::pin!(self.transport.request(&modern, &ping));
        let failure = match tokio::time::timeout(PING_GRACE, &mut pinging).await {
            Ok(Err(failure)) => failure,
            Ok(Ok(_)) | Err(_) => match self.initialize(LEGACY_VERSIONS[0]).await {
                Err(failure) => failure,
                found => return found,
            },
        };
        match failure {
            RequestError::Rpc(_) => self.discover_then_initialize().await,
            failure => Err(failure),
        }
    }

    fn timeouts(&self) -> Timeouts {
        Timeouts::total(self.settings.start_timeout)
    }

    /// Sends `server/discover`, and repeats it if the server supports another common version.
    async fn discover(&self, version: &str) -> Result<RemoteServer, RequestError> {
        let mut protocol = ProtocolProfile::new(version, self.settings);
        let request = ClientRequest::new("server/discover", &[], self.timeouts());
        let response = match self.transport.request(&protocol, &request).await {
            Err(failure) => {
                let common = common_version(&supported_versions(&failure), &MODERN_VERSIONS)
                    .ok_or(failure)?;
                protocol = ProtocolProfile::new(common, self.settings);
                self.transport.request(&protocol, &request).await?
            }
            Ok(response) => response,
        };
        let found: DiscoverResult = parse_response(&response)?;
        let Some(version) = common_version(&found.supported_versions, &MODERN_VERSIONS) else {
            return Err(RequestError::rpc_error(RpcError {
                data: Some(json!({"supported": found.supported_versions})),
                ..RpcError::new(RpcError::UNSUPPORTED_VERSION, "no common protocol version")
            }));
        };
        let info = found.server_info.or_else(|| {
            let mut meta = found.meta?;
            meta.get_mut("io.modelcontextprotocol/serverInfo").map(Value::take)
        });
        let protocol = ProtocolProfile::new(version, self.settings);
        Ok(RemoteServer::new(protocol, info, found.capabilities, found.instructions))
    }

    /// Performs the legacy handshake with `initialize`.
    async fn initialize(&self, version: &str) -> Result<RemoteServer, RequestError> {
        let protocol = ProtocolProfile::new(version, self.settings);
        let capabilities =
            RawValue::from_string(protocol.capabilities()).expect("capabilities are valid JSON");
        let info = protocol_version::client_info();
        let params = [
            ("protocolVersion", Param::Text(version)),
            ("capabilities", Param::Raw(&capabilities)),
            ("clientInfo", Param::Value(&info)),
        ];
        let request = ClientRequest::new("initialize", &params, self.timeouts());
        let response = match (self.transport.request(&protocol, &request).await, self.transport) {
            // A server of 2024-11-05 may have another URL for messages.
            (Err(failure), ClientTransport::Http(http)) if failure.is_rejected_post() => {
                if !http.open_message_stream().await? {
                    return Err(failure);
                }
                self.transport.request(&protocol, &request).await?
            }
            (response, _) => response?,
        };
        let result: InitializeResult = parse_response(&response)?;
        let version = match result.protocol_version {
            Some(version) if LEGACY_VERSIONS.contains(&version.as_str()) => version,
            Some(version) => {
                let message = format!("the server requires the unsupported version {version}");
                return Err(RequestError::InvalidResponse(message));
            }
            None => version.to_owned(),
        };
        let protocol = ProtocolProfile::new(&version, self.settings);
        let notified = self.transport.notify(&protocol, "notifications/initialized");
        tokio::time::timeout(self.settings.start_timeout, notified).await.map_err(|_| {
            RequestError::TimedOut(
                "the server did not accept `notifications/initialized`".to_owned(),
            )
        })??;
        let server = RemoteServer::new(
            protocol,
            result.server_info,
            result.capabilities,
            result.instructions,
        );
        self.finish_initialize(&server).await;
        Ok(server)
    }

    /// Completes the legacy handshake: opens the notification stream and sets the log level.
    async fn finish_initialize(&self, server: &RemoteServer) {
        if let ClientTransport::Http(http) = self.transport {
            http.open_notification_stream(server.protocol.clone()).await;
        }
        if server.has_capability("logging") {
            let params = [("level", Param::Text(protocol_version::LOG_LEVEL))];
            let timeouts = Timeouts::total(Duration::from_secs(5));
            let request = ClientRequest::new("logging/setLevel", &params, timeouts);
            if let Err(error) = self.transport.request(&server.protocol, &request).await {
                tracing::debug!(%error, "failed to set the server log level");
            }
        }
    }
}

impl RemoteServer {
    fn new(
        protocol: ProtocolProfile,
        info: Option<Value>,
        capabilities: Value,
        instructions: Option<String>,
    ) -> Self {
        let info = info.unwrap_or_default();
        let text = |name: &str| info.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        Self { protocol, name: text("name"), version: text("version"), capabilities, instructions }
    }
}

/// Returns the legacy version to continue with, if the failure indicates a legacy server.
fn legacy_fallback(failure: &RequestError) -> Option<&'static str> {
    let is_legacy_server = match failure {
        RequestError::HttpStatus { status: 400..=499, error, .. } => {
            !error.as_deref().is_some_and(rpc::is_modern)
        }
        RequestError::Rpc(error) => !rpc::is_modern(error),
        // A response that is not MCP, such as an HTML page.
        RequestError::InvalidResponse(_) | RequestError::SessionNotFound { .. } => true,
        _ => false,
    };
    let common = common_version(&supported_versions(failure), &LEGACY_VERSIONS);
    common.or_else(|| is_legacy_server.then_some(LEGACY_VERSIONS[0]))
}

fn supported_versions(failure: &RequestError) -> Vec<String> {
    let error = failure.rpc().filter(|error| error.code == RpcError::UNSUPPORTED_VERSION);
    let list = error.and_then(|error| error.data.as_ref()?.get("supported"));
    list.and_then(|list| Vec::deserialize(list).ok()).unwrap_or_default()
}

fn common_version(theirs: &[String], ours: &[&'static str]) -> Option<&'static str> {
    ours.iter().copied().find(|version| theirs.iter().any(|other| other == version))
}

fn parse_response<'a, T: Deserialize<'a>>(response: &'a RawValue) -> Result<T, RequestError> {
    serde_json::from_str(response.get()).map_err(|error| {
        let reason = error_message(&error);
        RequestError::InvalidResponse(format!("invalid handshake response: {reason}"))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult {
    supported_versions: Vec<String>,
    #[serde(default)]
    capabilities: Value,
    server_info: Option<Value>,
    instructions: Option<String>,
    #[serde(rename = "_meta")]
    meta: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: Option<String>,
    #[serde(default)]
    capabilities: Value,
    server_info: Option<Value>,
    instructions: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_fallback_applies_only_to_servers_without_discover() {
        let rpc = |code: i64, supported: &[&str]| RpcError {
            data: Some(json!({"supported": supported})),
            ..RpcError::new(code, "no")
        };
        let http_status = |status, error: Option<RpcError>| RequestError::HttpStatus {
            status,
            error: error.map(Box::new),
            body: String::new(),
            retry_after: None,
        };
        let unsupported = RpcError::UNSUPPORTED_VERSION;
        let rows = [
            (RequestError::rpc_error(rpc(-32601, &[])), Some("2025-11-25")),
            (RequestError::rpc_error(rpc(-32602, &[])), Some("2025-11-25")),
            (RequestError::rpc_error(rpc(unsupported, &["2025-06-18"])), Some("2025-06-18")),
            (RequestError::rpc_error(rpc(unsupported, &["2099-01-01"])), None),
            (RequestError::rpc_error(rpc(RpcError::HEADER_MISMATCH, &[])), None),
            (http_status(400, None), Some("2025-11-25")),
            (http_status(404, Some(rpc(-32601, &[]))), Some("2025-11-25")),
            (http_status(405, None), Some("2025-11-25")),
            (http_status(400, Some(rpc(RpcError::MISSING_CAPABILITY, &[]))), None),
            (http_status(500, None), None),
            (RequestError::disconnected("gone"), None),
            (RequestError::TimedOut("slow".to_owned()), None),
            (RequestError::Unauthorized("no".to_owned()), None),
            (RequestError::InvalidResponse("html".to_owned()), Some("2025-11-25")),
        ];
        for (failure, expected) in rows {
            assert_eq!(legacy_fallback(&failure), expected, "{failure:?}");
        }
    }
}
