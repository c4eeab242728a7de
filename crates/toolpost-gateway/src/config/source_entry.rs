//! `[source.NAME]` as it is written, and its validation.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::Uri;
use schemars::{JsonSchema, Schema, json_schema};
use serde::Deserialize;
use toolpost::hub::RESERVED_NAMES;
use toolpost::mcp::McpTransport;
use toolpost::openapi::{DocumentLocation, Namespaces, OpenApiSettings};
use toolpost::{ClientTls, Extras, OperationId, OutputPolicy, ResultPolicy};
use url::Url;

use super::document::{Section, TomlDocument};
use super::limits::{LimitsConfig, enabled};
use super::mcp_entry::McpEntry;
use super::openapi::{AuthTable, OpenApiTable};
use super::source::{
    Access, Adjustments, ApprovalRule, OperationAdjustments, SourceConfig, SourceKind,
};
use crate::auth::Token;
use crate::glob::Glob;
use crate::limits::BreakerLimits;
use crate::shorthand::{ShortOrLong, Shorthand};
use crate::units::{Count, PositiveDuration};

/// A source of operations: exactly one of `mcp`, `openapi`, `spoke` and `hub`, and overrides of what
/// it declares.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a table with `mcp`, `openapi`, `spoke` or `hub`"
)]
#[schemars(
    rename = "Source",
    extend("oneOf" = [
        {"required": ["mcp"]},
        {"required": ["openapi"]},
        {"required": ["spoke"]},
        {"required": ["hub"]},
    ])
)]
pub(super) struct SourceTable {
    /// The tools of an MCP server.
    mcp: Option<McpEntry>,
    /// An HTTP service with an OpenAPI document: a file, a URL, or a table.
    openapi: Option<ShortOrLong<OpenApiTable>>,
    /// The credentials of the HTTP service.
    auth: Option<AuthTable>,
    /// A process that connects to this gateway and registers operations.
    spoke: Option<SpokeTable>,
    /// The operations of another hub.
    hub: Option<HubTable>,
    /// PEM file with CA certificates to trust, in addition to those of the system, relative to the
    /// folder of this file.
    ca: Option<String>,
    /// Whether credentials are sent to other machines without encryption (`http://`, `ws://`).
    insecure: bool,
    /// Who may call: `"open"`, or `{ scopes = […] }`, all of which are required. Replaces the rules
    /// of the source. By default, operations of MCP servers and HTTP services require the scope
    /// `source:NAME` if there are identities.
    access: Option<Access>,
    /// Which calls need approval: `true`, or patterns of operation names.
    approval: Option<ApprovalRule>,
    /// Settings of single operations, by the names that the source gives them.
    operation: BTreeMap<String, OperationAdjustments>,
    /// Timeout of each call: `"500ms"`, `"10s"`, `"2m"`, `"1h"`; a plain number is in seconds. A
    /// call to an MCP tool may continue as long as it reports progress.
    #[serde(with = "PositiveDuration")]
    timeout: Option<Duration>,
    /// Maximum number of concurrent calls; `limits.source_calls` if absent.
    #[serde(with = "Count")]
    concurrency: Option<u64>,
    /// Maximum number of calls that wait; `limits.source_queue` if absent.
    queue: Option<usize>,
    /// Its circuit breaker; `limits.breaker` if absent. Each host of an HTTP service has its own.
    breaker: Option<BreakerLimits>,
    /// The policy for results that do not match their schema.
    output: OutputPolicy,
    /// Whether properties that no schema names are kept.
    extras: Extras,
    /// Whether calls to an operation run one at a time; as the source declares if absent.
    exclusive: Option<bool>,
    /// Patterns of operation names, without the namespace; `*` is any run of characters, including
    /// `/`.
    #[serde(default = "include_all")]
    include: Vec<Glob>,
    /// Patterns of names to exclude.
    exclude: Vec<Glob>,
    /// For HTTP services: new operation names, `{ old = "new" }`.
    rename: BTreeMap<String, String>,
    /// For HTTP services: prefix for all operation names.
    prefix: Option<String>,
}

fn include_all() -> Vec<Glob> {
    vec![Glob::new("*")]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table such as { identity = \"NAME\" }")]
#[schemars(rename = "Spoke")]
struct SpokeTable {
    /// The only identity that may connect under the name of the source.
    identity: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table such as { url = \"wss://…\" }")]
#[schemars(rename = "Hub")]
struct HubTable {
    /// URL of the other hub, `wss://…`, or `ws://…` on this machine.
    url: String,
    /// The token of this gateway at the other hub.
    token: Option<String>,
}

impl Shorthand for Access {
    const NAME: &'static str = "Access";
    const EXPECTED: &'static str = "\"open\" or { scopes = […] }";
    const WORDS: &'static [&'static str] = &["open"];
    type Long = ScopesTable;

    fn from_text(text: &str) -> Result<Self, String> {
        if text == "open" { Ok(Self::Open) } else { Err(Self::unexpected()) }
    }

    fn from_long(table: ScopesTable) -> Result<Self, String> {
        Ok(Self::Scopes(table.scopes))
    }
}

impl From<ShortOrLong<Self>> for Access {
    fn from(access: ShortOrLong<Self>) -> Self {
        access.0
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct ScopesTable {
    /// The required scopes.
    #[serde(deserialize_with = "deserialize_required_scopes")]
    #[schemars(length(min = 1))]
    scopes: Vec<String>,
}

fn deserialize_required_scopes<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    let scopes = deserialize_scopes(deserializer)?;
    if scopes.is_empty() {
        let message = "no scopes; use access = \"open\" to allow every caller";
        return Err(serde::de::Error::custom(message));
    }
    Ok(scopes)
}

/// Reads scopes and checks that each is one word.
pub(super) fn deserialize_scopes<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    let scopes = Vec::<String>::deserialize(deserializer)?;
    let is_valid = scopes.iter().all(|scope| is_scope(scope));
    is_valid.then_some(scopes).ok_or_else(|| serde::de::Error::custom(SCOPE_FORMAT))
}

pub(super) const SCOPE_FORMAT: &str = "invalid scope; use one word without whitespace";

/// Whether a string is a valid scope. Whitespace is excluded because it separates scopes in lists.
pub(super) fn is_scope(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

impl Shorthand for ApprovalRule {
    const NAME: &'static str = "ApprovalRule";
    const EXPECTED: &'static str = "true, false, or a list of patterns such as [\"delete*\"]";
    const IS_LIST: bool = true;
    type Long = Vec<Glob>;

    fn from_text(_: &str) -> Result<Self, String> {
        Err(Self::unexpected())
    }

    fn from_bool(always: bool) -> Option<Self> {
        Some(Self::Always(always))
    }

    fn from_long(patterns: Vec<Glob>) -> Result<Self, String> {
        Ok(Self::Patterns(patterns))
    }

    fn short_schema() -> Schema {
        json_schema!({"type": "boolean"})
    }
}

impl From<ShortOrLong<Self>> for ApprovalRule {
    fn from(rule: ShortOrLong<Self>) -> Self {
        rule.0
    }
}

pub(super) const SOURCE_KINDS: [&str; 4] = ["mcp", "openapi", "spoke", "hub"];

/// Checks that a source name is a valid namespace and not reserved by the gateway.
pub(super) fn check_source_name(name: &str) -> Result<(), String> {
    OperationId::new(name, "any").map_err(|error| error.to_string())?;
    if RESERVED_NAMES.contains(&name) {
        return Err(format!("`{name}` is a reserved namespace; choose another name"));
    }
    Ok(())
}

impl SourceTable {
    /// Validates the source; `None` if it is invalid or refers to a missing variable or file. Adds
    /// its own limits to `limits`.
    pub(super) fn into_config(
        mut self,
        document: &TomlDocument<'_>,
        name: String,
        limits: &mut LimitsConfig,
    ) -> Option<SourceConfig> {
        let path = ["source", name.as_str()];
        let at = document.section(&path);
        if let Err(message) = check_source_name(&name) {
            at.report(&[], message);
        }
        if document.has_missing_reference(&name) {
            return None;
        }
        let mut kind = self.kind(&at)?;
        if document.has_missing_reference(&name) {
            return None;
        }
        self.apply_limits(&name, &mut kind, limits, &at);
        let mut policy = ResultPolicy::default();
        (policy.output, policy.extras) = (self.output, self.extras);
        let adjustments = Adjustments {
            access: self.access,
            default_access: None,
            approval: self.approval,
            operations: self.operation,
            timeout: self.timeout,
            policy,
            exclusive: self.exclusive,
            include: self.include,
            exclude: self.exclude,
            rename: self.rename,
            prefix: self.prefix.unwrap_or_default(),
        };
        Some(SourceConfig { name, kind, adjustments, document: None })
    }

    fn kind(&mut self, at: &Section<'_, '_>) -> Option<SourceKind> {
        if !at.contains(&["openapi"]) {
            for (key, is_set) in [
                ("auth", self.auth.is_some()),
                ("rename", !self.rename.is_empty()),
                ("prefix", self.prefix.is_some()),
            ] {
                if is_set {
                    at.report(&[key], "requires `openapi`; remove it");
                }
            }
        }
        let tls = self.client_tls(at);
        let kinds = (self.mcp.take(), self.openapi.take(), self.spoke.take(), self.hub.take());
        let remedy = match kinds {
            (Some(mcp), None, None, None) => {
                let path = [at.path, &["mcp"]].concat();
                let mut settings = mcp.into_settings(&at.document.section(&path))?;
                match &mut settings.transport {
                    McpTransport::Http(http) => {
                        http.tls = tls;
                        if http.has_credentials() {
                            check_credentials(&http.tls, &http.url, &["mcp", "url"], at);
                        }
                    }
                    _ => report_tls(at, "requires `url`; remove it"),
                }
                settings.timeout = self.timeout.unwrap_or(settings.timeout);
                return Some(SourceKind::Mcp(Box::new(settings)));
            }
            (None, Some(openapi), None, None) => {
                let mut settings = openapi.0.into_settings(self.auth.take(), at)?;
                settings.client.timeout = self.timeout.unwrap_or(settings.client.timeout);
                settings.client.tls = tls;
                check_openapi(&settings, at);
                return Some(SourceKind::OpenApi(Box::new(settings)));
            }
            (None, None, Some(SpokeTable { identity }), None) => {
                if !at.document.contains(&["identity", &identity]) {
                    // The name is not quoted: it is a value, and `${VAR}` may have expanded to a
                    // secret.
                    let message = "unknown identity; create it with `toolpost token new NAME`";
                    at.report(&["spoke", "identity"], message);
                }
                report_tls(at, "a spoke connects to this gateway; remove it");
                return Some(SourceKind::Spoke { identity });
            }
            (None, None, None, Some(hub)) => {
                if let Err(message) = check_hub_url(&hub.url) {
                    at.report(&["hub", "url"], message);
                }
                if let Some(url) = Url::parse(&hub.url).ok().filter(|_| hub.token.is_some()) {
                    check_credentials(&tls, &url, &["hub", "url"], at);
                }
                return Some(SourceKind::Hub {
                    url: hub.url,
                    token: hub.token.map(Token::from),
                    tls,
                });
            }
            // An invalid kind is already reported.
            (None, None, None, None) if SOURCE_KINDS.iter().any(|kind| at.contains(&[kind])) => {
                return None;
            }
            (None, None, None, None) => "add one",
            _ => "remove the others",
        };
        let expected = "expected exactly one of `mcp`, `openapi`, `spoke` and `hub`";
        at.report(&[], format!("{expected}; {remedy}"));
        None
    }

    fn client_tls(&self, at: &Section<'_, '_>) -> ClientTls {
        let mut tls = ClientTls::default();
        tls.insecure = self.insecure;
        tls.ca_certificates = self.ca.as_deref().and_then(|file| at.read_ca_file(file, &["ca"]));
        tls
    }

    /// Adds the limits of the source. Each host of an HTTP service has its own circuit breaker.
    fn apply_limits(
        &self,
        name: &str,
        kind: &mut SourceKind,
        limits: &mut LimitsConfig,
        at: &Section<'_, '_>,
    ) {
        let mut own = limits.calls.source.clone();
        let concurrency = self.concurrency.and_then(|calls| usize::try_from(calls).ok());
        own.concurrency = concurrency.unwrap_or(own.concurrency);
        own.queue = self.queue.unwrap_or(own.queue);
        own.breaker = self.breaker.map_or(own.breaker, enabled);
        if let SourceKind::OpenApi(settings) = kind {
            let breaker = own.breaker.take();
            let hosts = &mut settings.client.breaker;
            hosts.failures = breaker.map_or(0, |breaker| breaker.failures);
            hosts.open_for = breaker.map_or(hosts.open_for, |breaker| breaker.open_for);
            // Permits are counted per namespace, and these operations are in other namespaces.
            for key in ["concurrency", "queue"] {
                if settings.namespaces == Namespaces::Keep && at.contains(&[key]) {
                    let message = "cannot be combined with namespaces = \"keep\", because calls are \
                                   counted per namespace; remove one of the two";
                    at.report(&[key], message);
                }
            }
        }
        limits.calls.sources.insert(name.to_owned(), own);
    }
}

/// Reports the keys of connections to other machines, for a source that has none.
fn report_tls(at: &Section<'_, '_>, message: &str) {
    for key in ["ca", "insecure"].iter().filter(|key| at.contains(&[key])) {
        at.report(&[key], message);
    }
}

/// Reports credentials that would be sent to another machine without encryption, or notes that they
/// are.
fn check_credentials(tls: &ClientTls, url: &Url, key: &[&str], at: &Section<'_, '_>) {
    match tls.check_credentials(url) {
        Err(error) => at.report(key, error.to_string()),
        Ok(()) if ClientTls::default().check_credentials(url).is_err() => {
            let source = at.path[1];
            at.document.note(format!(
                "source `{source}`: credentials are sent to another machine without encryption"
            ));
        }
        Ok(()) => {}
    }
}

/// Checks the configured URLs of an HTTP service. Those of its document are checked when it is
/// loaded.
fn check_openapi(settings: &OpenApiSettings, at: &Section<'_, '_>) {
    let tls = &settings.client.tls;
    let key = |key| match at.contains(&["openapi", key]) {
        true => vec!["openapi", key],
        false => vec!["openapi"],
    };
    if let DocumentLocation::Url(url) = &settings.document
        && settings.document_requires_auth
    {
        check_credentials(tls, url, &key("document"), at);
    }
    if let Some(url) = settings.server.url.as_ref().filter(|_| settings.credentials.is_some()) {
        check_credentials(tls, url, &key("server"), at);
    }
    if let Some(url) = settings.client.proxy.as_ref().filter(|url| url.password().is_some()) {
        check_credentials(tls, url, &key("proxy"), at);
    }
}

fn check_hub_url(url: &str) -> Result<(), &'static str> {
    let uri = url.parse::<Uri>().ok();
    let uri = uri.filter(|uri| matches!(uri.scheme_str(), Some("ws" | "wss")));
    let uri = uri.filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
    let uri = uri.ok_or("invalid hub URL; use wss://HOST/… or ws://HOST/…")?;
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("a URL must not contain a user or password; use `token`");
    }
    Ok(())
}
