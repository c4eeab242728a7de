//! `cast`: make JSON fit a schema, and say what was changed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolpost::{CastError, Extras, Issue, Repair, RepairAction, Schema, SchemaError};

use super::document;
use crate::arguments::CastOptions;
use crate::failure::Failure;
use crate::output;

/// What came of one document.
#[derive(Debug, Serialize)]
struct Fitted {
    data: Value,
    repairs: Vec<Repair>,
    errors: Vec<Issue>,
}

/// What is printed where nothing could be done.
#[derive(Debug, Serialize)]
struct Refused {
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    message: String,
}

pub(crate) fn cast(options: &CastOptions) -> Result<(), Failure> {
    if options.jsonl {
        return cast_lines(options);
    }
    let Some(schema) = &options.schema else {
        return Err(Failure::Usage(
            "--schema names the schema; --jsonl takes one on each line".into(),
        ));
    };
    let schema = read_schema(schema)?;
    let text = document::read(options.file.as_deref())?;
    let value = serde_json::from_str(&text).context("the input is not JSON")?;
    match fit(&schema, value, options) {
        Ok(fitted) => {
            print(&fitted, options.format.json)?;
            if fitted.errors.is_empty() { Ok(()) } else { Err(Failure::Reported) }
        }
        Err(refused) => {
            output::error(&refused.message);
            if output::is_plain(options.format.json) {
                output::print_plain(&refused)?;
            }
            Err(Failure::Reported)
        }
    }
}

/// One answer for each line, whatever it is; the input is never held whole.
fn cast_lines(options: &CastOptions) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Line {
        schema: Value,
        input: Value,
    }
    let input: Box<dyn BufRead> =
        match options.file.as_deref().filter(|path| *path != Path::new("-")) {
            Some(path) => Box::new(BufReader::new(
                std::fs::File::open(path).map_err(|error| document::unreadable(path, &error))?,
            )),
            None => Box::new(std::io::stdin().lock()),
        };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in input.lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = serde_json::from_str::<Line>(&line)
            .map_err(|error| Refused::plain("line", format!("expected {{schema, input}}: {error}")))
            .and_then(|line| {
                let schema = Schema::new(line.schema).map_err(|error| Refused::schema(&error))?;
                fit(&schema, line.input, options)
            });
        match answer {
            Ok(fitted) => serde_json::to_writer(&mut out, &fitted),
            Err(refused) => serde_json::to_writer(&mut out, &refused),
        }
        .map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

fn fit(schema: &Schema, mut data: Value, options: &CastOptions) -> Result<Fitted, Refused> {
    if options.faithful {
        let repairs = schema.cast(&mut data).map_err(|error| Refused::cast(&error))?;
        // TypeBox casts by schemas that mean nothing; then there is nothing to check against.
        let errors =
            schema.check(&data).unwrap_or_else(|error| vec![Issue::new("", error.to_string())]);
        return Ok(Fitted { data, repairs, errors });
    }
    let extras = if options.keep_extras { Extras::Keep } else { Extras::Strip };
    let normalized =
        schema.normalize(&mut data, extras).map_err(|error| Refused::schema(&error))?;
    Ok(Fitted { data, repairs: normalized.repairs, errors: normalized.issues })
}

impl Refused {
    fn plain(error: &str, message: String) -> Self {
        Self { error: error.to_owned(), path: None, message }
    }

    fn schema(error: &SchemaError) -> Self {
        Self::plain("schema", error.to_string())
    }

    fn cast(error: &CastError) -> Self {
        let (code, path) = (error.code.as_str().to_owned(), error.path.clone());
        Self { error: code, path: Some(path), message: error.to_string() }
    }
}

/// A file, or the schema itself.
fn read_schema(text: &str) -> Result<Schema, Failure> {
    let json = if text.trim_start().starts_with('{') || matches!(text, "true" | "false") {
        text.to_owned()
    } else {
        document::read(Some(Path::new(text)))?
    };
    let json = serde_json::from_str(&json)
        .map_err(|error| Failure::Usage(format!("the schema is not JSON: {error}")))?;
    Schema::new(json).map_err(|error| Failure::Usage(format!("the schema cannot be used: {error}")))
}

fn print(fitted: &Fitted, json: bool) -> Result<(), Failure> {
    if output::is_plain(json) {
        return Ok(output::print_plain(fitted)?);
    }
    for repair in &fitted.repairs {
        output::print_line(&describe(repair))?;
    }
    for error in &fitted.errors {
        output::print_line(&mark(AnsiColor::Red, "!", &format!("{error}")))?;
    }
    if fitted.repairs.is_empty() && fitted.errors.is_empty() {
        output::print_line(&mark(AnsiColor::Green, "=", "fits as it is"))?;
    }
    output::print_line("")?;
    Ok(output::print_json(&fitted.data, false)?)
}

/// One line of the diff: what happened where, and both values where there are two.
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
        (Some(from), Some(to)) => format!("{} → {}", short(from), short(to)),
        (Some(one), None) | (None, Some(one)) => short(one),
        (None, None) => String::new(),
    };
    mark(color, sign, &format!("{path}  {what}  {values}"))
}

fn mark(color: AnsiColor, sign: &str, text: &str) -> String {
    let style = Style::new().fg_color(Some(color.into()));
    format!("{style}{sign} {text}{style:#}")
}

/// A value on one line of a terminal.
fn short(value: &Value) -> String {
    const WIDTH: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
