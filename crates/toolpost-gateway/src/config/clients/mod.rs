//! The MCP servers of other clients, read from their own files as they are.
//!
//! Every client writes the same few members under another name. Here they become entries of
//! `toolpost.toml`, with their variables still in them; what a client knows and Toolpost does not is
//! passed over.

mod entry;
mod jsonc;
mod name;
mod variable;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::document::join;
use super::entry::{McpEntry, Problems};
use super::problem::{ConfigError, Problem};
use entry::Read;
use name::namespace;
use variable::Variables;

/// Under which key a client keeps its servers: Claude, Cursor, Windsurf, Gemini and `.mcp.json`;
/// VS Code; Zed.
const ROOTS: [&str; 3] = ["mcpServers", "servers", "context_servers"];

/// The servers of one file.
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
    /// The servers that are not disabled, in the order of the file.
    pub servers: Vec<ClientServer>,
    /// What was left out or taken otherwise than it is written, for people.
    pub notes: Vec<String>,
    /// The servers that cannot be used; only where they are asked for beside the others.
    pub refused: Vec<RefusedServer>,
}

/// One server of another client that cannot be used.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RefusedServer {
    /// The source that it would become; what the client calls it, if that is nothing.
    pub name: String,
    /// What the client calls it.
    pub typed_name: String,
    /// Everything that is wrong with it.
    pub problems: Vec<Problem>,
}

/// One server of another client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientServer {
    /// The source that it becomes.
    pub name: String,
    /// What the client calls it.
    pub typed_name: String,
    /// Where it stands, such as `mcpServers.files`.
    pub key: String,
    /// How it is reached.
    pub entry: McpEntry,
}

impl ClientFile {
    /// The file of this shape that is looked for where there is no `toolpost.toml`.
    pub const FILE_NAME: &str = ".mcp.json";

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::load_each(file)?.whole()
    }

    /// Reads a file in which a server that cannot be used does not stand in the way of the others.
    ///
    /// # Errors
    ///
    /// What is wrong with the file as a whole.
    pub fn load_each(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| ConfigError::new(vec![Problem::unreadable(file, &error)]))?;
        Self::parse_each(file, &text)
    }

    /// Reads a text; `file` is what errors call it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        Self::parse_each(file, text)?.whole()
    }

    fn whole(mut self) -> Result<Self, ConfigError> {
        let refused = std::mem::take(&mut self.refused);
        if refused.is_empty() {
            return Ok(self);
        }
        Err(ConfigError::new(refused.into_iter().flat_map(|server| server.problems).collect()))
    }

    fn parse_each(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let root: Value = serde_json::from_str(&jsonc::to_json(text))
            .map_err(|error| ConfigError::new(vec![not_json(file, &error)]))?;
        let mut reading = Reading {
            file,
            variables: Variables::of(file),
            names: BTreeMap::new(),
            read: Self::default(),
            problems: Vec::new(),
        };
        reading.root(&root);
        if reading.problems.is_empty() {
            Ok(reading.read)
        } else {
            Err(ConfigError::new(reading.problems))
        }
    }
}

fn not_json(file: &Path, error: &serde_json::Error) -> Problem {
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    let place = (error.line(), error.column().max(1));
    Problem::at(file, place, String::new(), format!("this is not JSON: {said}"))
}

struct Reading<'a> {
    file: &'a Path,
    variables: Variables,
    /// What each name in use was made of.
    names: BTreeMap<String, String>,
    read: ClientFile,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn root(&mut self, root: &Value) {
        // VS Code keeps them under `mcp` in its settings.
        let places = [(String::new(), Some(root)), ("mcp".to_owned(), root.get("mcp"))];
        let mut is_found = false;
        for (place, value) in places {
            for key in ROOTS {
                let Some(servers) = value.and_then(|value| value.get(key)) else { continue };
                is_found = true;
                self.servers(&join_key(&place, key), servers);
            }
        }
        if !is_found {
            let message =
                format!("there are no MCP servers in it; expected `{}`", ROOTS.join("` or `"));
            self.report(String::new(), message);
        }
    }

    fn servers(&mut self, key: &str, servers: &Value) {
        let Some(servers) = servers.as_object() else {
            self.report(key.to_owned(), "expected an object with a server under each name".into());
            return;
        };
        for (typed, server) in servers {
            let key = join(key, typed);
            match server.as_object() {
                Some(members) => self.server(&key, typed, members),
                None => {
                    self.refuse(key, typed, "expected an object with `command` or `url`".into());
                }
            }
        }
    }

    fn server(&mut self, key: &str, typed: &str, members: &Map<String, Value>) {
        let mut problems = Problems::new(self.file, key.to_owned());
        let read =
            entry::read(members, &self.variables, &mut |path, said| problems.report(path, said));
        let problems = problems.into_found();
        match read {
            Read::LeftOut(why) => self.note(typed, why),
            Read::Server { .. } if !problems.is_empty() => self.refuse_for(typed, problems),
            Read::Server { entry, notes } => {
                for note in notes {
                    self.note(typed, &note);
                }
                self.keep(key, typed, *entry);
            }
        }
    }

    fn keep(&mut self, key: &str, typed: &str, entry: McpEntry) {
        let Some(name) = namespace(typed) else {
            let message = "no letter or digit of this name can stand in a namespace; rename it";
            self.refuse(key.to_owned(), typed, message.to_owned());
            return;
        };
        if let Some(other) = self.names.insert(name.clone(), typed.to_owned()) {
            let message =
                format!("this and `{other}` would both be the source `{name}`; rename one");
            self.refuse(key.to_owned(), typed, message);
            return;
        }
        if name != typed {
            self.note(typed, &format!("is the source `{name}` here"));
        }
        let (typed_name, key) = (typed.to_owned(), key.to_owned());
        self.read.servers.push(ClientServer { name, typed_name, key, entry });
    }

    fn note(&mut self, typed: &str, words: &str) {
        self.read.notes.push(format!("{}: `{typed}` {words}", self.file.display()));
    }

    fn report(&mut self, key: String, message: String) {
        self.problems.push(self.problem(key, message));
    }

    fn problem(&self, key: String, message: String) -> Problem {
        Problem { file: self.file.to_owned(), place: None, key, message }
    }

    fn refuse(&mut self, key: String, typed: &str, message: String) {
        let problem = self.problem(key, message);
        self.refuse_for(typed, vec![problem]);
    }

    fn refuse_for(&mut self, typed: &str, problems: Vec<Problem>) {
        let typed_name = typed.to_owned();
        let name = namespace(typed).unwrap_or_else(|| typed_name.clone());
        self.read.refused.push(RefusedServer { name, typed_name, problems });
    }
}

fn join_key(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { join(place, key) }
}

#[cfg(test)]
mod tests;
