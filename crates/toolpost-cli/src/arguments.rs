//! Command line arguments.

mod add;
mod log;
mod room;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use toolpost::protocol::Secret;
use toolpost::view::{Dialect, ListMode};
use toolpost_gateway::config::{Config, parse_duration};

use crate::output;

pub(crate) use add::{
    AddCommand, AddMcpOptions, AddOpenApiOptions, DocumentOptions, ImportOptions, WriteOptions,
    missing_separator_hint, separator_hint,
};
pub(crate) use log::{
    ExportOptions, LogCommand, LogFilter, LogOptions, ReplayOptions, VerifyOptions,
};
pub(crate) use room::{AllowsOptions, JoinOptions, RoomCommand};

/// MCP servers, OpenAPI services and remote processes as typed operations with one response envelope.
#[derive(Debug, Parser)]
#[command(name = "toolpost", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Plain JSON, also on a terminal
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the gateway
    Serve(ServeOptions),
    /// Serve the operations to an MCP client on standard input and output
    Mcp(McpOptions),
    /// Write a starter configuration
    Init(InitOptions),
    /// Add a source to the configuration
    #[command(subcommand)]
    Add(AddCommand),
    /// Show what an OpenAPI document would become
    Import(ImportOptions),
    /// Remove a source from the configuration
    Remove(NamedEntry),
    /// Reload the configuration of a running gateway
    Reload(GatewayTarget),
    /// Show the status of the sources of a running gateway
    Sources(GatewayTarget),
    /// List the operations
    List(ListOptions),
    /// Search operations by keywords
    Search(SearchOptions),
    /// Show the schemas of an operation, or the schema of the `envelope`, the `events` of the
    /// call protocol, or the `config`
    Schema {
        /// An operation such as demo.add, `envelope`, `events`, or `config` for toolpost.toml
        #[arg(value_name = "OP|envelope|events|config")]
        what: String,
        #[command(flatten)]
        backend: BackendOptions,
    },
    /// Call an operation and print its envelope
    Call(Invocation),
    /// Subscribe to an operation and print an envelope for each value
    #[command(after_help = "\
The input is given as for `toolpost call`. A line with an envelope is printed for each value; Ctrl-C ends it.
  toolpost subscribe demo.clock --count 3 --every-ms 500
  toolpost subscribe demo.clock '{\"count\": 3}' --data
  toolpost subscribe demo.clock --count 3 --url ws://127.0.0.1:7411")]
    Subscribe(Invocation),
    /// List the calls pending approval
    #[command(after_help = "\
Decide with `toolpost approve ID` or `toolpost reject ID`. No identity can approve its own calls. The operator's token is read from the data folder of the gateway on this machine.")]
    Approvals(GatewayTarget),
    /// Approve a pending call
    Approve {
        #[command(flatten)]
        call: PendingCall,
        /// Approve only if the input has this digest (see `approvals --json`)
        #[arg(long, value_name = "DIGEST")]
        input: Option<String>,
    },
    /// Reject a pending call
    Reject {
        #[command(flatten)]
        call: PendingCall,
        /// Reason sent to the caller
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Normalize JSON to fit a schema, and report every repair
    ///
    /// Converts types, fills in defaults and strips properties that the schema does not name. Never
    /// invents a value.
    #[command(after_help = "\
Prints {data, repairs, errors}, or a diff of the repairs on a terminal. Exits with 1 if the result
still does not fit the schema.
  toolpost normalize --schema user.schema.json user.json
  echo '{\"n\": \"42\"}' | toolpost normalize --schema '{\"properties\": {\"n\": {\"type\": \"integer\"}}}'
  toolpost normalize --jsonl pairs.jsonl          reads lines {schema, input}, prints a line for each")]
    Normalize {
        #[command(flatten)]
        input: FitInput,
        /// Keep properties that the schema does not name
        #[arg(long)]
        keep_extras: bool,
    },
    /// Cast JSON to a schema as TypeBox's Value.Cast does, which also invents missing values
    #[command(after_help = "\
Prints {data, repairs, errors}, or a diff of the repairs on a terminal. Exits with 1 if the result
still does not fit the schema, or no value can be created for it.
  toolpost cast --schema user.schema.json user.json
  toolpost cast --jsonl pairs.jsonl               reads lines {schema, input}, prints a line for each")]
    Cast(FitInput),
    /// Read ToolEnvelope V1 results into {payload, meta, summary}
    ///
    /// Takes a tool result, one of its blocks, or a file with a JSON document on each line.
    Decode(InputFile),
    /// Write {payload, meta, summary} as ToolEnvelope V1 results
    Encode(InputFile),
    /// Show calls from the journal
    Log(Box<LogOptions>),
    /// Replay a call from the journal
    Replay(ReplayOptions),
    /// Manage access tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Join a room, or check what a capability allows
    #[command(subcommand)]
    Room(RoomCommand),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

impl Arguments {
    /// Whether JSON was requested with `--json`.
    pub(crate) fn requests_json(&self) -> bool {
        self.json || self.command.invocation().is_some_and(|call| call.has_option("--json"))
    }
}

impl Command {
    /// Whether errors are also printed as JSON to standard output. Not where standard output is
    /// only a token, data, a script or a protocol.
    pub(crate) fn prints_json_errors(&self) -> bool {
        match self {
            Self::Mcp(_) | Self::Completions { .. } => false,
            Self::Serve(_) | Self::Token(TokenCommand::New(_)) => output::json_requested(),
            Self::Call(call) | Self::Subscribe(call) if call.wants_data() => false,
            _ => output::is_json(),
        }
    }

    fn invocation(&self) -> Option<&Invocation> {
        match self {
            Self::Call(invocation) | Self::Subscribe(invocation) => Some(invocation),
            _ => None,
        }
    }
}

/// The hidden subcommand with which the gateway starts its MCP servers.
pub(crate) const WATCH_CHILD: &str = "watch-child";

/// Returns the arguments after [`WATCH_CHILD`], if that is the subcommand.
///
/// Not parsed by clap: the definition of all commands would stay in the memory of a process that
/// exists once per server.
pub(crate) fn watch_child_args() -> Option<impl Iterator<Item = std::ffi::OsString>> {
    let mut args = std::env::args_os().skip(1);
    args.next().filter(|arg| arg == WATCH_CHILD).map(|_| args)
}

/// Options of a gateway process.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// The configuration; toolpost.toml or .mcp.json if it is here, else nothing is configured
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Data folder [default: the user's data folder]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// How log lines are written, on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
    /// How long in-flight calls may continue after a stop signal or the end of the client
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
    /// Do not watch the configuration for changes; SIGHUP and gateway.reload still reload it
    #[arg(long)]
    pub(crate) no_watch: bool,
    /// Listen address; without authentication only loopback is allowed
    #[arg(long, default_value = "127.0.0.1:7411", value_parser = parse_listen, value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Delay between reporting not-ready and closing connections, so load balancers can drain traffic
    #[arg(long, default_value = "0s", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) shutdown_delay: Duration,
}

/// Parses an address and a port. `localhost` is the only host name: others may resolve to anything.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    if let Some(port) = local {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        "write an address and a port, such as 127.0.0.1:7411, [::1]:7411 or localhost:7411"
            .to_owned()
    })
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One object a line, for programs
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = "\
An MCP client starts it, for example:
  {\"mcpServers\": {\"toolpost\": {\"command\": \"toolpost\", \"args\": [\"mcp\", \"--config\", \"/path/to/toolpost.toml\"]}}}
A running gateway serves the same at http://127.0.0.1:7411/mcp.")]
pub(crate) struct McpOptions {
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// Which operations are tools: all, compact, or auto
    #[arg(long, value_name = "WHICH")]
    pub(crate) tools: Option<ListMode>,
    /// Shape of tool results: data, envelope, ok, or tool-envelope-v1
    #[arg(long, value_name = "DIALECT")]
    pub(crate) dialect: Option<Dialect>,
    /// Only the operations of this source, under their own names
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// How long the first request waits for slow sources to start
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
    /// Create a token, print it once and store its SHA-256 in the configuration
    New(TokenNewOptions),
    /// List identities and their permissions
    List(ConfigFile),
    /// Revoke a token
    Revoke(NamedEntry),
}

#[derive(Debug, Args)]
pub(crate) struct ConfigFile {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = Config::FILE_NAME)]
    pub(crate) config: PathBuf,
}

/// A source or an identity of a configuration file.
#[derive(Debug, Args)]
pub(crate) struct NamedEntry {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) file: ConfigFile,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Standard output is only the token, or with --json the token and its identity. A running gateway reloads
the configuration automatically.
  toolpost token new ci --scope github:read --resource repo:toolpost=read,write
  TOKEN=$(toolpost token new ci --replace)        a new token in place of the old one")]
pub(crate) struct TokenNewOptions {
    #[command(flatten)]
    pub(crate) identity: NamedEntry,
    /// Scope of the identity; repeatable
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// Actions on a resource; can be given several times
    #[arg(long = "resource", value_name = "TYPE:ID=ACTION[,ACTION]", value_parser = parse_resource)]
    pub(crate) resources: Vec<(String, Vec<String>)>,
    /// Which messages the identity may send in a room: a text such as `chat`, or the JSON of a
    /// pattern; can be given several times
    #[arg(long = "capability", value_name = "CAPABILITY")]
    pub(crate) capabilities: Vec<String>,
    /// Issue a new token for an existing identity; other settings are kept unless given
    #[arg(long)]
    pub(crate) replace: bool,
}

/// An id may contain `=`, an action does not.
fn parse_resource(text: &str) -> Result<(String, Vec<String>), String> {
    let (resource, actions) = text.rsplit_once('=').unwrap_or((text, ""));
    let actions: Vec<String> = actions.split(',').map(|action| action.trim().to_owned()).collect();
    if actions.iter().any(String::is_empty) {
        return Err("write type:id=action, or type:id=action,action".to_owned());
    }
    Ok((resource.to_owned(), actions))
}

#[derive(Debug, Args)]
pub(crate) struct InitOptions {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// A file with the MCP servers of another client, which become sources; .mcp.json if it is here
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// Only this namespace
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) backend: BackendOptions,
}

#[derive(Debug, Args)]
pub(crate) struct SearchOptions {
    /// Words to look for in names, tags and descriptions
    #[arg(required = true, value_name = "WORDS")]
    pub(crate) words: Vec<String>,
    /// How many operations to show
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) limit: u16,
    #[command(flatten)]
    pub(crate) backend: BackendOptions,
}

/// What `normalize` and `cast` read.
#[derive(Debug, Args)]
pub(crate) struct FitInput {
    /// The schema: a file, or JSON
    #[arg(long, value_name = "SCHEMA", conflicts_with = "jsonl")]
    pub(crate) schema: Option<String>,
    #[command(flatten)]
    pub(crate) input: InputFile,
    /// Read lines {schema, input} and print a line for each
    #[arg(long)]
    pub(crate) jsonl: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InputFile {
    /// The file to read; standard input if it is absent or -
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// Where the operations are: in this process, or in a gateway.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct BackendOptions {
    /// A running gateway, such as ws://127.0.0.1:7411; TOOLPOST_URL if it is absent and there is no
    /// --config, else the operations are run by this command
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Configuration whose sources are started [default: toolpost.toml or .mcp.json in this folder]
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    pub(crate) config: Option<PathBuf>,
    /// Access token [default: TOOLPOST_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<Secret>,
}

/// Environment variable with the address of the gateway.
const URL_VARIABLE: &str = "TOOLPOST_URL";

/// Returns the value of an environment variable, unless it is blank.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

impl BackendOptions {
    /// Returns the gateway to call, if any. `--config` overrides the environment variable.
    ///
    /// # Errors
    ///
    /// A token is given without a gateway.
    pub(crate) fn gateway_url(&self) -> Result<Option<String>, String> {
        let url =
            self.url.clone().or_else(|| variable(URL_VARIABLE).filter(|_| self.config.is_none()));
        if url.is_none() && self.token.is_some() {
            return Err(format!("a token is for a gateway; name it with --url or {URL_VARIABLE}"));
        }
        Ok(url)
    }
}

/// The running gateway that a command is about.
#[derive(Debug, Clone, Args)]
pub(crate) struct GatewayTarget {
    /// The running gateway; TOOLPOST_URL if it is absent, else ws://127.0.0.1:7411
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Access token [default: TOOLPOST_TOKEN, else the operator's token in the data folder]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<Secret>,
    /// The gateway's data folder; the user's if it is absent
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
}

impl GatewayTarget {
    pub(crate) fn url(&self) -> String {
        let url = self.url.clone().or_else(|| variable(URL_VARIABLE));
        url.unwrap_or_else(|| "ws://127.0.0.1:7411".to_owned())
    }

    /// Whether files in the data folder can replace an unreachable gateway: no address was given,
    /// or only by the environment and `--data` overrides it.
    pub(crate) fn allows_offline(&self) -> bool {
        self.url.is_none() && (self.data.is_some() || variable(URL_VARIABLE).is_none())
    }
}

/// clap parses the options before the operation. `Invocation::resolve` parses what follows it,
/// because every other `--key` there belongs to the operation's input.
#[derive(Debug, Args)]
#[command(after_help = "\
The input is a JSON object, @file, or - for standard input, and --key value pairs on top of it.
Values are read by the operation's input schema: --a 2 is a number where a number is expected.
  toolpost call demo.add --a 2 --b 3
  toolpost call demo.add '{\"a\": 2, \"b\": 3}'
  toolpost call demo.note --text hello --data
  toolpost call files.read_file --path a.txt      a source of toolpost.toml, started for this call
  toolpost call some.operation -- --json value    after -- every --key is input")]
pub(crate) struct Invocation {
    #[command(flatten)]
    pub(crate) options: CallOptions,
    /// The operation, such as demo.add, and its input: JSON, @file, -, or --key value pairs
    // One list, because clap would swallow a `--` between two.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_names = ["OP", "INPUT"])]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CallOptions {
    /// Only the data, without the envelope
    #[arg(long)]
    pub(crate) data: bool,
    /// Timeout, such as 500ms, 10s or 2m
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) backend: BackendOptions,
}

impl Invocation {
    /// Whether an option follows the operation.
    fn has_option(&self, option: &str) -> bool {
        let mut arguments = self.words.iter().skip(1).take_while(|argument| *argument != "--");
        arguments.any(|argument| argument == option)
    }

    fn wants_data(&self) -> bool {
        self.options.data || self.has_option("--data")
    }

    /// Takes the options of the command out of what follows the operation; the rest is input.
    pub(crate) fn resolve(self) -> Result<(CallOptions, String, Vec<String>), String> {
        let mut options = self.options;
        let mut input = Vec::new();
        let mut rest = self.words.into_iter();
        let operation = rest.next().unwrap_or_default();
        if operation.starts_with('-') {
            return Err(format!(
                "`{operation}` is not an option; `toolpost call --help` lists them"
            ));
        }
        while let Some(argument) = rest.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            match (name, value) {
                ("--", None) => {
                    input.extend(rest);
                    break;
                }
                ("--json", None) => {}
                ("--data", None) => options.data = true,
                ("--timeout" | "--url" | "--token" | "--config", value) => {
                    let value = value.or_else(|| rest.next());
                    let value = value.ok_or_else(|| format!("{name} needs a value"))?;
                    options.set(name, value)?;
                }
                _ => input.push(argument),
            }
        }
        if options.backend.url.is_some() && options.backend.config.is_some() {
            return Err("a gateway has its own configuration; give --url or --config".to_owned());
        }
        Ok((options, operation, input))
    }
}

impl CallOptions {
    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "--timeout" => self.timeout = Some(parse_duration(&value)?),
            "--url" => self.backend.url = Some(value),
            "--config" => self.backend.config = Some(value.into()),
            _ => self.backend.token = Some(value.into()),
        }
        Ok(())
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
        let rows: [(&[&str], (bool, bool, Option<u64>), &[&str]); 6] = [
            (&["demo.add", "--a", "2"], (false, false, None), &["--a", "2"]),
            (&["--json", "demo.add", "--a", "2"], (true, false, None), &["--a", "2"]),
            (&["demo.add", "--a", "2", "--json", "--data"], (true, true, None), &["--a", "2"]),
            (&["demo.add", "--timeout", "2s", "{}"], (false, false, Some(2_000)), &["{}"]),
            (&["demo.add", "--timeout=50ms"], (false, false, Some(50)), &[]),
            (&["demo.add", "--", "--json", "x"], (false, false, None), &["--json", "x"]),
        ];
        for (typed, (json, data, timeout), input) in rows {
            let line = ["toolpost", "call"].iter().chain(typed);
            let arguments = Arguments::parse_from(line);
            let requests_json = arguments.requests_json();
            let Command::Call(call) = arguments.command else { panic!() };
            let (options, operation, rest) = call.resolve().unwrap();
            assert_eq!(
                (operation.as_str(), &rest[..]),
                ("demo.add", &input.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..])
            );
            let millis = options.timeout.map(|timeout| timeout.as_millis());
            assert_eq!(
                (requests_json, options.data, millis),
                (json, data, timeout.map(u128::from)),
                "{typed:?}"
            );
        }
    }
}
