//! Validation of an edited configuration before it is written.

use super::{EditError, EntryEditor, dotted_key};
use crate::config::{Config, ConfigError, ConfigProblem};

/// Checks that the edited entry is valid and that the edit adds no other problems.
pub(super) fn check_edit(
    editor: &EntryEditor<'_>,
    before: &str,
    after: &str,
) -> Result<(), EditError> {
    let (old, entry) = (problems(editor, before), dotted_key(editor.table.key(), editor.name));
    let is_of_entry = |key: &str| {
        key.strip_prefix(&entry).is_some_and(|rest| ["", "."].contains(&first_char(rest)))
    };
    let is_known = |new: &ConfigProblem| {
        old.iter().any(|old| (&old.key, &old.message) == (&new.key, &new.message))
    };
    let mut found = problems(editor, after);
    found.retain(|new| is_of_entry(&new.key) || !is_known(new));
    // The positions refer to a text that is not on disk.
    found.iter_mut().for_each(|problem| problem.position = None);
    if found.is_empty() { Ok(()) } else { Err(EditError::Rejected(ConfigError::new(found))) }
}

/// Returns the problems of a text. Unset variables are not reported; they may be set where the
/// gateway runs.
fn problems(editor: &EntryEditor<'_>, text: &str) -> Vec<ConfigProblem> {
    let read = Config::read_document(editor.file, text, &|name| std::env::var(name).ok());
    read.map_or_else(ConfigError::into_problems, |(_, problems)| problems)
}

fn first_char(text: &str) -> &str {
    text.get(..1).unwrap_or(text)
}
