//! Command errors: what is printed where, and the exit code.

use std::process::ExitCode;

use serde_json::{Value, json};
use toolpost::CallError;
use toolpost_gateway::config::{ConfigError, EditError};

use crate::output;

/// Why a command failed. Exit codes: 1 for a failed call, 2 for a usage or configuration error, 3
/// for an unreachable gateway or source.
#[derive(Debug)]
pub(crate) enum CommandError {
    Usage(String),
    Config(ConfigError),
    /// The call failed. `hint` suggests what to do.
    Call {
        error: CallError,
        hint: Option<String>,
    },
    /// The gateway or the source is unreachable, or the connection was lost.
    Unreachable(String),
    /// The JSON output already contains the error; it is only printed as text.
    JsonAlreadyPrinted(Box<CommandError>),
    /// The failure was already printed.
    Reported,
    Other(anyhow::Error),
    /// The reader of standard output closed the pipe.
    BrokenPipe,
}

impl CommandError {
    pub(crate) fn usage(message: impl std::fmt::Display) -> Self {
        Self::Usage(message.to_string())
    }

    /// Prints the error to standard error and, if `json` is set, as JSON to standard output.
    /// Returns the exit code.
    pub(crate) fn report(self, json: bool) -> ExitCode {
        let (wire, exit_code) = match self {
            Self::Usage(message) => (report_message(&message), 2),
            Self::Config(error) => (report_problems(&error), 2),
            Self::JsonAlreadyPrinted(failure) => return failure.report(false),
            Self::Call { error, hint } => {
                (report_call(&error, hint), error.code().info().exit_code)
            }
            Self::Unreachable(message) => (report_message(&message), 3),
            Self::Reported => return ExitCode::from(1),
            Self::Other(error) => (report_message(&format!("{error:#}")), 1),
            Self::BrokenPipe => return ExitCode::SUCCESS,
        };
        if json {
            // A closed standard output does not change the result.
            let _ = output::print_json_line(&json!({"error": wire}));
        }
        ExitCode::from(exit_code)
    }
}

fn report_message(message: &str) -> Value {
    output::error(message);
    json!({"message": message})
}

/// Prints every problem of a configuration with its position.
fn report_problems(error: &ConfigError) -> Value {
    let problems = error.problems().iter().map(|problem| {
        output::error(&problem.to_string());
        let (line, column) = problem.position.unzip();
        let file = problem.file.display().to_string();
        let (key, message) = (&problem.key, &problem.message);
        json!({"file": file, "line": line, "column": column, "key": key, "message": message})
    });
    let problems: Vec<Value> = problems.collect();
    json!({"message": error.to_string(), "problems": problems})
}

fn report_call(error: &CallError, hint: Option<String>) -> Value {
    output::error(&error.to_string());
    for line in detail_lines(error).into_iter().chain(hint) {
        output::detail(&line);
    }
    json!(error)
}

/// Formats the issues of a validation error one per line, and any other details as JSON.
fn detail_lines(error: &CallError) -> Vec<String> {
    let lines = match error.details() {
        Some(Value::Array(issues)) => issues
            .iter()
            .map(|issue| match ["path", "message"].map(|name| output::text_of(issue, name)) {
                ["", message] => message.to_owned(),
                [path, message] => format!("{path}: {message}"),
            })
            .collect(),
        Some(details) => vec![format!("details: {details}")],
        None => Vec::new(),
    };
    match &lines[..] {
        // Skip a detail that only repeats the message.
        [only] if error.message().ends_with(only.as_str()) => Vec::new(),
        _ => lines,
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<EditError> for CommandError {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Io { .. } | EditError::Locked(_) => Self::Other(error.into()),
            EditError::Rejected(error) => Self::Config(error),
            other => Self::Usage(other.to_string()),
        }
    }
}

impl From<anyhow::Error> for CommandError {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::BrokenPipe;
        }
        Self::Other(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detail_repeating_the_message_is_omitted() {
        let issue = |message: &str| json!({"path": "", "message": message});
        for (message, issues, expected) in [
            ("no such file", vec![issue("no such file")], 0),
            ("the input is wrong: no such file", vec![issue("no such file")], 0),
            ("the input is wrong", vec![issue("no such file")], 1),
            ("no such file", vec![issue("no such file"), issue("nor that one")], 2),
        ] {
            let wire = json!({"code": "VALIDATION_ERROR", "message": message, "details": issues, "retryable": false});
            let error: CallError = serde_json::from_value(wire).unwrap();
            assert_eq!(detail_lines(&error).len(), expected, "{message}");
        }
    }
}
