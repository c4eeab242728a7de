//! Connection settings that a replaced source keeps.

use std::collections::BTreeMap;
use std::path::Path;

use toml_edit::{Item, TableLike};
use toolpost::mcp::McpSettings;

use super::openapi_source::document_of;
use super::{ConfigTable, EditError, IfExists, parse, read_file};
use crate::config::entry::{McpEntry, OpenApiEntry};
use crate::config::{Config, ConfigError, SourceKind};

/// Fills unset fields of the entry from the source in the file: the environment and directory of a
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
    let document = parse(file, &read_file(file)?)?;
    let source = document.get(ConfigTable::Source.key()).and_then(|sources| sources.get(name));
    if let Some(old) = source.and_then(|source| source.get("mcp")).and_then(Item::as_table_like) {
        preserve_settings(&mut entry, old);
    }
    Ok(entry)
}

/// Fills an unset server and unset hosts of the entry from the source in the file, if the document
/// is the same.
///
/// # Errors
///
/// The file is not valid TOML, or an I/O error occurs.
pub fn preserve_openapi_entry(
    file: &Path,
    name: &str,
    mut entry: OpenApiEntry,
) -> Result<OpenApiEntry, EditError> {
    let document = parse(file, &read_file(file)?)?;
    let source = document.get(ConfigTable::Source.key()).and_then(|sources| sources.get(name));
    let old = source.and_then(|source| source.get("openapi"));
    if let Some(old) = old.filter(|old| document_of(old) == Some(&entry.document)) {
        let server = old.get("server").and_then(Item::as_str).map(str::to_owned);
        entry.server = entry.server.or(server);
        if entry.hosts.is_empty() {
            entry.hosts = string_list(old.get("hosts"));
        }
    }
    Ok(entry)
}

/// Returns the settings of a source after the entry replaces it, including the `mcp` keys that it
/// keeps.
///
/// # Errors
///
/// All problems of the entry and of the kept keys.
pub fn settings_after_replace(
    file: &Path,
    name: &str,
    entry: &McpEntry,
) -> Result<McpSettings, ConfigError> {
    let alone = entry.settings(file, name)?;
    let Ok(text) = single_source_text(file, name, entry) else { return Ok(alone) };
    let config = Config::parse(file, &text, &|name| std::env::var(name).ok());
    let config = config.and_then(|config| config.check_missing().map(|()| config));
    // The positions refer to a text that is not on disk.
    let config = config.map_err(|error| {
        let mut problems = error.into_problems();
        problems.iter_mut().for_each(|problem| problem.position = None);
        ConfigError::new(problems)
    })?;
    let kind = config.sources.into_iter().next().map(|source| source.kind);
    Ok(if let Some(SourceKind::Mcp(settings)) = kind { *settings } else { alone })
}

/// Returns the text of a file that contains only this server, as it would be written.
fn single_source_text(file: &Path, name: &str, entry: &McpEntry) -> Result<String, EditError> {
    let editor = super::EntryEditor { file, table: ConfigTable::Source, name };
    let changed = editor.apply(&read_file(file)?, IfExists::Replace, |table| {
        super::source::fill(table, entry, None);
        let others: Vec<String> =
            table.iter().map(|(key, _)| key.to_owned()).filter(|key| key != "mcp").collect();
        others.iter().for_each(|key| drop(table.remove(key)));
    })?;
    let mut document = parse(file, &changed)?;
    document.retain(|key, _| key == ConfigTable::Source.key());
    if let Some(sources) =
        document.get_mut(ConfigTable::Source.key()).and_then(Item::as_table_like_mut)
    {
        let others: Vec<String> =
            sources.iter().map(|(key, _)| key.to_owned()).filter(|key| key != name).collect();
        others.iter().for_each(|key| drop(sources.remove(key)));
    }
    Ok(document.to_string())
}

fn preserve_settings(entry: &mut McpEntry, old: &dyn TableLike) {
    let text = |key: &str| old.get(key).and_then(Item::as_str).map(str::to_owned);
    if entry.command.is_some() && text("command").is_some() {
        if entry.env.is_empty() {
            entry.env = string_map(old.get("env"));
        }
        entry.cwd = entry.cwd.take().or_else(|| text("cwd"));
    }
    let is_same_host = match (&entry.url, text("url")) {
        (Some(new), Some(old)) => url_origin(new) == url_origin(&old),
        _ => false,
    };
    if !is_same_host {
        return;
    }
    let is_authorization = |name: &String| name.eq_ignore_ascii_case("authorization");
    let has_credentials =
        entry.bearer.is_some() || entry.has_oauth() || entry.headers.keys().any(is_authorization);
    if entry.headers.is_empty() {
        entry.headers = string_map(old.get("headers"));
        // Do not keep an old `Authorization` header next to new credentials.
        entry.headers.retain(|name, _| !(has_credentials && is_authorization(name)));
    }
    if !has_credentials {
        entry.bearer = text("bearer");
        preserve_oauth_client(entry, old.get("oauth"));
    }
}

fn preserve_oauth_client(entry: &mut McpEntry, client: Option<&Item>) {
    let member = |key: &str| client.and_then(|client| client.get(key));
    let text = |key: &str| member(key).and_then(Item::as_str).map(str::to_owned);
    entry.client_id = text("client_id");
    entry.client_secret = text("client_secret");
    entry.client_metadata_url = text("client_metadata_url");
    entry.scopes = string_list(member("scopes"));
}

fn string_list(item: Option<&Item>) -> Vec<String> {
    let texts = item.and_then(Item::as_array).into_iter().flatten();
    texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn string_map(item: Option<&Item>) -> BTreeMap<String, String> {
    let members = item.and_then(Item::as_table_like).into_iter().flat_map(TableLike::iter);
    let texts =
        members.filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())));
    texts.collect()
}

/// Returns scheme, host and port of a URL as text, which may contain variables.
fn url_origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    &url[..end]
}

#[cfg(test)]
mod tests {
    use toml_edit::DocumentMut;

    use super::*;

    fn entry(text: &str) -> McpEntry {
        let document: DocumentMut = text.parse().unwrap();
        let text = |key: &str| document.get(key).and_then(Item::as_str).map(str::to_owned);
        let mut entry = McpEntry::default();
        (entry.command, entry.cwd) = (text("command"), text("cwd"));
        (entry.url, entry.bearer) = (text("url"), text("bearer"));
        (entry.env, entry.headers) =
            (string_map(document.get("env")), string_map(document.get("headers")));
        preserve_oauth_client(&mut entry, document.get("oauth"));
        entry
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
            let document: DocumentMut = old.parse().unwrap();
            let mut found = entry(new);
            preserve_settings(&mut found, document.as_table());
            assert!(found == entry(expected), "{old}\n{new}");
        }
    }
}
