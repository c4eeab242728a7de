//! What is said in which era: protocol versions, and what every request carries.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::ask::Ask;
use super::inquiry::Declared;
use super::rpc::{self, Param};
use super::settings::McpSettings;
use crate::trace;

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
    /// What a server may ask of us.
    declared: Declared,
    /// The members of `_meta` that every request of a modern kind has, without braces.
    head: String,
    /// The same with the most that may be asked, and with what may be asked where nobody called who
    /// could be.
    at_most: String,
    alone: String,
}

impl Speech {
    pub(super) fn new(version: &str, settings: &McpSettings) -> Self {
        let era = if LEGACY.contains(&version) { Era::Legacy } else { Era::Modern };
        let declared = Declared::new(settings);
        let (head, at_most, alone) = match era {
            Era::Legacy => Default::default(),
            Era::Modern => {
                let head = head(version);
                let (at_most, alone) = (declared.at_most(), declared.during(None));
                (head.clone(), declaring(&head, &at_most), declaring(&head, &alone))
            }
        };
        Self { era, version: version.to_owned(), declared, head, at_most, alone }
    }

    /// The text that says that nobody waits for an answer any more.
    pub(super) fn cancellation(&self, id: u64) -> Result<String, serde_json::Error> {
        let id = Value::from(id);
        let params = [
            ("requestId", Param::Value(&id)),
            ("reason", Param::Text("nobody waits for the answer any more")),
        ];
        rpc::write(None, "notifications/cancelled", &params, self.meta())
    }

    /// The members of `_meta` for what nobody called for.
    pub(super) fn meta(&self) -> &str {
        &self.at_most
    }

    /// The members of `_meta` for one request. One that is made for somebody says what may be asked
    /// of him; any other says the most that may be asked of anybody.
    pub(super) fn meta_of(&self, ask: &Ask<'_>, id: u64) -> String {
        let meta = match (self.era, ask.respondent) {
            (Era::Modern, Some(somebody)) => {
                Cow::Owned(declaring(&self.head, &self.declared.during(Some(somebody))))
            }
            (Era::Modern, None) if ask.is_errand() => Cow::Borrowed(&*self.alone),
            _ => Cow::Borrowed(self.meta()),
        };
        match ask.is_errand() {
            true => {
                let comma = if meta.is_empty() { "" } else { "," };
                format!(r#"{meta}{comma}"progressToken":{id}{}"#, ask.trace)
            }
            false => meta.into_owned(),
        }
    }

    /// What a server may ask of us, in a handshake.
    pub(super) fn capabilities(&self) -> String {
        self.declared.at_most()
    }
}

/// The members of `_meta` that say which trace a request belongs to, each behind a comma.
pub(super) fn trace(metadata: Option<&Map<String, Value>>) -> String {
    let members = trace::members(metadata);
    members.map(|(name, text)| format!(",\"{name}\":{}", Value::from(text))).collect()
}

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

fn declaring(head: &str, capabilities: &str) -> String {
    format!("{head},\"{CAPABILITIES}\":{capabilities}")
}

fn head(version: &str) -> String {
    let members = [
        ("io.modelcontextprotocol/protocolVersion", version.into()),
        ("io.modelcontextprotocol/clientInfo", client_info()),
        ("io.modelcontextprotocol/logLevel", LOG_LEVEL.into()),
    ];
    members.map(|(name, value): (&str, Value)| format!("\"{name}\":{value}")).join(",")
}

/// The least important messages that are asked for.
pub(super) const LOG_LEVEL: &str = "info";

pub(super) fn client_info() -> Value {
    json!({"name": "toolpost", "version": env!("CARGO_PKG_VERSION")})
}

#[cfg(test)]
mod tests {
    use super::super::ask::Patience;
    use super::super::settings::{Elicitation, McpTransport, StdioSettings};
    use super::*;
    use crate::handler::ProgressSender;

    #[test]
    fn a_modern_request_says_what_it_is() {
        let stdio = StdioSettings::new("x", [""; 0]);
        let mut settings = McpSettings::new(McpTransport::Stdio(stdio));
        let form = json!({"elicitation": {"form": {}}});
        // Whoever made an errand without being there cannot be asked.
        for (elicitation, ahead, on_an_errand) in [
            (Elicitation::Refuse, json!({}), json!({})),
            (Elicitation::Decline, form.clone(), form.clone()),
            (Elicitation::Client, form, json!({})),
        ] {
            settings.elicitation = elicitation;
            let mut ask = Ask::new("tools/call", &[], Patience::of(std::time::Duration::ZERO));
            for (progress, token, expected) in
                [(None, None, &ahead), (Some(ProgressSender::default()), Some(7), &on_an_errand)]
            {
                ask.progress = progress;
                let modern = Speech::new("2026-07-28", &settings);
                let text = format!("{{{}}}", modern.meta_of(&ask, 7));
                let mut read: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(read[CAPABILITIES].take(), *expected);
                assert_eq!(read["progressToken"].as_u64(), token);
                assert_eq!(read["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
                let legacy = Speech::new("2025-06-18", &settings).meta_of(&ask, 7);
                let expected = token.map(|token| format!(r#""progressToken":{token}"#));
                assert_eq!(legacy, expected.unwrap_or_default());
            }
        }
    }
}
