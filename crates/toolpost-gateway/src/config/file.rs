//! The root of the configuration file: its tables, and the validation of tables that are not read
//! by a component directly.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use toolpost::Identity;
use url::Url;

use super::document::{Section, TomlDocument};
use super::limits::{LimitsConfig, LimitsTable};
use super::source_entry::{SourceTable, deserialize_scopes};
use super::tls::TlsTable;
use super::{Config, IdentityConfig};
use crate::admin::OPERATOR;
use crate::approval::ApprovalSettings;
use crate::auth::{CertificateName, JwtSettings, LOCAL, TokenHash, is_resource_id};
use crate::durable::IdempotencySettings;
use crate::journal::JournalSettings;
use crate::mcp_service::McpEndpointSettings;
use crate::room::capability::CapabilityTexts;
use crate::room::{RoomName, RoomSettings, RoomsSettings};
use crate::shorthand::ShortOrLong;
use crate::telemetry::TelemetrySettings;

/// The configuration of a Toolpost gateway. `${VAR}` in a string is replaced by the environment
/// variable, `${VAR:-default}` by the default if it is not set, `${file:PATH}` by the content of a
/// file; `$${` is a literal `${`.
///
/// A change to a key with `x-toolpost-restart` takes effect after a restart.
#[derive(Default, JsonSchema)]
#[schemars(title = "toolpost.toml", deny_unknown_fields, default)]
pub(super) struct ConfigFile {
    /// Which calls need approval.
    approval: ApprovalSettings,
    /// Tokens signed by an authorization server.
    auth: Option<JwtSettings>,
    /// Outcomes of calls with an idempotency key.
    idempotency: IdempotencySettings,
    /// Identities and their tokens. If there are none, any local program can call.
    identity: BTreeMap<String, IdentityTable>,
    /// Whether the demo operations, `demo.*`, are registered.
    #[schemars(extend("default" = true))]
    demo: bool,
    /// Sources of operations, by namespace.
    source: BTreeMap<String, SourceTable>,
    /// Files with the MCP servers of other clients (`mcpServers`, `servers`, `context_servers`),
    /// relative to the folder of this file. Each server becomes a source.
    pub(super) mcp_servers: Vec<String>,
    /// What MCP clients see.
    mcp: McpEndpointSettings,
    /// Cross-origin access to the HTTP endpoints.
    http: HttpTable,
    /// Recording of calls.
    #[schemars(extend("x-toolpost-restart" = true))]
    journal: ShortOrLong<JournalSettings>,
    /// Limits of callers, sources, connections and time.
    limits: LimitsTable,
    /// Rooms whose settings differ from the defaults.
    room: BTreeMap<String, RoomSettings>,
    /// Metrics and traces.
    #[schemars(extend("x-toolpost-restart" = true))]
    telemetry: TelemetrySettings,
    /// The certificate of the gateway. Without it, connections over TCP are not encrypted.
    tls: Option<TlsTable>,
}

/// An identity with a token, which `toolpost token new NAME` writes, or with a client certificate.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table with `token_hash` or `certificate`")]
#[schemars(
    rename = "Identity",
    extend("anyOf" = [{"required": ["token_hash"]}, {"required": ["certificate"]}])
)]
struct IdentityTable {
    /// The SHA-256 of the token, in hexadecimal digits.
    #[serde(default)]
    #[schemars(regex(pattern = r"^([0-9a-fA-F]{64}|.*\$\{.*)$"))]
    token_hash: Option<String>,
    /// A client certificate, by its SHA-256 fingerprint or by a DNS name in it. Requires
    /// `tls.client_ca`.
    #[serde(default)]
    certificate: Option<String>,
    /// The scopes of the identity.
    #[serde(default, deserialize_with = "deserialize_scopes")]
    scopes: Vec<String>,
    /// Actions on single resources: `"type:id" = ["action"]`; `type:*` matches all of a type.
    #[serde(default)]
    resources: BTreeMap<String, Vec<String>>,
    /// The messages that the identity may send in rooms; the defaults of the room, if empty.
    #[serde(default, with = "CapabilityTexts")]
    capabilities: Vec<String>,
}

/// Cross-origin access to the HTTP endpoints.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { cors = [\"https://…\"] }")]
#[schemars(rename = "Http")]
struct HttpTable {
    /// Origins, such as `https://app.example`, whose pages may call and read the responses,
    /// compared exactly.
    #[serde(deserialize_with = "deserialize_origins")]
    #[schemars(extend("x-toolpost-restart" = true))]
    cors: Vec<String>,
}

impl ConfigFile {
    pub(super) fn read(document: &TomlDocument<'_>) -> Self {
        let read = Self {
            approval: document.value("approval").unwrap_or_default(),
            auth: document.value("auth"),
            demo: document.value("demo").unwrap_or(true),
            idempotency: document.value("idempotency").unwrap_or_default(),
            identity: document.entries("identity"),
            source: document.entries("source"),
            mcp_servers: document.value("mcp_servers").unwrap_or_default(),
            mcp: document.value("mcp").unwrap_or_default(),
            http: document.value("http").unwrap_or_default(),
            journal: document.value("journal").unwrap_or_default(),
            limits: document.value("limits").unwrap_or_default(),
            room: document.entries("room"),
            telemetry: document.value("telemetry").unwrap_or_default(),
            tls: document.value("tls"),
        };
        document.report_unknown_root_keys();
        read
    }

    pub(super) fn into_config(self, document: &TomlDocument<'_>) -> Config {
        let identities = identities(document, self.identity);
        let rooms = rooms(document, self.room, &self.limits);
        let mut limits = LimitsConfig::new(self.limits);
        let sources = self.source.into_iter();
        let sources = sources
            .filter_map(|(name, source)| source.into_config(document, name, &mut limits))
            .collect();
        let auth = self.auth.map(|auth| jwt_settings(document, auth, &identities));
        let mut journal = self.journal.0;
        if journal.retain_for.is_some_and(|time| time.is_zero()) {
            let message = "must be greater than zero; set mode = \"off\" to record nothing";
            document.section(&["journal"]).report(&["retain_for"], message);
        }
        journal.path = journal.path.map(|path| document.folder().join(path));
        Config {
            approval: self.approval,
            auth,
            cors: self.http.cors,
            idempotency: self.idempotency,
            identities,
            journal,
            limits,
            mcp: self.mcp,
            sources,
            telemetry: telemetry(document, self.telemetry),
            tls: self.tls.and_then(|tls| tls.into_settings(document)),
            without_demo: !self.demo,
            rooms,
            ..Config::default()
        }
    }
}

fn identities(
    document: &TomlDocument<'_>,
    entries: BTreeMap<String, IdentityTable>,
) -> Vec<IdentityConfig> {
    let mut owners: BTreeMap<TokenHash, String> = BTreeMap::new();
    let mut identities = Vec::new();
    for (name, table) in entries {
        let path = ["identity", &name];
        let at = document.section(&path);
        if let Err(message) = check_identity_name(&name) {
            at.report(&[], message);
        }
        for resource in table.resources.keys().filter(|resource| !is_resource_id(resource)) {
            at.report(&["resources", resource], RESOURCE_FORMAT);
        }
        if !["token_hash", "certificate"].iter().any(|key| at.contains(&[key])) {
            at.report(&[], "missing key `token_hash` or `certificate`");
        }
        let token_hash =
            table.token_hash.and_then(|text| token_hash(&text, &name, &at, &mut owners));
        let certificate = table.certificate.and_then(|text| certificate(&text, document, &at));
        if token_hash.is_none() && certificate.is_none() {
            continue;
        }
        let mut identity = Identity::new(name).with_scopes(table.scopes);
        identity.generation = token_hash.as_ref().map(|hash| hash.generation().into());
        (identity.resources, identity.capabilities) = (table.resources, table.capabilities);
        identities.push(IdentityConfig { identity, token_hash, certificate });
    }
    identities
}

/// Parses the hash of a token, which belongs to one identity only.
fn token_hash(
    text: &str,
    name: &str,
    at: &Section<'_, '_>,
    owners: &mut BTreeMap<TokenHash, String>,
) -> Option<TokenHash> {
    let report = |message: String| at.report(&["token_hash"], message);
    let hash = text.parse::<TokenHash>().map_err(|error| report(error.to_string())).ok()?;
    match owners.entry(hash) {
        Entry::Vacant(free) => drop(free.insert(name.to_owned())),
        Entry::Occupied(owner) => {
            let owner = owner.get();
            report(format!(
                "same token as `{owner}`; create another with `toolpost token new {name} --replace`"
            ));
        }
    }
    Some(hash)
}

fn certificate(
    text: &str,
    document: &TomlDocument<'_>,
    at: &Section<'_, '_>,
) -> Option<CertificateName> {
    if !document.contains(&["tls", "client_ca"]) {
        at.report(&["certificate"], "requires `tls.client_ca`; add it");
    }
    let parsed = text.parse::<CertificateName>();
    parsed.map_err(|error| at.report(&["certificate"], error.to_string())).ok()
}

pub(super) const RESOURCE_FORMAT: &str =
    "invalid resource; use `type:id`, or `type:*` for all of a type";

/// Checks the name of an identity. The characters are restricted because it appears in logs and
/// messages.
pub(super) fn check_identity_name(name: &str) -> Result<(), String> {
    let owner = match name {
        LOCAL => "callers without a token",
        OPERATOR => "the operator",
        _ if is_plain_name(name) => return Ok(()),
        _ => {
            let message =
                "invalid identity name; use 1 to 64 letters, digits, `-`, `_`, `.` and `@`";
            return Err(message.to_owned());
        }
    };
    Err(format!("`{name}` is reserved for {owner}; choose another name"))
}

/// Whether a name has 1 to 64 letters, digits and punctuation marks of identities.
fn is_plain_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte))
}

/// Completes the settings. An audience is required, or derived from `resource`, so that a token for
/// another service is not accepted.
fn jwt_settings(
    document: &TomlDocument<'_>,
    mut settings: JwtSettings,
    identities: &[IdentityConfig],
) -> JwtSettings {
    let at = document.section(&["auth"]);
    if !at.contains(&["issuer"]) {
        at.report(&[], "missing key `issuer`");
    }
    match &settings.resource {
        Some(resource) if settings.audience.is_empty() => {
            let base = resource.as_str().trim_end_matches('/');
            settings.audience = ["", "/", "/mcp"].map(|path| format!("{base}{path}")).into();
        }
        None if settings.audience.is_empty() && !at.contains(&["resource"]) => {
            let message =
                "missing key `audience` (the `aud` claim of tokens for this gateway) or `resource`";
            at.report(&[], message);
        }
        _ => {}
    }
    let ca = settings.ca.as_deref();
    settings.ca_certificates = ca.and_then(|file| at.read_ca_file(file, &["ca"]));
    let names = identities.iter().map(|known| known.identity.id.clone());
    settings.reserved_names = names.chain([LOCAL, OPERATOR].map(str::to_owned)).collect();
    settings
}

/// Reads the CA file, and checks that the headers are not sent to another machine without encryption.
fn telemetry(document: &TomlDocument<'_>, mut settings: TelemetrySettings) -> TelemetrySettings {
    let at = document.section(&["telemetry"]);
    let ca = settings.ca.as_deref();
    settings.ca_certificates = ca.and_then(|file| at.read_ca_file(file, &["ca"]));
    if let Some(url) = settings.otlp.as_ref().filter(|_| !settings.headers.is_empty())
        && let Err(error) = settings.client_tls().check_credentials(url)
    {
        at.report(&["otlp"], error.to_string());
    }
    settings
}

fn rooms(
    document: &TomlDocument<'_>,
    rooms: BTreeMap<String, RoomSettings>,
    limits: &LimitsTable,
) -> RoomsSettings {
    if rooms.len() > limits.rooms {
        let message = "more rooms than limits.rooms allows; raise it";
        document.section(&["room"]).report(&[], message);
    }
    let mut settings = RoomsSettings {
        max_rooms: limits.rooms,
        max_rooms_per_caller: limits.caller_rooms,
        ..RoomsSettings::default()
    };
    for (name, room) in rooms {
        let path = ["room", &name];
        let at = document.section(&path);
        if room.members.iter().flatten().any(String::is_empty) {
            at.report(&["members"], "empty identity name; remove it");
        }
        match RoomName::parse(&name) {
            Ok(name) => drop(settings.rooms.insert(name, room)),
            Err(error) => at.report(&[], error.to_string()),
        }
    }
    settings
}

fn deserialize_origins<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    let origins = Vec::<String>::deserialize(deserializer)?;
    for origin in &origins {
        let url = Url::parse(origin).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(url) = url else {
            return Err(D::Error::custom(
                "invalid origin; use a scheme and a host, such as \"https://app.example\" (wildcards \
                 are not supported)",
            ));
        };
        let written = url.origin().ascii_serialization();
        if written != *origin {
            let message = format!("browsers send this origin as \"{written}\"; use that");
            return Err(D::Error::custom(message));
        }
    }
    Ok(origins)
}
