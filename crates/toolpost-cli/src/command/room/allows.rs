//! `room allows`: explains why a message would be allowed or rejected.

use std::path::Path;

use anstyle::AnsiColor;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolpost::json::error_message;
use toolpost_gateway::room::capability::{Capabilities, Capability, CapabilityRequest};
use toolpost_gateway::room::message::{Draft, upgrade_kind};

use super::super::document;
use crate::arguments::AllowsOptions;
use crate::error::CommandError;
use crate::output;

#[derive(Debug, Serialize)]
struct AllowsResult {
    allow: bool,
    reason: String,
}

pub(crate) fn allows(options: &AllowsOptions) -> Result<(), CommandError> {
    if options.jsonl {
        return evaluate_lines(options.file.as_deref());
    }
    let Some(message) = &options.message else {
        return Err(CommandError::usage("missing --message or --jsonl"));
    };
    let capabilities = options.capabilities.iter().map(|text| Capability::parse(text));
    let capabilities = capabilities.collect::<Result<Vec<_>, _>>().map_err(CommandError::usage)?;
    let result = evaluate(&Capabilities::new(capabilities), &read_message(message)?);
    print(&result)?;
    if result.allow { Ok(()) } else { Err(CommandError::Reported) }
}

/// Reads a message. A kind alone is a message without a payload.
fn read_message(argument: &str) -> Result<String, CommandError> {
    if let Some(path) = argument.strip_prefix('@') {
        return document::read(Some(Path::new(path)));
    }
    match argument {
        "-" => document::read(None),
        json if json.trim_start().starts_with(['{', '[', '"']) => Ok(json.to_owned()),
        kind => Ok(json!({"kind": kind}).to_string()),
    }
}

fn evaluate(capabilities: &Capabilities, message: &str) -> AllowsResult {
    let decision = decide(capabilities, message);
    AllowsResult { allow: decision.is_ok(), reason: decision.unwrap_or_else(|reason| reason) }
}

/// Applies the checks of a room to a message, and returns why it is allowed or rejected.
fn decide(capabilities: &Capabilities, message: &str) -> Result<String, String> {
    let draft = Draft::parse(message)
        .map_err(|error| format!("{}: {}", error.code.as_str(), error.message))?;
    let (payload, to) = (draft.payload.as_deref(), &draft.to);
    let kind = upgrade_kind(draft.kind, payload)
        .map_err(|mismatch| format!("{}: {}", mismatch.code.as_str(), mismatch.message))?;
    let request = CapabilityRequest::new(kind.full(), payload).with_addressees(to);
    let by = capabilities.check(&request).map_err(|reason| reason.to_string())?;
    Ok(format!("allowed by {}", by.value()))
}

fn print(result: &AllowsResult) -> std::io::Result<()> {
    if output::is_json() {
        return output::print_json_line(result);
    }
    let (color, verdict) =
        if result.allow { (AnsiColor::Green, "allow") } else { (AnsiColor::Red, "reject") };
    let verdict = output::styled(output::colored(color).bold(), verdict);
    output::print_line(&format!("{verdict}: {}", output::sanitize(&result.reason)))
}

/// One line of `--jsonl`. Other members are ignored.
#[derive(Deserialize)]
struct AllowsCase {
    /// One capability or a list of capabilities.
    capability: Value,
    message: Box<RawValue>,
}

/// Prints one result per input line. Returns an error for invalid lines after all lines are
/// evaluated.
fn evaluate_lines(file: Option<&Path>) -> Result<(), CommandError> {
    let count_text = match document::map_lines(file, evaluate_line)? {
        0 => return Ok(()),
        1 => "1 line is".to_owned(),
        invalid => format!("{invalid} lines are"),
    };
    let failure = CommandError::Usage(format!("{count_text} not {{capability, message}}"));
    // The JSON output already contains the error of each invalid line.
    Err(CommandError::JsonAlreadyPrinted(Box::new(failure)))
}

/// Evaluates one line of `--jsonl`. The error is the JSON to print for an invalid line or capability.
fn evaluate_line(line: &str) -> Result<AllowsResult, Value> {
    let line: AllowsCase = serde_json::from_str(line).map_err(|error| {
        let reason = error_message(&error);
        json!({"error": format!("expected {{capability, message}}: {reason}")})
    })?;
    let values = match line.capability {
        Value::Array(values) => values,
        one => vec![one],
    };
    let capabilities = values.iter().map(Capability::compile).collect::<Result<Vec<_>, _>>();
    let capabilities = capabilities.map_err(|error| {
        let reason = error.to_string();
        json!({"allow": false, "reason": reason, "error": "invalid_capability"})
    })?;
    Ok(evaluate(&Capabilities::new(capabilities), line.message.get()))
}
