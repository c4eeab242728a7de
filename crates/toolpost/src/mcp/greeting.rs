//! Finding out what a server speaks.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::ask::{Ask, Patience};
use super::failure::Failure;
use super::rpc::{Param, RpcError};
use super::settings::McpSettings;
use super::speech::{self, Era, LEGACY, MODERN, Speech};
use super::wire::Wire;

/// How long a process may think about `server/discover` before it is greeted in the old way too: it
/// may be one that starts slowly, or one that does not answer what it does not know.
const SECOND_THOUGHT: Duration = Duration::from_secs(3);
/// How long the answer to the one greeting is waited for when the other was answered.
const BOTH: Duration = Duration::from_secs(2);

/// A server that was greeted.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) speech: Speech,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) capabilities: Value,
    pub(super) instructions: Option<String>,
}

impl Peer {
    /// Whether the server says that it has something.
    pub(super) fn has(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(|value| !value.is_null())
    }

    /// Whether the server tells when one of its resources changes.
    pub(super) fn tells_of_resources(&self) -> bool {
        self.capabilities.pointer("/resources/subscribe") == Some(&Value::Bool(true))
    }
}

/// Greets a server in the way that is settled or known, or finds out which way it understands.
pub(super) async fn greet(
    wire: &Wire,
    settings: &McpSettings,
    known: Option<Era>,
) -> Result<Peer, Failure> {
    let greeting = Greeting { wire, settings };
    let pinned = settings.protocol.as_deref();
    let era = pinned.map(|version| Speech::new(version, settings).era).or(known);
    match (era, wire) {
        (Some(Era::Legacy), _) => greeting.initialize(pinned.unwrap_or(LEGACY[0])).await,
        (Some(Era::Modern), _) => greeting.discover(pinned.unwrap_or(MODERN[0])).await,
        (None, Wire::Http(_)) => greeting.try_both().await,
        (None, Wire::Stdio(_)) => greeting.try_both_at_once().await,
    }
}

struct Greeting<'a> {
    wire: &'a Wire,
    settings: &'a McpSettings,
}

impl Greeting<'_> {
    /// First the new way, and then the old one if the server did not understand.
    async fn try_both(&self) -> Result<Peer, Failure> {
        match self.discover(MODERN[0]).await {
            Err(failure) => self.initialize(older(&failure).ok_or(failure)?).await,
            found => found,
        }
    }

    /// The same for a process, which may stay silent about what it does not know, or start slowly:
    /// then both questions are asked, and whichever answer comes decides.
    async fn try_both_at_once(&self) -> Result<Peer, Failure> {
        let mut discovering = std::pin::pin!(self.discover(MODERN[0]));
        match tokio::time::timeout(SECOND_THOUGHT, &mut discovering).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(failure)) => return self.initialize(older(&failure).ok_or(failure)?).await,
            Err(_) => {}
        }
        let mut initializing = std::pin::pin!(self.initialize(LEGACY[0]));
        tokio::select! {
            found = &mut discovering => match found {
                // A process that was greeted in both ways may hold on to the second.
                Ok(found) => match tokio::time::timeout(BOTH, initializing).await {
                    Ok(Ok(legacy)) => Ok(legacy),
                    _ => Ok(found),
                },
                Err(failure) if failure.is_loss() => Err(failure),
                Err(_) => initializing.await,
            },
            found = &mut initializing => match found {
                Ok(found) => Ok(found),
                Err(failure) if failure.is_loss() => Err(failure),
                Err(_) => discovering.await,
            },
        }
    }

    fn patience(&self) -> Patience {
        Patience::of(self.settings.start_timeout)
    }

    /// The new way: `server/discover`, once more if the server wants another version.
    async fn discover(&self, version: &str) -> Result<Peer, Failure> {
        let mut speech = Speech::new(version, self.settings);
        let ask = Ask::new("server/discover", &[], self.patience());
        let answer = match self.wire.ask(&speech, &ask).await {
            Err(failure) => {
                let common = common(&supported(&failure), &MODERN).ok_or(failure)?;
                speech = Speech::new(common, self.settings);
                self.wire.ask(&speech, &ask).await?
            }
            Ok(answer) => answer,
        };
        let found: Discovered = read(&answer)?;
        let Some(version) = common(&found.supported_versions, &MODERN) else {
            return Err(Failure::rpc_error(RpcError {
                data: Some(json!({"supported": found.supported_versions})),
                ..RpcError::new(RpcError::UNSUPPORTED_VERSION, "no version that both speak")
            }));
        };
        let info = found.server_info.or_else(|| {
            let mut meta = found.meta?;
            meta.get_mut("io.modelcontextprotocol/serverInfo").map(Value::take)
        });
        let speech = Speech::new(version, self.settings);
        Ok(Peer::new(speech, info, found.capabilities, found.instructions))
    }

    /// The old way: `initialize`.
    async fn initialize(&self, version: &str) -> Result<Peer, Failure> {
        let speech = Speech::new(version, self.settings);
        let (capabilities, info) = (raw(speech.capabilities()), speech::client_info());
        let params = [
            ("protocolVersion", Param::Text(version)),
            ("capabilities", Param::Raw(&capabilities)),
            ("clientInfo", Param::Value(&info)),
        ];
        let ask = Ask::new("initialize", &params, self.patience());
        let answer = self.wire.ask(&speech, &ask).await?;
        let said: Initialized = read(&answer)?;
        let version = match said.protocol_version {
            Some(version) if LEGACY.contains(&version.as_str()) => version,
            Some(version) => {
                let words = format!("the server insists on the unknown version {version}");
                return Err(Failure::Unusable(words));
            }
            None => version.to_owned(),
        };
        let speech = Speech::new(&version, self.settings);
        let told = self.wire.notify(&speech, "notifications/initialized");
        tokio::time::timeout(self.settings.start_timeout, told).await.map_err(|_| {
            Failure::TimedOut("the server does not take `notifications/initialized`".to_owned())
        })??;
        let peer = Peer::new(speech, said.server_info, said.capabilities, said.instructions);
        self.after_the_handshake(&peer).await;
        Ok(peer)
    }

    /// What a server of the old kind is asked for once it is there.
    async fn after_the_handshake(&self, peer: &Peer) {
        if let Wire::Http(http) = self.wire {
            http.listen(peer.speech.clone()).await;
        }
        if peer.has("logging") {
            let params = [("level", Param::Text(speech::LOG_LEVEL))];
            let patience = Patience::of(Duration::from_secs(5));
            let ask = Ask::new("logging/setLevel", &params, patience);
            if let Err(failure) = self.wire.ask(&peer.speech, &ask).await {
                tracing::debug!(
                    failure = failure.to_string(),
                    "the server keeps its own log level"
                );
            }
        }
    }
}

fn raw(json: String) -> Box<RawValue> {
    RawValue::from_string(json).expect("it was written as JSON")
}

impl Peer {
    fn new(
        speech: Speech,
        info: Option<Value>,
        capabilities: Value,
        instructions: Option<String>,
    ) -> Self {
        let info = info.unwrap_or_default();
        let text = |name: &str| info.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        Self { speech, name: text("name"), version: text("version"), capabilities, instructions }
    }
}

/// The version to go on with in the old way, if the failure is that of a server that knows no other.
fn older(failure: &Failure) -> Option<&'static str> {
    let did_not_understand = match failure {
        Failure::Refused { status: 400..=499, error, .. } => {
            !error.as_deref().is_some_and(RpcError::is_modern)
        }
        Failure::Rpc(error) => !error.is_modern(),
        // An answer that means nothing, such as a page for people.
        Failure::Unusable(_) | Failure::SessionGone { .. } => true,
        _ => false,
    };
    let named = common(&supported(failure), &LEGACY);
    named.or_else(|| did_not_understand.then_some(LEGACY[0]))
}

fn supported(failure: &Failure) -> Vec<String> {
    let error = failure.rpc().filter(|error| error.code == RpcError::UNSUPPORTED_VERSION);
    let list = error.and_then(|error| error.data.as_ref()?.get("supported"));
    list.and_then(|list| Vec::deserialize(list).ok()).unwrap_or_default()
}

fn common(theirs: &[String], ours: &[&'static str]) -> Option<&'static str> {
    ours.iter().copied().find(|version| theirs.iter().any(|other| other == version))
}

fn read<'a, T: Deserialize<'a>>(answer: &'a RawValue) -> Result<T, Failure> {
    serde_json::from_str(answer.get())
        .map_err(|error| Failure::Unusable(format!("the greeting cannot be read: {error}")))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Discovered {
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
struct Initialized {
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
    fn only_a_server_that_did_not_understand_is_greeted_in_the_old_way() {
        let rpc = |code: i64, supported: &[&str]| RpcError {
            data: Some(json!({"supported": supported})),
            ..RpcError::new(code, "no")
        };
        let refused = |status, error: Option<RpcError>| Failure::Refused {
            status,
            error: error.map(Box::new),
            words: String::new(),
        };
        let unsupported = RpcError::UNSUPPORTED_VERSION;
        let rows = [
            (Failure::rpc_error(rpc(-32601, &[])), Some("2025-11-25")),
            (Failure::rpc_error(rpc(-32602, &[])), Some("2025-11-25")),
            (Failure::rpc_error(rpc(unsupported, &["2025-06-18"])), Some("2025-06-18")),
            (Failure::rpc_error(rpc(unsupported, &["2099-01-01"])), None),
            (Failure::rpc_error(rpc(RpcError::HEADER_MISMATCH, &[])), None),
            (refused(400, None), Some("2025-11-25")),
            (refused(404, Some(rpc(-32601, &[]))), Some("2025-11-25")),
            (refused(405, None), Some("2025-11-25")),
            (refused(400, Some(rpc(RpcError::MISSING_CAPABILITY, &[]))), None),
            (refused(500, None), None),
            (Failure::lost("gone"), None),
            (Failure::TimedOut("slow".to_owned()), None),
            (Failure::Unauthorized("no".to_owned()), None),
            (Failure::Unusable("html".to_owned()), Some("2025-11-25")),
        ];
        for (failure, expected) in rows {
            assert_eq!(older(&failure), expected, "{failure:?}");
        }
    }
}
