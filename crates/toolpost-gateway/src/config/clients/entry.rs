//! One server of another client.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::entry::McpEntry;
use super::super::validate::Report;
use super::variable::Variables;

/// What became of a server.
pub(super) enum Read {
    Server {
        entry: Box<McpEntry>,
        /// What is different here from what it asks for.
        notes: Vec<String>,
    },
    /// It is not used, and why.
    LeftOut(&'static str),
}

const OLD_TRANSPORT: &str =
    "asks for the old transport HTTP+SSE; streamable HTTP is tried at its address";

/// How a server says that it is reached.
enum Reached {
    Process,
    Http,
    /// The transport of 2024.
    Sse,
    /// It does not say.
    Guess,
}

pub(super) fn read(
    members: &Map<String, Value>,
    variables: &Variables,
    report: &mut Report<'_>,
) -> Read {
    if members.get("disabled") == Some(&Value::Bool(true)) {
        return Read::LeftOut("is disabled there and left out");
    }
    if members.get("enabled") == Some(&Value::Bool(false)) {
        return Read::LeftOut("is not enabled there and left out");
    }
    let is_extension = members.get("source").and_then(Value::as_str) == Some("extension");
    if is_extension && !members.contains_key("command") && !members.contains_key("url") {
        return Read::LeftOut("belongs to an extension of the editor and is left out");
    }
    let reached = reached(members, report);
    let mut reader = Reader { variables, report, is_odd: false };
    let (mut entry, is_old) = (McpEntry::default(), matches!(reached, Reached::Sse));
    if !matches!(reached, Reached::Http | Reached::Sse) {
        reader.process(members, &mut entry);
    }
    if !matches!(reached, Reached::Process) {
        reader.endpoint(members, &mut entry);
    }
    match (entry.command.is_some(), entry.url.is_some()) {
        // A value that does not fit has been reported.
        (false, false) if !reader.is_odd => {
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
    let mut notes: Vec<String> = is_old.then(|| OLD_TRANSPORT.to_owned()).into_iter().collect();
    let missed: Vec<&str> =
        NOT_TAKEN.into_iter().filter(|key| members.get(*key).is_some_and(is_said)).collect();
    if !missed.is_empty() {
        notes.push(format!("has `{}`, which is not taken over", missed.join("`, `")));
    }
    Read::Server { entry: Box::new(entry), notes }
}

/// What makes a server another one, and has no counterpart that could be written here.
const NOT_TAKEN: [&str; 9] = [
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

fn is_said(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    }
}

/// Where the address stands: most clients, Windsurf, Gemini.
const ADDRESSES: [&str; 3] = ["url", "serverUrl", "httpUrl"];

fn reached(members: &Map<String, Value>, report: &mut Report<'_>) -> Reached {
    for key in ["type", "transport"] {
        let Some(kind) = members.get(key) else { continue };
        return match kind.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("stdio" | "local") => Reached::Process,
            Some("http" | "streamable-http" | "streamablehttp" | "streamable_http" | "remote") => {
                Reached::Http
            }
            Some("sse") => Reached::Sse,
            _ => {
                report(&[key], "expected one of `stdio`, `http`, `streamable-http`, `sse`");
                Reached::Guess
            }
        };
    }
    Reached::Guess
}

struct Reader<'a, 'r> {
    variables: &'a Variables,
    report: &'a mut Report<'r>,
    /// Whether something was reported.
    is_odd: bool,
}

impl Reader<'_, '_> {
    fn odd(&mut self, path: &[&str], message: &str) {
        self.is_odd = true;
        (self.report)(path, message);
    }

    fn process(&mut self, members: &Map<String, Value>, entry: &mut McpEntry) {
        // Zed once wrote { "command": { "path", "args", "env" } }.
        let nested = members.get("command").and_then(Value::as_object);
        let (holder, name, path): (_, _, &[&str]) = match nested {
            Some(nested) => (nested, "path", &["command", "path"]),
            None => (members, "command", &["command"]),
        };
        entry.command = holder.get(name).and_then(|value| self.text(path, value));
        entry.args = match holder.get("args") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => {
                items.iter().filter_map(|item| self.text(&["args"], item)).collect()
            }
            Some(_) => {
                self.odd(&["args"], "expected a list of strings");
                Vec::new()
            }
        };
        entry.env = self.table("env", holder.get("env"));
        entry.cwd = members.get("cwd").and_then(|value| self.text(&["cwd"], value));
    }

    fn endpoint(&mut self, members: &Map<String, Value>, entry: &mut McpEntry) {
        for key in ADDRESSES {
            if let (None, Some(value)) = (&entry.url, members.get(key)) {
                entry.url = self.text(&[key], value);
            }
        }
        // Without an address they are somebody else's, and not ours to judge.
        if entry.url.is_some() {
            entry.headers = self.table("headers", members.get("headers"));
        }
    }

    fn table(&mut self, key: &str, value: Option<&Value>) -> BTreeMap<String, String> {
        let members = match value {
            None | Some(Value::Null) => return BTreeMap::new(),
            Some(Value::Object(members)) => members,
            Some(_) => {
                self.odd(&[key], "expected an object of strings");
                return BTreeMap::new();
            }
        };
        let set = members.iter().filter(|(_, value)| !value.is_null());
        set.filter_map(|(name, value)| Some((name.clone(), self.text(&[key, name], value)?)))
            .collect()
    }

    /// A string; numbers and booleans are meant as one.
    fn text(&mut self, path: &[&str], value: &Value) -> Option<String> {
        let raw = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null => return None,
            _ => {
                self.odd(path, "expected a string");
                return None;
            }
        };
        match self.variables.translate(&raw) {
            Ok(text) => Some(text),
            Err(message) => {
                self.odd(path, &message);
                None
            }
        }
    }
}
