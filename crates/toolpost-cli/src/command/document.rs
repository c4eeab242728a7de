//! Input documents of commands: read from a file or standard input, as one document or one per
//! line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::IgnoredAny;

use crate::error::CommandError;

/// Reads a file, or standard input if no file or `-` is given.
pub(super) fn read(file: Option<&Path>) -> Result<String, CommandError> {
    let mut text = String::new();
    let result = open(file)?.read_to_string(&mut text);
    result.map(|_| text).map_err(|error| read_failure(file, &error))
}

fn open(file: Option<&Path>) -> Result<Box<dyn BufRead>, CommandError> {
    let Some(path) = file.filter(|path| *path != Path::new("-")) else {
        return Ok(Box::new(std::io::stdin().lock()));
    };
    match std::fs::File::open(path) {
        Ok(file) => Ok(Box::new(BufReader::new(file))),
        Err(error) => Err(read_failure(Some(path), &error)),
    }
}

fn read_failure(file: Option<&Path>, error: &std::io::Error) -> CommandError {
    let name = file.unwrap_or(Path::new("-")).display();
    CommandError::Usage(format!("cannot read `{name}`: {error}"))
}

/// Prints the JSON of one result per input line, in order, holding only one line in memory. Returns
/// the number of errors.
pub(super) fn map_lines<T: Serialize, E: Serialize>(
    file: Option<&Path>,
    result_of: impl Fn(&str) -> Result<T, E>,
) -> Result<usize, CommandError> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut errors = 0;
    for line in open(file)?.lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        match result_of(&line) {
            Ok(result) => serde_json::to_writer(&mut out, &result),
            Err(error) => {
                errors += 1;
                serde_json::to_writer(&mut out, &error)
            }
        }
        .map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(errors)
}

/// Splits text into documents: its lines, if there are several and the first is valid JSON;
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
