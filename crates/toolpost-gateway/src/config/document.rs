//! A TOML document that tracks positions and collects problems.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::entry::parent_folder;
use super::expand::Expander;
use super::node::TomlNode;
use super::problem::{ConfigError, ConfigProblem, PositionTracker};
use super::suggest::suggestion;

/// The table whose entries are independent: a missing reference disables one entry only.
const SOURCE_TABLE: &str = "source";

/// An offset in the text, a key and a message.
type Diagnostic = (usize, String, String);

/// Looks up the variable of `${VAR}`.
pub(super) type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

pub(super) struct TomlDocument<'a> {
    file: &'a Path,
    text: &'a str,
    root: Spanned<DeValue<'a>>,
    pub(super) expander: Expander<'a>,
    /// Shared with the nodes during deserialization. Positions are offsets in the text.
    problems: RefCell<Vec<Diagnostic>>,
    /// Keys with invalid values. They are skipped so that the remaining keys are still checked.
    skipped: RefCell<BTreeSet<String>>,
    /// Name of the source that is being read.
    current_source: RefCell<Option<String>>,
    /// References to missing variables and files, by source name. Each affects only its own source.
    missing_references: RefCell<BTreeMap<String, Vec<Diagnostic>>>,
}

/// Result of reading a document.
pub(super) struct DocumentReport {
    /// All problems of the document, except missing references of sources.
    pub(super) problems: Vec<ConfigProblem>,
    /// References of sources to missing variables and files, by source name.
    pub(super) missing_references: BTreeMap<String, Vec<ConfigProblem>>,
    /// The files that values refer to.
    pub(super) files: Vec<PathBuf>,
    /// Warnings about these files.
    pub(super) notes: Vec<String>,
}

impl<'a> TomlDocument<'a> {
    pub(super) fn parse(
        file: &'a Path,
        text: &'a str,
        environment: &'a Environment<'a>,
    ) -> Result<Self, ConfigError> {
        // Use only the message: the full error text quotes the line, which may contain a secret.
        let root = DeTable::parse(text).map_err(|error| {
            let problem = ConfigProblem::not_toml(file, text, error.span(), error.message());
            ConfigError::new(vec![problem])
        })?;
        let span = root.span();
        let root = Spanned::new(span, DeValue::Table(root.into_inner()));
        Ok(Self {
            file,
            text,
            root,
            expander: Expander::new(environment, parent_folder(file)),
            problems: RefCell::default(),
            skipped: RefCell::default(),
            current_source: RefCell::default(),
            missing_references: RefCell::default(),
        })
    }

    /// Reports unknown keys of the root table.
    pub(super) fn check_root(&self, known: &[&str]) {
        let Some(root) = self.root.get_ref().as_table() else { return };
        for (key, _) in root {
            if !known.contains(&key.get_ref().as_ref()) {
                self.unknown_key(dotted_key("", key.get_ref()), key.span(), key.get_ref(), known);
            }
        }
    }

    /// Reads the entries of a root table. Each entry is read on its own, so that problems in one do
    /// not hide those in the next.
    pub(super) fn entries<T: DeserializeOwned>(&self, table: &str) -> BTreeMap<String, T> {
        let Some(value) = self.root.get_ref().get(table) else { return BTreeMap::new() };
        let Some(entries) = value.get_ref().as_table() else {
            let message = format!("expected tables such as [{table}.NAME]");
            self.report_at(value.span().start, table.to_owned(), message);
            return BTreeMap::new();
        };
        let mut read = BTreeMap::new();
        for (name, value) in entries {
            let node = TomlNode::new(self, value, dotted_key(table, name.get_ref()));
            let source = (table == SOURCE_TABLE).then(|| name.get_ref().to_string());
            self.current_source.replace(source);
            if let Some(entry) = self.entry(&node) {
                read.insert(name.get_ref().to_string(), entry);
            }
        }
        self.current_source.replace(None);
        read
    }

    /// Returns the keys of a table in the document root.
    pub(super) fn names(&self, table: &str) -> Vec<String> {
        let table = self.root.get_ref().get(table).and_then(|value| value.get_ref().as_table());
        table.into_iter().flatten().map(|(name, _)| name.get_ref().to_string()).collect()
    }

    /// Reads the value of a key in the document root.
    pub(super) fn value<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let value = self.root.get_ref().get(key)?;
        self.entry(&TomlNode::new(self, value, key.to_owned()))
    }

    /// Reads an entry as far as possible. Each iteration skips one more invalid key, and the number
    /// of known keys is small. A list or a table with free names is skipped as a whole.
    fn entry<T: DeserializeOwned>(&self, node: &TomlNode<'_>) -> Option<T> {
        loop {
            let misfit = match T::deserialize(node.clone()) {
                Ok(entry) => return Some(entry),
                Err(misfit) => misfit,
            };
            let field = misfit.field.clone();
            // A skipped key also appears to be missing, but is already reported.
            let table = field.as_deref().unwrap_or(node.key());
            let is_reported = misfit.missing.is_some_and(|missing| {
                self.is_skipped(&dotted_key(table, missing))
                    || self.has_suggestion_in(table, missing)
            });
            if !is_reported {
                let is_absence = misfit.is_missing_reference;
                let (offset, key, message) = misfit.into_diagnostic(node);
                match &*self.current_source.borrow() {
                    Some(source) if is_absence => self.add_missing(source, offset, key, message),
                    _ => self.report_at(offset, key, message),
                }
            }
            if !self.skipped.borrow_mut().insert(field?) {
                return None;
            }
        }
    }

    /// Returns the directory that relative paths are resolved against.
    pub(super) fn folder(&self) -> &'a Path {
        parent_folder(self.file)
    }

    /// Whether a source refers to a missing variable or file.
    pub(super) fn has_missing_reference(&self, source: &str) -> bool {
        self.missing_references.borrow().contains_key(source)
    }

    pub(super) fn is_skipped(&self, key: &str) -> bool {
        self.skipped.borrow().contains(key)
    }

    pub(super) fn contains(&self, path: &[&str]) -> bool {
        self.locate(path).1 == path.len()
    }

    /// Reports a problem at this path, whether the key is present or missing.
    pub(super) fn report(&self, path: &[&str], message: impl Into<String>) {
        let key = path.iter().fold(String::new(), |key, part| dotted_key(&key, part));
        self.report_at(self.locate(path).0.start, key, message.into());
    }

    /// Reports a problem with one item of the list at this path.
    pub(super) fn report_item(&self, path: &[&str], number: usize, message: String) {
        let key = path.iter().fold(String::new(), |key, part| dotted_key(&key, part));
        let mut found = Some(&self.root);
        for part in path {
            found = found.and_then(|value| value.get_ref().get(*part));
        }
        let item = found.and_then(|list| list.get_ref().get(number));
        let at = item.map_or_else(|| self.locate(path).0, Spanned::span);
        self.report_at(at.start, format!("{key}[{number}]"), message);
    }

    /// Reports that a value at this path of a source refers to a missing variable or file.
    pub(super) fn report_missing(&self, source: &str, path: &[&str], message: String) {
        let key = path.iter().fold(String::new(), |key, part| dotted_key(&key, part));
        self.add_missing(source, self.locate(path).0.start, key, message);
    }

    pub(super) fn unknown_key(&self, key: String, at: Range<usize>, name: &str, known: &[&str]) {
        let message = format!("unknown key; {}", suggestion(name, known));
        self.report_at(at.start, key, message);
    }

    /// Whether an unknown key of this table was reported as a misspelling of `name`.
    pub(super) fn has_suggestion(&self, table: &[&str], name: &str) -> bool {
        self.has_suggestion_in(
            &table.iter().fold(String::new(), |key, part| dotted_key(&key, part)),
            name,
        )
    }

    fn has_suggestion_in(&self, table: &str, name: &str) -> bool {
        let message = format!("unknown key; {}", suggestion(name, &[name]));
        let is_of = |key: &str| key.rsplit_once('.').is_some_and(|(above, _)| above == table);
        self.problems.borrow().iter().any(|(_, key, reported)| *reported == message && is_of(key))
    }

    /// Returns all reported problems, in file order.
    pub(super) fn finish(self) -> DocumentReport {
        let Self { file, text, expander: values, problems, missing_references: absences, .. } =
            self;
        let placed = |mut found: Vec<Diagnostic>| {
            // A value that is read twice is reported twice.
            found.sort();
            found.dedup();
            let mut positions = PositionTracker::new(text);
            let placed = found.into_iter().map(|(offset, key, message)| {
                ConfigProblem::at_position(file, positions.position_of(offset), key, message)
            });
            placed.collect::<Vec<_>>()
        };
        let absences = absences.into_inner().into_iter();
        let absences = absences.map(|(source, found)| (source, placed(found))).collect();
        let (files, notes) = values.into_files_and_notes();
        DocumentReport {
            problems: placed(problems.into_inner()),
            missing_references: absences,
            files,
            notes,
        }
    }

    fn add_missing(&self, source: &str, offset: usize, key: String, message: String) {
        let mut absences = self.missing_references.borrow_mut();
        absences.entry(source.to_owned()).or_default().push((offset, key, message));
    }

    fn report_at(&self, offset: usize, key: String, message: String) {
        self.problems.borrow_mut().push((offset, key, message));
    }

    /// Returns the span of the deepest existing part of a path, and its depth.
    fn locate(&self, path: &[&str]) -> (Range<usize>, usize) {
        let mut found = &self.root;
        for (depth, part) in path.iter().enumerate() {
            match found.get_ref().get(*part) {
                Some(next) => found = next,
                None => return (found.span(), depth),
            }
        }
        (found.span(), path.len())
    }
}

/// Appends a part to a dotted key, quoted if TOML requires it.
pub(super) fn dotted_key(key: &str, part: &str) -> String {
    let is_bare = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let part = if !part.is_empty() && part.bytes().all(is_bare) {
        part.to_owned()
    } else {
        format!("{part:?}")
    };
    if key.is_empty() { part } else { format!("{key}.{part}") }
}
