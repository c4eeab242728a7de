//! Editing of `[source.NAME]` for HTTP services.

use toml_edit::{InlineTable, Item, TableLike};

use super::source::{list_value, string_value, table_value};
use super::{merge, set_value};
use crate::config::entry::OpenApiEntry;

/// The keys that locate a service; the others are adjustments.
const LOCATION_KEYS: &[&str] = &["document", "server", "hosts"];

/// Writes the fields that the entry sets; the others stay as they are.
pub(super) fn fill(table: &mut dyn TableLike, entry: &OpenApiEntry) {
    for other in ["mcp", "spoke", "hub"] {
        table.remove(other);
    }
    // Credentials and server variables of one service do not apply to another.
    if !is_same_service(table, entry) {
        table.remove("auth");
        if let Some(old) = table.get_mut("openapi").and_then(Item::as_table_like_mut) {
            old.remove("server_variables");
        }
    }
    fill_document(table, entry);
    fill_auth(table, entry);
    for (key, value) in [
        ("include", list_value(&entry.include)),
        ("exclude", list_value(&entry.exclude)),
        ("rename", table_value(&entry.rename)),
        ("prefix", string_value(entry.prefix.as_ref())),
    ] {
        if let Some(value) = value {
            set_value(table, key, value);
        }
    }
}

/// Whether the table has the same document and server as the entry.
fn is_same_service(table: &dyn TableLike, entry: &OpenApiEntry) -> bool {
    let old = table.get("openapi");
    old.and_then(document_of) == Some(entry.document.as_str())
        && old.and_then(|old| old.get("server")?.as_str()) == entry.server.as_deref()
}

/// Returns the document of `openapi = …`.
pub(super) fn document_of(openapi: &Item) -> Option<&str> {
    openapi.as_str().or_else(|| openapi.get("document")?.as_str())
}

/// Writes the document as a string, or as a table if there are more keys or it was a table before.
fn fill_document(table: &mut dyn TableLike, entry: &OpenApiEntry) {
    let more =
        [("server", string_value(entry.server.as_ref())), ("hosts", list_value(&entry.hosts))];
    let more = more.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let mut members = InlineTable::from_iter([("document", &entry.document)]);
    members.extend(more);
    if entry.private {
        members.insert("private", true.into());
    }
    let is_table = table.get("openapi").is_some_and(Item::is_table_like);
    if members.len() == 1 && !is_table {
        return set_value(table, "openapi", &entry.document);
    }
    merge::merge_into(table, "openapi", &members, LOCATION_KEYS);
}

/// Writes the credentials. A new kind of credential replaces the old one; headers are independent
/// of it.
fn fill_auth(table: &mut dyn TableLike, entry: &OpenApiEntry) {
    let basic = entry.basic.as_ref().map(|(username, password)| {
        InlineTable::from_iter([("username", username), ("password", password)]).into()
    });
    let kinds = [
        ("bearer", string_value(entry.bearer.as_ref())),
        ("basic", basic),
        ("api_key", string_value(entry.api_key.as_ref())),
    ];
    let mut members: InlineTable =
        kinds.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    let ours: &[&str] =
        if members.is_empty() { &[] } else { &["bearer", "basic", "api_key", "oauth2"] };
    members.extend(table_value(&entry.headers).map(|headers| ("headers", headers)));
    if !members.is_empty() {
        merge::merge_into(table, "auth", &members, ours);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: the table before, the entry, and the table after.
    #[test]
    fn write_openapi_source_produces_readable_toml() {
        let plain = OpenApiEntry::new("api.yaml");
        let mut keyed = plain.clone();
        keyed.api_key = Some("k".to_owned());
        let mut full_entry = OpenApiEntry::new("https://x.example/api.json");
        full_entry.server = Some("http://127.0.0.1:1".to_owned());
        full_entry.bearer = Some("${TOKEN}".to_owned());
        full_entry.include = vec!["a*".to_owned()];
        full_entry.rename = [("a".to_owned(), "b".to_owned())].into();
        let mut private = plain.clone();
        private.private = true;
        for (before, entry, expected) in [
            ("", &plain, "openapi = \"api.yaml\"\n"),
            ("", &private, "openapi = { document = \"api.yaml\", private = true }\n"),
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
                "[openapi]\n# often\nretries = 5\ndocument = \"api.yaml\" # here\nprivate = true\n\
                 server_variables = { a = \"b\" }\n[auth]\n# ours\nbearer = \"x\"\nanonymous = true\n",
                &keyed,
                "[openapi]\n# often\nretries = 5\ndocument = \"api.yaml\" # here\nprivate = true\n\
                 server_variables = { a = \"b\" }\n[auth]\nanonymous = true\n# ours\napi_key = \"k\"\n",
            ),
            (
                "openapi = { document = \"old.yaml\", refresh = \"1h\", hosts = [\"h\"], \
                 server_variables = { a = \"b\" } }\nauth.bearer = \"x\"\n",
                &plain,
                "openapi = { document = \"api.yaml\", refresh = \"1h\" }\n",
            ),
            (
                "openapi = { document = \"api.yaml\", server = \"http://x\" }\nauth.bearer = \"x\"\n",
                &plain,
                "openapi = { document = \"api.yaml\" }\n",
            ),
            (
                "openapi = \"old.yaml\" # here\n",
                &full_entry,
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
