//! Editing of `[source.NAME]` for HTTP services.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use toml_edit::{InlineTable, Item, TableLike};

use super::source::{list_value, set_values, string_value, table_value};
use super::{EditError, SOURCE, merge, parse, read_file, set_value};
use crate::config::document::{dotted_path, parent_folder};
use crate::config::expand::Expander;
use crate::config::problem::{ConfigError, ConfigProblem};

/// An HTTP service as written to the configuration file, with unexpanded `${VAR}` references.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct OpenApiEntry {
    /// Path or URL of the OpenAPI document.
    pub document: String,
    /// The server URL, instead of the one in the document.
    pub server: Option<String>,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, String>,
    /// Whether fetching the document requires the credentials of the service.
    pub private: bool,
    /// Allowed hosts in addition to those in the document.
    pub hosts: Vec<String>,
    /// Bearer token.
    pub bearer: Option<String>,
    /// User name and password.
    pub basic: Option<(String, String)>,
    /// API key.
    pub api_key: Option<String>,
    /// Operation names to include; all, if empty.
    pub include: Vec<String>,
    /// Names to exclude.
    pub exclude: Vec<String>,
    /// New names of individual operations.
    pub rename: BTreeMap<String, String>,
    /// Prefix of every operation name.
    pub prefix: Option<String>,
}

impl OpenApiEntry {
    /// Creates an entry with a document and no other settings.
    pub fn new(document: impl Into<String>) -> Self {
        Self { document: document.into(), ..Self::default() }
    }

    /// Returns the headers for fetching a private document: the bearer token and the configured
    /// headers, with variables expanded. `file` names the configuration in errors, and relative
    /// paths are resolved against its folder.
    ///
    /// # Errors
    ///
    /// A variable or file is missing, or a value is not valid in a header.
    pub fn document_headers(&self, file: &Path, name: &str) -> Result<HeaderMap, ConfigError> {
        let environment = |name: &str| std::env::var(name).ok();
        let values = Expander::new(&environment, parent_folder(file));
        let bearer = self.bearer.iter().map(|token| ("authorization", format!("Bearer {token}")));
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let (mut sent, mut problems) = (HeaderMap::new(), Vec::new());
        for (header, raw) in bearer.chain(headers) {
            let value = values.expand(&raw).map_err(|error| error.to_string());
            let pair = value.and_then(|value| {
                let pair =
                    HeaderName::try_from(header).ok().zip(HeaderValue::try_from(&*value).ok());
                pair.ok_or_else(|| {
                    "invalid header value; it must not contain line breaks or control characters"
                        .to_owned()
                })
            });
            match pair {
                Ok((header, value)) => drop(sent.insert(header, value)),
                Err(message) => {
                    let key = dotted_path("", &["source", name, "auth", header]);
                    problems.push(ConfigProblem::in_file(file, key, message));
                }
            }
        }
        if problems.is_empty() { Ok(sent) } else { Err(ConfigError::new(problems)) }
    }

    /// Whether credentials or headers are set.
    pub fn has_credentials(&self) -> bool {
        self.bearer.is_some()
            || self.basic.is_some()
            || self.api_key.is_some()
            || !self.headers.is_empty()
    }
}

/// Omits all values, since any of them may be a secret.
impl fmt::Debug for OpenApiEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApiEntry").finish_non_exhaustive()
    }
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
    let source = document.get(SOURCE).and_then(|sources| sources.get(name));
    let old = source.and_then(|source| source.get("openapi"));
    if let Some(old) = old.filter(|old| document_of(old) == Some(&entry.document)) {
        let server = old.get("server").and_then(Item::as_str).map(str::to_owned);
        entry.server = entry.server.or(server);
        if entry.hosts.is_empty() {
            let hosts = old.get("hosts").and_then(Item::as_array).into_iter().flatten();
            entry.hosts = hosts.filter_map(|host| host.as_str().map(str::to_owned)).collect();
        }
    }
    Ok(entry)
}

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
    let adjustments = set_values([
        ("include", list_value(&entry.include)),
        ("exclude", list_value(&entry.exclude)),
        ("rename", table_value(&entry.rename)),
        ("prefix", string_value(entry.prefix.as_ref())),
    ]);
    for (key, value) in adjustments {
        set_value(table, &key, value);
    }
}

fn is_same_service(table: &dyn TableLike, entry: &OpenApiEntry) -> bool {
    let old = table.get("openapi");
    old.and_then(document_of) == Some(entry.document.as_str())
        && old.and_then(|old| old.get("server")?.as_str()) == entry.server.as_deref()
}

fn document_of(openapi: &Item) -> Option<&str> {
    openapi.as_str().or_else(|| openapi.get("document")?.as_str())
}

/// Writes the document as a string, or as a table if there are more keys or it was a table before.
fn fill_document(table: &mut dyn TableLike, entry: &OpenApiEntry) {
    let members = set_values([
        ("document", Some((&entry.document).into())),
        ("server", string_value(entry.server.as_ref())),
        ("hosts", list_value(&entry.hosts)),
        ("private", entry.private.then(|| true.into())),
    ]);
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
    let mut members = set_values([
        ("bearer", string_value(entry.bearer.as_ref())),
        ("basic", basic),
        ("api_key", string_value(entry.api_key.as_ref())),
    ]);
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
