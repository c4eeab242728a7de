//! Parsing of one server in a client file.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::document::dotted_path;
use super::super::mcp_entry::McpEntry;
use super::variables::ClientVariables;

#[derive(Clone, Copy, PartialEq, Eq)]
enum TransportHint {
    Stdio,
    Http,
    Unspecified,
}

/// Returns why a server is not used, if it is not.
pub(super) fn skip_reason(members: &Map<String, Value>) -> Option<&'static str> {
    let is_extension = members.get("source").and_then(Value::as_str) == Some("extension");
    let is_disabled = members.get("disabled") == Some(&Value::Bool(true))
        || members.get("enabled") == Some(&Value::Bool(false));
    if is_disabled {
        Some("is skipped: disabled")
    } else if is_extension && !members.contains_key("command") && !members.contains_key("url") {
        Some("is skipped: managed by an editor extension")
    } else {
        None
    }
}

/// Keys that change what a server does and have no counterpart in the configuration of the gateway.
const UNSUPPORTED_KEYS: [&str; 9] = [
    "envFile",
    "headersHelper",
    "auth",
    "oauth",
    "authProviderType",
    "includeTools",
    "excludeTools",
    "disabledTools",
    "sandboxEnabled",
];

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    }
}

/// The keys of the URL: most clients, Windsurf, Gemini.
const URL_KEYS: [&str; 3] = ["url", "serverUrl", "httpUrl"];

pub(super) struct ServerParser<'a> {
    variables: &'a ClientVariables,
    key: &'a str,
    pub(super) problems: Vec<(String, String)>,
}

impl<'a> ServerParser<'a> {
    pub(super) fn new(variables: &'a ClientVariables, key: &'a str) -> Self {
        Self { variables, key, problems: Vec::new() }
    }

    /// Returns the server, and the differences from the client's configuration.
    pub(super) fn parse(&mut self, members: &Map<String, Value>) -> (McpEntry, Vec<String>) {
        let hint = self.transport_hint(members);
        let before = self.problems.len();
        let mut entry = McpEntry::default();
        if hint != TransportHint::Http {
            self.parse_stdio(members, &mut entry);
        }
        if hint != TransportHint::Stdio {
            self.parse_http(members, &mut entry);
        }
        let remedy = match (entry.command.is_some(), entry.url.is_some()) {
            // An invalid value is already reported.
            (false, false) if self.problems.len() == before => {
                Some("add the one that `type` requires")
            }
            (true, true) => Some("remove one, or set `type`"),
            _ => None,
        };
        if let Some(remedy) = remedy {
            self.report(&[], &format!("expected exactly one of `command` and `url`; {remedy}"));
        }
        let mut notes = Vec::new();
        let missed = UNSUPPORTED_KEYS.into_iter();
        let missed: Vec<&str> =
            missed.filter(|key| members.get(*key).is_some_and(is_set)).collect();
        if !missed.is_empty() {
            notes.push(format!(
                "has unsupported keys, which are ignored: `{}`",
                missed.join("`, `")
            ));
        }
        (entry, notes)
    }

    fn transport_hint(&mut self, members: &Map<String, Value>) -> TransportHint {
        let declared = ["type", "transport"].into_iter();
        let declared = declared.filter_map(|key| Some((key, members.get(key)?))).next();
        let Some((key, kind)) = declared else { return TransportHint::Unspecified };
        match kind.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("stdio" | "local") => TransportHint::Stdio,
            // Whether a server speaks streamable HTTP or HTTP+SSE is detected.
            Some(
                "http" | "streamable-http" | "streamablehttp" | "streamable_http" | "remote"
                | "sse",
            ) => TransportHint::Http,
            _ => {
                self.report(&[key], "expected one of `stdio`, `http`, `streamable-http`, `sse`");
                TransportHint::Unspecified
            }
        }
    }

    fn report(&mut self, path: &[&str], message: &str) {
        self.problems.push((dotted_path(self.key, path), message.to_owned()));
    }

    fn parse_stdio(&mut self, members: &Map<String, Value>, entry: &mut McpEntry) {
        // Older Zed versions write { "command": { "path", "args", "env" } }.
        let nested = members.get("command").and_then(Value::as_object);
        let (holder, name, path): (_, _, &[&str]) = match nested {
            Some(nested) => (nested, "path", &["command", "path"]),
            None => (members, "command", &["command"]),
        };
        entry.command = holder.get(name).and_then(|value| self.text(path, value));
        entry.args = match holder.get("args") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => {
                items.iter().filter_map(|item| self.string(&["args"], item)).collect()
            }
            Some(_) => {
                self.report(&["args"], "expected a list of strings");
                Vec::new()
            }
        };
        entry.env = self.string_map("env", holder.get("env"));
        entry.cwd = members.get("cwd").and_then(|value| self.text(&["cwd"], value));
    }

    fn parse_http(&mut self, members: &Map<String, Value>, entry: &mut McpEntry) {
        for key in URL_KEYS {
            if let (None, Some(value)) = (&entry.url, members.get(key)) {
                entry.url = self.text(&[key], value);
            }
        }
        // Headers without a URL belong to another client feature and are not validated.
        if entry.url.is_some() {
            entry.headers = self.string_map("headers", members.get("headers"));
        }
    }

    fn string_map(&mut self, key: &str, value: Option<&Value>) -> BTreeMap<String, String> {
        let members = match value {
            None | Some(Value::Null) => return BTreeMap::new(),
            Some(Value::Object(members)) => members,
            Some(_) => {
                self.report(&[key], "expected an object of strings");
                return BTreeMap::new();
            }
        };
        let set = members.iter().filter(|(_, value)| !value.is_null());
        set.filter_map(|(name, value)| Some((name.clone(), self.string(&[key, name], value)?)))
            .collect()
    }

    /// Reads a string. Another value is an error: a program named `3` is not meant.
    fn text(&mut self, path: &[&str], value: &Value) -> Option<String> {
        match value {
            Value::Number(_) | Value::Bool(_) => {
                self.report(path, "expected a string");
                None
            }
            _ => self.string(path, value),
        }
    }

    /// Reads a string; numbers and booleans are converted.
    fn string(&mut self, path: &[&str], value: &Value) -> Option<String> {
        let raw = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null => return None,
            _ => {
                self.report(path, "expected a string");
                return None;
            }
        };
        match self.variables.translate(&raw) {
            Ok(text) => Some(text),
            Err(message) => {
                self.report(path, &message);
                None
            }
        }
    }
}
