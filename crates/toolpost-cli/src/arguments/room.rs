//! Arguments of the `room` commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use toolpost_gateway::config::parse_duration;

use super::GatewayTarget;

#[derive(Debug, Subcommand)]
pub(crate) enum RoomCommand {
    /// Join a room: chat, call tools and decide on proposals
    Join(JoinOptions),
    /// Explain whether a message would be allowed
    Allows(AllowsOptions),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Plain text is sent to the room; /help lists the commands, and Tab completes names. Lines from a pipe
are sent one after another; at end of input the command waits for pending responses, and exits with 1
if a request failed.
  toolpost room join lobby
  echo '/call demo__add a=1 b=2' | toolpost room join lobby
  toolpost room join lobby --as ann          for a gateway without authentication")]
pub(crate) struct JoinOptions {
    /// The room, such as lobby
    #[arg(value_name = "ROOM")]
    pub(crate) room: String,
    /// Participant name, for a gateway without authentication
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// How many earlier messages to show on joining
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) history: u16,
    /// How long to wait for responses at end of input
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    pub(crate) wait: Duration,
    #[command(flatten)]
    pub(crate) target: GatewayTarget,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The kind of a message is completed from its payload first, as in a room; one that contradicts its
payload is rejected. Exits with 0 if the message is allowed and with 1 if it is rejected.
  toolpost room allows --capability 'mcp/request:tools/call:read_*' --message mcp/request:tools/call:read_file
  toolpost room allows --capability '{\"kind\": \"mcp/*\"}' --message '{\"kind\": \"chat\"}'
  toolpost room allows --jsonl cases.jsonl   a line {capability, message} gives a line {allow, reason}")]
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
}
