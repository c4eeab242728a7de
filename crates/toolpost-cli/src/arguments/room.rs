//! Arguments of the `room` commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use toolpost_gateway::config::parse_duration;
use toolpost_gateway::room::RoomName;

use super::GatewayTarget;

#[derive(Debug, Subcommand)]
pub(crate) enum RoomCommand {
    /// Join a room to chat, call tools and decide on proposals
    Join(JoinOptions),
    /// Explain whether capabilities allow a message
    Allows(AllowsOptions),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Sends each line to the room as a chat message; /help lists the commands, and Tab completes names. With
piped input, waits for pending responses at end of input, and exits with 1 if a request failed.

  toolpost room join lobby
  echo '/call demo__add a=1 b=2' | toolpost room join lobby
  toolpost room join lobby --as ann")]
pub(crate) struct JoinOptions {
    /// Name of the room, such as lobby
    #[arg(value_name = "ROOM")]
    pub(crate) room: RoomName,
    /// Participant name, at a gateway without authentication
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Number of earlier messages to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) history: u16,
    /// Maximum time to wait for responses at end of input
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    pub(crate) wait: Duration,
    #[command(flatten)]
    pub(crate) target: GatewayTarget,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The kind is first completed from the payload, as in a room. Exits with 0 if the message is allowed and
with 1 if it is rejected.

  toolpost room allows --capability 'mcp/request:tools/call:read_*' --message mcp/request:tools/call:read_file
  toolpost room allows --capability '{\"kind\": \"mcp/*\"}' --message '{\"kind\": \"chat\"}'
  toolpost room allows --jsonl cases.jsonl")]
pub(crate) struct AllowsOptions {
    /// Capability: a string or a JSON pattern (repeatable)
    #[arg(long = "capability", value_name = "CAPABILITY", conflicts_with = "jsonl")]
    pub(crate) capabilities: Vec<String>,
    /// Message: JSON, @FILE, - for standard input, or only its kind
    #[arg(long, value_name = "MESSAGE", conflicts_with = "jsonl", allow_hyphen_values = true)]
    pub(crate) message: Option<String>,
    /// Read lines of {capability, message} and print one {allow, reason} per line
    #[arg(long)]
    pub(crate) jsonl: bool,
    /// File to read with --jsonl; - is standard input [default: -]
    #[arg(value_name = "FILE", requires = "jsonl")]
    pub(crate) file: Option<PathBuf>,
}
