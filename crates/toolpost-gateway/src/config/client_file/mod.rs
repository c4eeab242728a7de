//! MCP servers from the configuration files of other clients.
//!
//! The clients use different names for the same few members. They are converted to entries of
//! `toolpost.toml` with their variables unexpanded. Members that Toolpost does not support are
//! ignored.

mod name;
mod server;
mod variables;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::document::{dotted_key, dotted_path};
use super::mcp_entry::McpEntry;
use super::problem::{ConfigError, ConfigProblem};
use super::{MAX_FILE_BYTES, read_regular_file};
use name::namespace_from_name;
use server::ServerParser;
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
/// assert_eq!(file.notes, [".mcp.json: `My Files` becomes the source `my-files`"]);
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ClientFile {
    /// The enabled servers, usable or not, in file order.
    pub servers: Vec<ClientServer>,
    /// Messages about servers and members that were skipped or changed.
    pub notes: Vec<String>,
}

/// A server in a client file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientServer {
    /// Name of the source it becomes, or the client's name if no source name can be derived from it.
    pub name: String,
    /// The name that the client uses.
    pub client_name: String,
    /// Its key in the file, such as `mcpServers.files`.
    pub key: String,
    /// How to connect to the server.
    pub entry: McpEntry,
    /// Why the server cannot be used; empty if it can.
    pub problems: Vec<ConfigProblem>,
}

impl ClientFile {
    /// The file name that is looked for if there is no `toolpost.toml`.
    pub const FILE_NAME: &str = ".mcp.json";

    /// Reads a client file.
    ///
    /// # Errors
    ///
    /// The file as a whole is invalid.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let text = read_regular_file(file, MAX_FILE_BYTES)
            .map_err(|error| ConfigError::new(vec![ConfigProblem::unreadable(file, &error)]))?;
        Self::parse(file, &text)
    }

    /// Parses a client file. Errors refer to it as `file`.
    ///
    /// # Errors
    ///
    /// The file as a whole is invalid.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let root: Value = jsonc_parser::parse_to_serde_value(text, &Default::default())
            .map_err(|error| ConfigError::new(vec![json_problem(file, &error)]))?;
        let mut parser = ClientFileParser {
            file,
            variables: ClientVariables::for_file(file),
            names: BTreeMap::new(),
            parsed: Self::default(),
        };
        parser.parse_root(&root).map_err(|problem| ConfigError::new(vec![problem]))?;
        Ok(parser.parsed)
    }
}

fn json_problem(file: &Path, error: &jsonc_parser::errors::ParseError) -> ConfigProblem {
    let position = (error.line_display(), error.column_display());
    let message = format!("invalid JSON: {}", error.kind());
    ConfigProblem::at_position(file, position, String::new(), message)
}

struct ClientFileParser<'a> {
    file: &'a Path,
    variables: ClientVariables,
    /// The client's name for each source name in use.
    names: BTreeMap<String, String>,
    parsed: ClientFile,
}

impl ClientFileParser<'_> {
    fn parse_root(&mut self, root: &Value) -> Result<(), ConfigProblem> {
        let mut is_found = false;
        // VS Code settings nest them under `mcp`.
        for (parent, value) in [(&[][..], Some(root)), (&["mcp"], root.get("mcp"))] {
            for key in SERVER_KEYS {
                let Some(servers) = value.and_then(|value| value.get(key)) else { continue };
                is_found = true;
                let key = dotted_key(&dotted_path("", parent), key);
                let Some(servers) = servers.as_object() else {
                    let message = "expected an object that maps names to servers";
                    return Err(ConfigProblem::in_file(self.file, key, message));
                };
                for (client_name, server) in servers {
                    self.parse_server(dotted_key(&key, client_name), client_name, server);
                }
            }
        }
        if is_found {
            return Ok(());
        }
        let keys = SERVER_KEYS.join("` or `");
        let message = format!("no MCP servers; expected `{keys}`");
        Err(ConfigProblem::in_file(self.file, String::new(), message))
    }

    fn parse_server(&mut self, key: String, client_name: &str, server: &Value) {
        let Some(members) = server.as_object() else {
            let message = "expected an object with `command` or `url`";
            return self.add_server(client_name, key.clone(), Err(vec![(key, message.to_owned())]));
        };
        if let Some(reason) = server::skip_reason(members) {
            return self.add_note(client_name, reason);
        }
        let mut parser = ServerParser::new(&self.variables, &key);
        let (entry, notes) = parser.parse(members);
        let mut problems = parser.problems;
        if problems.is_empty() {
            notes.iter().for_each(|note| self.add_note(client_name, note));
            problems.extend(self.check_name(client_name).err().map(|why| (key.clone(), why)));
        }
        let result = if problems.is_empty() { Ok(entry) } else { Err(problems) };
        self.add_server(client_name, key, result);
    }

    /// Checks that the client's name becomes a source name of its own.
    fn check_name(&mut self, client_name: &str) -> Result<(), String> {
        let name = namespace_from_name(client_name)
            .ok_or("no source name can be derived from this name; rename it")?;
        if let Some(other) = self.names.insert(name.clone(), client_name.to_owned()) {
            return Err(format!("same source name `{name}` as `{other}`; rename one"));
        }
        if name != client_name {
            self.add_note(client_name, &format!("becomes the source `{name}`"));
        }
        Ok(())
    }

    fn add_note(&mut self, client_name: &str, text: &str) {
        self.parsed.notes.push(format!("{}: `{client_name}` {text}", self.file.display()));
    }

    /// Adds a server, or its problems, each a key and a message.
    fn add_server(
        &mut self,
        client_name: &str,
        key: String,
        result: Result<McpEntry, Vec<(String, String)>>,
    ) {
        let client_name = client_name.to_owned();
        let name = namespace_from_name(&client_name).unwrap_or_else(|| client_name.clone());
        let (entry, problems) = match result {
            Ok(entry) => (entry, Vec::new()),
            Err(problems) => (McpEntry::default(), problems),
        };
        let problems = problems.into_iter();
        let problems =
            problems.map(|(key, message)| ConfigProblem::in_file(self.file, key, message));
        let problems = problems.collect();
        self.parsed.servers.push(ClientServer { name, client_name, key, entry, problems });
    }
}

#[cfg(test)]
mod tests;
