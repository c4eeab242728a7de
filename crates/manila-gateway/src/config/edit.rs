//! Writing to the file: an identity is added or changed, everything else stays as it was typed.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use manila::Identity;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::problem::Problem;
use super::validate::{check_identity_name, check_resource};
use crate::auth::TokenHash;

/// What happens to an identity of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It is an error.
    Refuse,
    /// It must be there, and gets the new hash, and the scopes and resources that are given.
    Replace,
}

/// Why an identity is not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The identity is not one that can be configured.
    #[error("{0}")]
    Invalid(String),
    /// The name is taken.
    #[error(
        "`{name}` exists already in {file}; --replace gives it a new token",
        file = .file.display()
    )]
    Exists {
        /// Which name.
        name: String,
        /// Where.
        file: PathBuf,
    },
    /// There is nothing to replace.
    #[error("there is no `{name}` in {file}; without --replace it is added", file = .file.display())]
    Absent {
        /// Which name.
        name: String,
        /// Where.
        file: PathBuf,
    },
    /// The file is not what it should be.
    #[error("{0}")]
    Problem(Problem),
    /// Somebody else is writing, or was interrupted.
    #[error(
        "somebody is writing to the configuration; if not, remove {file}",
        file = .0.display()
    )]
    Busy(PathBuf),
    /// The system refuses.
    #[error("cannot write {file}: {source}", file = .file.display())]
    Io {
        /// Which file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Writes `[identity.NAME]` with comments and order kept. A file that is not there is made, for its
/// owner only. The change is there whole or not at all.
///
/// # Errors
///
/// The name is taken or not there, the file is no configuration, or the system refuses.
pub fn write_identity(
    file: &Path,
    identity: &Identity,
    token_hash: TokenHash,
    existing: Existing,
) -> Result<(), EditError> {
    check_identity_name(&identity.id).map_err(EditError::Invalid)?;
    for resource in identity.resources.keys() {
        check_resource(resource).map_err(EditError::Invalid)?;
    }
    // A link stays a link: what it leads to is replaced.
    let target = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let replacement = Replacement::begin(&target)?;
    let text = match std::fs::read_to_string(&target) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.map_err(|source| EditError::Io { file: target.clone(), source })?,
    };
    let changed = change(file, &text, identity, token_hash, existing)?;
    replacement.finish(&changed)
}

fn change(
    file: &Path,
    text: &str,
    identity: &Identity,
    token_hash: TokenHash,
    existing: Existing,
) -> Result<String, EditError> {
    let mut document = text.parse::<DocumentMut>().map_err(|error| {
        EditError::Problem(Problem::not_toml(file, text, error.span(), error.message()))
    })?;
    let (name, found) = (identity.id.as_str(), document.get("identity"));
    let is_there = found.and_then(|identities| identities.get(name)).is_some();
    let (taken, owned) = (name.to_owned(), file.to_owned());
    match (is_there, existing) {
        (true, Existing::Refuse) => return Err(EditError::Exists { name: taken, file: owned }),
        (false, Existing::Replace) => return Err(EditError::Absent { name: taken, file: owned }),
        (true, Existing::Replace) => {}
        (false, Existing::Refuse) => add(&mut document, text, name),
    }
    let identities = document.get_mut("identity");
    let entry = identities.and_then(|identities| identities.get_mut(name));
    let entry = entry.and_then(Item::as_table_like_mut).ok_or_else(|| {
        let (file, key) = (file.to_owned(), super::document::join("identity", name));
        let message = "this and `identity` must be tables; correct it first".to_owned();
        EditError::Problem(Problem { file, place: None, key, message })
    })?;
    fill(entry, identity, token_hash);
    Ok(document.to_string())
}

/// Adds an empty entry, if `identity` is something that can have one.
fn add(document: &mut DocumentMut, text: &str, name: &str) {
    let mut implicit = Table::new();
    implicit.set_implicit(true);
    match document.entry("identity").or_insert(Item::Table(implicit)) {
        Item::Value(Value::InlineTable(identities)) => {
            identities.insert(name, InlineTable::new().into());
        }
        Item::Table(_) => {
            let table = last_table(&take_end(document, text));
            document["identity"][name] = table;
        }
        _ => {}
    }
}

/// Takes the comments that stand behind everything, with the blank line before what comes next.
fn take_end(document: &mut DocumentMut, text: &str) -> String {
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

/// A table behind everything else, so that nothing that was typed moves.
fn last_table(before: &str) -> Item {
    let mut table = Table::new();
    table.decor_mut().set_prefix(before);
    table.set_position(Some(isize::MAX));
    Item::Table(table)
}

fn fill(entry: &mut dyn TableLike, identity: &Identity, token_hash: TokenHash) {
    set(entry, "token_hash", token_hash.to_string());
    if !identity.scopes.is_empty() {
        set(entry, "scopes", identity.scopes.iter().collect::<Array>());
    }
    if !identity.resources.is_empty() {
        let pairs = identity.resources.iter();
        let resources = pairs.map(|(key, actions)| (key, actions.iter().collect::<Array>()));
        set(entry, "resources", resources.collect::<InlineTable>());
    }
}

/// Sets a value and leaves what was written around the old one, such as a comment behind it.
fn set(entry: &mut dyn TableLike, key: &str, value: impl Into<Value>) {
    let mut value = value.into();
    if let Some(old) = entry.get(key).and_then(Item::as_value) {
        *value.decor_mut() = old.decor().clone();
    }
    match entry.get_mut(key) {
        Some(item) => *item = Item::Value(value),
        None => drop(entry.insert(key, Item::Value(value))),
    }
}

/// The new content of a file, beside it until it is complete. Its name is always the same, so that
/// of two writers one is told, and neither change is lost.
struct Replacement<'a> {
    target: &'a Path,
    beside: PathBuf,
    file: File,
    done: bool,
}

impl<'a> Replacement<'a> {
    fn begin(target: &'a Path) -> Result<Self, EditError> {
        let mut name = std::ffi::OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(".new");
        let beside = target.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&beside) {
            Ok(file) => Ok(Self { target, beside, file, done: false }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(EditError::Busy(beside)),
            Err(source) => Err(EditError::Io { file: target.to_owned(), source }),
        }
    }

    fn finish(mut self, text: &str) -> Result<(), EditError> {
        let written = self.write(text);
        self.done = written.is_ok();
        written.map_err(|source| EditError::Io { file: self.target.to_owned(), source })
    }

    fn write(&mut self, text: &str) -> std::io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        if let Ok(old) = std::fs::metadata(self.target) {
            self.file.set_permissions(old.permissions())?;
        }
        self.file.sync_all()?;
        std::fs::rename(&self.beside, self.target)
    }
}

/// What was not finished leaves nothing behind.
impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        if !self.done {
            let _ = std::fs::remove_file(&self.beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "manila.toml";

    fn changed(text: &str, identity: &Identity, existing: Existing) -> Result<String, String> {
        let hash = TokenHash::of("abc");
        let text = change(Path::new(FILE), text, identity, hash, existing);
        Ok(text.map_err(|error| error.to_string())?.replace(&hash.to_string(), "HASH"))
    }

    /// Each row: the file before, and after `ci` was added.
    #[test]
    fn what_was_typed_stays() {
        let ci = Identity::new("ci").with_scopes(["a", "b"]).with_resource("repo:x", ["read"]);
        let added = "[identity.ci]\ntoken_hash = \"HASH\"\nscopes = [\"a\", \"b\"]\n\
                     resources = { \"repo:x\" = [\"read\"] }\n";
        let comments = "# top\n[source.a] # here\nspoke = { identity = 'x' }\n# end\n";
        let between = "[identity.x] # x\ntoken_hash = ''\n\n# last\n[source.a]\n";
        for (before, after) in [
            ("", added.to_owned()),
            ("# only words\n", format!("# only words\n\n{added}")),
            ("# no end", format!("# no end\n\n{added}")),
            (comments, format!("{comments}\n{added}")),
            (between, format!("{between}\n{added}")),
        ] {
            assert_eq!(changed(before, &ci, Existing::Refuse), Ok(after), "{before}");
        }
        for before in [
            "identity = { x = { token_hash = '' } }",
            "identity.x.token_hash = ''\n",
            "identity.x.token_hash = ''\n[source.a]\nspoke = {}\n",
            "[identity]\nx = { token_hash = '' }\n",
            "[identity]\nx.token_hash = ''\n",
        ] {
            let after = changed(before, &ci, Existing::Refuse).unwrap();
            let read: toml::Table = after.parse().expect(&after);
            let identities = &read["identity"];
            assert_eq!(identities["ci"]["token_hash"].as_str(), Some("HASH"), "{after}");
            assert_eq!(identities["ci"]["scopes"][1].as_str(), Some("b"), "{after}");
            assert_eq!(identities["x"]["token_hash"].as_str(), Some(""), "{after}");
        }
    }

    #[test]
    fn only_what_is_given_is_replaced() {
        let before = "[identity.ci]\n# made in May\ntoken_hash = \"old\" # secret\n\
                      capabilities = ['x']\nscopes = [ 'a' ] # few\n# end\n";
        let new_hash = before.replace("old", "HASH");
        let new_scopes = new_hash.replace("[ 'a' ]", "[\"b\"]");
        let ci = Identity::new("ci");
        assert_eq!(changed(before, &ci, Existing::Replace), Ok(new_hash));
        let ci = ci.with_scopes(["b"]);
        assert_eq!(changed(before, &ci, Existing::Replace), Ok(new_scopes));
    }

    #[test]
    fn what_cannot_be_changed_is_named() {
        let ci = Identity::new("ci");
        for (text, existing, said) in [
            ("[identity.ci]", Existing::Refuse, "`ci` exists already in manila.toml; --replace"),
            ("[identity.cd]", Existing::Replace, "there is no `ci` in manila.toml; without"),
            ("identity = 5", Existing::Refuse, "manila.toml: identity.ci: this and"),
            ("identity.ci = 5", Existing::Replace, "manila.toml: identity.ci: this and"),
            ("[identity\n", Existing::Refuse, "manila.toml:1:10: this is not TOML: "),
        ] {
            let error = changed(text, &ci, existing).unwrap_err();
            assert!(error.starts_with(said), "{text}: {error}");
        }
        for identity in [Identity::new("a b"), Identity::new("local"), Identity::new("")] {
            let refused =
                write_identity(Path::new(FILE), &identity, TokenHash::of(""), Existing::Refuse);
            assert!(matches!(refused, Err(EditError::Invalid(_))), "{identity:?}");
        }
    }

    /// What files are made of, in any order; most orders are TOML.
    const PIECES: [&str; 14] = [
        "# words\n",
        "\n",
        "x = 1\n",
        "k.v = 2\r\n",
        "[source.a] # here\r\n",
        "[source.b]\n  y = { z = 1 }\n",
        "[identity]\n",
        "[identity.a]\n",
        "[identity.a.resources]\n'repo:x' = [\n  'read', # why\n]\n",
        "identity.b.token_hash = ''\n",
        "identity = { a = {} }\n",
        "c.scopes = []\n",
        "[[list]]\n",
        "# no end",
    ];

    proptest::proptest! {
        /// Whatever the file looks like, it says the same as before and one identity more.
        #[test]
        fn nothing_else_changes(
            picked in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..8),
        ) {
            let before = picked.concat();
            let Ok(mut expected) = before.parse::<toml::Table>() else { return Ok(()) };
            let ci = Identity::new("ci").with_scopes(["a"]);
            let after = changed(&before, &ci, Existing::Refuse).unwrap();
            let identities =
                expected.entry("identity").or_insert_with(|| toml::Table::new().into());
            let added = "token_hash = 'HASH'\nscopes = ['a']".parse::<toml::Table>().unwrap();
            identities.as_table_mut().unwrap().insert("ci".to_owned(), added.into());
            proptest::prop_assert_eq!(after.parse::<toml::Table>().unwrap(), expected, "{}", after);
            for line in before.lines().filter(|line| !line.starts_with("identity = {")) {
                proptest::prop_assert!(after.contains(line), "{line}: {after}");
            }
        }
    }
}
