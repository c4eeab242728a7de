//! Command line arguments.

mod add;
mod log;
mod room;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use toolpost::protocol::Secret;
use toolpost::view::{Dialect, ListMode};
use toolpost_gateway::config::{Config, parse_duration};

use crate::output::{self, OutputFormat, OutputMode};

pub(crate) use add::{
    AddCommand, AddMcpOptions, AddOpenApiOptions, DocumentOptions, ImportOptions, WriteOptions,
    missing_separator_hint, separator_hint,
};
pub(crate) use log::{
    ExportOptions, LogCommand, LogFilter, LogOptions, ReplayOptions, ShowOptions, VerifyOptions,
};
pub(crate) use room::{AllowsOptions, JoinOptions, RoomCommand};

/// Call MCP tools, HTTP APIs and remote processes as typed operations with one response envelope
#[derive(Debug, Parser)]
#[command(name = "toolpost", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Same as --output json
    #[arg(long, global = true)]
    json: bool,
    /// Output format
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the gateway: HTTP API, MCP, WebSocket and rooms
    Serve(ServeOptions),
    /// Serve one MCP client over standard input and output
    Mcp(McpOptions),
    /// Write a starter configuration file
    Init(InitOptions),
    /// Add a source to the configuration
    #[command(subcommand)]
    Add(AddCommand),
    /// Preview the operations of an OpenAPI document
    Import(ImportOptions),
    /// Remove a source from the configuration
    #[command(mut_arg("name", |name| name.help("Name of the source")))]
    Remove(NamedEntry),
    /// Reload the configuration of a running gateway
    Reload(GatewayTarget),
    /// Show the status of the sources of a running gateway
    Sources(GatewayTarget),
    /// List operations
    List(ListOptions),
    /// Search operations by keywords
    Search(SearchOptions),
    /// Print the schemas of an operation, or the JSON Schema of a format
    Schema {
        /// Operation id, or `envelope` (responses), `events` (call protocol) or `config` (toolpost.toml)
        #[arg(value_name = "OP|envelope|events|config")]
        what: String,
        #[command(flatten)]
        backend: BackendOptions,
    },
    /// Call an operation and print its envelope
    Call(Invocation),
    /// Subscribe to an operation and print each value
    #[command(after_help = "\
Takes its input like `toolpost call`. Prints one envelope per line until the stream ends or Ctrl-C.

  toolpost subscribe demo.clock --count 3 --every-ms 500
  toolpost subscribe demo.clock '{\"count\": 3}' --output data
  toolpost subscribe demo.clock --count 3 --url ws://127.0.0.1:7411")]
    Subscribe(Invocation),
    /// List calls pending approval
    #[command(after_help = "\
Use `toolpost approve ID` or `toolpost reject ID` to decide. An identity cannot approve its own calls.")]
    Approvals(GatewayTarget),
    /// Approve a pending call
    Approve {
        #[command(flatten)]
        call: PendingCall,
        /// Approve only if the input has this digest, as printed by `approvals --json`
        #[arg(long, value_name = "DIGEST")]
        input: Option<String>,
    },
    /// Reject a pending call
    Reject {
        #[command(flatten)]
        call: PendingCall,
        /// Reason to send to the caller
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Normalize JSON to match a schema and report every repair
    #[command(after_help = "\
Converts types, fills in defaults and strips properties that the schema does not define. Does not
invent other values.

Prints {data, repairs, errors}, or the repairs as a diff on a terminal. Exits with 1 if the result is
still invalid.

  toolpost normalize --schema user.schema.json user.json
  echo '{\"n\": \"42\"}' | toolpost normalize --schema '{\"properties\": {\"n\": {\"type\": \"integer\"}}}'
  toolpost normalize --jsonl pairs.jsonl")]
    Normalize {
        #[command(flatten)]
        input: FitInput,
        /// Keep properties that the schema does not define
        #[arg(long)]
        keep_extras: bool,
    },
    /// Cast JSON to a schema as TypeBox's Value.Cast does; also creates missing values
    #[command(after_help = "\
Prints {data, repairs, errors}, or the repairs as a diff on a terminal. Exits with 1 if the result is
still invalid or no value can be created.

  toolpost cast --schema user.schema.json user.json
  toolpost cast --jsonl pairs.jsonl")]
    Cast(FitInput),
    /// Decode ToolEnvelope V1 results to {payload, meta, summary}
    #[command(
        after_help = "Reads a tool result, one of its content blocks, or a file with one of them per line."
    )]
    Decode(InputFile),
    /// Encode {payload, meta, summary} as ToolEnvelope V1 results
    Encode(InputFile),
    /// Show calls and room messages from the journal
    Log(Box<LogOptions>),
    /// Replay a call from the journal
    Replay(ReplayOptions),
    /// Manage access tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Join a room, or test capabilities
    #[command(subcommand)]
    Room(RoomCommand),
    /// Print a shell completion script
    Completions {
        /// Shell to generate the script for
        shell: Shell,
    },
}

impl Arguments {
    /// Extracts the options after the operation of `call` and `subscribe`, and returns how to print.
    pub(crate) fn resolve(&mut self) -> Result<OutputMode, String> {
        let mut mode = OutputMode { json: self.json, format: self.output };
        if let Command::Call(call) | Command::Subscribe(call) = &mut self.command {
            call.extract_options(&mut mode)?;
        }
        Ok(mode)
    }
}

impl Command {
    /// Whether errors are also printed as JSON to standard output. False for commands that print
    /// only a token, data, a script or protocol messages there.
    pub(crate) fn prints_json_errors(&self) -> bool {
        match self {
            Self::Mcp(_) | Self::Completions { .. } => false,
            Self::Serve(_) | Self::Token(TokenCommand::New(_)) => output::json_requested(),
            Self::Call(_) | Self::Subscribe(_) if output::format() == Some(OutputFormat::Data) => {
                false
            }
            _ => output::is_json(),
        }
    }
}

/// The hidden subcommand that the gateway uses to start its MCP servers.
pub(crate) const WATCH_CHILD: &str = "watch-child";

/// Returns the arguments after [`WATCH_CHILD`], if that is the subcommand.
///
/// Not parsed by clap, whose command definitions would stay in memory. One such process runs per
/// server.
pub(crate) fn watch_child_args() -> Option<impl Iterator<Item = std::ffi::OsString>> {
    let mut args = std::env::args_os().skip(1);
    args.next().filter(|arg| arg == WATCH_CHILD).map(|_| args)
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Configuration file [default: toolpost.toml or .mcp.json in the current folder, if any]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Data folder [default: toolpost in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// Format of the log on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
    /// Maximum time for calls in flight to complete at shutdown
    #[arg(long, default_value = "10s", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) drain: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// Validate the configuration, print a summary and exit
    #[arg(long)]
    pub(crate) check: bool,
    /// Do not reload the configuration when its file changes; SIGHUP and `toolpost reload` still do
    #[arg(long)]
    pub(crate) no_watch: bool,
    /// Address to listen on; without authentication it must be a loopback address
    #[arg(long, default_value = "127.0.0.1:7411", value_parser = parse_listen, value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Delay between reporting not-ready and closing connections, for load balancers to drain traffic
    #[arg(long, default_value = "0s", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) shutdown_delay: Duration,
}

/// Parses an address and a port. `localhost` is the only accepted host name, because other names
/// may resolve to any address.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    if let Some(port) = local {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        "expected an address and a port, such as 127.0.0.1:7411, [::1]:7411 or localhost:7411"
            .to_owned()
    })
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = "\
MCP clients start this command, for example:
  {\"mcpServers\": {\"toolpost\": {\"command\": \"toolpost\", \"args\": [\"mcp\", \"--config\", \"/path/to/toolpost.toml\"]}}}
A running gateway serves the same tools at http://127.0.0.1:7411/mcp.")]
pub(crate) struct McpOptions {
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// Tools to list: all, compact (four tools that find and call every operation) or auto
    #[arg(long, value_name = "MODE")]
    pub(crate) tools: Option<ListMode>,
    /// Shape of tool results: data, envelope, ok or tool-envelope-v1
    #[arg(long, value_name = "DIALECT")]
    pub(crate) dialect: Option<Dialect>,
    /// Serve only the operations of this source, under their original names
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Maximum time for a list or a search to wait for sources that are starting
    #[arg(long, default_value = "10s", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) wait: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct PendingCall {
    /// Id of the call, as listed by `toolpost approvals`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) target: GatewayTarget,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create an access token, print it once and store its SHA-256 in the configuration
    New(TokenNewOptions),
    /// List identities and their permissions
    List(ConfigFile),
    /// Revoke a token and remove its identity
    Revoke(NamedEntry),
}

#[derive(Debug, Args)]
pub(crate) struct ConfigFile {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = Config::FILE_NAME)]
    pub(crate) config: PathBuf,
}

/// A source or an identity of a configuration file.
#[derive(Debug, Args)]
pub(crate) struct NamedEntry {
    /// Name of the identity
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) file: ConfigFile,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Prints only the token to standard output, or {name, token, file} with --json. A running gateway reloads
the configuration automatically.

  toolpost token new ci --scope github:read --resource repo:toolpost=read,write
  TOKEN=$(toolpost token new ci --replace)        # replace the token of an identity")]
pub(crate) struct TokenNewOptions {
    #[command(flatten)]
    pub(crate) identity: NamedEntry,
    /// Scope of the identity (repeatable)
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// Actions allowed on a resource (repeatable)
    #[arg(long = "resource", value_name = "TYPE:ID=ACTION[,ACTION]", value_parser = parse_resource)]
    pub(crate) resources: Vec<(String, Vec<String>)>,
    /// Room messages that the identity may send: a string such as `chat`, or a JSON pattern
    /// (repeatable)
    #[arg(long = "capability", value_name = "CAPABILITY")]
    pub(crate) capabilities: Vec<String>,
    /// Issue a new token for an existing identity and keep its other settings
    #[arg(long)]
    pub(crate) replace: bool,
}

/// An id may contain `=`, an action does not.
fn parse_resource(text: &str) -> Result<(String, Vec<String>), String> {
    let (resource, actions) = text.rsplit_once('=').unwrap_or((text, ""));
    let actions: Vec<String> = actions.split(',').map(|action| action.trim().to_owned()).collect();
    if actions.iter().any(String::is_empty) {
        return Err("expected TYPE:ID=ACTION[,ACTION], such as repo:toolpost=read,write".to_owned());
    }
    Ok((resource.to_owned(), actions))
}

#[derive(Debug, Args)]
pub(crate) struct InitOptions {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Configuration file of another MCP client, whose servers become sources [default: .mcp.json,
    /// if any]
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// List only this namespace
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) backend: BackendOptions,
}

#[derive(Debug, Args)]
pub(crate) struct SearchOptions {
    /// Words to search for in names, descriptions, parameter names and tags
    #[arg(required = true, value_name = "WORDS")]
    pub(crate) words: Vec<String>,
    /// Maximum number of results
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) limit: u16,
    #[command(flatten)]
    pub(crate) backend: BackendOptions,
}

#[derive(Debug, Args)]
pub(crate) struct FitInput {
    /// JSON Schema: a file or inline JSON
    #[arg(long, value_name = "SCHEMA", conflicts_with = "jsonl")]
    pub(crate) schema: Option<String>,
    #[command(flatten)]
    pub(crate) input: InputFile,
    /// Read lines of {schema, input} and print one result per line
    #[arg(long)]
    pub(crate) jsonl: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InputFile {
    /// File to read; - is standard input [default: -]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// How the connection to a gateway at a URL is protected.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TlsOptions {
    /// PEM file with CA certificates to trust, in addition to those of the system
    #[arg(long, value_name = "FILE", env = "TOOLPOST_CA")]
    pub(crate) ca: Option<PathBuf>,
    /// Send the token to another machine without encryption
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// Where the operations are: in this process, or in a gateway.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct BackendOptions {
    /// Start the configured sources in this process, even if a gateway is running
    #[arg(long)]
    pub(crate) local: bool,
    /// URL of a gateway, such as ws://127.0.0.1:7411 [default: TOOLPOST_URL, or the running gateway of
    /// this configuration]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Configuration of the gateway or the sources [default: toolpost.toml or .mcp.json in the current
    /// folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Access token [default: TOOLPOST_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<Secret>,
    /// Data folder of the running gateway [default: toolpost in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: TlsOptions,
}

/// The choice that [`BackendOptions`] make.
pub(crate) enum BackendChoice {
    /// The gateway at a URL.
    Url(String),
    /// The running gateway of the data folder if it has the same configuration, else this process.
    RunningGateway,
    ThisProcess,
}

const URL_VARIABLE: &str = "TOOLPOST_URL";

/// Returns the value of an environment variable, unless it is blank.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

impl BackendOptions {
    /// Returns where to call. `--local`, `--config` and `--data` override the environment variable.
    ///
    /// # Errors
    ///
    /// Two options contradict each other.
    pub(crate) fn choice(&self) -> Result<BackendChoice, String> {
        let others = [
            (self.local, "--local"),
            (self.config.is_some(), "--config"),
            (self.data.is_some(), "--data"),
        ];
        let other = others.into_iter().find_map(|(is_given, name)| is_given.then_some(name));
        match (&self.url, other) {
            (Some(_), Some(other)) => {
                Err(format!("--url and {other} cannot be combined: --url names another gateway"))
            }
            (Some(url), None) => Ok(BackendChoice::Url(url.clone())),
            (None, _) if self.local && self.token.is_some() => {
                Err(TOKEN_WITHOUT_GATEWAY.to_owned())
            }
            (None, _) if self.local => Ok(BackendChoice::ThisProcess),
            (None, _) => Ok(match variable(URL_VARIABLE).filter(|_| other.is_none()) {
                Some(url) => BackendChoice::Url(url),
                None => BackendChoice::RunningGateway,
            }),
        }
    }
}

pub(crate) const TOKEN_WITHOUT_GATEWAY: &str =
    "--token requires a gateway; set --url or TOOLPOST_URL, or start `toolpost serve`";

#[derive(Debug, Clone, Args)]
pub(crate) struct GatewayTarget {
    /// URL of a gateway [default: TOOLPOST_URL, or the running gateway of the data folder]
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    url: Option<String>,
    /// Access token [default: TOOLPOST_TOKEN, or the operator's token in the data folder]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<Secret>,
    /// Data folder [default: toolpost in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: TlsOptions,
}

impl GatewayTarget {
    /// Returns the URL of the gateway; `None` for the running gateway of the data folder.
    pub(crate) fn url(&self) -> Option<String> {
        self.url.clone().or_else(|| variable(URL_VARIABLE).filter(|_| self.data.is_none()))
    }
}

/// clap parses the options before the operation. `Invocation::resolve` parses what follows it,
/// because every other `--key` there belongs to the operation's input.
#[derive(Debug, Args)]
#[command(after_help = "\
The input is a JSON object, @FILE or - for standard input; --key value pairs add to it. Values are
parsed by the input schema of the operation: `--a 2` is a number if a number is expected. Dots address
nested properties: `--body.title x` is {\"body\": {\"title\": \"x\"}}. Of a subscription, only the first
value is printed.

  toolpost call demo.add --a 2 --b 3
  toolpost call demo.add '{\"a\": 2, \"b\": 3}'
  toolpost call demo.note --text hello --output data
  toolpost call files.read_file --path a.txt      # starts the source `files` if no gateway runs
  toolpost call some.operation -- --json value    # after --, every --key is input")]
pub(crate) struct Invocation {
    #[command(flatten)]
    pub(crate) options: CallOptions,
    /// Operation id and input: JSON, @FILE, - or --key value pairs
    // A single list, because clap would drop a `--` between two.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_names = ["OP", "INPUT"])]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CallOptions {
    /// Timeout of the call, such as 500ms, 10s or 2m
    #[arg(long, value_parser = parse_timeout, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
    /// Idempotency key: a repeated call with the same key returns the first outcome
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    #[command(flatten)]
    pub(crate) backend: BackendOptions,
}

/// Parses the timeout of a call.
pub(crate) fn parse_timeout(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("timeout must be greater than zero".to_owned()),
        timeout => Ok(timeout),
    }
}

impl Invocation {
    /// Extracts the options after the operation. The operation and its input remain.
    fn extract_options(&mut self, mode: &mut OutputMode) -> Result<(), String> {
        let mut rest = std::mem::take(&mut self.words).into_iter();
        let operation = rest.next().unwrap_or_default();
        if operation.starts_with('-') {
            return Err(format!("unknown option `{operation}`; see `toolpost call --help`"));
        }
        self.words.push(operation);
        let CallOptions { timeout, idempotency_key, backend } = &mut self.options;
        while let Some(argument) = rest.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            match (name, value) {
                ("--", None) => {
                    self.words.extend(rest);
                    break;
                }
                ("--json", None) => mode.json = true,
                ("--local", None) => backend.local = true,
                ("--insecure", None) => backend.tls.insecure = true,
                (
                    "--output" | "--timeout" | "--idempotency-key" | "--url" | "--token"
                    | "--config" | "--data" | "--ca",
                    value,
                ) => {
                    let value = value.or_else(|| rest.next()).ok_or_else(|| match name {
                        "--data" => {
                            "--data needs a folder; `--output data` prints only the data".to_owned()
                        }
                        _ => format!("{name} needs a value"),
                    })?;
                    match name {
                        "--output" => mode.format = Some(OutputFormat::from_str(&value, false)?),
                        "--timeout" => *timeout = Some(parse_timeout(&value)?),
                        "--idempotency-key" => *idempotency_key = Some(value),
                        "--url" => backend.url = Some(value),
                        "--config" => backend.config = Some(value.into()),
                        "--data" => backend.data = Some(value.into()),
                        "--ca" => backend.tls.ca = Some(value.into()),
                        _ => backend.token = Some(value.into()),
                    }
                }
                _ => self.words.push(argument),
            }
        }
        Ok(())
    }

    /// Returns the operation and its input.
    pub(crate) fn into_parts(self) -> (CallOptions, String, Vec<String>) {
        let mut words = self.words.into_iter();
        (self.options, words.next().unwrap_or_default(), words.collect())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn clap_definition_is_valid() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn parse_resource_requires_actions() {
        for (text, expected) in [
            ("repo:x=read", Some(("repo:x", "read"))),
            ("repo:x=read,write", Some(("repo:x", "read+write"))),
            ("repo:x= read , write", Some(("repo:x", "read+write"))),
            ("query:a=b=read", Some(("query:a=b", "read"))),
            ("repo:x", None),
            ("repo:x=", None),
            ("repo:x=read,", None),
        ] {
            let parsed = parse_resource(text).ok().map(|(name, actions)| (name, actions.join("+")));
            let parsed = parsed.as_ref().map(|(name, actions)| (name.as_str(), actions.as_str()));
            assert_eq!(parsed, expected, "{text}");
        }
    }

    #[test]
    #[expect(clippy::type_complexity, reason = "a row is a tuple")]
    fn call_options_are_accepted_before_and_after_operation() {
        const DATA: Option<OutputFormat> = Some(OutputFormat::Data);
        let rows: [(&[&str], (bool, Option<OutputFormat>, Option<u64>), &[&str]); 9] = [
            (&["demo.add", "--a", "2"], (false, None, None), &["--a", "2"]),
            (&["--json", "demo.add", "--a", "2"], (true, None, None), &["--a", "2"]),
            (
                &["demo.add", "--a", "2", "--json", "--output", "data"],
                (true, DATA, None),
                &["--a", "2"],
            ),
            (&["--output", "data", "demo.add"], (false, DATA, None), &[]),
            (&["demo.add", "--timeout", "2s", "{}"], (false, None, Some(2_000)), &["{}"]),
            (&["demo.add", "--timeout=50ms"], (false, None, Some(50)), &[]),
            (&["demo.add", "--local", "--data", "x"], (false, None, None), &[]),
            (&["demo.add", "--", "--json", "x"], (false, None, None), &["--json", "x"]),
            (&["demo.add", "--", "--output", "x"], (false, None, None), &["--output", "x"]),
        ];
        for (typed, (json, format, timeout), input) in rows {
            let line = ["toolpost", "call"].iter().chain(typed);
            let mut arguments = Arguments::parse_from(line);
            let mode = arguments.resolve().unwrap();
            let Command::Call(call) = arguments.command else { panic!() };
            let (options, operation, rest) = call.into_parts();
            assert_eq!(
                (operation.as_str(), &rest[..]),
                ("demo.add", &input.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..])
            );
            let millis = options.timeout.map(|timeout| timeout.as_millis());
            assert_eq!(
                (mode.json, mode.format, millis),
                (json, format, timeout.map(u128::from)),
                "{typed:?}"
            );
        }
    }
}
