//! What can be typed about the workspace.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use toolpost_gateway::config::parse_duration;

use super::{Format, Running};
use crate::output::is_plain;

#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Talk in a room, call tools there, and decide about proposals
    Join(JoinOptions),
    /// Say whether a message would be allowed, and why
    Allows(AllowsOptions),
}

impl WorkspaceCommand {
    pub(super) fn prints_json(&self) -> bool {
        match self {
            Self::Join(options) => is_plain(options.format.json),
            Self::Allows(options) => is_plain(options.format.json),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Plain text is said to everybody; /help lists the commands, and Tab completes names. Lines from a pipe
are said one after another; at the end of them the command waits until its requests are answered, and
exits with 1 if one of them failed.
  toolpost workspace join lobby
  echo '/call demo__add a=1 b=2' | toolpost workspace join lobby
  toolpost workspace join lobby --as ann          where a gateway asks for no token")]
pub(crate) struct JoinOptions {
    /// The room, such as lobby
    #[arg(value_name = "ROOM")]
    pub(crate) room: String,
    /// Who you are, for a gateway that asks for no token
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// How many of the last messages are shown first
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) history: u16,
    /// How long to wait for answers when the input has ended
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    pub(crate) wait: Duration,
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The kind of a message is completed from its payload first, as in a room; one that contradicts its
payload is refused. Exits with 0 if the message is allowed and with 1 if it is refused.
  toolpost workspace allows --capability 'mcp/request:tools/call:read_*' --message mcp/request:tools/call:read_file
  toolpost workspace allows --capability '{\"kind\": \"mcp/*\"}' --message '{\"kind\": \"chat\"}'
  toolpost workspace allows --jsonl cases.jsonl   a line {capability, message} gives a line {allow, reason}")]
pub(crate) struct AllowsOptions {
    /// A capability as text or as a JSON pattern; can be given several times
    #[arg(long = "capability", value_name = "CAPABILITY", conflicts_with = "jsonl")]
    pub(crate) capabilities: Vec<String>,
    /// The message: JSON, @file, - for standard input, or a kind by itself
    #[arg(long, value_name = "MESSAGE", conflicts_with = "jsonl", allow_hyphen_values = true)]
    pub(crate) message: Option<String>,
    /// Take lines {capability, message} and print a line for each
    #[arg(long)]
    pub(crate) jsonl: bool,
    /// The file of lines; standard input if it is absent or -
    #[arg(value_name = "FILE", requires = "jsonl")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}
