//! Editing of the configuration file. An entry is added, changed or removed; everything else keeps
//! its formatting.

mod identity;
mod init;
mod merge;
mod openapi_source;
mod remove;
mod source;

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::Config;
use super::document::{dotted_path, parent_folder};
use super::problem::{ConfigError, ConfigProblem};
use crate::data::private_file_options;

pub use identity::write_identity;
pub use init::write_template;
pub use openapi_source::{OpenApiEntry, preserve_openapi_entry};
pub use remove::{remove_identity, remove_source};
pub(super) use source::read_entry;
pub use source::{SourceEntry, check_source, mcp_settings, preserve_mcp_entry, write_source};

/// How to handle an existing entry of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// Return an error.
    Fail,
    /// The entry must exist. The given keys are replaced; the others stay.
    Replace,
}

/// The reason why a file was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The edit is not possible.
    #[error("{0}")]
    Invalid(String),
    /// The file is not a valid configuration, or would not be one after the edit.
    #[error("{0}")]
    Rejected(ConfigError),
    /// Another process is writing, or a previous write was interrupted.
    #[error(
        "another process is writing to the configuration; if not, remove {file}",
        file = .0.display()
    )]
    Locked(PathBuf),
    /// An I/O error.
    #[error("cannot write {file}: {source}", file = .file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The underlying error.
        source: std::io::Error,
    },
}

impl From<ConfigProblem> for EditError {
    fn from(problem: ConfigProblem) -> Self {
        Self::Rejected(ConfigError::new(vec![problem]))
    }
}

const IDENTITY: &str = "identity";
const SOURCE: &str = "source";

/// The identities and sources named in a file, whether or not they are valid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigOverview {
    /// Names of the identities.
    pub identities: Vec<String>,
    /// Whether JWT access tokens are accepted.
    pub has_jwt_auth: bool,
    /// Names of the sources.
    pub sources: Vec<String>,
    /// The sources with `access = "open"`.
    pub open_sources: Vec<String>,
}

impl ConfigOverview {
    /// Whether callers must authenticate.
    pub fn requires_auth(&self) -> bool {
        self.has_jwt_auth || !self.identities.is_empty()
    }
}

/// Returns the identities and sources named in a file; empty if the file does not exist.
///
/// # Errors
///
/// The file is not valid TOML, or an I/O error occurs.
pub fn overview(file: &Path) -> Result<ConfigOverview, EditError> {
    let document = parse(file, &read_file(file)?)?;
    let names = |table: &str, fits: fn(&Item) -> bool| {
        let entries = document.get(table).and_then(Item::as_table_like);
        let entries = entries.into_iter().flat_map(|entries| entries.iter());
        entries.filter(|(_, entry)| fits(entry)).map(|(name, _)| name.to_owned()).collect()
    };
    let is_open = |entry: &Item| entry.get("access").and_then(Item::as_str) == Some("open");
    Ok(ConfigOverview {
        identities: names(IDENTITY, |_| true),
        has_jwt_auth: document.get("auth").is_some(),
        sources: names(SOURCE, |_| true),
        open_sources: names(SOURCE, is_open),
    })
}

/// Creates a missing file with `mcp_servers = [OTHER]`.
///
/// # Errors
///
/// An I/O error.
pub fn create_with_mcp_servers(file: &Path, other: &str) -> Result<(), EditError> {
    rewrite(file, |text| {
        let line = format!("mcp_servers = [{}]\n", Value::from(other));
        Ok(if text.is_empty() { line } else { text.to_owned() })
    })
}

/// Converts a path relative to the current folder to one that can be written into `file`, which
/// may be in another folder.
pub fn relative_path(file: &Path, path: &Path) -> PathBuf {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if path.is_absolute() || parent_folder(file) == Path::new("") {
        return path.to_owned();
    }
    let (folder, path) = (absolute(parent_folder(file)), absolute(path));
    path.strip_prefix(&folder).map(Path::to_owned).unwrap_or(path)
}

fn read_file(file: &Path) -> Result<String, EditError> {
    match std::fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|source| EditError::Io { file: file.to_owned(), source }),
    }
}

fn parse(file: &Path, text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        ConfigProblem::not_toml(file, text, error.span(), error.message()).into()
    })
}

/// Replaces the text of a file with the result of `change`, atomically. The name of the temporary
/// file is fixed, so a second concurrent writer fails instead of overwriting a change.
fn rewrite(
    file: &Path,
    change: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<(), EditError> {
    // A symbolic link is preserved; its target is replaced.
    let target = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let failed = |source| EditError::Io { file: target.clone(), source };
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".new");
    let temporary = target.with_file_name(name);
    let opened = private_file_options().create_new(true).open(&temporary);
    let mut new = opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => EditError::Locked(temporary.clone()),
        _ => failed(error),
    })?;
    let mut write = |text: String| {
        new.write_all(text.as_bytes())?;
        if let Ok(old) = std::fs::metadata(&target) {
            new.set_permissions(old.permissions())?;
        }
        new.sync_all()?;
        std::fs::rename(&temporary, &target)
    };
    let changed = read_file(&target).and_then(|text| change(&text));
    let written = changed.and_then(|text| write(text).map_err(failed));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

struct EntryEditor<'a> {
    file: &'a Path,
    table: &'static str,
    name: &'a str,
}

impl EntryEditor<'_> {
    /// Edits the entry if the result is a valid configuration.
    fn write(
        &self,
        existing: IfExists,
        fill: impl FnOnce(&mut dyn TableLike),
    ) -> Result<(), EditError> {
        rewrite(self.file, |text| {
            let changed = self.apply(text, existing, fill)?;
            self.check(text, &changed)?;
            Ok(changed)
        })
    }

    fn apply(
        &self,
        text: &str,
        existing: IfExists,
        fill: impl FnOnce(&mut dyn TableLike),
    ) -> Result<String, EditError> {
        let mut document = parse(self.file, text)?;
        let key = self.table;
        let is_there = document.get(key).and_then(|entries| entries.get(self.name)).is_some();
        self.check_existence(is_there, existing)?;
        if !is_there {
            insert_entry(&mut document, text, key, self.name);
        }
        let entry = document.get_mut(key).and_then(|entries| entries.get_mut(self.name));
        let entry = entry.and_then(Item::as_table_like_mut).ok_or_else(|| self.not_a_table())?;
        fill(entry);
        Ok(document.to_string())
    }

    /// Checks that a new name is unused, or that the entry to replace exists.
    fn check_existence(&self, is_there: bool, existing: IfExists) -> Result<(), EditError> {
        let (name, file) = (self.name, self.file.display());
        Err(EditError::Invalid(match (is_there, existing) {
            (true, IfExists::Fail) => {
                format!("`{name}` already exists in {file}; use --replace to replace it")
            }
            (false, IfExists::Replace) => {
                format!("`{name}` does not exist in {file}; omit --replace to add it")
            }
            _ => return Ok(()),
        }))
    }

    /// Checks that the edited entry is valid and that the edit adds no other problems.
    fn check(&self, before: &str, after: &str) -> Result<(), EditError> {
        let entry = dotted_path("", &[self.table, self.name]);
        let is_of_entry = |key: &str| {
            key.strip_prefix(&entry).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let old = self.problems(before);
        let is_known = |new: &ConfigProblem| {
            old.iter().any(|old| (&old.key, &old.message) == (&new.key, &new.message))
        };
        let mut found = self.problems(after);
        found.retain(|new| is_of_entry(&new.key) || !is_known(new));
        // The positions refer to text that is not on disk.
        found.iter_mut().for_each(|problem| problem.position = None);
        if found.is_empty() { Ok(()) } else { Err(EditError::Rejected(ConfigError::new(found))) }
    }

    /// Returns the problems of a configuration text. Unset variables are not reported; they may be set where the
    /// gateway runs.
    fn problems(&self, text: &str) -> Vec<ConfigProblem> {
        let read = Config::read_document(self.file, text, &|name| std::env::var(name).ok());
        read.map_or_else(ConfigError::into_problems, |(_, problems)| problems)
    }

    fn not_a_table(&self) -> EditError {
        let key = dotted_path("", &[self.table, self.name]);
        let message = format!("expected a table in the table `{}`", self.table);
        ConfigProblem::in_file(self.file, key, message).into()
    }
}

/// Adds an empty entry if the value at the key is a table.
fn insert_entry(document: &mut DocumentMut, text: &str, key: &str, name: &str) {
    let mut implicit = Table::new();
    implicit.set_implicit(true);
    match document.entry(key).or_insert(Item::Table(implicit)) {
        Item::Value(Value::InlineTable(entries)) => {
            entries.insert(name, InlineTable::new().into());
        }
        Item::Table(_) => {
            let table = trailing_table(&take_trailing_comments(document, text));
            document[key][name] = table;
        }
        _ => {}
    }
}

/// Removes and returns the trailing comments of the document, followed by the blank line before the
/// next table.
fn take_trailing_comments(document: &mut DocumentMut, text: &str) -> String {
    let mut end = document.trailing().as_str().unwrap_or_default().to_owned();
    document.set_trailing("");
    if !end.is_empty() && !end.ends_with('\n') {
        end.push('\n');
    }
    if !text.is_empty() {
        end.push('\n');
    }
    end
}

/// Creates a table positioned after all others, so that existing text does not move.
fn trailing_table(before: &str) -> Item {
    let mut table = Table::new();
    table.decor_mut().set_prefix(before);
    table.set_position(Some(isize::MAX));
    Item::Table(table)
}

/// Sets a value and preserves the formatting around the old one, such as a trailing comment.
fn set_value(entry: &mut dyn TableLike, key: &str, value: impl Into<Value>) {
    let mut value = value.into();
    if let Some(old) = entry.get(key).and_then(Item::as_value) {
        *value.decor_mut() = old.decor().clone();
    }
    match entry.get_mut(key) {
        Some(item) => *item = Item::Value(value),
        None => drop(entry.insert(key, Item::Value(value))),
    }
}
