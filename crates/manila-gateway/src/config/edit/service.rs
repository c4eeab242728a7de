//! `[source.NAME]` of an HTTP service.

use toml_edit::{InlineTable, TableLike, Value};

use super::set;
use super::source::{list, pairs, text};
use crate::config::entry::OpenApiEntry;

/// Sets what the entry says; what it does not say stays as it is.
pub(super) fn fill(table: &mut dyn TableLike, entry: &OpenApiEntry) {
    for other in ["mcp", "spoke", "hub"] {
        table.remove(other);
    }
    // What was for one service is not for another.
    if !is_same_service(table, entry) {
        table.remove("auth");
    }
    set(table, "openapi", document(entry));
    for (key, value) in [
        ("auth", auth(entry)),
        ("include", list(&entry.include)),
        ("exclude", list(&entry.exclude)),
        ("rename", pairs(&entry.rename)),
        ("prefix", text(entry.prefix.as_ref())),
    ] {
        if let Some(value) = value {
            set(table, key, value);
        }
    }
}

/// Whether the table is about the document and the server of the entry.
fn is_same_service(table: &dyn TableLike, entry: &OpenApiEntry) -> bool {
    let Some(old) = table.get("openapi") else { return false };
    let document = old.as_str().or_else(|| old.get("document")?.as_str());
    let server = old.get("server").and_then(|server| server.as_str());
    document == Some(entry.document.as_str()) && server == entry.server.as_deref()
}

/// The document alone, or a table if more is said.
fn document(entry: &OpenApiEntry) -> Value {
    let more = [("server", text(entry.server.as_ref())), ("hosts", list(&entry.hosts))];
    if more.iter().all(|(_, value)| value.is_none()) {
        return Value::from(&entry.document);
    }
    let mut table = InlineTable::from_iter([("document", &entry.document)]);
    for (key, value) in more {
        if let Some(value) = value {
            table.insert(key, value);
        }
    }
    table.into()
}

fn auth(entry: &OpenApiEntry) -> Option<Value> {
    let basic = entry.basic.as_ref().map(|(username, password)| {
        InlineTable::from_iter([("username", username), ("password", password)]).into()
    });
    let said = [
        ("bearer", text(entry.bearer.as_ref())),
        ("basic", basic),
        ("api_key", text(entry.api_key.as_ref())),
        ("headers", pairs(&entry.headers)),
    ];
    let said = said.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let table: InlineTable = said.collect();
    (!table.is_empty()).then(|| table.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: what stood there, what is added, and what stands there then.
    #[test]
    fn a_service_is_written_as_it_would_be_typed() {
        let plain = OpenApiEntry::new("api.yaml");
        let mut whole = OpenApiEntry::new("https://x.example/api.json");
        whole.server = Some("http://127.0.0.1:1".to_owned());
        whole.bearer = Some("${TOKEN}".to_owned());
        whole.include = vec!["a*".to_owned()];
        whole.rename = [("a".to_owned(), "b".to_owned())].into();
        for (before, entry, expected) in [
            ("", &plain, "openapi = \"api.yaml\"\n"),
            (
                "# kept\nprefix = \"p_\" # why\nmcp.command = \"x\"\n",
                &plain,
                "# kept\nprefix = \"p_\" # why\nopenapi = \"api.yaml\"\n",
            ),
            (
                "openapi = \"api.yaml\"\nauth.bearer = \"x\" # mine\n",
                &plain,
                "openapi = \"api.yaml\"\nauth.bearer = \"x\" # mine\n",
            ),
            (
                "openapi = \"other.yaml\"\nauth.bearer = \"x\" # mine\n",
                &plain,
                "openapi = \"api.yaml\"\n",
            ),
            (
                "openapi = \"old.yaml\" # here\n",
                &whole,
                "openapi = { document = \"https://x.example/api.json\", \
                 server = \"http://127.0.0.1:1\" } # here\n\
                 auth = { bearer = \"${TOKEN}\" }\ninclude = [\"a*\"]\nrename = { a = \"b\" }\n",
            ),
        ] {
            let mut document: toml_edit::DocumentMut = before.parse().unwrap();
            fill(document.as_table_mut(), entry);
            assert_eq!(document.to_string(), expected);
        }
    }
}
