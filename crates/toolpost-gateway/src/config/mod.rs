//! `toolpost.toml`: parsed, validated, and edited by `toolpost token new`, `add` and `remove`.
//!
//! All problems are reported at once, each with its position, its key and a remedy. Values are
//! never reported, since any value may be a secret.

mod client_file;
mod document;
mod edit;
mod expand;
mod file;
mod fingerprint;
mod limits;
mod lint;
mod mcp_entry;
mod node;
mod openapi;
mod problem;
mod schema;
mod source;
mod source_entry;
mod tls;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::json;
use toolpost::openapi::DocumentLocation;
use toolpost::{Identity, IdentityKind};
use url::Url;

use crate::approval::ApprovalSettings;
use crate::auth::{Authenticator, CertificateName, JwtSettings, LOCAL, TokenHash};
use crate::durable::IdempotencySettings;
use crate::journal;
use crate::mcp_service::McpEndpointSettings;
use crate::room::RoomsSettings;
use crate::server::ServerTls;
use crate::telemetry::TelemetrySettings;
use document::{DocumentReport, Environment, TomlDocument, dotted_path, parent_folder};
use file::ConfigFile;

pub use crate::glob::Glob;
pub use crate::units::parse_duration;
pub use client_file::{ClientFile, ClientServer};
pub use edit::{
    ConfigOverview, EditError, IfExists, OpenApiEntry, SourceEntry, check_source,
    create_with_mcp_servers, mcp_settings, overview, preserve_mcp_entry, preserve_openapi_entry,
    relative_path, remove_identity, remove_source, write_identity, write_source, write_template,
};
pub use fingerprint::FileFingerprint;
pub(crate) use fingerprint::read_regular_file;
pub use limits::LimitsConfig;
pub use mcp_entry::{McpEntry, OAuthEntry};
pub use problem::{ConfigError, ConfigProblem};
pub use source::{
    Access, Adjustments, ApprovalRule, OperationAdjustments, SourceChange, SourceConfig, SourceKind,
};

/// Identities whose access ends when another configuration is applied.
#[derive(Debug)]
pub(crate) struct RevokedIdentities<'a> {
    /// Names of configured identities that were removed or changed, and `local`.
    pub(crate) ids: BTreeSet<&'a str>,
    /// Names of added identities, which JWTs and guests cannot have.
    added: BTreeSet<&'a str>,
    /// Whether the JWT settings changed, which revokes every JWT.
    pub(crate) includes_jwt: bool,
}

impl RevokedIdentities<'_> {
    pub(crate) fn contains(&self, identity: &Identity) -> bool {
        let id = identity.id.as_str();
        match identity.kind {
            IdentityKind::Token | IdentityKind::Local => self.ids.contains(id),
            IdentityKind::Jwt { .. } => self.includes_jwt || self.added.contains(id),
            IdentityKind::Guest { .. } => self.added.contains(id),
            _ => false,
        }
    }
}

/// A valid configuration. The default is the embedded one: no authentication and no sources.
///
/// ```
/// use toolpost_gateway::config::Config;
///
/// let text = r#"
/// [source.office]
/// hub = { url = "wss://hub.example/hub", token = "${OFFICE_TOKEN}" }
/// timout = "30s"
/// "#;
/// let environment = |name: &str| (name == "OFFICE_TOKEN").then(|| "secret".to_owned());
/// let error = Config::parse("toolpost.toml".as_ref(), text, &environment).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "toolpost.toml:4:1: source.office.timout: unknown key; did you mean `timeout`?"
/// );
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// Which calls need approval.
    pub approval: ApprovalSettings,
    /// Which JWTs are accepted; none if absent.
    pub auth: Option<JwtSettings>,
    /// How long the outcomes of calls with an idempotency key are kept.
    pub idempotency: IdempotencySettings,
    /// The identities, by name.
    pub identities: Vec<IdentityConfig>,
    /// The sources, by name.
    pub sources: Vec<SourceConfig>,
    /// Whether the demo operations are disabled.
    pub without_demo: bool,
    /// Settings of the MCP endpoint.
    pub mcp: McpEndpointSettings,
    /// Origins that may call from a browser.
    pub cors: Vec<String>,
    /// Limits of calls, connections and endpoints.
    pub limits: LimitsConfig,
    /// Metrics and traces.
    pub telemetry: TelemetrySettings,
    /// The certificate of the gateway; plain HTTP if absent.
    pub(crate) tls: Option<ServerTls>,
    /// The audit log of calls.
    pub journal: journal::JournalSettings,
    /// Settings of the rooms.
    pub rooms: RoomsSettings,
    /// Messages about settings that were skipped or changed while reading.
    pub notes: Vec<String>,
    /// The files of the configuration and of its sources. A change to one of them requires a
    /// reload.
    pub files: Vec<PathBuf>,
}

/// An identity with a token or a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentityConfig {
    /// The id and its grants.
    pub identity: Identity,
    /// The hash of its token, if it has one.
    pub token_hash: Option<TokenHash>,
    /// Its client certificate, in place of a token.
    pub certificate: Option<CertificateName>,
}

impl Config {
    /// Default name of the configuration file.
    pub const FILE_NAME: &str = "toolpost.toml";

    /// Returns the default configuration file: `toolpost.toml` in the current folder, else
    /// `.mcp.json`.
    pub fn discover() -> Option<PathBuf> {
        let names = [Self::FILE_NAME, ClientFile::FILE_NAME];
        names.into_iter().map(PathBuf::from).find(|file| file.exists())
    }

    /// Returns the absolute path of a configuration file without symbolic links, as a URL. Commands
    /// compare it to find out whether the running gateway uses the same file.
    pub fn file_url(file: &Path) -> Option<String> {
        let path = file.canonicalize().or_else(|_| std::path::absolute(file)).ok()?;
        Some(Url::from_file_path(path).ok()?.into())
    }

    /// Returns the settings of the MCP endpoint. With a source, its tools are offered instead of the
    /// demo operations.
    pub(crate) fn mcp_settings(&self) -> McpEndpointSettings {
        McpEndpointSettings { offers_demo: self.sources.is_empty(), ..self.mcp.clone() }
    }

    /// Reads and validates a file. `${VAR}` is expanded from the process environment. A file with
    /// the extension `.json` contains the MCP servers of another client.
    ///
    /// # Errors
    ///
    /// All problems of the file.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let environment = |name: &str| std::env::var(name).ok();
        if file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            let mut config = Self::default();
            let problems = config.add_client_file(file, &environment);
            return config.finish(problems);
        }
        let text = read_regular_file(file, MAX_FILE_BYTES)
            .map_err(|error| ConfigError::new(vec![ConfigProblem::unreadable(file, &error)]))?;
        Self::parse(file, &text, &environment)
    }

    /// Parses and validates a configuration text. `file` names it in errors, and relative paths are resolved
    /// against its folder; `environment` provides `${VAR}`. The files of `mcp_servers` are read.
    ///
    /// # Errors
    ///
    /// All problems of the text.
    pub fn parse(
        file: &Path,
        text: &str,
        environment: &Environment<'_>,
    ) -> Result<Self, ConfigError> {
        let (config, problems) = Self::read_document(file, text, environment)?;
        config.finish(problems)
    }

    /// Returns the configuration and all problems of a configuration text except missing references.
    fn read_document(
        file: &Path,
        text: &str,
        environment: &Environment<'_>,
    ) -> Result<(Self, Vec<ConfigProblem>), ConfigError> {
        let document = TomlDocument::parse(file, text, environment)?;
        let mut read = ConfigFile::read(&document);
        let others = std::mem::take(&mut read.mcp_servers);
        let mut config = read.into_config(&document);
        let DocumentReport { mut problems, missing_references, files, notes } = document.finish();
        (config.files, config.notes) = (files, notes);
        for (name, missing) in missing_references {
            let kinds = source_entry::SOURCE_KINDS;
            let kind = kinds.into_iter().find(|kind| document.contains(&["source", &name, kind]));
            let kind = SourceKind::Incomplete { kind: kind.unwrap_or_default(), missing };
            config.sources.push(SourceConfig::new(name, kind));
        }
        config.sources.sort_by(|one, other| one.name.cmp(&other.name));
        for other in others {
            problems.extend(config.add_client_file(&parent_folder(file).join(other), environment));
        }
        Ok((config, problems))
    }

    /// Adds the servers of another client's file and returns their problems.
    fn add_client_file(
        &mut self,
        file: &Path,
        environment: &Environment<'_>,
    ) -> Vec<ConfigProblem> {
        self.files.push(file.to_owned());
        let read = match ClientFile::load(file) {
            Ok(read) => read,
            Err(error) => return error.into_problems(),
        };
        self.notes.extend(read.notes);
        let mut problems = Vec::new();
        for server in read.servers {
            if !server.problems.is_empty() {
                problems.extend(server.problems);
                continue;
            }
            // Problems are reported at the server's key in its own file.
            let own = dotted_path("", &["source", &server.name, "mcp"]);
            let place = |problem: &mut ConfigProblem| {
                let key = problem.key.strip_prefix(&own).unwrap_or_default();
                problem.key = format!("{}{key}", server.key);
            };
            let (source, found) =
                edit::read_entry(file, &server.name, &server.entry, environment, place);
            problems.extend(found);
            if self.sources.iter().any(|source| source.name == server.name) {
                let message = format!("duplicate source `{}`; rename one", server.name);
                problems.push(ConfigProblem::in_file(file, server.key.clone(), message));
            }
            self.sources.extend(source);
        }
        problems
    }

    /// Fails if there are problems; otherwise sets the default access of each source.
    fn finish(mut self, mut problems: Vec<ConfigProblem>) -> Result<Self, ConfigError> {
        if !problems.is_empty() {
            // The error lists the missing references too, so that it is complete.
            let missing = self.check_missing().err().map(ConfigError::into_problems);
            problems.extend(missing.unwrap_or_default());
            problems.sort_by_key(|problem| (problem.position.is_none(), problem.position));
            return Err(ConfigError::new(problems).with_files(self.files));
        }
        let has_identities = self.requires_auth();
        for source in &mut self.sources {
            if let SourceKind::OpenApi(settings) = &source.kind
                && let DocumentLocation::File(document) = &settings.document
            {
                source.document = FileFingerprint::read(document);
                self.files.push(document.clone());
            }
            if matches!(source.kind, SourceKind::Mcp(_) | SourceKind::OpenApi(_)) {
                source.adjustments.default_access =
                    Some(Access::default_for(&source.name, has_identities));
            }
        }
        Ok(self)
    }

    /// Checks that all references of the sources resolve. A gateway runs without the sources that
    /// have missing references.
    ///
    /// # Errors
    ///
    /// The missing references.
    pub fn check_missing(&self) -> Result<(), ConfigError> {
        let problems = self.sources.iter().filter_map(|source| match &source.kind {
            SourceKind::Incomplete { missing: problems, .. } => Some(problems),
            _ => None,
        });
        let problems: Vec<_> = problems.flatten().cloned().collect();
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::new(problems)) }
    }

    /// Whether callers must authenticate.
    pub fn requires_auth(&self) -> bool {
        !self.identities.is_empty() || self.auth.is_some()
    }

    /// Whether connections over TCP use TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the identities that change or end when `next` is applied.
    pub(crate) fn revoked_identities<'a>(&'a self, next: &'a Self) -> RevokedIdentities<'a> {
        // A certificate counts only with the authorities that it was verified with.
        let client_ca = |config: &Self| config.tls.as_ref().and_then(|tls| tls.client_ca);
        let has_other_ca = client_ca(self) != client_ca(next);
        let names = |of: &'a Self, without: &Self| {
            let differing = of.identities.iter().filter(|known| {
                !without.identities.contains(known) || has_other_ca && known.certificate.is_some()
            });
            differing.map(|known| known.identity.id.as_str()).collect::<BTreeSet<_>>()
        };
        let (mut ids, added) = (names(self, next), names(next, self));
        if !self.requires_auth() && next.requires_auth() {
            ids.insert(LOCAL);
        }
        RevokedIdentities { ids, added, includes_jwt: self.jwt_settings_differ(next) }
    }

    /// Whether the JWT settings of `next` differ, apart from the reserved names.
    fn jwt_settings_differ(&self, next: &Self) -> bool {
        let jwt_settings = |config: &Self| {
            config.auth.clone().map(|auth| JwtSettings { reserved_names: Vec::new(), ..auth })
        };
        jwt_settings(self) != jwt_settings(next)
    }

    /// Whether the identity is valid under this configuration, with the same grants.
    pub(crate) fn has_identity(&self, identity: &Identity) -> bool {
        let configured = self.identities.iter().find(|known| known.identity.id == identity.id);
        match &identity.kind {
            IdentityKind::Token => configured.is_some_and(|known| known.identity == *identity),
            IdentityKind::Jwt { issuer } => {
                let accepted = self.auth.as_ref().map(|auth| auth.issuer.as_str());
                configured.is_none() && accepted == Some(issuer)
            }
            IdentityKind::Guest { .. } => configured.is_none(),
            IdentityKind::Local => !self.requires_auth(),
            _ => true,
        }
    }

    /// Creates an authenticator with the configured tokens and the authorization server. It allows
    /// anonymous callers if there are neither.
    pub fn authenticator(&self) -> Authenticator {
        let mut known = Authenticator::allow_anonymous();
        if self.requires_auth() {
            let tokens = self.identities.iter();
            known = Authenticator::with_tokens(
                tokens.filter_map(|known| Some((known.token_hash?, known.identity.clone()))),
            );
        }
        if let Some(settings) = &self.auth {
            known = known.with_jwt(settings.clone());
        }
        let Some(tls) = &self.tls else { return known };
        let certificates = self.identities.iter();
        let certificates = certificates
            .filter_map(|known| Some((known.certificate.clone()?, known.identity.clone())));
        match tls.client_ca {
            Some(client_ca) => known.with_certificates(client_ca, certificates),
            None => known,
        }
        .with_tls()
    }

    /// Returns the JSON Schema of the configuration file.
    pub fn json_schema() -> serde_json::Value {
        schema::json_schema()
    }

    /// Returns the keys that differ in `next` and take effect after a restart.
    pub(crate) fn restart_needed(&self, next: &Self) -> Vec<String> {
        // The usual case, which needs no JSON Schema.
        if self.cors == next.cors
            && self.journal == next.journal
            && self.limits.table == next.limits.table
            && self.telemetry == next.telemetry
            && self.tls.is_some() == next.tls.is_some()
        {
            return Vec::new();
        }
        let [before, after] = [self, next].map(|config| {
            json!({
                "http": {"cors": config.cors},
                "journal": config.journal,
                "limits": config.limits.table,
                "telemetry": config.telemetry,
            })
        });
        let keys = schema::restart_keys().into_iter();
        let changed = keys.filter(|key| before.pointer(key) != after.pointer(key));
        let mut changed: Vec<String> = changed.map(|key| key[1..].replace('/', ".")).collect();
        if self.tls.is_some() != next.tls.is_some() {
            changed.push("tls".to_owned());
        }
        changed
    }
}

/// Maximum size of a configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Parses an HTTP or HTTPS URL with a host.
fn parse_http_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.filter(|url| url.host_str().is_some_and(|host| !host.is_empty()))
}

#[cfg(test)]
mod tests;
