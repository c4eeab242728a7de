//! Parsing of one server in a client file.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::entry::McpEntry;
use super::super::validate::ReportFn;
use super::variables::ClientVariables;

/// The result of parsing a server.
pub(super) enum ParsedServer {
    Server {
        entry: Box<McpEntry>,
        /// Differences from the client's configuration.
        notes: Vec<String>,
    },
    /// The server is skipped, with the reason.
    Skipped(&'static str),
}

const SSE_TRANSPORT_NOTE: &str =
    "asks for the old transport HTTP+SSE; streamable HTTP is tried at its address";

/// The transport that a server declares.
enum TransportHint {
    Stdio,
    Http,
    /// The HTTP+SSE transport of the 2024 protocol version.
    Sse,
    /// No transport is declared.
    Unspecified,
}

pub(super) fn parse_server(
    members: &Map<String, Value>,
    variables: &ClientVariables,
    report: &mut ReportFn<'_>,
) -> ParsedServer {
    if members.get("disabled") == Some(&Value::Bool(true)) {
        return ParsedServer::Skipped("is disabled there and left out");
    }
    if members.get("enabled") == Some(&Value::Bool(false)) {
        return ParsedServer::Skipped("is not enabled there and left out");
    }
    let is_extension = members.get("source").and_then(Value::as_str) == Some("extension");
    if is_extension && !members.contains_key("command") && !members.contains_key("url") {
        return ParsedServer::Skipped("belongs to an extension of the editor and is left out");
    }
    let reached = transport_hint(members, report);
    let mut reader = ServerParser { variables, report, has_problems: false };
    let (mut entry, is_old) = (McpEntry::default(), matches!(reached, TransportHint::Sse));
    if !matches!(reached, TransportHint::Http | TransportHint::Sse) {
        reader.parse_stdio(members, &mut entry);
    }
    if !matches!(reached, TransportHint::Stdio) {
        reader.parse_http(members, &mut entry);
    }
    match (entry.command.is_some(), entry.url.is_some()) {
        // An invalid value is already reported.
        (false, false) if !reader.has_problems => {
            report(
                &[],
                "a server has a `command` or a `url`; add the one that its `type` asks for",
            );
        }
        (true, true) => {
            report(&[], "a server has a `command` or a `url`; remove one, or say the `type`");
        }
        _ => {}
    }
    let mut notes: Vec<String> =
        is_old.then(|| SSE_TRANSPORT_NOTE.to_owned()).into_iter().collect();
    let missed: Vec<&str> =
        UNSUPPORTED_KEYS.into_iter().filter(|key| members.get(*key).is_some_and(is_set)).collect();
    if !missed.is_empty() {
        notes.push(format!("has `{}`, which is not taken over", missed.join("`, `")));
    }
    ParsedServer::Server { entry: Box::new(entry), notes }
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

fn transport_hint(members: &Map<String, Value>, report: &mut ReportFn<'_>) -> TransportHint {
    for key in ["type", "transport"] {
        let Some(kind) = members.get(key) else { continue };
        return match kind.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("stdio" | "local") => TransportHint::Stdio,
            Some("http" | "streamable-http" | "streamablehttp" | "streamable_http" | "remote") => {
                TransportHint::Http
            }
            Some("sse") => TransportHint::Sse,
            _ => {
                report(&[key], "expected one of `stdio`, `http`, `streamable-http`, `sse`");
                TransportHint::Unspecified
            }
        };
    }
    TransportHint::Unspecified
}

struct ServerParser<'a, 'r> {
    variables: &'a ClientVariables,
    report: &'a mut ReportFn<'r>,
    /// Whether a problem was reported.
    has_problems: bool,
}

impl ServerParser<'_, '_> {
    fn add_problem(&mut self, path: &[&str], message: &str) {
        self.has_problems = true;
        (self.report)(path, message);
    }

    fn parse_stdio(&mut self, members: &Map<String, Value>, entry: &mut McpEntry) {
        // Older Zed versions write { "command": { "path", "args", "env" } }.
        let nested = members.get("command").and_then(Value::as_object);
        let (holder, name, path): (_, _, &[&str]) = match nested {
            Some(nested) => (nested, "path", &["command", "path"]),
            None => (members, "command", &["command"]),
        };
        entry.command = holder.get(name).and_then(|value| self.string(path, value));
        entry.args = match holder.get("args") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => {
                items.iter().filter_map(|item| self.string(&["args"], item)).collect()
            }
            Some(_) => {
                self.add_problem(&["args"], "expected a list of strings");
                Vec::new()
            }
        };
        entry.env = self.string_map("env", holder.get("env"));
        entry.cwd = members.get("cwd").and_then(|value| self.string(&["cwd"], value));
    }

    fn parse_http(&mut self, members: &Map<String, Value>, entry: &mut McpEntry) {
        for key in URL_KEYS {
            if let (None, Some(value)) = (&entry.url, members.get(key)) {
                entry.url = self.string(&[key], value);
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
                self.add_problem(&[key], "expected an object of strings");
                return BTreeMap::new();
            }
        };
        let set = members.iter().filter(|(_, value)| !value.is_null());
        set.filter_map(|(name, value)| Some((name.clone(), self.string(&[key, name], value)?)))
            .collect()
    }

    /// Reads a string; numbers and booleans are converted.
    fn string(&mut self, path: &[&str], value: &Value) -> Option<String> {
        let raw = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null => return None,
            _ => {
                self.add_problem(path, "expected a string");
                return None;
            }
        };
        match self.variables.translate(&raw) {
            Ok(text) => Some(text),
            Err(message) => {
                self.add_problem(path, &message);
                None
            }
        }
    }
}
