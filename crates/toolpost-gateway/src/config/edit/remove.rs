//! An entry is taken out again.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, TableLike};

use super::{EditError, Part, Place, parse, rewrite};

/// Takes `[source.NAME]` out. What stands above it stays, since it may be about something else;
/// what stands in it goes.
///
/// # Errors
///
/// It is not there, the file is no configuration, or the system refuses.
pub fn remove_source(file: &Path, name: &str) -> Result<(), EditError> {
    // A file that is not there must not be made by taking something out of it.
    let known = super::overview(file)?.sources;
    if !known.iter().any(|known| known == name) {
        return Err(absent(file, name, &known));
    }
    let place = Place { file, part: Part::Source, name };
    rewrite(file, |text| removed(&place, text))
}

/// Takes `[identity.NAME]` out, as [`remove_source`] does a source.
///
/// # Errors
///
/// It is not there, it is the last one and nobody would be asked for a token any more, a source waits
/// for it, the file is no configuration, or the system refuses.
pub fn remove_identity(file: &Path, name: &str) -> Result<(), EditError> {
    let known = super::overview(file)?;
    if !known.identities.iter().any(|known| known == name) {
        return Err(unknown(file, name, &known.identities));
    }
    if known.identities.len() == 1 && !known.auth {
        return Err(EditError::LastIdentity { name: name.to_owned(), file: file.to_owned() });
    }
    let place = Place { file, part: Part::Identity, name };
    rewrite(file, |text| {
        let left = removed(&place, text)?;
        super::check::holds(&place, text, &left)?;
        Ok(left)
    })
}

fn absent(file: &Path, name: &str, known: &[String]) -> EditError {
    let known = match known {
        [] => "it has no sources".to_owned(),
        known => format!("there are: {}", known.join(", ")),
    };
    EditError::NoSource { name: name.to_owned(), file: file.to_owned(), known }
}

fn unknown(file: &Path, name: &str, known: &[String]) -> EditError {
    let known = match known {
        [] => "nobody has a token".to_owned(),
        known => format!("there are: {}", known.join(", ")),
    };
    EditError::NoIdentity { name: name.to_owned(), file: file.to_owned(), known }
}

fn removed(place: &Place<'_>, text: &str) -> Result<String, EditError> {
    let mut document = parse(place.file, text)?;
    let key = place.part.key();
    let entries = document.get_mut(key).and_then(Item::as_table_like_mut);
    let entries = entries.ok_or_else(|| place.no_table())?;
    let entry = entries.remove(place.name).ok_or_else(|| place.no_table())?;
    if let Item::Table(table) = &entry {
        let mut of_entry = Vec::new();
        tables(table, &mut |table| of_entry.extend(table.position()));
        if let Some(first) = of_entry.iter().min() {
            keep(&mut document, *first, &comments(table));
        }
    }
    // A table that was there only for this entry is not left behind as `source = {}`.
    let is_empty = |item: &Item| item.as_table_like().is_some_and(TableLike::is_empty);
    if document.get(key).is_some_and(|item| is_empty(item) && !is_typed(item)) {
        document.remove(key);
    }
    Ok(document.to_string())
}

/// Whether somebody wrote `[source]`, which then stays.
fn is_typed(item: &Item) -> bool {
    item.as_table().is_some_and(|table| !table.is_implicit() && !table.is_dotted())
}

/// What stands above a table, without the blank line that set it apart; nothing if that is all.
fn comments(table: &Table) -> String {
    let above = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    if above.trim().is_empty() {
        return String::new();
    }
    above.strip_suffix("\r\n").or_else(|| above.strip_suffix('\n')).map_or_else(
        || above.to_owned(),
        |kept| if kept.ends_with('\n') { kept.to_owned() } else { above.to_owned() },
    )
}

/// Puts words before the table that comes next, or behind everything.
fn keep(document: &mut DocumentMut, position: isize, words: &str) {
    if words.is_empty() {
        return;
    }
    let mut next: Option<isize> = None;
    tables(document.as_table(), &mut |table| {
        let behind = table.position().filter(|found| *found > position);
        next = next.into_iter().chain(behind).min();
    });
    let Some(next) = next else {
        let end = document.trailing().as_str().unwrap_or_default();
        let end = format!("{words}{end}");
        document.set_trailing(end);
        return;
    };
    prepend(document.as_table_mut(), next, words);
}

/// Every table with a header, in the order of keys.
fn tables(table: &Table, visit: &mut dyn FnMut(&Table)) {
    visit(table);
    for (_, item) in table {
        match item {
            Item::Table(table) => tables(table, visit),
            Item::ArrayOfTables(list) => list.iter().for_each(|table| tables(table, visit)),
            _ => {}
        }
    }
}

fn prepend(table: &mut Table, position: isize, words: &str) {
    if table.position() == Some(position) {
        let own = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
        let own = format!("{words}{own}");
        table.decor_mut().set_prefix(own);
        return;
    }
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(table) => prepend(table, position, words),
            Item::ArrayOfTables(list) => {
                list.iter_mut().for_each(|table| prepend(table, position, words));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::edit::Existing;

    const FILE: &str = "toolpost.toml";

    fn without(text: &str, name: &str) -> String {
        removed(&Place { file: Path::new(FILE), part: Part::Source, name }, text).unwrap()
    }

    /// Each row: the file before and after `a` is taken out.
    #[test]
    fn what_is_about_others_stays() {
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
        /// What was added and taken out again leaves nothing behind.
        #[test]
        fn there_and_back(
            picked in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..6),
        ) {
            let before = picked.concat();
            let Ok(expected) = before.parse::<toml::Table>() else { return Ok(()) };
            let place = Place { file: Path::new(FILE), part: Part::Source, name: "x" };
            let added = place.change(&before, Existing::Refuse, |entry| {
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
