//! Editing of `[source.NAME]`.

use std::path::Path;

use serde::Deserialize;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};
use toolpost::mcp::McpSettings;

use super::openapi_source::{self, OpenApiEntry};
use super::{
    EditError, EntryEditor, IfExists, SOURCE, merge, overview, parse, read_file, set_value,
};
use crate::config::Config;
use crate::config::document::{Environment, parent_folder};
use crate::config::expand::{ExpandError, Expander};
use crate::config::mcp_entry::McpEntry;
use crate::config::problem::{ConfigError, ConfigProblem};
use crate::config::source::{Access, SourceConfig, SourceKind};
use crate::config::source_entry::check_source_name;

/// A source to write to the configuration file.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum SourceEntry<'a> {
    /// An MCP server.
    Mcp(&'a McpEntry),
    /// An HTTP service with an OpenAPI document.
    OpenApi(&'a OpenApiEntry),
}

/// Checks that the name of a new source is unused, or that the source to replace exists.
///
/// # Errors
///
/// The name is in use, the source to replace does not exist, the file is not valid TOML, or an I/O
/// error occurs.
pub fn check_source(file: &Path, name: &str, existing: IfExists) -> Result<(), EditError> {
    let is_there = overview(file)?.sources.iter().any(|known| known == name);
    EntryEditor { file, table: SOURCE, name }.check_existence(is_there, existing)
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
pub fn write_source(
    file: &Path,
    name: &str,
    entry: SourceEntry<'_>,
    access: Option<&Access>,
    existing: IfExists,
) -> Result<Option<Access>, EditError> {
    check_source_name(name).map_err(EditError::Invalid)?;
    let editor = EntryEditor { file, table: SOURCE, name };
    let access = access.filter(|_| existing == IfExists::Fail);
    let mut written_access = None;
    editor.write(existing, |table| {
        fill(table, entry, access);
        written_access = parse_access(table);
    })?;
    Ok(written_access)
}

fn fill(table: &mut dyn TableLike, entry: SourceEntry<'_>, access: Option<&Access>) {
    match entry {
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

/// Returns the access of a source as it is written in the file; `None` if it is absent or invalid.
fn parse_access(table: &dyn TableLike) -> Option<Access> {
    let item = table.get("access")?;
    if item.as_str() == Some("open") {
        return Some(Access::Open);
    }
    let scopes = item.get("scopes")?.as_array()?.iter();
    scopes.map(|scope| scope.as_str().map(str::to_owned)).collect::<Option<_>>().map(Access::Scopes)
}

/// Returns the settings of a server as they are after the entry is written as `[source.NAME]` of
/// `file`. An entry that replaces another keeps the `mcp` keys that do not describe the connection.
///
/// # Errors
///
/// All problems of the entry, the name and the kept keys.
pub fn mcp_settings(
    file: &Path,
    name: &str,
    entry: &McpEntry,
    existing: IfExists,
) -> Result<McpSettings, ConfigError> {
    let environment = |name: &str| std::env::var(name).ok();
    let mcp = match merged_server(file, name, entry) {
        Ok(merged) if existing == IfExists::Replace => merged,
        _ => server_table(entry).into(),
    };
    let (source, problems) = read_single_source(file, name, mcp, &environment, |_| {});
    match source.map(|source| source.kind) {
        Some(SourceKind::Mcp(settings)) if problems.is_empty() => Ok(*settings),
        Some(SourceKind::Incomplete { missing, .. }) if problems.is_empty() => {
            Err(ConfigError::new(missing))
        }
        _ => Err(ConfigError::new(problems)),
    }
}

/// Reads an entry as `[source.NAME]` of `file`, and returns its problems without positions, changed
/// by `place`.
pub(in super::super) fn read_entry(
    file: &Path,
    name: &str,
    entry: &McpEntry,
    environment: &Environment<'_>,
    place: impl Fn(&mut ConfigProblem),
) -> (Option<SourceConfig>, Vec<ConfigProblem>) {
    read_single_source(file, name, server_table(entry).into(), environment, place)
}

fn read_single_source(
    file: &Path,
    name: &str,
    mcp: Item,
    environment: &Environment<'_>,
    place: impl Fn(&mut ConfigProblem),
) -> (Option<SourceConfig>, Vec<ConfigProblem>) {
    let source = Table::from_iter([("mcp", mcp)]);
    let sources = Table::from_iter([(name, Item::Table(source))]);
    let text = DocumentMut::from(Table::from_iter([(SOURCE, Item::Table(sources))])).to_string();
    let (mut source, mut problems) = match Config::read_document(file, &text, environment) {
        Ok((config, problems)) => (config.sources.into_iter().next(), problems),
        Err(error) => (None, error.into_problems()),
    };
    let missing = match source.as_mut().map(|source| &mut source.kind) {
        Some(SourceKind::Incomplete { missing, .. }) => &mut missing[..],
        _ => &mut [],
    };
    for problem in problems.iter_mut().chain(missing) {
        // The position refers to text that is not on disk.
        problem.position = None;
        place(problem);
    }
    (source, problems)
}

/// Returns the `mcp` table of the source after the entry replaces it.
fn merged_server(file: &Path, name: &str, entry: &McpEntry) -> Result<Item, EditError> {
    let editor = EntryEditor { file, table: SOURCE, name };
    let changed =
        editor.apply(&read_file(file)?, IfExists::Replace, |table| fill_server(table, entry))?;
    Ok(parse(file, &changed)?[SOURCE][name]["mcp"].clone())
}

/// Fills unset fields of the entry from the source in the file: the environment and folder of a
/// program; the headers and credentials if the URL has the same origin.
///
/// # Errors
///
/// The file is not valid TOML, or an I/O error occurs.
pub fn preserve_mcp_entry(
    file: &Path,
    name: &str,
    mut entry: McpEntry,
) -> Result<McpEntry, EditError> {
    let text = read_file(file)?;
    parse(file, &text)?;
    let document: toml::Table = toml::from_str(&text).unwrap_or_default();
    let source = document.get("source").and_then(|sources| sources.get(name));
    let old = source.and_then(|source| source.get("mcp")).cloned();
    if let Some(old) = old.and_then(|old| McpEntry::deserialize(old).ok()) {
        preserve_settings(&mut entry, old);
    }
    Ok(entry)
}

fn preserve_settings(entry: &mut McpEntry, old: McpEntry) {
    if entry.command.is_some() && old.command.is_some() {
        if entry.env.is_empty() {
            entry.env = old.env;
        }
        entry.cwd = entry.cwd.take().or(old.cwd);
    }
    let is_same_origin = match (&entry.url, &old.url) {
        (Some(new), Some(old)) => url_origin(new) == url_origin(old),
        _ => false,
    };
    if !is_same_origin {
        return;
    }
    let is_authorization = |name: &String| name.eq_ignore_ascii_case("authorization");
    let has_credentials = entry.bearer.is_some()
        || entry.oauth.is_some()
        || entry.headers.keys().any(is_authorization);
    if entry.headers.is_empty() {
        entry.headers = old.headers;
        // Do not keep an old `Authorization` header next to new credentials.
        entry.headers.retain(|name, _| !(has_credentials && is_authorization(name)));
    }
    if !has_credentials {
        (entry.bearer, entry.oauth) = (old.bearer, old.oauth);
    }
}

/// Returns scheme, host and port of a URL as text, which may contain variables.
fn url_origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    &url[..end]
}

impl McpEntry {
    /// Returns the unset environment variables and the unreadable files, resolved relative to the
    /// folder of `file`, that the entry refers to. Returns nothing if a reference is malformed.
    pub fn unset_variables(&self, file: &Path) -> Vec<String> {
        let environment = |name: &str| std::env::var(name).ok();
        let expander = Expander::new(&environment, parent_folder(file));
        let mut texts = Vec::new();
        collect_strings(&server_table(self).into(), &mut texts);
        let errors = texts.iter().filter_map(|text| expander.expand(text).err());
        let unset = errors.map(|error| match error {
            ExpandError::Unset(variable) => Some(variable),
            ExpandError::Unreadable { file, .. } => Some(file),
            ExpandError::Malformed => None,
        });
        let mut unset = unset.collect::<Option<Vec<_>>>().unwrap_or_default();
        unset.sort();
        unset.dedup();
        unset
    }
}

fn collect_strings(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.value().clone()),
        Value::Array(items) => items.iter().for_each(|item| collect_strings(item, texts)),
        Value::InlineTable(table) => {
            table.iter().for_each(|(_, member)| collect_strings(member, texts));
        }
        _ => {}
    }
}

/// Formats an entry as `{ command = "…", args = […] }` with the fields that are set.
fn server_table(entry: &McpEntry) -> InlineTable {
    let oauth = entry.oauth.as_ref().map(|client| {
        set_values([
            ("client_id", string_value(client.client_id.as_ref())),
            ("client_secret", string_value(client.client_secret.as_ref())),
            ("client_metadata_url", string_value(client.client_metadata_url.as_ref())),
            ("scopes", list_value(&client.scopes)),
        ])
    });
    set_values([
        ("command", string_value(entry.command.as_ref())),
        ("args", list_value(&entry.args)),
        ("env", table_value(&entry.env)),
        ("cwd", string_value(entry.cwd.as_ref())),
        ("url", string_value(entry.url.as_ref())),
        ("headers", table_value(&entry.headers)),
        ("bearer", string_value(entry.bearer.as_ref())),
        ("oauth", oauth.map(Value::from)),
    ])
}

pub(super) fn set_values<const N: usize>(values: [(&str, Option<Value>); N]) -> InlineTable {
    values.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
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
        let editor = EntryEditor { file: Path::new("toolpost.toml"), table: SOURCE, name: "x" };
        editor
            .apply(before, existing, |table| fill(table, SourceEntry::Mcp(entry), access))
            .map_err(|e| e.to_string())
    }

    fn entry(text: &str) -> McpEntry {
        toml::from_str(text).unwrap()
    }

    fn stdio_entry() -> McpEntry {
        entry("command = 'npx'\nargs = ['-y', 'a \"b\"']\nenv = { KEY = '${KEY}' }")
    }

    fn http_entry() -> McpEntry {
        entry(
            "url = 'https://x.example/mcp'\nheaders = { X-A = '1' }\n\
             oauth = { client_id = 'me', scopes = ['read'] }",
        )
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
        let plain = |command: &str| entry(&format!("command = '{command}'"));
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
                entry("url = 'http://x'"),
                "[source.x.mcp]\n# why a\nurl = \"http://x\"\n",
            ),
        ] {
            assert_eq!(written(before, &entry, None, IfExists::Replace).unwrap(), expected);
        }
    }

    #[test]
    fn write_source_returns_written_access() {
        for (text, expected) in [
            ("", None),
            ("access = 'open'", Some(Access::Open)),
            ("access.scopes = ['a']", Some(Access::Scopes(vec!["a".to_owned()]))),
            ("[access]\nscopes = ['a']", Some(Access::Scopes(vec!["a".to_owned()]))),
            ("access = 'opne'", None),
            ("access = 5", None),
            ("access = { scopes = [5] }", None),
        ] {
            let document: DocumentMut = text.parse().unwrap();
            assert_eq!(parse_access(document.as_table()), expected, "{text}");
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
            ("[source.x]", IfExists::Fail, "`x` already exists in toolpost.toml; use --replace"),
            ("[source.y]", IfExists::Replace, "`x` does not exist in toolpost.toml; omit"),
            ("source = 5", IfExists::Fail, "toolpost.toml: source.x: expected a table"),
        ] {
            let error = written(text, &stdio_entry(), None, existing).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    /// Each row: the old settings, the new entry, and the result.
    #[test]
    fn replace_preserves_compatible_settings() {
        for (old, new, expected) in [
            (
                "command = 'a'\nargs = ['x']\nenv = { A = '1' }\ncwd = '/'",
                "command = 'b'",
                "command = 'b'\nenv = { A = '1' }\ncwd = '/'",
            ),
            (
                "command = 'a'\nenv = { A = '1' }\ncwd = '/'",
                "command = 'b'\nenv = { B = '2' }\ncwd = '/c'",
                "command = 'b'\nenv = { B = '2' }\ncwd = '/c'",
            ),
            ("command = 'a'\nenv = { A = '1' }", "url = 'http://x'", "url = 'http://x'"),
            ("url = 'http://x'\nbearer = 't'", "command = 'b'", "command = 'b'"),
            (
                "url = 'http://x/a'\nheaders = { A = '1' }\nbearer = 't'",
                "url = 'http://x/b'",
                "url = 'http://x/b'\nheaders = { A = '1' }\nbearer = 't'",
            ),
            (
                "url = 'http://x/a'\nheaders = { A = '1' }\nbearer = 't'",
                "url = 'http://x.example/a'",
                "url = 'http://x.example/a'",
            ),
            (
                "url = 'http://x'\nheaders = { A = '1', authorization = 'o' }",
                "url = 'http://x'\nbearer = 't'",
                "url = 'http://x'\nheaders = { A = '1' }\nbearer = 't'",
            ),
            (
                "url = 'http://x'\noauth = { client_id = 'me', scopes = ['s'] }",
                "url = 'http://x?b'\nheaders = { B = '2' }",
                "url = 'http://x?b'\nheaders = { B = '2' }\noauth = { client_id = 'me', scopes = ['s'] }",
            ),
            (
                "url = 'http://x'\noauth = { client_id = 'me' }",
                "url = 'http://x'\nbearer = 't'",
                "url = 'http://x'\nbearer = 't'",
            ),
        ] {
            let [old_entry, mut found, expected] = [old, new, expected].map(entry);
            preserve_settings(&mut found, old_entry);
            assert!(found == expected, "{old}\n{new}");
        }
    }
}
