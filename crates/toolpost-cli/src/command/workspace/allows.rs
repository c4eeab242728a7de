//! `workspace allows`: why a message would be allowed or refused.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolpost_gateway::room::capability::{Capabilities, Capability, Decision, Subject};
use toolpost_gateway::room::message::{Draft, Kind, upgraded};

use super::super::document;
use crate::arguments::AllowsOptions;
use crate::failure::Failure;
use crate::output;

/// What would become of a message.
#[derive(Debug, Serialize)]
struct Verdict {
    allow: bool,
    reason: String,
}

impl Verdict {
    fn refused(reason: String) -> Self {
        Self { allow: false, reason }
    }
}

pub(crate) fn allows(options: &AllowsOptions) -> Result<(), Failure> {
    if options.jsonl {
        return judge_lines(options.file.as_deref());
    }
    let Some(message) = &options.message else {
        return Err(Failure::Usage(
            "--message is what would be sent; --jsonl takes one on each line".to_owned(),
        ));
    };
    let capabilities = options.capabilities.iter().map(|text| Capability::parse(text));
    let capabilities: Result<Vec<_>, _> = capabilities.collect();
    let capabilities = capabilities.map_err(|error| Failure::Usage(error.to_string()))?;
    let verdict = judge(&Capabilities::new(capabilities), &read_message(message)?);
    print(&verdict, options.format.json)?;
    if verdict.allow { Ok(()) } else { Err(Failure::Reported) }
}

/// The text of a message; a kind by itself is a message without a payload.
fn read_message(word: &str) -> Result<String, Failure> {
    if let Some(path) = word.strip_prefix('@') {
        return document::read(Some(Path::new(path)));
    }
    match word {
        "-" => document::read(None),
        json if json.trim_start().starts_with(['{', '[', '"']) => Ok(json.to_owned()),
        kind => Ok(json!({"kind": kind}).to_string()),
    }
}

/// What a room does with a message before it hands it on.
fn judge(capabilities: &Capabilities, message: &str) -> Verdict {
    let draft = match Draft::read(message) {
        Ok(draft) => draft,
        Err(error) => return Verdict::refused(format!("{}: {}", error.error, error.message)),
    };
    match upgraded(draft.kind, draft.payload.as_deref()) {
        Ok(kind) => decide(capabilities, &kind, draft.payload.as_deref()),
        Err(mismatch) => Verdict::refused(format!("{}: {}", mismatch.error, mismatch.message)),
    }
}

fn decide(capabilities: &Capabilities, kind: &Kind, payload: Option<&RawValue>) -> Verdict {
    match capabilities.decide(&Subject::new(kind.full(), payload)) {
        Decision::Allowed { by } => {
            Verdict { allow: true, reason: format!("allowed by {}", by.value()) }
        }
        Decision::Refused { reason } => Verdict::refused(reason.to_string()),
        // Whatever else a decision may become, it is not a yes.
        _ => Verdict::refused("it was not decided".to_owned()),
    }
}

fn print(verdict: &Verdict, json: bool) -> std::io::Result<()> {
    if output::is_plain(json) {
        return output::print_plain(verdict);
    }
    let (color, word) =
        if verdict.allow { (AnsiColor::Green, "allow") } else { (AnsiColor::Red, "refuse") };
    let style = Style::new().bold().fg_color(Some(color.into()));
    let reason = output::harmless(&verdict.reason);
    output::print_line(&format!("{style}{word}{style:#}: {reason}"))
}

/// One case of `--jsonl`; what else stands there is not looked at.
#[derive(Deserialize)]
struct Line {
    /// One capability, or a list of them.
    capability: Value,
    message: Box<RawValue>,
}

/// One answer for each line, in order; the input is never held whole.
///
/// A line that is no case is an error at the end, when the others have been answered.
fn judge_lines(file: Option<&Path>) -> Result<(), Failure> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut wrong = 0_usize;
    for line in lines_of(file)?.lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = judge_line(&line);
        wrong += usize::from(answer.is_err());
        match answer {
            Ok(verdict) => serde_json::to_writer(&mut out, &verdict),
            Err(error) => serde_json::to_writer(&mut out, &error),
        }
        .map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    if wrong == 0 {
        return Ok(());
    }
    let words = if wrong == 1 { "a line is".to_owned() } else { format!("{wrong} lines are") };
    let failure = Failure::Usage(format!("{words} no {{capability, message}}"));
    // Programs have read it in its place.
    Err(Failure::Shown(Box::new(failure)))
}

/// # Errors
///
/// What is printed for a line that says nothing, or whose capability cannot be used: that one allows
/// nothing, and whoever wrote it should know.
fn judge_line(line: &str) -> Result<Verdict, Value> {
    let line: Line =
        serde_json::from_str(line).map_err(|error| json!({"error": error.to_string()}))?;
    let values = match line.capability {
        Value::Array(values) => values,
        one => vec![one],
    };
    let capabilities: Result<Vec<_>, _> = values.iter().map(Capability::compile).collect();
    match capabilities {
        Ok(capabilities) => Ok(judge(&Capabilities::new(capabilities), line.message.get())),
        Err(error) => {
            let reason = error.to_string();
            Err(json!({"allow": false, "reason": reason, "error": "invalid_capability"}))
        }
    }
}

fn lines_of(file: Option<&Path>) -> Result<Box<dyn BufRead>, Failure> {
    match file.filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let file = std::fs::File::open(path);
            let file = file.map_err(|error| document::unreadable(path, &error))?;
            Ok(Box::new(BufReader::new(file)))
        }
        None => Ok(Box::new(std::io::stdin().lock())),
    }
}
