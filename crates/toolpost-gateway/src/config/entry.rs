//! MCP servers and HTTP services as they are written in a file, for code that edits or imports
//! configuration files.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use toolpost::mcp::McpSettings;

use super::document::dotted_key;
use super::expand::{ExpandError, Expander};
use super::file::{McpText, OAuthText};
use super::problem::{ConfigError, ConfigProblem};
use super::validate::{ReportFn, check_source_name, mcp_settings};

/// An MCP server with unexpanded `${VAR}` references. Exactly one of `command` and `url` is set,
/// with the fields that belong to it.
///
/// ```
/// use toolpost_gateway::config::McpEntry;
///
/// let mut entry = McpEntry::default();
/// entry.url = Some("ftp://hub.example".to_owned());
/// let error = entry.settings("toolpost.toml".as_ref(), "office").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "toolpost.toml: source.office.mcp.url: the address of an MCP server is https://HOST/… or http://HOST/…"
/// );
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpEntry {
    /// The program.
    pub command: Option<String>,
    /// Arguments of the command.
    pub args: Vec<String>,
    /// Environment variables added to those of the process.
    pub env: BTreeMap<String, String>,
    /// Working directory of the process.
    pub cwd: Option<String>,
    /// URL of the MCP endpoint.
    pub url: Option<String>,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, String>,
    /// Bearer token sent with every request.
    pub bearer: Option<String>,
    /// Id of an OAuth client that was registered in advance.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<String>,
    /// URL of the metadata document of the OAuth client.
    pub client_metadata_url: Option<String>,
    /// The OAuth scopes to request.
    pub scopes: Vec<String>,
}

/// Omits all values, since any of them may be a secret.
impl fmt::Debug for McpEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpEntry").finish_non_exhaustive()
    }
}

impl McpEntry {
    /// Validates the entry as `[source.NAME]` of `file` and returns its settings. `${VAR}` is
    /// expanded from the process environment.
    ///
    /// # Errors
    ///
    /// All problems of the entry and the name.
    pub fn settings(&self, file: &Path, name: &str) -> Result<McpSettings, ConfigError> {
        let source_key = dotted_key("source", name);
        let mut problems = ProblemCollector::new(file, dotted_key(&source_key, "mcp"));
        if let Err(message) = check_source_name(name) {
            problems.add(source_key, message);
        }
        let environment = |name: &str| std::env::var(name).ok();
        let folder = parent_folder(file);
        let values = Expander::new(&environment, folder);
        let settings = self.validate(folder, &values, &mut |path, error_message| {
            problems.report(path, error_message);
        });
        problems.finish(settings)
    }

    /// Returns the unset environment variables and the unreadable files, resolved relative to the
    /// directory of `file`, that the entry refers to. Returns nothing if a reference is malformed.
    pub fn unset_variables(&self, file: &Path) -> Vec<String> {
        let environment = |name: &str| std::env::var(name).ok();
        let values = Expander::new(&environment, parent_folder(file));
        let mut expanding = EntryExpander { expander: &values, errors: Vec::new() };
        expanding.expand_entry(self);
        let unset = expanding.errors.into_iter().map(|(_, error)| match error {
            ExpandError::Unset(variable) => Some(variable),
            ExpandError::Unreadable { file, .. } => Some(file),
            ExpandError::Malformed => None,
        });
        let mut unset = unset.collect::<Option<Vec<_>>>().unwrap_or_default();
        unset.sort();
        unset.dedup();
        unset
    }

    pub(super) fn validate(
        &self,
        folder: &Path,
        values: &Expander<'_>,
        report: &mut ReportFn<'_>,
    ) -> Option<McpSettings> {
        let mut expanding = EntryExpander { expander: values, errors: Vec::new() };
        let text = expanding.expand_entry(self);
        if !expanding.errors.is_empty() {
            for (path, error) in &expanding.errors {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                report(&path, &error.to_string());
            }
            return None;
        }
        mcp_settings(text, folder, report)
    }

    /// Returns the missing variables and files as paths and messages. Empty if a reference is
    /// malformed.
    pub(super) fn missing_references(&self, values: &Expander<'_>) -> Vec<(Vec<String>, String)> {
        let mut expanding = EntryExpander { expander: values, errors: Vec::new() };
        expanding.expand_entry(self);
        if expanding.errors.iter().any(|(_, error)| !error.is_missing()) {
            return Vec::new();
        }
        expanding.errors.into_iter().map(|(path, error)| (path, error.to_string())).collect()
    }

    pub(super) fn has_oauth(&self) -> bool {
        self.client_id.is_some()
            || self.client_secret.is_some()
            || self.client_metadata_url.is_some()
            || !self.scopes.is_empty()
    }
}

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
    /// A token.
    pub bearer: Option<String>,
    /// User name and password.
    pub basic: Option<(String, String)>,
    /// A key.
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
    /// paths start at its directory.
    ///
    /// # Errors
    ///
    /// A variable or file is missing, or a value is not valid in a header.
    pub fn document_headers(&self, file: &Path, name: &str) -> Result<HeaderMap, ConfigError> {
        let mut problems =
            ProblemCollector::new(file, dotted_key(&dotted_key("source", name), "auth"));
        let environment = |name: &str| std::env::var(name).ok();
        let values = Expander::new(&environment, parent_folder(file));
        let bearer = self.bearer.iter().map(|token| ("authorization", format!("Bearer {token}")));
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let mut header_map = HeaderMap::new();
        for (header, raw) in bearer.chain(headers) {
            let value = values.expand(&raw).map_err(|error| error.to_string());
            let sent = value.and_then(|value| {
                let sent =
                    HeaderName::try_from(header).ok().zip(HeaderValue::try_from(&*value).ok());
                sent.ok_or_else(|| "this cannot be sent in a header".to_owned())
            });
            match sent {
                Ok((header, value)) => drop(header_map.insert(header, value)),
                Err(message) => problems.report(&[header], &message),
            }
        }
        problems.finish(Some(header_map))
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

/// Collects the problems of one server, with keys below that of the server.
pub(super) struct ProblemCollector<'a> {
    file: &'a Path,
    key: String,
    problems: Vec<ConfigProblem>,
}

impl<'a> ProblemCollector<'a> {
    pub(super) fn new(file: &'a Path, key: String) -> Self {
        Self { file, key, problems: Vec::new() }
    }

    pub(super) fn report(&mut self, path: &[&str], message: &str) {
        let key = path.iter().fold(self.key.clone(), |key, part| dotted_key(&key, part));
        self.add(key, message.to_owned());
    }

    fn add(&mut self, key: String, message: String) {
        self.problems.push(ConfigProblem {
            file: self.file.to_owned(),
            position: None,
            key,
            message,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    pub(super) fn into_problems(self) -> Vec<ConfigProblem> {
        self.problems
    }

    fn finish<T>(self, checked: Option<T>) -> Result<T, ConfigError> {
        match checked {
            Some(checked) if self.problems.is_empty() => Ok(checked),
            _ => Err(ConfigError::new(self.problems)),
        }
    }
}

/// Returns the directory that relative paths in a file are resolved against.
pub(super) fn parent_folder(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// Expands the variables of one entry and collects the errors.
struct EntryExpander<'a> {
    expander: &'a Expander<'a>,
    errors: Vec<(Vec<String>, ExpandError)>,
}

impl EntryExpander<'_> {
    fn expand_entry(&mut self, entry: &McpEntry) -> McpText {
        let oauth = entry.has_oauth().then(|| OAuthText {
            client_id: self.expand_optional(&["oauth", "client_id"], entry.client_id.as_deref()),
            client_secret: self
                .expand_optional(&["oauth", "client_secret"], entry.client_secret.as_deref()),
            client_metadata_url: self.expand_optional(
                &["oauth", "client_metadata_url"],
                entry.client_metadata_url.as_deref(),
            ),
            scopes: self.expand_list(&["oauth", "scopes"], &entry.scopes),
        });
        McpText {
            command: self.expand_optional(&["command"], entry.command.as_deref()),
            args: self.expand_list(&["args"], &entry.args),
            env: self.expand_table("env", &entry.env),
            cwd: self.expand_optional(&["cwd"], entry.cwd.as_deref()),
            url: self.expand_optional(&["url"], entry.url.as_deref()),
            headers: self.expand_table("headers", &entry.headers),
            bearer: self.expand_optional(&["bearer"], entry.bearer.as_deref()),
            oauth,
            ..McpText::default()
        }
    }

    fn expand_string(&mut self, path: &[&str], raw: &str) -> String {
        match self.expander.expand(raw) {
            Ok(text) => text.into_owned(),
            Err(error) => {
                let path = path.iter().map(|part| (*part).to_owned()).collect();
                self.errors.push((path, error));
                String::new()
            }
        }
    }

    fn expand_optional(&mut self, path: &[&str], raw: Option<&str>) -> Option<String> {
        raw.map(|raw| self.expand_string(path, raw))
    }

    fn expand_list(&mut self, path: &[&str], raw: &[String]) -> Vec<String> {
        raw.iter().map(|raw| self.expand_string(path, raw)).collect()
    }

    fn expand_table(
        &mut self,
        key: &str,
        raw: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        raw.iter()
            .map(|(name, raw)| (name.clone(), self.expand_string(&[key, name], raw)))
            .collect()
    }
}
