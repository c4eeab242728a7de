//! What is wrong with a configuration, and where.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Everything that is wrong with a configuration; at least one problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<Problem>,
    /// The files that it names, one of which may be what is missing.
    files: Vec<PathBuf>,
}

/// One thing that is wrong: the file, the place, the key, what it is and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Which file.
    pub file: PathBuf,
    /// Line and column, both from 1; absent where the file could not be read at all.
    pub place: Option<(usize, usize)>,
    /// The key, such as `source.github.timeout`; empty where it is about the whole file.
    pub key: String,
    /// What is wrong and what to do. Values are never told, since any of them may be a secret.
    pub message: String,
}

impl ConfigError {
    pub(super) fn new(problems: Vec<Problem>) -> Self {
        Self { problems, files: Vec::new() }
    }

    pub(super) fn naming(self, files: Vec<PathBuf>) -> Self {
        Self { files, ..self }
    }

    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// The problems in the order of the file.
    pub fn problems(&self) -> &[Problem] {
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

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl Problem {
    pub(super) fn at(file: &Path, place: (usize, usize), key: String, message: String) -> Self {
        Self { file: file.to_owned(), place: Some(place), key, message }
    }

    pub(super) fn not_toml(
        file: &Path,
        text: &str,
        span: Option<Range<usize>>,
        reason: &str,
    ) -> Self {
        let place = Places::of(text).at(span.map_or(0, |span| span.start));
        Self::at(file, place, String::new(), format!("this is not TOML: {reason}"))
    }

    pub(super) fn unreadable(file: &Path, error: &std::io::Error) -> Self {
        let message = format!("cannot be read: {error}; name another file");
        Self { file: file.to_owned(), place: None, key: String::new(), message }
    }
}

/// Lines and columns, counted in one walk for offsets that come in order.
pub(super) struct Places<'a> {
    rest: &'a str,
    offset: usize,
    place: (usize, usize),
}

impl<'a> Places<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { rest: text, offset: 0, place: (1, 1) }
    }

    /// The place of an offset that is not before the last one.
    pub(super) fn at(&mut self, offset: usize) -> (usize, usize) {
        let step = offset.saturating_sub(self.offset);
        let (passed, rest) = self.rest.split_at_checked(step).unwrap_or((self.rest, ""));
        for character in passed.chars() {
            self.place = match character {
                '\n' => (self.place.0 + 1, 1),
                _ => (self.place.0, self.place.1 + 1),
            };
        }
        (self.rest, self.offset) = (rest, self.offset + passed.len());
        self.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one_in_characters() {
        let mut places = Places::of("a\n✓✓b\n");
        for (offset, place) in
            [(0, (1, 1)), (1, (1, 2)), (2, (2, 1)), (8, (2, 3)), (8, (2, 3)), (99, (3, 1))]
        {
            assert_eq!(places.at(offset), place, "{offset}");
        }
    }
}
