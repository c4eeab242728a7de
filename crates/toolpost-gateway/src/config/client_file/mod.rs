//! MCP servers from the configuration files of other clients.
//!
//! The clients use different names for the same few members. They are converted to entries of
//! `toolpost.toml` with their variables unexpanded. Members that Toolpost does not support are
//! ignored.

mod jsonc;
mod name;
mod server;
mod variables;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::document::dotted_key;
use super::entry::{McpEntry, ProblemCollector};
use super::problem::{ConfigError, ConfigProblem};
use name::namespace_from_name;
use server::ParsedServer;
use variables::ClientVariables;

/// The keys under which clients store their servers: Claude, Cursor, Windsurf, Gemini and
/// `.mcp.json`; VS Code; Zed.
const SERVER_KEYS: [&str; 3] = ["mcpServers", "servers", "context_servers"];

/// The MCP servers in the configuration file of another client.
///
/// ```
/// use toolpost_gateway::config::ClientFile;
///
/// let text = r#"{"mcpServers": {"My Files": {"command": "files", /* why */ "args": ["${HOME}"],}}}"#;
/// let file = ClientFile::parse(".mcp.json".as_ref(), text).unwrap();
/// assert_eq!(file.servers[0].name, "my-files");
/// assert_eq!(file.servers[0].entry.args, ["${HOME}"]);
/// assert_eq!(file.notes, [".mcp.json: `My Files` is the source `my-files` here"]);
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ClientFile {
    /// The enabled servers, in file order.
    pub servers: Vec<ClientServer>,
    /// Messages about servers and members that were skipped or changed.
    pub notes: Vec<String>,
    /// The servers that cannot be used; filled only by [`ClientFile::load_lenient`].
    pub rejected: Vec<RejectedServer>,
}

/// A server in a client file that cannot be used.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RejectedServer {
    /// Name of the source it would become, or the client's name if no source name can be derived
    /// from it.
    pub name: String,
    /// The name that the client uses.
    pub client_name: String,
    /// All problems of the server.
    pub problems: Vec<ConfigProblem>,
}

/// A server in a client file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientServer {
    /// Name of the source it becomes.
    pub name: String,
    /// The name that the client uses.
    pub client_name: String,
    /// Its key in the file, such as `mcpServers.files`.
    pub key: String,
    /// How to connect to the server.
    pub entry: McpEntry,
}

impl ClientFile {
    /// The file name that is looked for if there is no `toolpost.toml`.
    pub const FILE_NAME: &str = ".mcp.json";

    /// Reads a client file.
    ///
    /// # Errors
    ///
    /// All problems of the file.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::load_lenient(file)?.require_all_valid()
    }

    /// Reads a file and reports invalid servers in `rejected` instead of failing.
    ///
    /// # Errors
    ///
    /// The file as a whole is invalid.
    pub fn load_lenient(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| ConfigError::new(vec![ConfigProblem::unreadable(file, &error)]))?;
        Self::parse_lenient(file, &text)
    }

    /// Parses a client file. Errors refer to it as `file`.
    ///
    /// # Errors
    ///
    /// All problems of the file.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        Self::parse_lenient(file, text)?.require_all_valid()
    }

    fn require_all_valid(mut self) -> Result<Self, ConfigError> {
        let rejection = std::mem::take(&mut self.rejected);
        if rejection.is_empty() {
            return Ok(self);
        }
        Err(ConfigError::new(rejection.into_iter().flat_map(|server| server.problems).collect()))
    }

    fn parse_lenient(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let root: Value = serde_json::from_str(&jsonc::to_json(text))
            .map_err(|error| ConfigError::new(vec![json_problem(file, &error)]))?;
        let mut reading = ClientFileParser {
            file,
            variables: ClientVariables::for_file(file),
            names: BTreeMap::new(),
            parsed: Self::default(),
            problems: Vec::new(),
        };
        reading.parse_root(&root);
        if reading.problems.is_empty() {
            Ok(reading.parsed)
        } else {
            Err(ConfigError::new(reading.problems))
        }
    }
}

fn json_problem(file: &Path, error: &serde_json::Error) -> ConfigProblem {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let position = (error.line(), error.column().max(1));
    ConfigProblem::at_position(
        file,
        position,
        String::new(),
        format!("this is not JSON: {message}"),
    )
}

struct ClientFileParser<'a> {
    file: &'a Path,
    variables: ClientVariables,
    /// The client's name for each source name in use.
    names: BTreeMap<String, String>,
    parsed: ClientFile,
    problems: Vec<ConfigProblem>,
}

impl ClientFileParser<'_> {
    fn parse_root(&mut self, root: &Value) {
        // VS Code settings nest them under `mcp`.
        let parents = [(String::new(), Some(root)), ("mcp".to_owned(), root.get("mcp"))];
        let mut is_found = false;
        for (parent, value) in parents {
            for key in SERVER_KEYS {
                let Some(servers) = value.and_then(|value| value.get(key)) else { continue };
                is_found = true;
                self.parse_servers(&join_key(&parent, key), servers);
            }
        }
        if !is_found {
            let message = format!(
                "there are no MCP servers in it; expected `{}`",
                SERVER_KEYS.join("` or `")
            );
            self.report(String::new(), message);
        }
    }

    fn parse_servers(&mut self, key: &str, servers: &Value) {
        let Some(servers) = servers.as_object() else {
            self.report(key.to_owned(), "expected an object with a server under each name".into());
            return;
        };
        for (original_name, server) in servers {
            let key = dotted_key(key, original_name);
            match server.as_object() {
                Some(members) => self.parse_server(&key, original_name, members),
                None => {
                    self.reject(
                        key,
                        original_name,
                        "expected an object with `command` or `url`".into(),
                    );
                }
            }
        }
    }

    fn parse_server(&mut self, key: &str, original_name: &str, members: &Map<String, Value>) {
        let mut problems = ProblemCollector::new(self.file, key.to_owned());
        let read = server::parse_server(members, &self.variables, &mut |path, message| {
            problems.report(path, message);
        });
        let problems = problems.into_problems();
        match read {
            ParsedServer::Skipped(why) => self.add_note(original_name, why),
            ParsedServer::Server { .. } if !problems.is_empty() => {
                self.reject_with(original_name, problems);
            }
            ParsedServer::Server { entry, notes } => {
                for note in notes {
                    self.add_note(original_name, &note);
                }
                self.add_server(key, original_name, *entry);
            }
        }
    }

    fn add_server(&mut self, key: &str, original_name: &str, entry: McpEntry) {
        let Some(name) = namespace_from_name(original_name) else {
            let message = "no letter or digit of this name can stand in a namespace; rename it";
            self.reject(key.to_owned(), original_name, message.to_owned());
            return;
        };
        if let Some(other) = self.names.insert(name.clone(), original_name.to_owned()) {
            let message =
                format!("this and `{other}` would both be the source `{name}`; rename one");
            self.reject(key.to_owned(), original_name, message);
            return;
        }
        if name != original_name {
            self.add_note(original_name, &format!("is the source `{name}` here"));
        }
        let (typed_name, key) = (original_name.to_owned(), key.to_owned());
        self.parsed.servers.push(ClientServer { name, client_name: typed_name, key, entry });
    }

    fn add_note(&mut self, original_name: &str, text: &str) {
        self.parsed.notes.push(format!("{}: `{original_name}` {text}", self.file.display()));
    }

    fn report(&mut self, key: String, message: String) {
        self.problems.push(self.problem(key, message));
    }

    fn problem(&self, key: String, message: String) -> ConfigProblem {
        ConfigProblem { file: self.file.to_owned(), position: None, key, message }
    }

    fn reject(&mut self, key: String, original_name: &str, message: String) {
        let problem = self.problem(key, message);
        self.reject_with(original_name, vec![problem]);
    }

    fn reject_with(&mut self, original_name: &str, problems: Vec<ConfigProblem>) {
        let typed_name = original_name.to_owned();
        let name = namespace_from_name(original_name).unwrap_or_else(|| typed_name.clone());
        self.parsed.rejected.push(RejectedServer { name, client_name: typed_name, problems });
    }
}

fn join_key(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { dotted_key(parent, key) }
}

#[cfg(test)]
mod tests;
