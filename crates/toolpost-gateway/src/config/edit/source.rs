//! `[source.NAME]`.

use std::path::Path;

use toml_edit::{Array, InlineTable, Item, TableLike, Value};

use super::{EditError, Existing, Part, Place, check, merge, service, set};
use crate::config::entry::{McpEntry, OpenApiEntry};
use crate::config::problem::Problem;
use crate::config::source::Access;
use crate::config::validate::check_source_name;

/// What a source is, as it is to be written.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum SourceEntry<'a> {
    /// An MCP server.
    Mcp(&'a McpEntry),
    /// An HTTP service.
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

/// Writes `[source.NAME]` with comments and order kept, and says what stands there about access
/// now. `access` is for a source that is new; one that is replaced keeps its own, or that it has
/// none, as it keeps everything that is not about how its server is reached. A file that is not
/// there is made, for its owner only. The change is there whole or not at all.
///
/// # Errors
///
/// The name is taken or not there, the file is no configuration, or the system refuses.
pub fn write_source<'a>(
    file: &Path,
    name: &str,
    entry: impl Into<SourceEntry<'a>>,
    access: Option<&Access>,
    existing: Existing,
) -> Result<Option<Access>, EditError> {
    check_source_name(name).map_err(EditError::Invalid)?;
    let entry = entry.into();
    let place = Place { file, part: Part::Source, name };
    let access = access.filter(|_| existing == Existing::Refuse);
    let mut said = Ok(None);
    super::rewrite(file, |text| {
        let changed = place.change(text, existing, |table| {
            fill(table, entry, access);
            said = written_access(table);
        })?;
        said.clone().map_err(|message| place.problem("access", message))?;
        check::holds(&place, text, &changed)?;
        Ok(changed)
    })?;
    Ok(said.unwrap_or_default())
}

pub(super) fn fill<'a>(
    table: &mut dyn TableLike,
    entry: impl Into<SourceEntry<'a>>,
    access: Option<&Access>,
) {
    match entry.into() {
        SourceEntry::Mcp(entry) => fill_server(table, entry),
        SourceEntry::OpenApi(entry) => service::fill(table, entry),
    }
    match access {
        Some(Access::Open) => set(table, "access", "open"),
        Some(Access::Scopes(scopes)) => {
            let scopes = Value::from(scopes.iter().collect::<Array>());
            set(table, "access", InlineTable::from_iter([("scopes", scopes)]));
        }
        None => {}
    }
}

/// The keys that say how a server is reached; the others are adjustments.
const REACHED: &[&str] = &["command", "args", "env", "cwd", "url", "headers", "bearer", "oauth"];

fn fill_server(table: &mut dyn TableLike, entry: &McpEntry) {
    // What is said about a service means nothing beside a server.
    for other in ["spoke", "hub", "openapi", "auth", "rename", "prefix"] {
        table.remove(other);
    }
    merge::into(table, "mcp", &server(entry), REACHED);
}

/// What stands there about access, as it was typed.
fn written_access(table: &dyn TableLike) -> Result<Option<Access>, &'static str> {
    const WRONG: &str = "expected \"open\" or { scopes = […] }; correct it first";
    let Some(item) = table.get("access") else { return Ok(None) };
    if item.as_str() == Some("open") {
        return Ok(Some(Access::Open));
    }
    let scopes = item.get("scopes").and_then(Item::as_array).ok_or(WRONG)?;
    let scopes = scopes.iter().map(|scope| scope.as_str().map(str::to_owned));
    scopes.collect::<Option<_>>().map(|scopes| Some(Access::Scopes(scopes))).ok_or(WRONG)
}

impl Place<'_> {
    fn problem(&self, key: &str, message: &str) -> EditError {
        let entry = super::join(self.part.key(), self.name);
        let (file, key) = (self.file.to_owned(), super::join(&entry, key));
        EditError::Problem(Problem { file, place: None, key, message: message.to_owned() })
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

pub(super) fn text(text: Option<&String>) -> Option<Value> {
    text.map(Value::from)
}

pub(super) fn list(texts: &[String]) -> Option<Value> {
    (!texts.is_empty()).then(|| texts.iter().collect::<Array>().into())
}

pub(super) fn pairs(texts: &std::collections::BTreeMap<String, String>) -> Option<Value> {
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
        let place = Place { file: Path::new("toolpost.toml"), part: Part::Source, name: "x" };
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

    /// Each row: a source that is replaced, by what, and what it is then.
    #[test]
    fn a_replaced_source_keeps_its_comments_and_settings() {
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
                endpoint(),
                "[source.x]\nmcp = { protocol = \"2025-11-25\", url = \"https://x.example/mcp\", \
                 headers = { X-A = \"1\" }, oauth = { client_id = \"me\", scopes = [\"read\"] } }\n",
            ),
            (
                "[source.x.mcp]\n# why a\ncommand = \"a\" # here\n# why json\nparse_json_text = true\n\
                 # of env\n[source.x.mcp.env]\n# why K\nKEY = \"1\"\n# old\nOLD = \"2\" # two\n[source.y]\n",
                process(),
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
            assert_eq!(written(before, &entry, None, Existing::Replace).unwrap(), expected);
        }
    }

    #[test]
    fn access_is_read_as_it_is_typed() {
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
            assert_eq!(written_access(document.as_table()).map_err(drop), expected, "{text}");
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
            ("[source.x]", Existing::Refuse, "`x` exists already in toolpost.toml; --replace puts"),
            ("[source.y]", Existing::Replace, "there is no `x` in toolpost.toml; without"),
            ("source = 5", Existing::Refuse, "toolpost.toml: source.x: this and `source` must"),
        ] {
            let error = written(text, &process(), None, existing).unwrap_err();
            assert!(error.starts_with(said), "{text}: {error}");
        }
    }
}
