//! `approvals`, `approve` and `reject`: list and decide calls pending approval.

use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde_json::{Value, json};

use super::backend::call_as_operator;
use crate::arguments::{ApproveOptions, FormatOptions, GatewayTarget, RejectOptions};
use crate::error::CommandError;
use crate::output;

pub(crate) async fn approvals(
    running: &GatewayTarget,
    format: FormatOptions,
) -> Result<(), CommandError> {
    let mut listed = call_as_operator(running, format, "gateway.approvals", json!({})).await?;
    let pending = match listed["approvals"].take() {
        Value::Array(pending) => pending,
        _ => Vec::new(),
    };
    if output::wants_json(format.json) {
        return Ok(output::print_json_line(&pending)?);
    }
    if pending.is_empty() {
        return Ok(output::print_line("No calls pending approval.")?);
    }
    Ok(output::print_line(&table(&pending))?)
}

pub(crate) async fn approve(options: &ApproveOptions) -> Result<(), CommandError> {
    let mut input = json!({"id": options.id});
    if let Some(seen) = &options.input {
        input["inputDigest"] = seen.as_str().into();
    }
    send_decision(&options.target, options.format, "gateway.approve", input).await
}

pub(crate) async fn reject(options: &RejectOptions) -> Result<(), CommandError> {
    let mut input = json!({"id": options.id});
    if let Some(reason) = &options.reason {
        input["reason"] = reason.as_str().into();
    }
    send_decision(&options.target, options.format, "gateway.reject", input).await
}

async fn send_decision(
    running: &GatewayTarget,
    format: FormatOptions,
    operation: &str,
    input: Value,
) -> Result<(), CommandError> {
    let decided = call_as_operator(running, format, operation, input).await?;
    if output::wants_json(format.json) {
        return Ok(output::print_json_line(&decided)?);
    }
    let text = |name: &str| decided[name].as_str().unwrap_or_default();
    let caller = decided["caller"].as_str().unwrap_or("the gateway itself");
    let (status, operation) = (text("status"), text("operation"));
    let line = format!("{status}: {operation}, called by {caller}");
    Ok(output::print_line(&output::sanitize(&line))?)
}

/// Formats the pending calls as a table. The input is never truncated, because the approver must
/// see all of it.
fn table(pending: &[Value]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    // Some terminals report a width of zero.
    if table.width().is_none_or(|width| width < 40) {
        table.set_width(100);
    }
    table.set_header(["ID", "OPERATION", "CALLER", "EXPIRES IN", "INPUT"]);
    for call in pending {
        let text = |name: &str| call[name].as_str().unwrap_or("-").to_owned();
        let remaining = Duration::from_millis(call["expiresInMs"].as_u64().unwrap_or_default());
        let remaining = format!("{}m {:02}s", remaining.as_secs() / 60, remaining.as_secs() % 60);
        let cells =
            [text("id"), text("operation"), text("caller"), remaining, call["input"].to_string()];
        table.add_row(cells.map(|cell| output::sanitize(&cell).into_owned()));
    }
    table.trim_fmt()
}
