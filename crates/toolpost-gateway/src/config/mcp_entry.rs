//! MCP servers as they are written, and their validation.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use toolpost::mcp::{
    Elicitation, HttpSettings, McpSettings, McpTransport, OAuthSettings, Root, Roots, Sampling,
    StdioSettings,
};
use toolpost::protocol::Secret;
use url::Url;

use super::document::Section;
use crate::shorthand::{ShortOrLong, Shorthand};
use crate::units::{PositiveDuration, Size};

/// An MCP server: exactly one of `command` and `url`, with the fields that belong to it. An entry
/// that is written to a file has unexpanded `${VAR}` references.
#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a table such as { command = \"…\" } or { url = \"https://…\" }"
)]
#[schemars(
    rename = "Mcp",
    extend("oneOf" = [{"required": ["command"]}, {"required": ["url"]}])
)]
#[non_exhaustive]
pub struct McpEntry {
    /// Program of a server that uses standard input and output.
    pub command: Option<String>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment variables of the program, in addition to the inherited ones such as `PATH`.
    pub env: BTreeMap<String, String>,
    /// Working directory of the program, relative to the folder of this file; defaults to that of the
    /// gateway.
    pub cwd: Option<String>,
    /// URL of a server that uses streamable HTTP, or HTTP+SSE of 2024-11-05.
    pub url: Option<String>,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, String>,
    /// Bearer token sent with every request.
    pub bearer: Option<String>,
    /// The OAuth client, if it is already registered with the authorization server.
    pub oauth: Option<OAuthEntry>,
    /// Protocol version to use, such as `"2025-11-25"`; negotiated if absent.
    #[schemars(extend("enum" = PROTOCOLS))]
    protocol: Option<String>,
    /// Maximum time from the start to the first response.
    #[serde(with = "PositiveDuration")]
    #[schemars(extend("default" = "1m"))]
    start_timeout: Option<Duration>,
    /// Maximum duration of a call, regardless of progress; `timeout` of the source limits the time
    /// without progress.
    #[serde(with = "PositiveDuration")]
    #[schemars(extend("default" = "5m"))]
    max_timeout: Option<Duration>,
    /// Maximum delay between two attempts to restart or reconnect the server.
    #[serde(with = "PositiveDuration")]
    #[schemars(extend("default" = "30s"))]
    max_restart: Option<Duration>,
    /// Maximum message size.
    #[serde(with = "Size::<4096>")]
    #[schemars(extend("default" = "64MiB"))]
    message_bytes: Option<u64>,
    /// The response to an elicitation request: forwarded to the MCP client that called
    /// (`"client"`), or `"reject"` (fail the call), `"decline"`, `"cancel"`, `"defaults"` or
    /// `{ accept = {…} }`.
    #[schemars(extend("default" = "client"))]
    elicitation: ShortOrLong<Elicitation>,
    /// The response to a sampling request: an error (`"reject"`), or forwarded to the MCP client
    /// that called (`"client"`), at its expense.
    sampling: Sampling,
    /// Folders reported to the server: absolute paths, or `file://…`; `"client"` reports those of
    /// the MCP client that called.
    #[schemars(extend("default" = []))]
    roots: ShortOrLong<Roots>,
    /// Whether a single text block that is JSON becomes the data of a tool without an output schema.
    parse_json_text: bool,
    /// Whether the two blocks of a ToolEnvelope are recognized and its payload becomes the data.
    tool_envelope: ToolEnvelopeMode,
}

/// Omits all values, since any of them may be a secret.
impl fmt::Debug for McpEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpEntry").finish_non_exhaustive()
    }
}

/// An OAuth client that was registered in advance.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table such as { client_id = \"…\" }")]
#[schemars(rename = "OAuth")]
pub struct OAuthEntry {
    /// The id of the client.
    pub client_id: Option<String>,
    /// Its secret, if it has one.
    pub client_secret: Option<String>,
    /// The `https://…` URL of the client metadata document.
    pub client_metadata_url: Option<String>,
    /// The scopes to request; those that the server requires, if empty.
    pub scopes: Vec<String>,
}

/// Omits all values, since any of them may be a secret.
impl fmt::Debug for OAuthEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthEntry").finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum ToolEnvelopeMode {
    #[default]
    Auto,
    Off,
}

const PROTOCOLS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

impl Shorthand for Elicitation {
    const NAME: &'static str = "Elicitation";
    const EXPECTED: &'static str =
        "\"client\", \"reject\", \"decline\", \"cancel\", \"defaults\" or { accept = {…} }";
    const WORDS: &'static [&'static str] = &["client", "reject", "decline", "cancel", "defaults"];
    type Long = ElicitationTable;

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(match text {
            "client" => Self::Client,
            "reject" => Self::Reject,
            "decline" => Self::Decline,
            "cancel" => Self::Cancel,
            "defaults" => Self::Defaults,
            _ => return Err(Self::unexpected()),
        })
    }

    fn from_long(table: ElicitationTable) -> Result<Self, String> {
        Ok(Self::Accept(table.accept))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct ElicitationTable {
    /// The fields of the response; the others get their defaults.
    accept: Map<String, Value>,
}

impl Shorthand for Roots {
    const NAME: &'static str = "Roots";
    const EXPECTED: &'static str = "a list of absolute paths, or \"client\"";
    const WORDS: &'static [&'static str] = &["client"];
    const IS_LIST: bool = true;
    type Long = Vec<String>;

    fn from_text(text: &str) -> Result<Self, String> {
        if text == "client" { Ok(Self::Client) } else { Err(Self::unexpected()) }
    }

    fn from_long(list: Vec<String>) -> Result<Self, String> {
        let roots = list.iter().map(|root| match root.starts_with("file://") {
            true => Url::parse(root).ok().map(|_| Root::new(root)),
            false => Url::from_file_path(root).ok().map(Root::new),
        });
        let roots: Option<Vec<_>> = roots.collect();
        roots
            .map(Self::Static)
            .ok_or_else(|| "invalid root; use an absolute path or file:///…".to_owned())
    }
}

/// Headers that the client sets itself.
const RESERVED_HEADERS: [&str; 12] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

impl McpEntry {
    /// Validates the entry, whose references are expanded; `None` if the transport is invalid.
    pub(super) fn into_settings(mut self, at: &Section<'_, '_>) -> Option<McpSettings> {
        let transport = self.transport(at);
        let is_known = |version: &String| PROTOCOLS.contains(&version.as_str());
        if self.protocol.as_ref().is_some_and(|version| !is_known(version)) {
            at.report(&["protocol"], format!("expected one of `{}`", PROTOCOLS.join("`, `")));
        }
        let mut settings = McpSettings::new(transport?);
        settings.protocol = self.protocol;
        settings.roots = self.roots.0;
        settings.sampling = self.sampling;
        settings.elicitation = self.elicitation.0;
        settings.parse_json_text = self.parse_json_text;
        settings.tool_envelope = self.tool_envelope == ToolEnvelopeMode::Auto;
        settings.start_timeout = self.start_timeout.unwrap_or(settings.start_timeout);
        settings.max_timeout = self.max_timeout.unwrap_or(settings.max_timeout);
        settings.restart.1 = self.max_restart.unwrap_or(settings.restart.1);
        let bytes = self.message_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        settings.message_bytes = bytes.unwrap_or(settings.message_bytes);
        Some(settings)
    }

    fn transport(&mut self, at: &Section<'_, '_>) -> Option<McpTransport> {
        let reject = |keys: [(&str, bool); 3], message: &str| {
            for (key, _) in keys.into_iter().filter(|(_, is_set)| *is_set) {
                at.report(&[key], message);
            }
        };
        let remedy = match (self.command.take(), self.url.take()) {
            (Some(command), None) => {
                let others = [
                    ("headers", !self.headers.is_empty()),
                    ("bearer", self.bearer.is_some()),
                    ("oauth", self.oauth.is_some()),
                ];
                reject(others, "requires `url`, not `command`; remove it");
                return Some(McpTransport::Stdio(self.stdio_settings(command, at)));
            }
            (None, Some(url)) => {
                let others = [
                    ("args", !self.args.is_empty()),
                    ("env", !self.env.is_empty()),
                    ("cwd", self.cwd.is_some()),
                ];
                reject(others, "requires `command`, not `url`; remove it");
                return self.http_settings(&url, at).map(McpTransport::Http);
            }
            (None, None) => "add",
            (Some(_), Some(_)) => "remove",
        };
        // The key is present but misspelled, which is already reported.
        if !["command", "url"].iter().any(|key| at.has_suggestion(key)) {
            let message = format!("expected exactly one of `command` and `url`; {remedy} one");
            at.report(&[], message);
        }
        None
    }

    fn stdio_settings(&mut self, command: String, at: &Section<'_, '_>) -> StdioSettings {
        if command.trim().is_empty() || command.contains('\0') {
            at.report(&["command"], "invalid program name");
        }
        if self.args.iter().any(|argument| argument.contains('\0')) {
            at.report(&["args"], "arguments must not contain NUL");
        }
        let mut settings = StdioSettings::new(command, std::mem::take(&mut self.args));
        for (name, value) in std::mem::take(&mut self.env) {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                let message = "invalid environment variable; the name must not be empty or contain `=`, and neither part may contain NUL";
                at.report(&["env", &name], message);
            }
            settings.env.insert(name, Secret::new(value));
        }
        let cwd = self.cwd.take().map(|cwd| at.document.folder().join(cwd));
        settings.cwd = cwd.filter(|cwd| cwd != Path::new(""));
        settings
    }

    fn http_settings(&mut self, url: &str, at: &Section<'_, '_>) -> Option<HttpSettings> {
        let url = parse_url(url).map_err(|message| at.report(&["url"], message)).ok();
        let headers = headers(std::mem::take(&mut self.headers), at);
        let bearer = self.bearer.take();
        let is_token = |text: &String| !text.is_empty() && HeaderValue::from_str(text).is_ok();
        if bearer.as_ref().is_some_and(|bearer| !is_token(bearer)) {
            let message =
                "invalid token; it must not be empty or contain line breaks or control characters";
            at.report(&["bearer"], message);
        }
        let has_header = headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        if bearer.is_some() && self.oauth.is_some() {
            at.report(&["oauth"], "cannot be combined with `bearer`; remove one of the two");
        } else if bearer.is_some() && has_header {
            let message =
                "cannot be combined with an `Authorization` header; remove one of the two";
            at.report(&["bearer"], message);
        }
        let oauth = self.oauth.take().unwrap_or_default().into_settings(at);
        let mut settings = HttpSettings::new(url?);
        (settings.headers, settings.oauth) = (headers, oauth);
        settings.bearer = bearer.map(Secret::new);
        Some(settings)
    }
}

impl OAuthEntry {
    fn into_settings(self, at: &Section<'_, '_>) -> OAuthSettings {
        if self.client_secret.is_some() && self.client_id.is_none() {
            let message = "requires `client_id`; add it";
            at.report(&["oauth", "client_secret"], message);
        }
        let is_document = |url: &String| {
            parse_url(url).is_ok_and(|url| url.scheme() == "https" && url.path().len() > 1)
        };
        if self.client_metadata_url.as_ref().is_some_and(|url| !is_document(url)) {
            let message = "invalid client metadata URL; use https://HOST/PATH";
            at.report(&["oauth", "client_metadata_url"], message);
        }
        let mut settings = OAuthSettings::default();
        settings.client_id = self.client_id;
        settings.client_secret = self.client_secret.map(Secret::new);
        settings.client_metadata_url = self.client_metadata_url;
        settings.scopes = self.scopes;
        settings
    }
}

/// Parses the URL of a server. A query is allowed; a user and a password are not, because URLs are
/// displayed.
fn parse_url(url: &str) -> Result<Url, &'static str> {
    let url = super::parse_http_url(url)
        .ok_or("invalid MCP server URL; use https://HOST/… or http://HOST/…")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "a URL must not contain a user or password; use `headers`, `bearer` or `oauth`",
        );
    }
    if url.fragment().is_some() {
        return Err("a server URL must not contain a fragment (`#…`); remove it");
    }
    Ok(url)
}

fn headers(raw: BTreeMap<String, String>, at: &Section<'_, '_>) -> BTreeMap<String, Secret> {
    let mut headers = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (name, value) in raw {
        let lower = name.to_ascii_lowercase();
        let checked = if RESERVED_HEADERS.contains(&lower.as_str()) {
            Err("reserved header; remove it")
        } else {
            check_header(&lower, &value)
        };
        let is_new = checked.is_err() || seen.insert(lower);
        let unique = is_new.then_some(()).ok_or("duplicate header; remove one of the two");
        match checked.and(unique) {
            Err(message) => at.report(&["headers", &name], message),
            Ok(()) => drop(headers.insert(name, Secret::new(value))),
        }
    }
    headers
}

pub(super) fn check_header(name: &str, value: &str) -> Result<(), &'static str> {
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err("invalid header name");
    }
    if HeaderValue::from_str(value).is_err() {
        return Err("invalid header value; it must not contain line breaks or control characters");
    }
    Ok(())
}
