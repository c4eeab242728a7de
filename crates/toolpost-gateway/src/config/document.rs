//! A TOML document that knows where everything stands, and collects what is wrong with it.

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

/// The table whose entries can do without one another.
const SOURCE_TABLE: &str = "source";

/// An offset in the text, a key, and what is said about it.
type Diagnostic = (usize, String, String);

/// Where `${VAR}` comes from.
pub(super) type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

pub(super) struct TomlDocument<'a> {
    file: &'a Path,
    text: &'a str,
    root: Spanned<DeValue<'a>>,
    pub(super) expander: Expander<'a>,
    /// Shared with the nodes that are being read; a place is an offset in the text.
    problems: RefCell<Vec<Diagnostic>>,
    /// Keys whose values do not fit; they are read over, so that what follows them is read too.
    skipped: RefCell<BTreeSet<String>>,
    /// The source that is being read.
    current_source: RefCell<Option<String>>,
    /// What sources refer to and is not there, by their names. Others can do without them.
    missing_references: RefCell<BTreeMap<String, Vec<Diagnostic>>>,
}

/// What came of a document.
pub(super) struct DocumentReport {
    /// Everything that is wrong with it.
    pub(super) problems: Vec<ConfigProblem>,
    /// What the values of sources refer to and is not there, by the names of the sources.
    pub(super) missing_references: BTreeMap<String, Vec<ConfigProblem>>,
    /// The files that values refer to.
    pub(super) files: Vec<PathBuf>,
    /// What is odd about these.
    pub(super) notes: Vec<String>,
}

impl<'a> TomlDocument<'a> {
    pub(super) fn parse(
        file: &'a Path,
        text: &'a str,
        environment: &'a Environment<'a>,
    ) -> Result<Self, ConfigError> {
        // The error's own text quotes the line, and the line may hold a secret: only its message.
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

    /// Reports the keys of the root that nobody knows.
    pub(super) fn check_root(&self, known: &[&str]) {
        let Some(root) = self.root.get_ref().as_table() else { return };
        for (key, _) in root {
            if !known.contains(&key.get_ref().as_ref()) {
                self.unknown_key(dotted_key("", key.get_ref()), key.span(), key.get_ref(), known);
            }
        }
    }

    /// The entries of a table of the root, each read by itself, so that one that is wrong does not
    /// hide what is wrong with the next.
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

    /// The names in a table of the root.
    pub(super) fn names(&self, table: &str) -> Vec<String> {
        let table = self.root.get_ref().get(table).and_then(|value| value.get_ref().as_table());
        table.into_iter().flatten().map(|(name, _)| name.get_ref().to_string()).collect()
    }

    /// A value of the root.
    pub(super) fn value<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let value = self.root.get_ref().get(key)?;
        self.entry(&TomlNode::new(self, value, key.to_owned()))
    }

    /// An entry, as far as it can be read: each round skips one more key, and a table has few that
    /// are known; a list or a table of free names is skipped whole.
    fn entry<T: DeserializeOwned>(&self, node: &TomlNode<'_>) -> Option<T> {
        loop {
            let misfit = match T::deserialize(node.clone()) {
                Ok(entry) => return Some(entry),
                Err(misfit) => misfit,
            };
            let field = misfit.field.clone();
            // A key that is there and does not fit is missing, too, once it is skipped.
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

    /// The folder that relative paths start from.
    pub(super) fn folder(&self) -> &'a Path {
        parent_folder(self.file)
    }

    /// Whether a source refers to something that is not there.
    pub(super) fn has_missing_reference(&self, source: &str) -> bool {
        self.missing_references.borrow().contains_key(source)
    }

    pub(super) fn is_skipped(&self, key: &str) -> bool {
        self.skipped.borrow().contains(key)
    }

    pub(super) fn contains(&self, path: &[&str]) -> bool {
        self.locate(path).1 == path.len()
    }

    /// Something is wrong with what stands at this path, or would stand there.
    pub(super) fn report(&self, path: &[&str], message: impl Into<String>) {
        let key = path.iter().fold(String::new(), |key, part| dotted_key(&key, part));
        self.report_at(self.locate(path).0.start, key, message.into());
    }

    /// Something is wrong with one of the list at this path.
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

    /// What stands at this path of a source refers to something that is not there.
    pub(super) fn report_missing(&self, source: &str, path: &[&str], message: String) {
        let key = path.iter().fold(String::new(), |key, part| dotted_key(&key, part));
        self.add_missing(source, self.locate(path).0.start, key, message);
    }

    pub(super) fn unknown_key(&self, key: String, at: Range<usize>, name: &str, known: &[&str]) {
        let message = format!("unknown key; {}", suggestion(name, known));
        self.report_at(at.start, key, message);
    }

    /// Whether an unknown key of this table was taken for a misspelt `name`.
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

    /// Everything that was found, in the order of the file.
    pub(super) fn finish(self) -> DocumentReport {
        let Self { file, text, expander: values, problems, missing_references: absences, .. } =
            self;
        let placed = |mut found: Vec<Diagnostic>| {
            // What was read twice was reported twice.
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

    /// The place of the deepest part of a path that is there, and how deep that is.
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

/// A key as TOML writes it.
pub(super) fn dotted_key(key: &str, part: &str) -> String {
    let is_bare = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let part = if !part.is_empty() && part.bytes().all(is_bare) {
        part.to_owned()
    } else {
        format!("{part:?}")
    };
    if key.is_empty() { part } else { format!("{key}.{part}") }
}
