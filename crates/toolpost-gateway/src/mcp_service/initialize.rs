//! Server side of the handshake: `initialize`, `server/discover` and version negotiation.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client::ClientContext;

/// The supported protocol versions, newest first.
pub(crate) const VERSIONS: [&str; 5] =
    ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The newest version with an `initialize` handshake.
const LATEST_LEGACY: &str = VERSIONS[1];

/// Default instructions for models.
const INSTRUCTIONS: &str = "The tools come from several sources; the part of a name before \
    `__` is its source. If there are tools named `hub__search`, `hub__schema` and `hub__call`, more \
    operations can be found and called through them than are listed.";

impl ClientContext {
    /// Returns the result of `server/discover`.
    pub(super) fn discover_result(&self) -> Value {
        let hints = self.cache_hints();
        self.with_instructions(json!({
            "resultType": "complete",
            "supportedVersions": VERSIONS,
            "capabilities": capabilities(),
            "ttlMs": hints.ttl_ms,
            "cacheScope": hints.scope.as_str(),
            "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
        }))
    }

    /// Returns the result of `initialize`.
    pub(crate) fn initialize_result(&self, version: &str) -> Value {
        self.with_instructions(json!({
            "protocolVersion": version,
            "capabilities": capabilities(),
            "serverInfo": server_info(),
        }))
    }

    /// Adds the configured instructions, or the default ones unless one source is selected.
    fn with_instructions(&self, mut result: Value) -> Value {
        let settings = self.service.settings();
        let configured = settings.instructions.as_deref();
        let usual = self.view.source.is_none().then_some(INSTRUCTIONS);
        if let Some(instructions_text) = configured.or(usual) {
            result["instructions"] = instructions_text.into();
        }
        result
    }
}

/// Negotiates the version: the requested one if it is supported, else the newest legacy version.
pub(crate) fn negotiate_version(params: Option<&RawValue>) -> &'static str {
    #[derive(serde::Deserialize)]
    struct InitializeParams {
        #[serde(rename = "protocolVersion")]
        version: String,
    }
    let requested =
        params.and_then(|params| serde_json::from_str::<InitializeParams>(params.get()).ok());
    let is_requested =
        |version: &&str| requested.as_ref().is_some_and(|requested| requested.version == *version);
    VERSIONS.into_iter().skip(1).find(is_requested).unwrap_or(LATEST_LEGACY)
}

fn capabilities() -> Value {
    json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "completions": {},
        "logging": {},
    })
}

fn server_info() -> Value {
    json!({"name": "toolpost", "title": "Toolpost", "version": env!("CARGO_PKG_VERSION")})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialize_negotiates_supported_legacy_version() {
        for (requested, expected) in [
            (r#"{"protocolVersion":"2024-11-05"}"#, "2024-11-05"),
            (r#"{"protocolVersion":"2025-11-25"}"#, "2025-11-25"),
            (r#"{"protocolVersion":"2026-07-28"}"#, "2025-11-25"),
            (r#"{"protocolVersion":"1999-01-01"}"#, "2025-11-25"),
            (r#"{"protocolVersion":3}"#, "2025-11-25"),
            ("{}", "2025-11-25"),
        ] {
            let params = RawValue::from_string(requested.to_owned()).unwrap();
            assert_eq!(negotiate_version(Some(&params)), expected, "{requested}");
        }
        assert_eq!(negotiate_version(None), "2025-11-25");
    }
}
