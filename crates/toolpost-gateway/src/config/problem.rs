//! Problems of a configuration and their positions.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// All problems of a configuration; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<ConfigProblem>,
    /// The files that the configuration names. Changing one of them may fix the problem.
    files: Vec<PathBuf>,
}

/// A problem: the file, the position, the key and a message with a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigProblem {
    /// The file.
    pub file: PathBuf,
    /// Line and column, starting at 1; `None` if the file could not be read.
    pub position: Option<(usize, usize)>,
    /// The key, such as `source.github.timeout`; empty if the problem is about the whole file.
    pub key: String,
    /// What is wrong and how to fix it. Values are never included, since any of them may be a
    /// secret.
    pub message: String,
}

impl ConfigError {
    pub(super) fn new(problems: Vec<ConfigProblem>) -> Self {
        Self { problems, files: Vec::new() }
    }

    pub(super) fn with_files(self, files: Vec<PathBuf>) -> Self {
        Self { files, ..self }
    }

    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    pub(super) fn into_problems(self) -> Vec<ConfigProblem> {
        self.problems
    }

    /// Returns the problems in file order.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.problems.iter().enumerate() {
            let break_before = if position == 0 { "" } else { "\n" };
            write!(f, "{break_before}{problem}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl ConfigProblem {
    pub(super) fn at_position(
        file: &Path,
        line_and_column: (usize, usize),
        key: String,
        message: String,
    ) -> Self {
        Self { file: file.to_owned(), position: Some(line_and_column), key, message }
    }

    pub(super) fn not_toml(
        file: &Path,
        text: &str,
        span: Option<Range<usize>>,
        reason: &str,
    ) -> Self {
        let position = position_of(text, span.map_or(0, |span| span.start));
        Self::at_position(file, position, String::new(), format!("invalid TOML: {reason}"))
    }

    pub(super) fn unreadable(file: &Path, error: &std::io::Error) -> Self {
        let message = format!("cannot read the file: {error}");
        Self::in_file(file, String::new(), message)
    }

    /// Creates a problem without a position.
    pub(super) fn in_file(file: &Path, key: String, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), position: None, key, message: message.into() }
    }
}

/// Returns the line and column of an offset, starting at 1, in characters.
pub(super) fn position_of(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_one_based_in_characters() {
        for (offset, expected) in
            [(0, (1, 1)), (1, (1, 2)), (2, (2, 1)), (8, (2, 3)), (8, (2, 3)), (99, (3, 1))]
        {
            assert_eq!(position_of("a\n✓✓b\n", offset), expected, "{offset}");
        }
    }
}
