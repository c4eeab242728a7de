//! `[source.NAME]`.

use std::path::Path;

use toml_edit::{Array, InlineTable, TableLike, Value};

use super::{EditError, Existing, Part, Place, set};
use crate::config::entry::McpEntry;
use crate::config::source::Access;
use crate::config::validate::check_source_name;

/// Writes `[source.NAME]` with comments and order kept. A source that is replaced keeps what is
/// adjusted about it, and its access if none is given. A file that is not there is made, for its
/// owner only. The change is there whole or not at all.
///
/// # Errors
///
/// The name is taken or not there, the file is no configuration, or the system refuses.
pub fn write_source(
    file: &Path,
    name: &str,
    entry: &McpEntry,
    access: Option<&Access>,
    existing: Existing,
) -> Result<(), EditError> {
    check_source_name(name).map_err(EditError::Invalid)?;
    let place = Place { file, part: Part::Source, name };
    place.write(existing, |table| fill(table, entry, access))
}

fn fill(table: &mut dyn TableLike, entry: &McpEntry, access: Option<&Access>) {
    for kind in ["spoke", "hub"] {
        table.remove(kind);
    }
    set(table, "mcp", server(entry));
    match access {
        Some(Access::Open) => set(table, "access", "open"),
        Some(Access::Scopes(scopes)) => {
            let scopes = Value::from(scopes.iter().collect::<Array>());
            set(table, "access", InlineTable::from_iter([("scopes", scopes)]));
        }
        None => {}
    }
}

/// `{ command = "…", args = […] }`, with what is there and nothing else.
fn server(entry: &McpEntry) -> InlineTable {
    let mut table = InlineTable::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            table.insert(key, value);
        }
    };
    put("command", text(entry.command.as_ref()));
    put("args", list(&entry.args));
    put("env", pairs(&entry.env));
    put("cwd", text(entry.cwd.as_ref()));
    put("url", text(entry.url.as_ref()));
    put("headers", pairs(&entry.headers));
    put("bearer", text(entry.bearer.as_ref()));
    if entry.has_oauth() {
        let mut client = InlineTable::new();
        for (key, value) in [
            ("client_id", text(entry.client_id.as_ref())),
            ("client_secret", text(entry.client_secret.as_ref())),
            ("client_metadata_url", text(entry.client_metadata_url.as_ref())),
            ("scopes", list(&entry.scopes)),
        ] {
            if let Some(value) = value {
                client.insert(key, value);
            }
        }
        table.insert("oauth", client.into());
    }
    table
}

fn text(text: Option<&String>) -> Option<Value> {
    text.map(Value::from)
}

fn list(texts: &[String]) -> Option<Value> {
    (!texts.is_empty()).then(|| texts.iter().collect::<Array>().into())
}

fn pairs(texts: &std::collections::BTreeMap<String, String>) -> Option<Value> {
    (!texts.is_empty()).then(|| texts.iter().collect::<InlineTable>().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(
        before: &str,
        entry: &McpEntry,
        access: Option<&Access>,
        existing: Existing,
    ) -> Result<String, String> {
        let place = Place { file: Path::new("manila.toml"), part: Part::Source, name: "x" };
        place
            .change(before, existing, |table| fill(table, entry, access))
            .map_err(|e| e.to_string())
    }

    fn process() -> McpEntry {
        McpEntry {
            command: Some("npx".to_owned()),
            args: vec!["-y".to_owned(), "a \"b\"".to_owned()],
            env: [("KEY".to_owned(), "${KEY}".to_owned())].into(),
            ..McpEntry::default()
        }
    }

    fn endpoint() -> McpEntry {
        McpEntry {
            url: Some("https://x.example/mcp".to_owned()),
            headers: [("X-A".to_owned(), "1".to_owned())].into(),
            client_id: Some("me".to_owned()),
            scopes: vec!["read".to_owned()],
            ..McpEntry::default()
        }
    }

    #[test]
    fn a_server_is_written_as_it_would_be_typed() {
        let process_text =
            r#"mcp = { command = "npx", args = ["-y", "a \"b\""], env = { KEY = "${KEY}" } }"#;
        let endpoint_text = r#"mcp = { url = "https://x.example/mcp", headers = { X-A = "1" }, oauth = { client_id = "me", scopes = ["read"] } }"#;
        let scopes = Access::Scopes(vec!["a".to_owned()]);
        for (entry, access, expected) in [
            (process(), None, format!("[source.x]\n{process_text}\n")),
            (endpoint(), None, format!("[source.x]\n{endpoint_text}\n")),
            (
                process(),
                Some(&Access::Open),
                format!("[source.x]\n{process_text}\naccess = \"open\"\n"),
            ),
            (
                endpoint(),
                Some(&scopes),
                format!("[source.x]\n{endpoint_text}\naccess = {{ scopes = [\"a\"] }}\n"),
            ),
        ] {
            let written = written("", &entry, access, Existing::Refuse).unwrap();
            let read: toml::Table = written.parse().expect(&written);
            assert!(read["source"]["x"]["mcp"].is_table());
            // The writer chooses the quotes; what is meant is the same.
            assert_eq!(read, expected.parse().unwrap(), "{written}");
            assert_eq!(written.lines().count(), expected.lines().count(), "{written}");
        }
    }

    #[test]
    fn a_replaced_source_keeps_what_is_adjusted() {
        let before = "# mine\n[source.x] # here\nspoke = { identity = \"a\" }\ntimeout = 5 # s\n\
                      [source.y]\nhub.url = \"\"\n";
        let after = written(before, &endpoint(), None, Existing::Replace).unwrap();
        for kept in
            ["# mine\n[source.x] # here\n", "timeout = 5 # s\n", "[source.y]\nhub.url = \"\"\n"]
        {
            assert!(after.contains(kept), "{after}");
        }
        assert!(!after.contains("spoke"), "{after}");
        let again = written(&after, &process(), Some(&Access::Open), Existing::Replace).unwrap();
        assert!(again.contains("npx") && !again.contains("x.example"), "{again}");
        for (text, existing, said) in [
            ("[source.x]", Existing::Refuse, "`x` exists already in manila.toml; --replace puts"),
            ("[source.y]", Existing::Replace, "there is no `x` in manila.toml; without"),
            ("source = 5", Existing::Refuse, "manila.toml: source.x: this and `source` must"),
        ] {
            let error = written(text, &process(), None, existing).unwrap_err();
            assert!(error.starts_with(said), "{text}: {error}");
        }
    }
}
