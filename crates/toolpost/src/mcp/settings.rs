//! What is settled about a source before it is connected.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};
use url::Url;

use crate::protocol::Secret;

/// An MCP server, and how it is dealt with.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct McpSettings {
    /// How it is reached.
    pub transport: McpTransport,
    /// The one protocol version that is spoken; `None` finds out.
    pub protocol: Option<String>,
    /// How long the server may take from its start to its first answer.
    pub start_timeout: Duration,
    /// How long a call may go on without a sign of progress.
    pub timeout: Duration,
    /// How long a call may go on, whatever its progress.
    pub max_timeout: Duration,
    /// How long is waited before a server that was lost is connected again: at first, and at most.
    pub restart: (Duration, Duration),
    /// The largest message that is taken, in bytes; the call that a larger one answers fails.
    pub message_bytes: usize,
    /// The most tools that are taken from one server.
    pub max_tools: usize,
    /// What is said when the server asks a person for something.
    pub elicitation: Elicitation,
    /// What is said when the server asks a model for something.
    pub sampling: Sampling,
    /// The folders that the server is told about.
    pub roots: Roots,
    /// Whether a lone text block that is JSON becomes the data of a tool without an output schema.
    pub parse_json_text: bool,
    /// Whether the two blocks of a ToolEnvelope are recognized and its payload becomes the data.
    pub tool_envelope: bool,
}

impl McpSettings {
    /// The defaults for a server that is reached like this.
    pub fn new(transport: McpTransport) -> Self {
        Self {
            transport,
            protocol: None,
            start_timeout: Duration::from_secs(60),
            timeout: Duration::from_secs(60),
            max_timeout: Duration::from_secs(300),
            restart: (Duration::from_millis(100), Duration::from_secs(30)),
            message_bytes: 64 * 1024 * 1024,
            max_tools: 20_000,
            elicitation: Elicitation::default(),
            sampling: Sampling::default(),
            roots: Roots::default(),
            parse_json_text: false,
            tool_envelope: true,
        }
    }
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpTransport {
    /// A process of ours, over its standard input and output.
    Stdio(StdioSettings),
    /// A server on the network, over streamable HTTP.
    Http(HttpSettings),
}

/// A process that is a server.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StdioSettings {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What is added to its environment.
    pub env: BTreeMap<String, Secret>,
    /// Where it runs; here, if absent.
    pub cwd: Option<PathBuf>,
    /// The command line of a watcher, which is put before that of the server and ends the server
    /// when this process is gone, however it went. See [`watch_child`](super::watch_child).
    pub watcher: Vec<OsString>,
}

impl StdioSettings {
    /// A program with its arguments.
    pub fn new(
        command: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            cwd: None,
            watcher: Vec::new(),
        }
    }
}

/// A server on the network.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpSettings {
    /// Its MCP endpoint.
    pub url: Url,
    /// What is sent with every request.
    pub headers: BTreeMap<String, Secret>,
    /// A token that is sent as it is; then nothing is done about authorization.
    pub bearer: Option<Secret>,
    /// How access is asked for, when the server wants it.
    pub oauth: OAuthSettings,
}

impl HttpSettings {
    /// An endpoint that is reached without anything special.
    pub fn new(url: Url) -> Self {
        let oauth = OAuthSettings::default();
        Self { url, headers: BTreeMap::new(), bearer: None, oauth }
    }
}

/// Without the arguments and the environment, which may hold secrets.
impl fmt::Debug for StdioSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioSettings").field("command", &self.command).finish_non_exhaustive()
    }
}

/// Without the path and the headers, which may hold secrets.
impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.url.origin().ascii_serialization();
        f.debug_struct("HttpSettings").field("origin", &origin).finish_non_exhaustive()
    }
}

/// What is known of this client at an authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OAuthSettings {
    /// The id of a client that was registered beforehand.
    pub client_id: Option<String>,
    /// The issuer that it was registered at; if absent, the one that it is first used at.
    pub issuer: Option<String>,
    /// Its secret, if it has one.
    pub client_secret: Option<Secret>,
    /// The URL of a document that describes this client, which then is its id.
    pub client_metadata_url: Option<String>,
    /// What is asked for; what the server asks for, if empty.
    pub scopes: Vec<String>,
}

/// A folder that a server is told about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Root {
    /// `file://…`.
    pub uri: String,
    /// What it is called.
    pub name: Option<String>,
}

impl Root {
    /// A folder without a name.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: None }
    }
}

/// Which folders a server is told about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Roots {
    /// These; none are not even offered.
    Static(Vec<Root>),
    /// Those of the client that called, if it declares that it can be asked for them.
    Client,
}

impl Default for Roots {
    fn default() -> Self {
        Self::Static(Vec::new())
    }
}

impl From<Vec<Root>> for Roots {
    fn from(roots: Vec<Root>) -> Self {
        Self::Static(roots)
    }
}

/// What is said when a server asks a model for something while a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sampling {
    /// The server is told that there is no model: to ask one is at the expense of somebody.
    #[default]
    Reject,
    /// The model of the client that called is asked, if it declares that it can be.
    Client,
}

/// What is said when a server asks a person for something while a call runs.
#[derive(Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum Elicitation {
    /// The client that called is asked, if it declares that it can be; else it is as with `Reject`.
    #[default]
    Client,
    /// The server is told that nobody can be asked, and the call fails with what it wanted.
    Reject,
    /// The person declines.
    Decline,
    /// The person closes the question.
    Cancel,
    /// The person agrees with every default, and declines what has a field without one.
    Defaults,
    /// The person answers with these fields, and with the defaults of the others.
    Accept(Map<String, Value>),
}

/// Without the answers.
impl fmt::Debug for Elicitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Elicitation {
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Reject => "reject",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
            Self::Defaults => "defaults",
            Self::Accept(_) => "accept",
        }
    }
}
