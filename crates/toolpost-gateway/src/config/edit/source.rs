//! Editing of `[source.NAME]`.

use std::path::Path;

use toml_edit::{Array, InlineTable, Item, TableLike, Value};

use super::{
    ConfigTable, EditError, EntryEditor, IfExists, check, merge, openapi_source, set_value,
};
use crate::config::entry::{McpEntry, OpenApiEntry};
use crate::config::problem::ConfigProblem;
use crate::config::source::Access;
use crate::config::validate::check_source_name;

/// A source to write to the configuration file.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum SourceEntry<'a> {
    /// An MCP server.
    Mcp(&'a McpEntry),
    /// An HTTP service with an OpenAPI document.
    OpenApi(&'a OpenApiEntry),
}

impl<'a> From<&'a McpEntry> for SourceEntry<'a> {
    fn from(entry: &'a McpEntry) -> Self {
        Self::Mcp(entry)
    }
}

impl<'a> From<&'a OpenApiEntry> for SourceEntry<'a> {
    fn from(entry: &'a OpenApiEntry) -> Self {
        Self::OpenApi(entry)
    }
}

/// Writes `[source.NAME]`, preserves comments and order, and returns the resulting access. `access`
/// applies to a new source only; a replaced source keeps its own access, or its lack of one, and
/// every key that does not describe the connection. A missing file is created with access for its
/// owner only. The change is atomic.
///
/// # Errors
///
/// The name is invalid or exists already, there is no source to replace, the file is not a valid
/// configuration, or an I/O error occurs.
pub fn write_source<'a>(
    file: &Path,
    name: &str,
    entry: impl Into<SourceEntry<'a>>,
    access: Option<&Access>,
    existing: IfExists,
) -> Result<Option<Access>, EditError> {
    check_source_name(name).map_err(EditError::Invalid)?;
    let entry = entry.into();
    let editor = EntryEditor { file, table: ConfigTable::Source, name };
    let access = access.filter(|_| existing == IfExists::Fail);
    let mut written_access = Ok(None);
    super::rewrite(file, |text| {
        let changed = editor.apply(text, existing, |table| {
            fill(table, entry, access);
            written_access = parse_access(table);
        })?;
        written_access.clone().map_err(|message| editor.problem("access", message))?;
        check::check_edit(&editor, text, &changed)?;
        Ok(changed)
    })?;
    Ok(written_access.unwrap_or_default())
}

pub(super) fn fill<'a>(
    table: &mut dyn TableLike,
    entry: impl Into<SourceEntry<'a>>,
    access: Option<&Access>,
) {
    match entry.into() {
        SourceEntry::Mcp(entry) => fill_server(table, entry),
        SourceEntry::OpenApi(entry) => openapi_source::fill(table, entry),
    }
    match access {
        Some(Access::Open) => set_value(table, "access", "open"),
        Some(Access::Scopes(scopes)) => {
            let scopes = Value::from(scopes.iter().collect::<Array>());
            set_value(table, "access", InlineTable::from_iter([("scopes", scopes)]));
        }
        None => {}
    }
}

/// The keys that describe the connection to a server; the others are adjustments.
const CONNECTION_KEYS: &[&str] =
    &["command", "args", "env", "cwd", "url", "headers", "bearer", "oauth"];

fn fill_server(table: &mut dyn TableLike, entry: &McpEntry) {
    // The keys of other source kinds do not apply to an MCP server.
    for other in ["spoke", "hub", "openapi", "auth", "rename", "prefix"] {
        table.remove(other);
    }
    merge::merge_into(table, "mcp", &server_table(entry), CONNECTION_KEYS);
}

/// Returns the access of a source as it is written in the file.
fn parse_access(table: &dyn TableLike) -> Result<Option<Access>, &'static str> {
    const EXPECTED: &str = "expected \"open\" or { scopes = […] }; correct it first";
    let Some(item) = table.get("access") else { return Ok(None) };
    if item.as_str() == Some("open") {
        return Ok(Some(Access::Open));
    }
    let scopes = item.get("scopes").and_then(Item::as_array).ok_or(EXPECTED)?;
    let scopes = scopes.iter().map(|scope| scope.as_str().map(str::to_owned));
    scopes.collect::<Option<_>>().map(|scopes| Some(Access::Scopes(scopes))).ok_or(EXPECTED)
}

impl EntryEditor<'_> {
    fn problem(&self, key: &str, message: &str) -> EditError {
        let entry = super::dotted_key(self.table.key(), self.name);
        let (file, key) = (self.file.to_owned(), super::dotted_key(&entry, key));
        EditError::Problem(ConfigProblem { file, position: None, key, message: message.to_owned() })
    }
}

/// Formats an entry as `{ command = "…", args = […] }` with the fields that are set.
fn server_table(entry: &McpEntry) -> InlineTable {
    let mut table = InlineTable::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            table.insert(key, value);
        }
    };
    put("command", string_value(entry.command.as_ref()));
    put("args", list_value(&entry.args));
    put("env", table_value(&entry.env));
    put("cwd", string_value(entry.cwd.as_ref()));
    put("url", string_value(entry.url.as_ref()));
    put("headers", table_value(&entry.headers));
    put("bearer", string_value(entry.bearer.as_ref()));
    if entry.has_oauth() {
        let mut client = InlineTable::new();
        for (key, value) in [
            ("client_id", string_value(entry.client_id.as_ref())),
            ("client_secret", string_value(entry.client_secret.as_ref())),
            ("client_metadata_url", string_value(entry.client_metadata_url.as_ref())),
            ("scopes", list_value(&entry.scopes)),
        ] {
            if let Some(value) = value {
                client.insert(key, value);
            }
        }
        table.insert("oauth", client.into());
    }
    table
}

pub(super) fn string_value(text: Option<&String>) -> Option<Value> {
    text.map(Value::from)
}

pub(super) fn list_value(texts: &[String]) -> Option<Value> {
    (!texts.is_empty()).then(|| texts.iter().collect::<Array>().into())
}

pub(super) fn table_value(texts: &std::collections::BTreeMap<String, String>) -> Option<Value> {
    (!texts.is_empty()).then(|| texts.iter().collect::<InlineTable>().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(
        before: &str,
        entry: &McpEntry,
        access: Option<&Access>,
        existing: IfExists,
    ) -> Result<String, String> {
        let editor =
            EntryEditor { file: Path::new("toolpost.toml"), table: ConfigTable::Source, name: "x" };
        editor
            .apply(before, existing, |table| fill(table, entry, access))
            .map_err(|e| e.to_string())
    }

    fn stdio_entry() -> McpEntry {
        McpEntry {
            command: Some("npx".to_owned()),
            args: vec!["-y".to_owned(), "a \"b\"".to_owned()],
            env: [("KEY".to_owned(), "${KEY}".to_owned())].into(),
            ..McpEntry::default()
        }
    }

    fn http_entry() -> McpEntry {
        McpEntry {
            url: Some("https://x.example/mcp".to_owned()),
            headers: [("X-A".to_owned(), "1".to_owned())].into(),
            client_id: Some("me".to_owned()),
            scopes: vec!["read".to_owned()],
            ..McpEntry::default()
        }
    }

    #[test]
    fn write_mcp_source_produces_readable_toml() {
        let process_text =
            r#"mcp = { command = "npx", args = ["-y", "a \"b\""], env = { KEY = "${KEY}" } }"#;
        let endpoint_text = r#"mcp = { url = "https://x.example/mcp", headers = { X-A = "1" }, oauth = { client_id = "me", scopes = ["read"] } }"#;
        let scopes = Access::Scopes(vec!["a".to_owned()]);
        for (entry, access, expected) in [
            (stdio_entry(), None, format!("[source.x]\n{process_text}\n")),
            (http_entry(), None, format!("[source.x]\n{endpoint_text}\n")),
            (
                stdio_entry(),
                Some(&Access::Open),
                format!("[source.x]\n{process_text}\naccess = \"open\"\n"),
            ),
            (
                http_entry(),
                Some(&scopes),
                format!("[source.x]\n{endpoint_text}\naccess = {{ scopes = [\"a\"] }}\n"),
            ),
        ] {
            let written = written("", &entry, access, IfExists::Fail).unwrap();
            let read: toml::Table = written.parse().expect(&written);
            assert!(read["source"]["x"]["mcp"].is_table());
            // The writer chooses the quotes; the values are equal.
            assert_eq!(read, expected.parse().unwrap(), "{written}");
            assert_eq!(written.lines().count(), expected.lines().count(), "{written}");
        }
    }

    /// Each row: a source, the entry that replaces it, and the result.
    #[test]
    fn replace_source_keeps_comments_and_settings() {
        let plain =
            |command: &str| McpEntry { command: Some(command.to_owned()), ..McpEntry::default() };
        for (before, entry, expected) in [
            (
                "[source.x]\nmcp = { command = \"a\", roots = [\"/r\"] } # one\naccess = { scopes = [\"s\"] }\n",
                plain("b"),
                "[source.x]\nmcp = { command = \"b\", roots = [\"/r\"] } # one\naccess = { scopes = [\"s\"] }\n",
            ),
            (
                "[source.x]\nmcp = { command = \"a\", args = [\"-v\"], protocol = \"2025-11-25\" }\n",
                http_entry(),
                "[source.x]\nmcp = { protocol = \"2025-11-25\", url = \"https://x.example/mcp\", \
                 headers = { X-A = \"1\" }, oauth = { client_id = \"me\", scopes = [\"read\"] } }\n",
            ),
            (
                "[source.x.mcp]\n# why a\ncommand = \"a\" # here\n# why json\nparse_json_text = true\n\
                 # of env\n[source.x.mcp.env]\n# why K\nKEY = \"1\"\n# old\nOLD = \"2\" # two\n[source.y]\n",
                stdio_entry(),
                "[source.x.mcp]\n# why a\ncommand = \"npx\" # here\n# why json\nparse_json_text = true\n\
                 args = [\"-y\", 'a \"b\"']\n\
                 # of env\n[source.x.mcp.env]\n# old\n# why K\nKEY = \"${KEY}\"\n[source.y]\n",
            ),
            (
                "[source.x]\nmcp.command = \"a\"\nmcp.max_restart = 5 # s\n",
                plain("b"),
                "[source.x]\nmcp.command = \"b\"\nmcp.max_restart = 5 # s\n",
            ),
            (
                "[source.x.mcp]\n# why a\ncommand = \"a\"\n[source.x.mcp.env]\nA = \"1\"\n",
                McpEntry { url: Some("http://x".to_owned()), ..McpEntry::default() },
                "[source.x.mcp]\n# why a\nurl = \"http://x\"\n",
            ),
        ] {
            assert_eq!(written(before, &entry, None, IfExists::Replace).unwrap(), expected);
        }
    }

    #[test]
    fn write_source_returns_written_access() {
        for (text, expected) in [
            ("", Ok(None)),
            ("access = 'open'", Ok(Some(Access::Open))),
            ("access.scopes = ['a']", Ok(Some(Access::Scopes(vec!["a".to_owned()])))),
            ("[access]\nscopes = ['a']", Ok(Some(Access::Scopes(vec!["a".to_owned()])))),
            ("access = 'opne'", Err(())),
            ("access = 5", Err(())),
            ("access = { scopes = [5] }", Err(())),
        ] {
            let document: toml_edit::DocumentMut = text.parse().unwrap();
            assert_eq!(parse_access(document.as_table()).map_err(drop), expected, "{text}");
        }
    }

    #[test]
    fn replace_source_keeps_adjustments() {
        let before = "# mine\n[source.x] # here\nspoke = { identity = \"a\" }\ntimeout = 5 # s\n\
                      [source.y]\nhub.url = \"\"\n";
        let after = written(before, &http_entry(), None, IfExists::Replace).unwrap();
        for retained in
            ["# mine\n[source.x] # here\n", "timeout = 5 # s\n", "[source.y]\nhub.url = \"\"\n"]
        {
            assert!(after.contains(retained), "{after}");
        }
        assert!(!after.contains("spoke"), "{after}");
        let again =
            written(&after, &stdio_entry(), Some(&Access::Open), IfExists::Replace).unwrap();
        assert!(again.contains("npx") && !again.contains("x.example"), "{again}");
        for (text, existing, expected) in [
            ("[source.x]", IfExists::Fail, "`x` exists already in toolpost.toml; --replace puts"),
            ("[source.y]", IfExists::Replace, "there is no `x` in toolpost.toml; without"),
            ("source = 5", IfExists::Fail, "toolpost.toml: source.x: this and `source` must"),
        ] {
            let error = written(text, &stdio_entry(), None, existing).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
