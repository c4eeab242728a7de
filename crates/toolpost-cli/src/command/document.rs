//! Documents that commands read: a file or standard input, one document or one on each line.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use serde::de::IgnoredAny;

use crate::error::CommandError;

/// The whole text of a file, or of standard input where none is named.
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

/// A file that was named and cannot be read.
pub(super) fn read_failure(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::Usage(format!("cannot read `{}`: {error}", path.display()))
}

/// The documents of a text: its lines, if there are several and the first is JSON by itself; else
/// the text as one.
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
