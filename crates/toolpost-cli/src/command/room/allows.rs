//! `room allows`: explains why a message would be allowed or rejected.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolpost_gateway::room::capability::{Capabilities, Capability, CapabilityRequest, Decision};
use toolpost_gateway::room::message::{Draft, MessageKind, upgrade_kind};

use super::super::document;
use crate::arguments::AllowsOptions;
use crate::error::CommandError;
use crate::output;

/// Whether a message would be allowed, and why.
#[derive(Debug, Serialize)]
struct AllowsResult {
    allow: bool,
    reason: String,
}

impl AllowsResult {
    fn rejected(reason: String) -> Self {
        Self { allow: false, reason }
    }
}

pub(crate) fn allows(options: &AllowsOptions) -> Result<(), CommandError> {
    if options.jsonl {
        return evaluate_lines(options.file.as_deref());
    }
    let Some(message) = &options.message else {
        return Err(CommandError::Usage(
            "--message is what would be sent; --jsonl takes one on each line".to_owned(),
        ));
    };
    let capabilities = options.capabilities.iter().map(|text| Capability::parse(text));
    let capabilities: Result<Vec<_>, _> = capabilities.collect();
    let capabilities = capabilities.map_err(|error| CommandError::Usage(error.to_string()))?;
    let result = evaluate(&Capabilities::new(capabilities), &read_message(message)?);
    print(&result, options.format.json)?;
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

/// Applies the checks of a room to a message.
fn evaluate(capabilities: &Capabilities, message: &str) -> AllowsResult {
    let draft = match Draft::parse(message) {
        Ok(draft) => draft,
        Err(error) => return AllowsResult::rejected(format!("{}: {}", error.code, error.message)),
    };
    match upgrade_kind(draft.kind, draft.payload.as_deref()) {
        Ok(kind) => check_capabilities(capabilities, &kind, draft.payload.as_deref()),
        Err(mismatch) => AllowsResult::rejected(format!("{}: {}", mismatch.code, mismatch.message)),
    }
}

fn check_capabilities(
    capabilities: &Capabilities,
    kind: &MessageKind,
    payload: Option<&RawValue>,
) -> AllowsResult {
    match capabilities.decide(&CapabilityRequest::new(kind.full(), payload)) {
        Decision::Allowed { by } => {
            AllowsResult { allow: true, reason: format!("allowed by {}", by.value()) }
        }
        Decision::Denied { reason } => AllowsResult::rejected(reason.to_string()),
        // Unknown decisions are rejections.
        _ => AllowsResult::rejected("no decision".to_owned()),
    }
}

fn print(result: &AllowsResult, json: bool) -> std::io::Result<()> {
    if output::wants_json(json) {
        return output::print_json_line(result);
    }
    let (color, verdict) =
        if result.allow { (AnsiColor::Green, "allow") } else { (AnsiColor::Red, "reject") };
    let style = Style::new().bold().fg_color(Some(color.into()));
    let reason = output::sanitize(&result.reason);
    output::print_line(&format!("{style}{verdict}{style:#}: {reason}"))
}

/// One line of `--jsonl`. Other members are ignored.
#[derive(Deserialize)]
struct AllowsCase {
    /// One capability or a list of capabilities.
    capability: Value,
    message: Box<RawValue>,
}

/// Prints one result per input line, in order. The input is streamed.
///
/// Returns an error for invalid lines after all lines are evaluated.
fn evaluate_lines(file: Option<&Path>) -> Result<(), CommandError> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut invalid = 0_usize;
    for line in open_lines(file)?.lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let response = evaluate_line(&line);
        invalid += usize::from(response.is_err());
        match response {
            Ok(result) => serde_json::to_writer(&mut out, &result),
            Err(error) => serde_json::to_writer(&mut out, &error),
        }
        .map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    if invalid == 0 {
        return Ok(());
    }
    let count_text =
        if invalid == 1 { "a line is".to_owned() } else { format!("{invalid} lines are") };
    let failure = CommandError::Usage(format!("{count_text} no {{capability, message}}"));
    // The JSON output already contains the error of each invalid line.
    Err(CommandError::JsonAlreadyPrinted(Box::new(failure)))
}

/// Evaluates one line of `--jsonl`.
///
/// # Errors
///
/// Returns the JSON to print for a line that cannot be parsed or that has an invalid capability. An
/// invalid capability allows nothing and is reported as an error.
fn evaluate_line(line: &str) -> Result<AllowsResult, Value> {
    let line: AllowsCase =
        serde_json::from_str(line).map_err(|error| json!({"error": error.to_string()}))?;
    let values = match line.capability {
        Value::Array(values) => values,
        one => vec![one],
    };
    let capabilities: Result<Vec<_>, _> = values.iter().map(Capability::compile).collect();
    match capabilities {
        Ok(capabilities) => Ok(evaluate(&Capabilities::new(capabilities), line.message.get())),
        Err(error) => {
            let reason = error.to_string();
            Err(json!({"allow": false, "reason": reason, "error": "invalid_capability"}))
        }
    }
}

fn open_lines(file: Option<&Path>) -> Result<Box<dyn BufRead>, CommandError> {
    match file.filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let file = std::fs::File::open(path);
            let file = file.map_err(|error| document::read_failure(path, &error))?;
            Ok(Box::new(BufReader::new(file)))
        }
        None => Ok(Box::new(std::io::stdin().lock())),
    }
}
