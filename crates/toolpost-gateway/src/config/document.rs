//! A TOML document that tracks positions and collects problems.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::expand::Expander;
use super::node::{TomlNode, suggestion};
use super::problem::{ConfigError, ConfigProblem, position_of};

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
    /// Keys of the root table that were read.
    known: RefCell<Vec<&'static str>>,
    /// Shared with the nodes during deserialization. Positions are offsets in the text.
    problems: RefCell<Vec<Diagnostic>>,
    /// Keys with invalid values. They are skipped so that the remaining keys are still checked.
    skipped: RefCell<BTreeSet<String>>,
    current_source: RefCell<Option<String>>,
    /// References to missing variables and files, by source name. Each affects only its own source.
    missing_references: RefCell<BTreeMap<String, Vec<Diagnostic>>>,
}

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
            known: RefCell::default(),
            problems: RefCell::default(),
            skipped: RefCell::default(),
            current_source: RefCell::default(),
            missing_references: RefCell::default(),
        })
    }

    pub(super) fn report_unknown_root_keys(&self) {
        let known = self.known.take();
        for (key, _) in self.root.get_ref().as_table().into_iter().flatten() {
            if !known.contains(&key.get_ref().as_ref()) {
                self.unknown_key(dotted_key("", key.get_ref()), key.span(), key.get_ref(), &known);
            }
        }
    }

    /// Reads the entries of a root table. Each entry is read on its own, so that problems in one do
    /// not hide those in the next.
    pub(super) fn entries<T: DeserializeOwned>(&self, table: &'static str) -> BTreeMap<String, T> {
        self.known.borrow_mut().push(table);
        let Some(value) = self.root.get_ref().get(table) else { return BTreeMap::new() };
        let Some(entries) = value.get_ref().as_table() else {
            let message = format!("expected tables such as [{table}.NAME]");
            self.report_at(value.span().start, table.to_owned(), message);
            return BTreeMap::new();
        };
        let mut read = BTreeMap::new();
        for (name, value) in entries {
            let key = dotted_key(table, name.get_ref());
            let node = TomlNode { document: self, value, key };
            let source = (table == SOURCE_TABLE).then(|| name.get_ref().to_string());
            self.current_source.replace(source);
            if let Some(entry) = self.entry(&node) {
                read.insert(name.get_ref().to_string(), entry);
            }
        }
        self.current_source.replace(None);
        read
    }

    pub(super) fn value<T: DeserializeOwned>(&self, key: &'static str) -> Option<T> {
        self.known.borrow_mut().push(key);
        let value = self.root.get_ref().get(key)?;
        self.entry(&TomlNode { document: self, value, key: key.to_owned() })
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
            let table = field.as_deref().unwrap_or(&node.key);
            let is_reported = misfit.missing.is_some_and(|missing| {
                self.is_skipped(&dotted_key(table, missing)) || self.has_suggestion(table, missing)
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

    /// Returns the folder that relative paths are resolved against.
    pub(super) fn folder(&self) -> &'a Path {
        parent_folder(self.file)
    }

    pub(super) fn has_missing_reference(&self, source: &str) -> bool {
        self.missing_references.borrow().contains_key(source)
    }

    pub(super) fn is_skipped(&self, key: &str) -> bool {
        self.skipped.borrow().contains(key)
    }

    pub(super) fn contains(&self, path: &[&str]) -> bool {
        self.locate(path).1 == path.len()
    }

    pub(super) fn section<'s>(&'s self, path: &'s [&'s str]) -> Section<'s, 'a> {
        Section { document: self, path }
    }

    pub(super) fn unknown_key(&self, key: String, at: Range<usize>, name: &str, known: &[&str]) {
        let message = format!("unknown key; {}", suggestion(name, known));
        self.report_at(at.start, key, message);
    }

    /// Whether an unknown key of this table was reported as a misspelling of `name`.
    fn has_suggestion(&self, table: &str, name: &str) -> bool {
        let message = format!("unknown key; {}", suggestion(name, &[name]));
        let is_of = |key: &str| key.rsplit_once('.').is_some_and(|(above, _)| above == table);
        self.problems.borrow().iter().any(|(_, key, reported)| *reported == message && is_of(key))
    }

    pub(super) fn finish(&self) -> DocumentReport {
        let placed = |mut found: Vec<Diagnostic>| {
            // A value that is read twice is reported twice.
            found.sort();
            found.dedup();
            let placed = found.into_iter().map(|(offset, key, message)| {
                ConfigProblem::at_position(self.file, position_of(self.text, offset), key, message)
            });
            placed.collect::<Vec<_>>()
        };
        let missing = self.missing_references.take().into_iter();
        let (files, notes) = self.expander.take_files_and_notes();
        DocumentReport {
            problems: placed(self.problems.take()),
            missing_references: missing.map(|(source, found)| (source, placed(found))).collect(),
            files,
            notes,
        }
    }

    /// Adds a warning, which does not reject the configuration.
    pub(super) fn note(&self, note: String) {
        self.expander.note(note);
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

/// A table of the document. Paths are relative to it.
#[derive(Clone, Copy)]
pub(super) struct Section<'s, 'd> {
    pub(super) document: &'s TomlDocument<'d>,
    pub(super) path: &'s [&'s str],
}

impl Section<'_, '_> {
    /// Reports a problem, whether the key is present or missing.
    pub(super) fn report(&self, path: &[&str], message: impl Into<String>) {
        let (offset, key) = self.locate(path);
        self.document.report_at(offset, key, message.into());
    }

    pub(super) fn contains(&self, path: &[&str]) -> bool {
        self.document.contains(&[self.path, path].concat())
    }

    /// Whether an unknown key of this table was reported as a misspelling of `name`.
    pub(super) fn has_suggestion(&self, name: &str) -> bool {
        self.document.has_suggestion(&dotted_path("", self.path), name)
    }

    /// Reads the secret file that the value at `path` names. If it is missing, only the source of
    /// this table is affected.
    pub(super) fn read_secret_file(&self, file: &str, path: &[&str]) -> Option<String> {
        let read = self.document.expander.read_secret_file(file);
        read.map_err(|error| {
            let (offset, key) = self.locate(path);
            self.document.add_missing(self.path[1], offset, key, error.to_string());
        })
        .ok()
    }

    /// Reads a file with CA certificates, which the value at `path` names.
    pub(super) fn read_ca_file(&self, file: &str, path: &[&str]) -> Option<String> {
        let read = self.document.expander.read_file(file);
        let text = read.map_err(|error| self.report(path, error.to_string())).ok()?;
        if !text.contains("-----BEGIN CERTIFICATE-----") {
            self.report(path, "not a PEM file with certificates");
        }
        Some(text)
    }

    fn locate(&self, path: &[&str]) -> (usize, String) {
        let path = [self.path, path].concat();
        (self.document.locate(&path).0.start, dotted_path("", &path))
    }
}

pub(super) fn dotted_path(key: &str, path: &[&str]) -> String {
    path.iter().fold(key.to_owned(), |key, part| dotted_key(&key, part))
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

/// Returns the folder that relative paths in a file are resolved against.
pub(super) fn parent_folder(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}
