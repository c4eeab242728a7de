//! Editing of `[identity.NAME]`.

use std::error::Error as _;
use std::path::Path;

use toml_edit::{Array, InlineTable, TableLike};
use toolpost::Identity;

use super::{EditError, EntryEditor, IDENTITY, IfExists, set_value};
use crate::auth::{TokenHash, is_resource_id};
use crate::config::file::{RESOURCE_FORMAT, check_identity_name};
use crate::config::source_entry::{SCOPE_FORMAT, is_scope};
use crate::room::capability::Capability;

/// Writes `[identity.NAME]` and preserves comments and order. A missing file is created with access
/// for its owner only. The change is atomic.
///
/// # Errors
///
/// The name is invalid or exists already, there is no identity to replace, the file is not a valid
/// configuration, or an I/O error occurs.
pub fn write_identity(
    file: &Path,
    identity: &Identity,
    token_hash: TokenHash,
    existing: IfExists,
) -> Result<(), EditError> {
    check_identity_name(&identity.id).map_err(EditError::Invalid)?;
    if !identity.resources.keys().all(|resource| is_resource_id(resource)) {
        return Err(EditError::Invalid(RESOURCE_FORMAT.to_owned()));
    }
    if !identity.scopes.iter().all(|scope| is_scope(scope)) {
        return Err(EditError::Invalid(SCOPE_FORMAT.to_owned()));
    }
    identity.capabilities.iter().try_for_each(|text| check_capability(text))?;
    let editor = EntryEditor { file, table: IDENTITY, name: &identity.id };
    editor.write(existing, |entry| fill_identity(entry, identity, token_hash))
}

/// Validates a capability. The message may quote the text, because the caller supplied it.
fn check_capability(text: &str) -> Result<(), EditError> {
    let capability = Capability::parse(text).map_err(|error| {
        let why = error.source().map(|why| format!(": {why}")).unwrap_or_default();
        EditError::Invalid(format!("`{text}`: {error}{why}"))
    })?;
    match capability.unknown_member() {
        Some(member) => Err(EditError::Invalid(format!(
            "`{text}` has the unknown member `{member}` and would allow nothing"
        ))),
        None => Ok(()),
    }
}

fn fill_identity(entry: &mut dyn TableLike, identity: &Identity, token_hash: TokenHash) {
    set_value(entry, "token_hash", token_hash.to_string());
    if !identity.scopes.is_empty() {
        set_value(entry, "scopes", identity.scopes.iter().collect::<Array>());
    }
    if !identity.resources.is_empty() {
        let pairs = identity.resources.iter();
        let resources = pairs.map(|(key, actions)| (key, actions.iter().collect::<Array>()));
        set_value(entry, "resources", resources.collect::<InlineTable>());
    }
    if !identity.capabilities.is_empty() {
        set_value(entry, "capabilities", identity.capabilities.iter().collect::<Array>());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const FILE: &str = "toolpost.toml";

    fn changed(text: &str, identity: &Identity, existing: IfExists) -> Result<String, String> {
        let hash = TokenHash::of("abc");
        let editor = EntryEditor { file: Path::new(FILE), table: IDENTITY, name: &identity.id };
        let text = editor.apply(text, existing, |entry| fill_identity(entry, identity, hash));
        Ok(text.map_err(|error| error.to_string())?.replace(&hash.to_string(), "HASH"))
    }

    /// Each row: the file before and after `ci` is added.
    #[test]
    fn write_identity_keeps_formatting() {
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
            assert_eq!(changed(before, &ci, IfExists::Fail), Ok(after), "{before}");
        }
        for before in [
            "identity = { x = { token_hash = '' } }",
            "identity.x.token_hash = ''\n",
            "identity.x.token_hash = ''\n[source.a]\nspoke = {}\n",
            "[identity]\nx = { token_hash = '' }\n",
            "[identity]\nx.token_hash = ''\n",
        ] {
            let after = changed(before, &ci, IfExists::Fail).unwrap();
            let read: toml::Table = after.parse().expect(&after);
            let identities = &read["identity"];
            assert_eq!(identities["ci"]["token_hash"].as_str(), Some("HASH"), "{after}");
            assert_eq!(identities["ci"]["scopes"][1].as_str(), Some("b"), "{after}");
            assert_eq!(identities["x"]["token_hash"].as_str(), Some(""), "{after}");
        }
    }

    #[test]
    fn replace_identity_changes_only_given_keys() {
        let before = "[identity.ci]\n# made in May\ntoken_hash = \"old\" # secret\n\
                      capabilities = ['x']\nscopes = [ 'a' ] # few\n# end\n";
        let new_hash = before.replace("old", "HASH");
        let new_scopes = new_hash.replace("[ 'a' ]", "[\"b\"]");
        let ci = Identity::new("ci");
        assert_eq!(changed(before, &ci, IfExists::Replace), Ok(new_hash));
        let ci = ci.with_scopes(["b"]);
        assert_eq!(changed(before, &ci, IfExists::Replace), Ok(new_scopes));
    }

    #[test]
    fn write_identity_error_names_the_cause() {
        let ci = Identity::new("ci");
        for (text, existing, expected) in [
            (
                "[identity.ci]",
                IfExists::Fail,
                "`ci` already exists in toolpost.toml; use --replace",
            ),
            ("[identity.cd]", IfExists::Replace, "`ci` does not exist in toolpost.toml; omit"),
            ("identity = 5", IfExists::Fail, "toolpost.toml: identity.ci: expected a table"),
            ("identity.ci = 5", IfExists::Replace, "toolpost.toml: identity.ci: expected a table"),
            ("[identity\n", IfExists::Fail, "toolpost.toml:1:10: invalid TOML: "),
        ] {
            let error = changed(text, &ci, existing).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        for identity in [Identity::new("a b"), Identity::new("local"), Identity::new("")] {
            let rejected =
                write_identity(Path::new(FILE), &identity, TokenHash::of(""), IfExists::Fail);
            assert!(matches!(rejected, Err(EditError::Invalid(_))), "{identity:?}");
        }
    }

    /// Fragments of the generated files. Most combinations are valid TOML.
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
        /// The file has the same content as before plus one identity.
        #[test]
        fn write_identity_changes_nothing_else(
            picked in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..8),
        ) {
            let before = picked.concat();
            let Ok(mut expected) = before.parse::<toml::Table>() else { return Ok(()) };
            let ci = Identity::new("ci").with_scopes(["a"]);
            let after = changed(&before, &ci, IfExists::Fail).unwrap();
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

    #[test]
    fn write_identity_rejects_invalid_capability() {
        for (text, expected) in [
            ("chat", None),
            (r#"{"kind":"chat"}"#, None),
            ("", Some("is empty")),
            ("{kind", Some("`{kind`: the pattern is not JSON: key must be a string")),
            (r#"{"kind":"/(/"}"#, Some("unclosed group")),
            (r#"{"kind":"chat","from":"x"}"#, Some("the unknown member `from`")),
        ] {
            let message = check_capability(text).err().map(|error| error.to_string());
            let fits = match (&message, expected) {
                (Some(message), Some(expected)) => message.contains(expected),
                (message, expected) => message.is_none() && expected.is_none(),
            };
            assert!(fits, "{text}: {message:?}");
        }
    }
}
