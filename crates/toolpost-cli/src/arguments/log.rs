//! Arguments of the journal commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use toolpost_gateway::config::parse_duration;

use super::{GatewayTarget, parse_timeout};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Queries the running gateway of this configuration, or reads the journal in the data folder if there is
none. With --data, only reads the journal in that folder.

  toolpost log --op 'github.*' --since 15m --errors
  toolpost log --identity ci --limit 200 --json
  toolpost log --since 2026-11-16 --until 2026-11-17
  toolpost log --follow --since 1h
  toolpost log --room lobby --kind 'mcp/response:tools/call:read_*'
  toolpost log show 2e41:17
  toolpost log verify"
)]
pub(crate) struct LogOptions {
    #[command(subcommand)]
    pub(crate) command: Option<LogCommand>,
    #[command(flatten)]
    pub(crate) filter: LogFilter,
    /// Gateway id of the journal to read [default: all in the data folder]
    #[arg(long, value_name = "ID", conflicts_with = "follow")]
    pub(crate) gateway: Option<String>,
    /// Print calls as they end; with --since or --limit, print earlier calls first
    #[arg(long, short, conflicts_with_all = ["room", "until", "data"])]
    pub(crate) follow: bool,
    /// Maximum number of entries [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) limit: Option<u16>,
    #[command(flatten)]
    pub(crate) target: GatewayTarget,
}

#[derive(Debug, Clone, Default, Args, Serialize)]
pub(crate) struct LogFilter {
    /// Only calls to this operation; * matches anything
    #[arg(long, value_name = "OP")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) op: Option<String>,
    /// Only entries since this time: a duration before now, such as 15m, or 2026-11-16T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
    /// Only entries before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
    /// Only calls or messages by this identity
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<String>,
    /// Only failed calls, or messages rejected by a room
    #[arg(long)]
    pub(crate) errors: bool,
    /// Messages of this room instead of calls; * matches anything
    #[arg(long, value_name = "ROOM", conflicts_with = "op")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) room: Option<String>,
    /// Only messages of this kind; * matches anything (repeatable)
    #[arg(long, value_name = "KIND", requires = "room")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) kind: Vec<String>,
}

/// Rejects text that cannot be a time. The gateway parses the rest.
fn parse_time(text: &str) -> Result<String, String> {
    let has_day = text.split('-').count() == 3 && text.starts_with(|c: char| c.is_ascii_digit());
    if has_day || parse_duration(text).is_ok() {
        return Ok(text.to_owned());
    }
    Err("expected a duration before now, such as 15m, or a time, such as 2026-11-16T12:00:00Z"
        .to_owned())
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Print one call with its input and output
    Show(ShowOptions),
    /// Verify the hash chain and the signatures of the journal
    Verify(VerifyOptions),
    /// Print all calls, then all room messages, as JSON lines, newest first
    Export(ExportOptions),
}

#[derive(Debug, Args)]
pub(crate) struct ShowOptions {
    /// Id of the call, as printed by `toolpost log`, or a part that only one call has
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) target: GatewayTarget,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyOptions {
    /// Signed head stored elsewhere, to compare the journal with
    #[arg(long, value_name = "FILE")]
    pub(crate) head: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) target: GatewayTarget,
}

#[derive(Debug, Args)]
pub(crate) struct ExportOptions {
    #[command(flatten)]
    pub(crate) filter: LogFilter,
    /// Gateway id of the journal to read [default: all in the data folder]
    #[arg(long, value_name = "ID")]
    pub(crate) gateway: Option<String>,
    #[command(flatten)]
    pub(crate) target: GatewayTarget,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Previews the call. With --run, makes the call as the current identity and compares the result with the
recorded one; exits with 1 if they differ.

  toolpost log --op demo.add --limit 1
  toolpost replay 2e41:17 --run")]
pub(crate) struct ReplayOptions {
    /// Id of the call, as printed by `toolpost log`, or a part that only one call has
    pub(crate) id: String,
    /// Run the call instead of previewing it
    #[arg(long)]
    pub(crate) run: bool,
    /// Timeout of the call, such as 500ms, 10s or 2m
    #[arg(long, value_parser = parse_timeout, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) target: GatewayTarget,
}
