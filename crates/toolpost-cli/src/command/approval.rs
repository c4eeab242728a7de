//! `approvals`, `approve` and `reject`: the calls of others that wait for somebody's word.

use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde_json::{Value, json};

use super::backend::ask_operator;
use crate::arguments::{ApproveOptions, Format, RejectOptions, Running};
use crate::failure::Failure;
use crate::output;

pub(crate) async fn approvals(running: &Running, format: Format) -> Result<(), Failure> {
    let mut listed = ask_operator(running, format, "gateway.approvals", json!({})).await?;
    let waiting = match listed["approvals"].take() {
        Value::Array(waiting) => waiting,
        _ => Vec::new(),
    };
    if output::is_plain(format.json) {
        return Ok(output::print_plain(&waiting)?);
    }
    if waiting.is_empty() {
        return Ok(output::print_line("No call waits for approval.")?);
    }
    Ok(output::print_line(&table(&waiting))?)
}

pub(crate) async fn approve(options: &ApproveOptions) -> Result<(), Failure> {
    let mut input = json!({"id": options.id});
    if let Some(seen) = &options.input {
        input["inputDigest"] = seen.as_str().into();
    }
    decide(&options.running, options.format, "gateway.approve", input).await
}

pub(crate) async fn reject(options: &RejectOptions) -> Result<(), Failure> {
    let mut input = json!({"id": options.id});
    if let Some(reason) = &options.reason {
        input["reason"] = reason.as_str().into();
    }
    decide(&options.running, options.format, "gateway.reject", input).await
}

async fn decide(
    running: &Running,
    format: Format,
    operation: &str,
    input: Value,
) -> Result<(), Failure> {
    let decided = ask_operator(running, format, operation, input).await?;
    if output::is_plain(format.json) {
        return Ok(output::print_plain(&decided)?);
    }
    let text = |name: &str| decided[name].as_str().unwrap_or_default();
    let caller = decided["caller"].as_str().unwrap_or("the gateway itself");
    let (status, operation) = (text("status"), text("operation"));
    let words = format!("{status}: {operation}, called by {caller}");
    Ok(output::print_line(&output::harmless(&words))?)
}

/// The input is whole, however long it is: nobody should agree to what he has not seen.
fn table(waiting: &[Value]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    // Some terminals say that they have no width at all.
    if table.width().is_none_or(|width| width < 40) {
        table.set_width(100);
    }
    table.set_header(["ID", "OPERATION", "CALLER", "EXPIRES IN", "INPUT"]);
    for call in waiting {
        let text = |name: &str| call[name].as_str().unwrap_or("-").to_owned();
        let left = Duration::from_millis(call["expiresInMs"].as_u64().unwrap_or_default());
        let left = format!("{}m {:02}s", left.as_secs() / 60, left.as_secs() % 60);
        let cells =
            [text("id"), text("operation"), text("caller"), left, call["input"].to_string()];
        table.add_row(cells.map(|cell| output::harmless(&cell).into_owned()));
    }
    table.trim_fmt()
}
