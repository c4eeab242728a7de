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
const INSTRUCTIONS: &str = "Tools come from several sources; the part of a tool name before `__` is \
    the source. If `hub__search`, `hub__schema` and `hub__call` are listed, use them to find and call \
    operations that are not listed as tools.";

/// Maximum number of characters of the instructions of one source, if all are collected.
const MAX_SOURCE_CHARS: usize = 2_000;
/// Maximum number of characters of the collected instructions of all sources.
const MAX_COLLECTED_CHARS: usize = 8_000;

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

    fn with_instructions(&self, mut result: Value) -> Value {
        if let Some(instructions) = self.instructions() {
            result["instructions"] = instructions.into();
        }
        result
    }

    /// Returns the instructions of the selected source, or those of this gateway followed by those
    /// of all sources.
    fn instructions(&self) -> Option<String> {
        let settings = self.service.settings();
        let configured = settings.instructions.as_deref();
        let catalog = self.service.pipeline.registry().catalog();
        if let Some(source) = &self.view.source {
            let own = catalog.instructions().get(&**source).map(|text| &**text);
            return own.or(configured).map(str::to_owned);
        }
        let is_visible =
            |source: &str| catalog.namespace(source).iter().any(|one| self.can_call(one));
        let sources = catalog.instructions().iter().map(|(source, text)| (&**source, &**text));
        let sources = sources.filter(|(source, _)| is_visible(source));
        Some(collect_instructions(configured.unwrap_or(INSTRUCTIONS), sources))
    }
}

/// Appends the instructions of sources, truncated to the maximum lengths.
fn collect_instructions<'s>(
    own: &str,
    sources: impl Iterator<Item = (&'s str, &'s str)>,
) -> String {
    let (mut all, mut omitted, mut remaining) = (own.to_owned(), Vec::new(), MAX_COLLECTED_CHARS);
    for (source, text) in sources {
        let length = text.chars().count();
        let allowed = length.min(MAX_SOURCE_CHARS);
        if allowed > remaining {
            omitted.push(source);
            continue;
        }
        remaining -= allowed;
        all.push_str(&format!("\n\nInstructions of the source `{source}`:\n"));
        all.extend(text.chars().take(allowed));
        if allowed < length {
            all.push('…');
        }
    }
    if !omitted.is_empty() {
        let names = omitted.join("`, `");
        all.push_str(&format!("\n\nThe instructions of these sources are omitted: `{names}`"));
    }
    all
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
    fn collected_instructions_are_bounded() {
        let long = "é".repeat(MAX_SOURCE_CHARS + 1);
        let sources = [
            ("a", "Use a."),
            ("b", &long),
            ("c", &long),
            ("d", &long),
            ("e", &long),
            ("f", "Use f."),
        ];
        let collected = collect_instructions("Hello.", sources.into_iter());
        let cut = format!("{}…", "é".repeat(MAX_SOURCE_CHARS));
        let expected = format!(
            "Hello.\n\nInstructions of the source `a`:\nUse a.\n\nInstructions of the source `b`:\n{cut}\n\n\
             Instructions of the source `c`:\n{cut}\n\nInstructions of the source `d`:\n{cut}\n\n\
             Instructions of the source `f`:\nUse f.\n\n\
             The instructions of these sources are omitted: `e`"
        );
        assert_eq!(collected, expected);
        assert_eq!(collect_instructions("Hello.", std::iter::empty()), "Hello.");
    }

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
