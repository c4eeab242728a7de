//! Input documents of commands: read from a file or standard input, as one document or one per
//! line.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use serde::de::IgnoredAny;

use crate::error::CommandError;

/// Reads a file, or standard input if no file or `-` is given.
pub(super) fn read(file: Option<&Path>) -> Result<String, CommandError> {
    match file.filter(|path| *path != Path::new("-")) {
        Some(path) => std::fs::read_to_string(path).map_err(|error| read_failure(path, &error)),
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
            Ok(text)
        }
    }
}

/// Returns the usage error for a file that cannot be read.
pub(super) fn read_failure(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::Usage(format!("cannot read `{}`: {error}", path.display()))
}

/// Splits a text into documents: its lines, if there are several and the first is valid JSON;
/// otherwise the whole text.
pub(super) fn split_documents(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let is_json = |line: &&str| serde_json::from_str::<IgnoredAny>(line).is_ok();
    if lines.len() > 1 && lines.first().is_some_and(is_json) { lines } else { vec![text.trim()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_split_by_line_only_when_first_is_json() {
        for (text, documents) in [
            ("{\"a\":1}", 1),
            ("{\"a\":1}\n", 1),
            ("{\"a\":1}\n{\"a\":2}\n\n[3]", 3),
            ("{\"a\":1}\nbroken", 2),
            ("{\n\"a\": 1\n}", 1),
            ("plain\ntext", 1),
            ("", 1),
        ] {
            assert_eq!(split_documents(text).len(), documents, "{text:?}");
        }
    }
}
