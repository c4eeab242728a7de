//! Settings of an MCP source.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use crate::protocol::Secret;
use crate::tls::ClientTls;

/// Settings of an MCP source.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct McpSettings {
    /// Transport to the server.
    pub transport: McpTransport,
    /// Protocol version to use. If `None`, the version is negotiated.
    pub protocol: Option<String>,
    /// Time limit for the handshake and for listing the tools.
    pub start_timeout: Duration,
    /// Maximum time that a call may go without progress.
    pub timeout: Duration,
    /// Maximum duration of a call, regardless of progress.
    pub max_timeout: Duration,
    /// Initial and maximum reconnect delay.
    pub restart: (Duration, Duration),
    /// Maximum message size in bytes. A call with a larger response fails.
    pub message_bytes: usize,
    /// Maximum number of tools to import; further tools are ignored.
    pub max_tools: usize,
    /// How elicitation requests from the server are handled.
    pub elicitation: Elicitation,
    /// How sampling requests from the server are handled.
    pub sampling: Sampling,
    /// The roots that the server can list.
    pub roots: Roots,
    /// For a tool without an output schema, whether a result with a single text block that contains
    /// JSON is parsed as the data.
    pub parse_json_text: bool,
    /// Whether a ToolEnvelope in two text blocks is detected and its payload used as the data.
    pub tool_envelope: bool,
}

impl McpSettings {
    /// Creates default settings for a transport.
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

/// Transport to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpTransport {
    /// A child process, over its standard input and output.
    Stdio(StdioSettings),
    /// A remote server, over streamable HTTP or HTTP+SSE.
    Http(HttpSettings),
}

/// Settings of a server that runs as a child process.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StdioSettings {
    /// Program to run.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Additional environment variables.
    pub env: BTreeMap<String, Secret>,
    /// Working directory. If `None`, that of this process.
    pub cwd: Option<PathBuf>,
    /// Command line of a watcher process, prepended to the command line of the server. The watcher
    /// terminates the server when this process exits for any reason. See
    /// [`watch_child`](super::watch_child).
    pub watcher: Vec<OsString>,
}

impl StdioSettings {
    /// Creates settings with a program and its arguments.
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

/// Settings of a server over HTTP.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpSettings {
    /// URL of the MCP endpoint.
    pub url: Url,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, Secret>,
    /// Static bearer token; disables OAuth.
    pub bearer: Option<Secret>,
    /// OAuth settings, used if the server requires authorization.
    pub oauth: OAuthSettings,
    /// Trusted certificates, also of the authorization server. OAuth tokens require HTTPS even with
    /// `insecure`.
    pub tls: ClientTls,
}

impl HttpSettings {
    /// Creates settings without headers or credentials.
    pub fn new(url: Url) -> Self {
        let (oauth, tls) = Default::default();
        Self { url, headers: BTreeMap::new(), bearer: None, oauth, tls }
    }

    /// Whether requests have headers that may be credentials.
    pub fn has_credentials(&self) -> bool {
        !self.headers.is_empty() || self.bearer.is_some()
    }
}

// Omits the arguments and the environment, which may contain secrets.
debug_fields!(settings: StdioSettings, command = settings.command);

// Omits the path and the headers, which may contain secrets.
debug_fields!(settings: HttpSettings, origin = settings.url.origin().ascii_serialization());

/// The OAuth client and the scopes to request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OAuthSettings {
    /// Id of a pre-registered client.
    pub client_id: Option<String>,
    /// Issuer with which the client is registered. If `None`, the first issuer it is used with.
    pub issuer: Option<String>,
    /// Client secret, if the client has one.
    pub client_secret: Option<Secret>,
    /// URL of the client metadata document, which is used as the client id.
    pub client_metadata_url: Option<String>,
    /// Scopes to request. If empty, those that the server requires.
    pub scopes: Vec<String>,
}

/// A root that is exposed to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Root {
    /// URI of the root, `file://…`.
    pub uri: String,
    /// Display name.
    pub name: Option<String>,
}

impl Root {
    /// Creates a root without a name.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: None }
    }
}

/// Which roots are exposed to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Roots {
    /// These roots. If empty, the capability is not declared.
    Static(Vec<Root>),
    /// The roots of the calling client, if it declares the capability.
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

/// How sampling requests during a call are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[non_exhaustive]
pub enum Sampling {
    /// Sampling is not offered, because model calls incur cost.
    #[default]
    Reject,
    /// Forwarded to the calling client, if it declares the capability.
    Client,
}

/// How elicitation requests during a call are handled.
#[derive(Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum Elicitation {
    /// Forwarded to the calling client if it declares the capability; otherwise handled like
    /// `Reject`.
    #[default]
    Client,
    /// The capability is not declared. A request that the server sends anyway fails with an error
    /// that quotes its message.
    Reject,
    /// Responds with `decline`.
    Decline,
    /// Responds with `cancel`.
    Cancel,
    /// Accepts with the default values of the form. Declines if the result is invalid.
    Defaults,
    /// Accepts with these values and the defaults of the form. Declines if the result is invalid.
    Accept(Map<String, Value>),
}

/// Omits the field values.
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
