//! Expansion of `${VAR}` and `${file:PATH}` in values.

use std::borrow::Cow;
use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::document::Environment;
use super::fingerprint::read_regular_file;

/// Maximum size of a secret file, in bytes.
const MAX_SECRET_BYTES: u64 = 1024 * 1024;

/// Error from expanding a string. It never contains a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpandError {
    #[error("the environment variable `{0}` is not set or not valid UTF-8")]
    Unset(String),
    #[error("cannot read the file {file}: {reason}")]
    Unreadable { file: String, reason: String },
    #[error(
        "invalid reference; use `${{VAR}}`, `${{VAR:-default}}` or `${{file:PATH}}`, and `$${{` for a \
         literal `${{`"
    )]
    Malformed,
}

impl ExpandError {
    /// Whether the reference is well-formed but the variable or file is missing.
    pub(super) fn is_missing(&self) -> bool {
        !matches!(self, Self::Malformed)
    }
}

/// Expands references and records the files that they name.
pub(super) struct Expander<'a> {
    environment: &'a Environment<'a>,
    /// Folder that relative paths are resolved against.
    folder: &'a Path,
    files: RefCell<Vec<PathBuf>>,
    notes: RefCell<Vec<String>>,
}

impl<'a> Expander<'a> {
    pub(super) fn new(environment: &'a Environment<'a>, folder: &'a Path) -> Self {
        Self { environment, folder, files: RefCell::default(), notes: RefCell::default() }
    }

    /// Replaces `${VAR}` with the environment variable, `${VAR:-default}` with the default if the
    /// variable is unset or empty, and `${file:PATH}` with the content of the file. `$${` is an
    /// escaped `${`.
    ///
    /// # Errors
    ///
    /// A variable or file is missing, or a reference is malformed.
    pub(super) fn expand<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, ExpandError> {
        if !text.contains("${") {
            return Ok(text.into());
        }
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, reference) = (&rest[..at], &rest[at + 2..]);
            if let Some(before) = before.strip_suffix('$') {
                expanded.push_str(before);
                expanded.push_str("${");
                rest = reference;
                continue;
            }
            expanded.push_str(before);
            let end = reference.find('}').ok_or(ExpandError::Malformed)?;
            self.expand_reference(&mut expanded, &reference[..end])?;
            rest = &reference[end + 1..];
        }
        expanded.push_str(rest);
        Ok(expanded.into())
    }

    /// Returns the referenced files, readable or not, and the warnings.
    pub(super) fn take_files_and_notes(&self) -> (Vec<PathBuf>, Vec<String>) {
        (self.files.take(), self.notes.take())
    }

    pub(super) fn note(&self, note: String) {
        self.notes.borrow_mut().push(note);
    }

    fn expand_reference(&self, expanded: &mut String, reference: &str) -> Result<(), ExpandError> {
        if let Some(path) = reference.strip_prefix("file:") {
            if path.is_empty() {
                return Err(ExpandError::Malformed);
            }
            expanded.push_str(&self.read_secret_file(path)?);
            return Ok(());
        }
        let (variable, default) = split_default(reference).ok_or(ExpandError::Malformed)?;
        let value = (self.environment)(variable);
        match default {
            // As in a shell, an empty variable counts as unset.
            Some(default) => {
                let value = value.filter(|value| !value.is_empty());
                expanded.push_str(value.as_deref().unwrap_or(default));
            }
            None => {
                expanded.push_str(&value.ok_or_else(|| ExpandError::Unset(variable.to_owned()))?);
            }
        }
        Ok(())
    }

    /// Reads a secret file and strips the line break at its end that editors and `echo` add.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn read_secret_file(&self, path: &str) -> Result<String, ExpandError> {
        let file = self.folder.join(path);
        if !self.files.borrow().contains(&file) {
            self.warn_if_world_readable(&file);
        }
        let text = self.read_file(path)?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
    }

    /// Reads a small file that the configuration refers to.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn read_file(&self, path: &str) -> Result<String, ExpandError> {
        let file = self.folder.join(path);
        let unreadable = |error: std::io::Error| ExpandError::Unreadable {
            file: file.display().to_string(),
            reason: error.to_string(),
        };
        let read = read_regular_file(&file, MAX_SECRET_BYTES).map_err(unreadable);
        let mut files = self.files.borrow_mut();
        if !files.contains(&file) {
            files.push(file);
        }
        read
    }

    fn warn_if_world_readable(&self, file: &Path) {
        let mode = std::fs::metadata(file).map(|metadata| metadata.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o004 != 0) {
            let file = file.display();
            self.notes.borrow_mut().push(format!(
                "the secret file {file} is readable by every user; run `chmod o-r {file}`"
            ));
        }
    }
}

fn split_default(reference: &str) -> Option<(&str, Option<&str>)> {
    let (variable, default) = match reference.split_once(":-") {
        Some((variable, default)) => (variable, Some(default)),
        None => (reference, None),
    };
    is_variable_name(variable).then_some((variable, default))
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_once() {
        let environment = |name: &str| match name {
            "A" => Some("one".to_owned()),
            "LOOP" => Some("${A}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, expected) in [
            ("", Ok("")),
            ("plain $A {A}", Ok("plain $A {A}")),
            ("${A}", Ok("one")),
            ("x${A}y${A}z", Ok("xoneyonez")),
            ("${EMPTY}", Ok("")),
            ("${LOOP}", Ok("${A}")),
            ("$${A}", Ok("${A}")),
            ("$$${A}", Ok("$${A}")),
            ("$$ ${A}", Ok("$$ one")),
            ("✓${A}✓", Ok("✓one✓")),
            ("${A:-two}${B:-two}${EMPTY:-two}", Ok("onetwotwo")),
            ("${B:-}${B:-a:-b c}", Ok("a:-b c")),
            ("${B}", Err("`B` is not set")),
            ("${:-x}", Err("invalid reference")),
            ("${A:x}", Err("invalid reference")),
            ("${", Err("invalid reference")),
            ("${}", Err("invalid reference")),
            ("${A", Err("invalid reference")),
            ("${1A}", Err("invalid reference")),
            ("${A-B}", Err("invalid reference")),
            ("${A ${A}}", Err("invalid reference")),
        ] {
            let values = Expander::new(&environment, Path::new(""));
            match (values.expand(text), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(error), Err(expected_error)) => {
                    assert!(error.to_string().contains(expected_error), "{text}: {error}");
                }
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn secret_file_trailing_newline_is_removed() {
        let folder = std::env::temp_dir().join(format!("toolpost-secrets-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let rows: [(&str, &[u8], Result<&str, &str>); 7] = [
            ("plain", b"hush", Ok("hush")),
            ("line", b"hush\n", Ok("hush")),
            ("windows", b"hush\r\n", Ok("hush")),
            ("lines", b"a\nb\n\n", Ok("a\nb\n")),
            ("empty", b"", Ok("")),
            ("dollar", b"${A}", Ok("${A}")),
            ("binary", b"\xff", Err("cannot read")),
        ];
        for (name, content, expected) in rows {
            std::fs::write(folder.join(name), content).unwrap();
            let values = Expander::new(&|_| None, &folder);
            let found = values.expand(&format!("${{file:{name}}}")).map(Cow::into_owned);
            let found = found.map_err(|error| error.to_string());
            match expected {
                Ok(expected) => assert_eq!(found.as_deref(), Ok(expected), "{name}"),
                Err(expected_error) => {
                    assert!(found.unwrap_err().contains(expected_error), "{name}");
                }
            }
            let (files, notes) = values.take_files_and_notes();
            assert_eq!(files, [folder.join(name)]);
            assert!(notes.iter().all(|note| !note.contains("hush")));
        }
        let values = Expander::new(&|_| None, &folder);
        let absolute = format!("<${{file:{}}}>", folder.join("plain").display());
        assert_eq!(values.expand(&absolute).as_deref(), Ok("<hush>"));
        let error = values.expand("${file:none}").unwrap_err();
        assert!(error.is_missing() && error.to_string().contains("none: "), "{error}");
        assert_eq!(values.expand("${file:}"), Err(ExpandError::Malformed));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn world_readable_secret_file_produces_note() {
        let file = std::env::temp_dir().join(format!("toolpost-secret-{}", std::process::id()));
        std::fs::write(&file, "hush").unwrap();
        for (mode, is_reported) in [(0o600, false), (0o640, false), (0o644, true), (0o604, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let values = Expander::new(&|_| None, Path::new(""));
            values.expand(&format!("${{file:{}}}", file.display())).unwrap();
            assert_eq!(!values.take_files_and_notes().1.is_empty(), is_reported, "{mode:o}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}
