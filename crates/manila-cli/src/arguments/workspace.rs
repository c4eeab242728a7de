//! What can be typed about the workspace.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Format;
use crate::output::is_plain;

#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Say whether a message would be allowed, and why
    Allows(AllowsOptions),
}

impl WorkspaceCommand {
    pub(super) fn prints_json(&self) -> bool {
        match self {
            Self::Allows(options) => is_plain(options.format.json),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
The kind of a message is completed from its payload first, as in a room; one that contradicts its
payload is refused. Exits with 0 if the message is allowed and with 1 if it is refused.
  manila workspace allows --capability 'mcp/request:tools/call:read_*' --message mcp/request:tools/call:read_file
  manila workspace allows --capability '{\"kind\": \"mcp/*\"}' --message '{\"kind\": \"chat\"}'
  manila workspace allows --jsonl cases.jsonl   a line {capability, message} gives a line {allow, reason}")]
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
