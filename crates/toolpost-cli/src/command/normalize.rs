//! `normalize` and `cast`: change JSON to fit a schema and report every repair.

use std::path::Path;

use anstyle::AnsiColor;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolpost::json::error_message;
use toolpost::{CastError, Extras, Issue, Normalized, Repair, RepairAction, Schema, SchemaError};

use super::document;
use crate::arguments::FitInput;
use crate::error::CommandError;
use crate::output;

#[derive(Debug, Serialize)]
struct FitResult {
    data: Value,
    repairs: Vec<Repair>,
    errors: Vec<Issue>,
    #[serde(rename = "schemaWarnings", skip_serializing_if = "Vec::is_empty")]
    schema_warnings: Vec<Issue>,
}

#[derive(Debug, Serialize)]
struct FitError {
    error: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    message: String,
}

#[derive(Debug, Clone, Copy)]
enum FitMode {
    Normalize(Extras),
    Cast,
}

pub(crate) fn normalize(input: &FitInput, keep_extras: bool) -> Result<(), CommandError> {
    let extras = if keep_extras { Extras::Keep } else { Extras::Strip };
    run(input, FitMode::Normalize(extras))
}

pub(crate) fn cast(input: &FitInput) -> Result<(), CommandError> {
    run(input, FitMode::Cast)
}

/// One line of `--jsonl`.
#[derive(Deserialize)]
struct JsonlCase {
    schema: Value,
    input: Value,
}

fn run(input: &FitInput, mode: FitMode) -> Result<(), CommandError> {
    let file = input.input.file.as_deref();
    if input.jsonl {
        return document::map_lines(file, |line| {
            let case: JsonlCase = serde_json::from_str(line).map_err(|error| {
                let reason = error_message(&error);
                FitError::new("line", &format!("expected {{schema, input}}: {reason}"))
            })?;
            let schema = Schema::new(case.schema)?;
            fit(&schema, case.input, mode)
        })
        .map(drop);
    }
    let Some(schema) = &input.schema else {
        return Err(CommandError::usage("missing --schema or --jsonl"));
    };
    let schema = read_schema(schema)?;
    let text = document::read(file)?;
    let value = serde_json::from_str(&text).context("the input is not JSON")?;
    match fit(&schema, value, mode) {
        Ok(fitted) => {
            print(&fitted)?;
            if fitted.errors.is_empty() { Ok(()) } else { Err(CommandError::Reported) }
        }
        Err(error) => {
            output::error(&error.message);
            if output::is_json() {
                output::print_json_line(&error)?;
            }
            Err(CommandError::Reported)
        }
    }
}

fn fit(schema: &Schema, mut data: Value, mode: FitMode) -> Result<FitResult, FitError> {
    match mode {
        FitMode::Normalize(extras) => {
            let Normalized { repairs, issues: errors, .. } = schema.normalize(&mut data, extras)?;
            Ok(FitResult { data, repairs, errors, schema_warnings: schema.take_warnings() })
        }
        FitMode::Cast => {
            let repairs = schema.cast(&mut data)?;
            // As in TypeBox, a cast also works with a schema that does not compile. The compile
            // error is then the only issue.
            let errors = schema
                .validate(&data)
                .unwrap_or_else(|error| vec![Issue::new("", error.to_string())]);
            Ok(FitResult { data, repairs, errors, schema_warnings: Vec::new() })
        }
    }
}

impl FitError {
    fn new(error: &'static str, message: &impl ToString) -> Self {
        Self { error, path: None, message: message.to_string() }
    }
}

impl From<SchemaError> for FitError {
    fn from(error: SchemaError) -> Self {
        Self::new("schema", &error)
    }
}

impl From<CastError> for FitError {
    fn from(error: CastError) -> Self {
        let path = Some(error.path.clone());
        Self { path, ..Self::new(error.code.as_str(), &error) }
    }
}

/// Parses a schema from a file or from inline JSON.
fn read_schema(text: &str) -> Result<Schema, CommandError> {
    let json = if text.trim_start().starts_with('{') || matches!(text, "true" | "false") {
        text.to_owned()
    } else {
        document::read(Some(Path::new(text)))?
    };
    let json = serde_json::from_str(&json)
        .map_err(|error| CommandError::Usage(format!("the schema is not JSON: {error}")))?;
    Schema::new(json).map_err(|error| CommandError::Usage(format!("invalid schema: {error}")))
}

fn print(fitted: &FitResult) -> Result<(), CommandError> {
    if output::is_json() {
        return Ok(output::print_json_line(fitted)?);
    }
    for repair in &fitted.repairs {
        output::print_line(&describe(repair))?;
    }
    for error in &fitted.errors {
        output::print_line(&colored_line(AnsiColor::Red, "!", &format!("{error}")))?;
    }
    for warning in &fitted.schema_warnings {
        output::print_line(&colored_line(AnsiColor::Yellow, "!", &format!("schema {warning}")))?;
    }
    if fitted.repairs.is_empty() && fitted.errors.is_empty() {
        output::print_line(&colored_line(AnsiColor::Green, "=", "valid, no repairs"))?;
    }
    output::print_line("")?;
    Ok(output::print_json(&fitted.data)?)
}

/// Formats one line of the diff: the action, the path, and the old and new values.
fn describe(repair: &Repair) -> String {
    let (color, sign, what) = match repair.action {
        RepairAction::Defaulted => (AnsiColor::Green, "+", "defaulted"),
        RepairAction::Converted => (AnsiColor::Yellow, "~", "converted"),
        RepairAction::Stripped => (AnsiColor::Red, "-", "stripped"),
        RepairAction::Invented => (AnsiColor::Magenta, "+", "invented"),
        _ => (AnsiColor::Magenta, "~", "replaced"),
    };
    let path = if repair.path.is_empty() { "(root)" } else { &repair.path };
    let values = match (&repair.from, &repair.to) {
        (Some(from), Some(to)) => format!("{} → {}", truncated_json(from), truncated_json(to)),
        (Some(value), None) | (None, Some(value)) => truncated_json(value),
        (None, None) => String::new(),
    };
    colored_line(color, sign, &format!("{path}  {what}  {values}"))
}

fn colored_line(color: AnsiColor, sign: &str, text: &str) -> String {
    output::styled(output::colored(color), &format!("{sign} {text}"))
}

fn truncated_json(value: &Value) -> String {
    output::truncate_line(&value.to_string(), 60)
}
