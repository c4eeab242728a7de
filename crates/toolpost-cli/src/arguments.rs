//! What can be typed.

mod add;
mod log;
mod workspace;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use toolpost::view::{Dialect, Listed};
use toolpost_gateway::config::{Config, parse_duration};

use crate::output::is_plain;

pub(crate) use add::{
    AddCommand, AddMcpOptions, AddOpenApiOptions, DocumentOptions, ImportOptions, RemoveOptions,
    forgotten_dashes, with_dashes,
};

pub(crate) use log::{
    ExportOptions, LogCommand, LogFilter, LogOptions, ReplayOptions, VerifyOptions,
};

pub(crate) use workspace::{AllowsOptions, JoinOptions, WorkspaceCommand};

/// Operations from any world, one calling convention, one response envelope.
#[derive(Debug, Parser)]
#[command(name = "toolpost", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the gateway
    Serve(ServeOptions),
    /// Serve the operations to an MCP client on standard input and output
    Mcp(McpOptions),
    /// Write a configuration to begin with
    Init(InitOptions),
    /// Add a source to the configuration
    Add {
        #[command(subcommand)]
        command: AddCommand,
    },
    /// Show what an OpenAPI document would become
    Import(ImportOptions),
    /// Take a source out of the configuration
    Remove(RemoveOptions),
    /// Let a running gateway read its configuration again
    Reload(ReloadOptions),
    /// Show how the sources of a running gateway are doing
    Sources(SourcesOptions),
    /// List the operations
    List(ListOptions),
    /// Find operations by words
    Search(SearchOptions),
    /// Show what an operation takes and gives, or the schema of the `envelope`, the `events` of the
    /// call protocol, or the `config`
    Schema {
        /// An operation such as demo.add, `envelope`, `events`, or `config` for toolpost.toml
        #[arg(value_name = "OP|envelope|events|config")]
        what: String,
        #[command(flatten)]
        remote: Remote,
        #[command(flatten)]
        format: Format,
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
    /// List the calls that wait for somebody's word
    #[command(after_help = "\
What waits is decided about with `toolpost approve ID` and `toolpost reject ID`, by somebody else than the
caller. The operator's token is read from the data folder of the gateway on this machine.")]
    Approvals {
        #[command(flatten)]
        running: Running,
        #[command(flatten)]
        format: Format,
    },
    /// Let a call run that waits for approval
    Approve(ApproveOptions),
    /// Refuse a call that waits for approval
    Reject(RejectOptions),
    /// Make JSON fit a schema, and say what was changed
    Cast(CastOptions),
    /// Read ToolEnvelope V1 results into {payload, meta, summary}
    ///
    /// Takes a tool result, one of its blocks, or a file with a JSON document on each line.
    Decode(EnvelopeInput),
    /// Write {payload, meta, summary} as ToolEnvelope V1 results
    Encode(EnvelopeInput),
    /// Show the calls in the journal
    Log(Box<LogOptions>),
    /// Make a call of the journal once more
    Replay(ReplayOptions),
    /// Make the tokens that callers show
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Talk in the rooms of a gateway, and ask who may say what
    Workspace {
        #[command(subcommand)]
        command: WorkspaceCommand,
    },
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

impl Command {
    /// Whether a program reads standard output: it was asked for, or there is no terminal. Where only a
    /// token, data or a script is printed, nobody looks for an error there.
    pub(crate) fn prints_json(&self) -> bool {
        match self {
            Self::Mcp(_) | Self::Completions { .. } => false,
            Self::Serve(options) => options.json,
            Self::Token { command } => command.prints_json(),
            Self::Workspace { command } => command.prints_json(),
            Self::Call(invocation) | Self::Subscribe(invocation) => invocation.prints_json(),
            Self::Add { command: AddCommand::Mcp(options) } => is_plain(options.json),
            Self::Add { command: AddCommand::Openapi(options) } => is_plain(options.json),
            Self::Import(options) => is_plain(options.json),
            Self::Init(options) => is_plain(options.format.json),
            Self::Remove(options) => is_plain(options.format.json),
            Self::Reload(options) => is_plain(options.format.json),
            Self::Sources(options) => is_plain(options.format.json),
            Self::List(options) => is_plain(options.format.json),
            Self::Search(options) => is_plain(options.format.json),
            Self::Schema { format, .. } | Self::Approvals { format, .. } => is_plain(format.json),
            Self::Approve(options) => is_plain(options.format.json),
            Self::Reject(options) => is_plain(options.format.json),
            Self::Cast(options) => is_plain(options.format.json),
            Self::Decode(input) | Self::Encode(input) => is_plain(input.format.json),
            Self::Log(options) => is_plain(options.format.json),
            Self::Replay(options) => is_plain(options.format.json),
        }
    }
}

/// The subcommand that nobody types: the gateway starts its MCP servers with it.
pub(crate) const WATCH_CHILD: &str = "watch-child";

/// What follows [`WATCH_CHILD`], if that is what this process is.
///
/// Not clap's, because the definition of all the commands would stay in the memory of a process that
/// is there once for every server.
#[cfg(unix)]
pub(crate) fn of_watcher() -> Option<impl Iterator<Item = std::ffi::OsString>> {
    let mut words = std::env::args_os().skip(1);
    words.next().filter(|word| word == WATCH_CHILD).map(|_| words)
}

#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    /// The configuration; toolpost.toml or .mcp.json if it is here, else nothing is configured
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Say what the configuration holds or what is wrong with it, and stop
    #[arg(long)]
    pub(crate) check: bool,
    /// What --check says, as JSON
    #[arg(long, requires = "check")]
    pub(crate) json: bool,
    /// Where the gateway keeps what outlives it; the user's data folder if it is absent
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// Do not look for changes of the configuration; SIGHUP and gateway.reload still read it again
    #[arg(long)]
    pub(crate) no_watch: bool,
    /// Where to listen; without authentication only loopback addresses are allowed
    #[arg(long, default_value = "127.0.0.1:7411", value_parser = parse_listen, value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// How long /ready says that the gateway stops before it does, for those who share out calls
    #[arg(long, default_value = "0s", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) notice: Duration,
    /// How log lines are written
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
    /// How long calls in flight may go on after a stop was asked for
    #[arg(long, default_value = "10s", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) drain: Duration,
}

/// The one name that is the same everywhere is taken, too; others may lead anywhere.
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

/// How many of something to show.
fn parse_limit<const MOST: u16>(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("write a whole number from 1 to {MOST}"))
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
    /// The configuration; toolpost.toml or .mcp.json if it is here, else nothing is configured
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where calls are written down; the user's data folder if it is absent
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// Which operations are tools: all, compact, or auto
    #[arg(long, value_name = "WHICH")]
    pub(crate) tools: Option<Listed>,
    /// How results stand on the wire: data, envelope, ok, or tool-envelope-v1
    #[arg(long, value_name = "DIALECT")]
    pub(crate) dialect: Option<Dialect>,
    /// Only the operations of this source, under their own names
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// How log lines are written, on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
    /// How long the client waits at first for sources that are slow to start
    #[arg(long, default_value = "10s", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) wait: Duration,
    /// How long calls in flight may go on after the client left
    #[arg(long, default_value = "10s", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) drain: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveOptions {
    /// Which call, as `toolpost approvals` names it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Only if its input is still the one with this digest, which `approvals --json` shows
    #[arg(long, value_name = "DIGEST")]
    pub(crate) input: Option<String>,
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct RejectOptions {
    /// Which call, as `toolpost approvals` names it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// What its caller is told
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, print it once, and keep its SHA-256 in the configuration
    New(TokenOptions),
    /// List who has a token and what they may do
    List(TokenListOptions),
    /// Take a token back: whoever shows it is not known any more
    Revoke(TokenRevokeOptions),
}

impl TokenCommand {
    /// The token is printed alone, unless JSON is asked for.
    fn prints_json(&self) -> bool {
        match self {
            Self::New(options) => options.json,
            Self::List(options) => is_plain(options.format.json),
            Self::Revoke(options) => is_plain(options.format.json),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct TokenListOptions {
    /// The configuration to read
    #[arg(long, value_name = "FILE", default_value = Config::FILE_NAME)]
    pub(crate) config: PathBuf,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct TokenRevokeOptions {
    /// Whose token it is
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The configuration to write to
    #[arg(long, value_name = "FILE", default_value = Config::FILE_NAME)]
    pub(crate) config: PathBuf,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Standard output is the token and nothing else. A gateway that runs takes it up by itself.
  toolpost token new ci --scope github:read --resource repo:toolpost=read,write
  TOKEN=$(toolpost token new ci --replace)        a new token in place of the old one")]
pub(crate) struct TokenOptions {
    /// Whose token it is
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// What the identity may do; can be given several times
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// Actions on a resource; can be given several times
    #[arg(long = "resource", value_name = "TYPE:ID=ACTION[,ACTION]", value_parser = parse_resource)]
    pub(crate) resources: Vec<(String, Vec<String>)>,
    /// Which messages the identity may send in a workspace: a text such as `chat`, or the JSON of a
    /// pattern; can be given several times
    #[arg(long = "capability", value_name = "CAPABILITY")]
    pub(crate) capabilities: Vec<String>,
    /// The configuration to write to
    #[arg(long, value_name = "FILE", default_value = Config::FILE_NAME)]
    pub(crate) config: PathBuf,
    /// Give a new token to somebody who has one; what else is not given stays
    #[arg(long)]
    pub(crate) replace: bool,
    /// The token and whose it is, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// An id may hold an `=`, an action does not.
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
    /// The configuration to write
    #[arg(long, value_name = "FILE", default_value = Config::FILE_NAME)]
    pub(crate) config: PathBuf,
    /// A file with the MCP servers of another client, which become sources; .mcp.json if it is here
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ReloadOptions {
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct SourcesOptions {
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// Only this namespace
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) remote: Remote,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct SearchOptions {
    /// Words to look for in names, tags and descriptions
    #[arg(required = true, value_name = "WORDS")]
    pub(crate) words: Vec<String>,
    /// How many operations to show
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = parse_limit::<100>)]
    pub(crate) limit: u16,
    #[command(flatten)]
    pub(crate) remote: Remote,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Prints {data, repairs, errors}, or a diff of the repairs on a terminal. Exits with 1 if something
still does not fit.
  toolpost cast --schema user.schema.json user.json
  echo '{\"n\": \"42\"}' | toolpost cast --schema '{\"properties\": {\"n\": {\"type\": \"integer\"}}}'
  toolpost cast --jsonl pairs.jsonl               a line {schema, input} gives a line each")]
pub(crate) struct CastOptions {
    /// The schema: a file, or JSON
    #[arg(long, value_name = "SCHEMA", conflicts_with = "jsonl")]
    pub(crate) schema: Option<String>,
    /// The file to read; standard input if it is absent or -
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Do what TypeBox's Value.Cast does, which also makes values up
    #[arg(long)]
    pub(crate) faithful: bool,
    /// Leave properties that no schema names
    #[arg(long, conflicts_with = "faithful")]
    pub(crate) keep_extras: bool,
    /// Take lines {schema, input} and print a line for each
    #[arg(long)]
    pub(crate) jsonl: bool,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct EnvelopeInput {
    /// The file to read; standard input if it is absent or -
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Format {
    /// Plain JSON, also on a terminal
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where the operations are: in this process, or in a gateway.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Remote {
    /// A running gateway, such as ws://127.0.0.1:7411; TOOLPOST_URL if it is absent and there is no
    /// --config, else the operations are run by this command
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Whose sources are started; toolpost.toml or .mcp.json if it is here
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    pub(crate) config: Option<PathBuf>,
    /// What the gateway knows you by; TOOLPOST_TOKEN if it is absent
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<Hidden>,
}

/// Where the gateway is that is meant where none is named.
const URL_VARIABLE: &str = "TOOLPOST_URL";

/// The gateway of those who always mean the same.
fn set_url() -> Option<String> {
    std::env::var(URL_VARIABLE).ok().filter(|url| !url.trim().is_empty())
}

impl Remote {
    /// The gateway that is meant, if it is one: whoever names a configuration means that.
    ///
    /// # Errors
    ///
    /// A token is for a gateway, and none is meant.
    pub(crate) fn gateway(&self) -> Result<Option<String>, String> {
        let url = self.url.clone().or_else(|| set_url().filter(|_| self.config.is_none()));
        if url.is_none() && self.token.is_some() {
            return Err(format!("a token is for a gateway; name it with --url or {URL_VARIABLE}"));
        }
        Ok(url)
    }
}

/// The running gateway that a command is about.
#[derive(Debug, Clone, Args)]
pub(crate) struct Running {
    /// The running gateway; TOOLPOST_URL if it is absent, else ws://127.0.0.1:7411
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// What the gateway knows you by; TOOLPOST_TOKEN if it is absent, else the operator's token in the
    /// data folder
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<Hidden>,
    /// The gateway's data folder; the user's if it is absent
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
}

impl Running {
    const DEFAULT: &str = "ws://127.0.0.1:7411";

    /// Where it runs.
    pub(crate) fn url(&self) -> String {
        self.url.clone().or_else(set_url).unwrap_or_else(|| Self::DEFAULT.to_owned())
    }

    /// Whether what it left behind will do as well: an address that was typed is meant, and one that
    /// is set is, unless a folder was typed.
    pub(crate) fn may_be_away(&self) -> bool {
        self.url.is_none() && (self.data.is_some() || set_url().is_none())
    }
}

/// A text that is typed and never shown again.
#[derive(Clone)]
pub(crate) struct Hidden(pub(crate) String);

impl std::str::FromStr for Hidden {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden(…)")
    }
}

/// The options before the operation are clap's; what follows it is read by `Invocation::resolve`,
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
    /// Plain JSON, also on a terminal
    #[arg(long)]
    pub(crate) json: bool,
    /// Only the data, without the envelope
    #[arg(long)]
    pub(crate) data: bool,
    /// Give up after this time, such as 500ms, 10s or 2m
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

impl Invocation {
    /// Whether a program reads errors from standard output; where only data is wanted, none does.
    fn prints_json(&self) -> bool {
        let words = self.words.iter().skip(1).take_while(|word| *word != "--");
        let is_typed = |option: &str| words.clone().any(|word| word == option);
        !self.options.data
            && !is_typed("--data")
            && is_plain(self.options.json || is_typed("--json"))
    }

    /// Takes our own options out of what follows the operation; the rest is input.
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
            match argument.as_str() {
                "--" => {
                    input.extend(rest);
                    break;
                }
                "--json" => options.json = true,
                "--data" => options.data = true,
                "--timeout" | "--url" | "--token" | "--config" => {
                    let value = rest.next().ok_or_else(|| format!("{argument} needs a value"))?;
                    options.set(&argument, value)?;
                }
                other => match other.split_once('=') {
                    Some((name @ ("--timeout" | "--url" | "--token" | "--config"), value)) => {
                        options.set(name, value.to_owned())?;
                    }
                    _ => input.push(argument),
                },
            }
        }
        if options.remote.url.is_some() && options.remote.config.is_some() {
            return Err("a gateway has its own configuration; give --url or --config".to_owned());
        }
        Ok((options, operation, input))
    }
}

impl CallOptions {
    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "--timeout" => self.timeout = Some(parse_duration(&value)?),
            "--url" => self.remote.url = Some(value),
            "--config" => self.remote.config = Some(value.into()),
            _ => self.remote.token = Some(Hidden(value)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_resource_has_actions() {
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
    fn our_own_options_are_found_on_both_sides_of_the_operation() {
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
            let Command::Call(call) = Arguments::parse_from(line).command else { panic!() };
            let (options, operation, rest) = call.resolve().unwrap();
            assert_eq!(
                (operation.as_str(), &rest[..]),
                ("demo.add", &input.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..])
            );
            let millis = options.timeout.map(|timeout| timeout.as_millis());
            assert_eq!(
                (options.json, options.data, millis),
                (json, data, timeout.map(u128::from)),
                "{typed:?}"
            );
        }
    }
}
