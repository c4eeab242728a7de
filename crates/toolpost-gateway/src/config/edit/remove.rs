//! Removal of an entry.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, TableLike};

use super::{EditError, EntryEditor, IDENTITY, SOURCE, parse, rewrite};

/// Removes `[source.NAME]` with the comments inside it. Comments above it stay, since they may
/// describe something else.
///
/// # Errors
///
/// The source does not exist, the file is not a valid configuration, or an I/O error occurs.
pub fn remove_source(file: &Path, name: &str) -> Result<(), EditError> {
    let editor = EntryEditor { file, table: SOURCE, name };
    // Removing an entry must not create a missing file.
    editor.check_removable(&super::overview(file)?.sources)?;
    rewrite(file, |text| text_without_entry(&editor, text))
}

/// Removes `[identity.NAME]`, in the same way as [`remove_source`].
///
/// # Errors
///
/// The identity does not exist, is the last one so that authentication would be disabled, or is
/// referenced by a source; the file is not a valid configuration; or an I/O error occurs.
pub fn remove_identity(file: &Path, name: &str) -> Result<(), EditError> {
    let editor = EntryEditor { file, table: IDENTITY, name };
    let known = super::overview(file)?;
    editor.check_removable(&known.identities)?;
    if known.identities.len() == 1 && !known.has_jwt_auth {
        return Err(EditError::Invalid(format!(
            "`{name}` is the last identity in {}, and revoking it would disable authentication; \
             create another token first, or edit the file and restart the gateway",
            file.display()
        )));
    }
    rewrite(file, |text| {
        let remaining = text_without_entry(&editor, text)?;
        editor.check(text, &remaining)?;
        Ok(remaining)
    })
}

impl EntryEditor<'_> {
    fn check_removable(&self, known: &[String]) -> Result<(), EditError> {
        let Self { file, table, name } = self;
        if known.iter().any(|known| known == name) {
            return Ok(());
        }
        let known = match known {
            [] => String::new(),
            known => format!("; it has: {}", known.join(", ")),
        };
        let file = file.display();
        Err(EditError::Invalid(format!("{table} `{name}` does not exist in {file}{known}")))
    }
}

fn text_without_entry(editor: &EntryEditor<'_>, text: &str) -> Result<String, EditError> {
    let mut document = parse(editor.file, text)?;
    let key = editor.table;
    let entries = document.get_mut(key).and_then(Item::as_table_like_mut);
    let entries = entries.ok_or_else(|| editor.not_a_table())?;
    let mut entry = entries.remove(editor.name).ok_or_else(|| editor.not_a_table())?;
    if let Item::Table(table) = &mut entry {
        let mut of_entry = Vec::new();
        visit_tables(table, &mut |table| of_entry.extend(table.position()));
        if let Some(first) = of_entry.iter().min() {
            move_comments(&mut document, *first, leading_comments(table));
        }
    }
    // A table that existed only for this entry does not remain as `source = {}`.
    let is_empty = |item: &Item| item.as_table_like().is_some_and(TableLike::is_empty);
    if document.get(key).is_some_and(|item| is_empty(item) && !is_explicit(item)) {
        document.remove(key);
    }
    Ok(document.to_string())
}

/// Whether the file has an explicit `[source]` header, which stays.
fn is_explicit(item: &Item) -> bool {
    item.as_table().is_some_and(|table| !table.is_implicit() && !table.is_dotted())
}

/// Returns the comments above a table without the separating blank line; empty if there are none.
fn leading_comments(table: &Table) -> &str {
    let above = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    if above.trim().is_empty() {
        return "";
    }
    let rest = above.strip_suffix("\r\n").or_else(|| above.strip_suffix('\n'));
    rest.filter(|rest| rest.ends_with('\n')).unwrap_or(above)
}

/// Moves comments before the next table, or to the end of the document.
fn move_comments(document: &mut DocumentMut, position: isize, comments: &str) {
    if comments.is_empty() {
        return;
    }
    let mut next: Option<isize> = None;
    visit_tables(document.as_table_mut(), &mut |table| {
        let behind = table.position().filter(|found| *found > position);
        next = next.into_iter().chain(behind).min();
    });
    if next.is_none() {
        let end = document.trailing().as_str().unwrap_or_default();
        document.set_trailing(format!("{comments}{end}"));
        return;
    }
    visit_tables(document.as_table_mut(), &mut |table| {
        if table.position() == next {
            let own = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
            let all = format!("{comments}{own}");
            table.decor_mut().set_prefix(all);
        }
    });
}

/// Visits every table with a header, in key order.
fn visit_tables(table: &mut Table, visit: &mut dyn FnMut(&mut Table)) {
    visit(table);
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(table) => visit_tables(table, visit),
            Item::ArrayOfTables(list) => {
                list.iter_mut().for_each(|table| visit_tables(table, visit));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::edit::IfExists;

    const FILE: &str = "toolpost.toml";

    fn without(text: &str, name: &str) -> String {
        text_without_entry(&EntryEditor { file: Path::new(FILE), table: SOURCE, name }, text)
            .unwrap()
    }

    /// Each row: the file before and after `a` is removed.
    #[test]
    fn remove_source_keeps_unrelated_comments() {
        for (before, after) in [
            ("[source.a]\nx = 1\n", ""),
            ("# top\n[source.a]\nx = 1\n# in it\ny = 1\n# end\n", "# top\n# end\n"),
            (
                "k = 1\n\n# why\n[source.a]\nx = 1\n\n[source.b] # b\n",
                "k = 1\n\n# why\n\n[source.b] # b\n",
            ),
            (
                "[source.b]\nx = 1\n# of b\n\n[source.a]\nx = 1\n[[list]]\n",
                "[source.b]\nx = 1\n# of b\n[[list]]\n",
            ),
            ("[source]\na.mcp = {}\nb.mcp = {} # b\n", "[source]\nb.mcp = {} # b\n"),
            ("source.a.mcp = {}\nother = 1\n", "other = 1\n"),
            ("source = { a = {}, b = {} }\n", "source = { b = {} }\n"),
            (
                "[source.a]\n[source.a.mcp]\ncommand = 'x'\n[source.a.mcp.env]\nK = 'v'\n[source.b]\n",
                "[source.b]\n",
            ),
            ("[source]\n[source.a]\n", "[source]\n"),
        ] {
            assert_eq!(without(before, "a"), after, "{before}");
        }
    }

    proptest::proptest! {
        /// Adding and removing a source restores the file.
        #[test]
        fn add_then_remove_restores_the_file(
            picked in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..6),
        ) {
            let before = picked.concat();
            let Ok(expected) = before.parse::<toml::Table>() else { return Ok(()) };
            let editor = EntryEditor { file: Path::new(FILE), table: SOURCE, name: "x" };
            let added = editor.apply(&before, IfExists::Fail, |entry| {
                entry.insert("mcp", toml_edit::value("y"));
            });
            let Ok(added) = added else { return Ok(()) };
            let after = without(&added, "x");
            let mut found: toml::Table = after.parse().unwrap();
            if found.get("source").is_none() && expected.contains_key("source") {
                found.insert("source".to_owned(), toml::Table::new().into());
            }
            proptest::prop_assert_eq!(found, expected, "{}", after);
            for line in before.lines().filter(|line| line.contains('#')) {
                proptest::prop_assert!(after.contains(line), "{line}: {after}");
            }
        }
    }

    const PIECES: [&str; 10] = [
        "# words\n",
        "\n",
        "k = 2\r\n",
        "[source.a] # here\r\n",
        "[source.b]\n  y = { z = 1 }\n# of b\n",
        "[identity.a]\n",
        "source = { c = {} }\n",
        "[source]\n",
        "[[list]]\n",
        "# no end",
    ];
}
