//! `toolpost.toml`: read into what was typed, checked into what holds, and written to by `toolpost
//! token new`, `add` and `remove`.
//!
//! Everything that is wrong is reported at once, each with its place, its key and a remedy, and never
//! with a value, since any value may be a secret.

mod clients;
mod document;
mod doubt;
mod duration;
mod edit;
mod entry;
mod expand;
mod file;
mod glob;
mod nearest;
mod node;
mod problem;
mod source;
mod stamp;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toolpost::Identity;
use toolpost::openapi::Location;

use crate::admin::OPERATOR;
use crate::approval::ApprovalSettings;
use crate::auth::{Authenticator, JwtSettings, LOCAL, TokenHash};
use crate::door::McpDoorSettings;
use crate::journal;
use crate::room::WorkspaceSettings;
use crate::telemetry::TelemetrySettings;
use document::{Document, Environment, Finished};
use entry::{Problems, folder_of};
use expand::Values;
use file::ConfigFile;

pub use clients::{ClientFile, ClientServer, RefusedServer};
pub use duration::parse_duration;
pub use edit::{
    EditError, Existing, Overview, Part, SourceEntry, begin_with_clients, kept_entry, kept_service,
    overview, path_from, remove_identity, remove_source, replaced_settings, write_beginning,
    write_identity, write_source,
};
pub use entry::{McpEntry, OpenApiEntry};
pub use file::LimitsConfig;
pub use glob::Glob;
pub use problem::{ConfigError, Problem};
pub use source::{
    Access, Adjustments, Asked, OperationAdjustments, SourceChange, SourceConfig, SourceKind,
};
pub use stamp::FileStamp;

/// Those who are not who they were, once another configuration holds.
#[derive(Debug)]
pub(crate) struct Ended<'a> {
    /// Those who had a name in it, and `local`.
    pub(crate) named: BTreeSet<&'a str>,
    /// Where signed tokens are checked otherwise, everybody who came with one has ended: all but these.
    known: Option<BTreeSet<&'a str>>,
}

impl Ended<'_> {
    /// Whether the one of this id has ended.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.named.contains(id) || self.came_with_signed_token(id)
    }

    /// Whether signed tokens are checked otherwise.
    pub(crate) fn is_about_signed_tokens(&self) -> bool {
        self.known.is_some()
    }

    /// Whether he was known by a token of an authorization server alone.
    pub(crate) fn came_with_signed_token(&self, id: &str) -> bool {
        self.known.as_ref().is_some_and(|known| !known.contains(id))
    }
}

/// A configuration in which everything holds. The default is the embedded one: nobody is asked who
/// they are, and there are no sources.
///
/// ```
/// use toolpost_gateway::config::Config;
///
/// let text = r#"
/// [source.office]
/// hub = { url = "ws://hub.example/hub", token = "${OFFICE_TOKEN}" }
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
    /// Which calls wait until somebody agrees.
    pub approval: ApprovalSettings,
    /// Whose signed tokens are taken.
    pub auth: Option<JwtSettings>,
    /// Who may come in, by name.
    pub identities: Vec<IdentityConfig>,
    /// Where operations come from, by name.
    pub sources: Vec<SourceConfig>,
    /// Whether the operations to try are left out.
    pub without_demo: bool,
    /// What MCP clients see.
    pub mcp: McpDoorSettings,
    /// The origins whose pages may call.
    pub cors: Vec<String>,
    /// How much is too much.
    pub limits: LimitsConfig,
    /// What is seen from outside.
    pub telemetry: TelemetrySettings,
    /// What is written down about calls.
    pub journal: journal::Settings,
    /// What holds for rooms.
    pub workspace: WorkspaceSettings,
    /// What was read otherwise than it is written, for people.
    pub notes: Vec<String>,
    /// The files that it was made of, and those that its sources are made of: when one of them changes,
    /// it should be read again.
    pub files: Vec<PathBuf>,
}

/// Somebody with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentityConfig {
    /// Who it is and what it may do.
    pub identity: Identity,
    /// How its token is known again.
    pub token_hash: TokenHash,
}

impl Config {
    /// The file that is looked for where none is named.
    pub const FILE_NAME: &str = "toolpost.toml";

    /// The file that holds where none is named: `toolpost.toml` in this folder, else `.mcp.json`.
    pub fn here() -> Option<PathBuf> {
        let names = [Self::FILE_NAME, ClientFile::FILE_NAME];
        names.into_iter().map(PathBuf::from).find(|file| file.exists())
    }

    /// Reads and checks a file; `${VAR}` comes from the environment of the process. A file that ends
    /// in `.json` holds the MCP servers of another client.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let environment = |name: &str| std::env::var(name).ok();
        if file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            let mut config = Self::default();
            let problems = config.add_clients(file, &environment);
            return config.settled(problems);
        }
        let text = std::fs::read_to_string(file)
            .map_err(|error| ConfigError::new(vec![Problem::unreadable(file, &error)]))?;
        Self::parse(file, &text, &environment)
    }

    /// Checks a text; `file` is what errors call it and where relative paths start, `environment`
    /// where `${VAR}` comes from. The files that `mcp_servers` names are read.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn parse(
        file: &Path,
        text: &str,
        environment: &Environment<'_>,
    ) -> Result<Self, ConfigError> {
        let (config, problems) = Self::read(file, text, environment)?;
        config.settled(problems)
    }

    /// What holds of a text, and everything that is wrong with it beside what it refers to and is not
    /// there.
    fn read(
        file: &Path,
        text: &str,
        environment: &Environment<'_>,
    ) -> Result<(Self, Vec<Problem>), ConfigError> {
        let document = Document::parse(file, text, environment)?;
        let mut typed = ConfigFile::read(&document);
        let others = std::mem::take(&mut typed.mcp_servers);
        let mut config = validate::validate(&document, typed);
        let words = kinds(&document);
        let Finished { mut problems, absences, files, notes } = document.finish();
        (config.files, config.notes) = (files, notes);
        for (name, lacks) in absences {
            let word = words.get(&name).copied().unwrap_or_default().to_owned();
            config.sources.push(SourceConfig::incomplete(name, word, lacks));
        }
        config.sources.sort_by(|one, other| one.name.cmp(&other.name));
        for other in others {
            problems.extend(config.add_clients(&folder_of(file).join(other), environment));
        }
        Ok((config, problems))
    }

    /// Adds the servers of another client's file, and says what is wrong with them.
    fn add_clients(&mut self, file: &Path, environment: &Environment<'_>) -> Vec<Problem> {
        self.files.push(file.to_owned());
        let read = match ClientFile::load(file) {
            Ok(read) => read,
            Err(error) => return error.into_problems(),
        };
        self.notes.extend(read.notes);
        let folder = folder_of(file);
        let values = Values::new(environment, folder);
        let mut problems = Vec::new();
        for server in read.servers {
            let mut found = Problems::new(file, server.key);
            if self.sources.iter().any(|source| source.name == server.name) {
                let message = format!("there is a source `{}` already; rename one", server.name);
                found.report(&[], &message);
            }
            let lacks = server.entry.lacks(&values);
            if !lacks.is_empty() && found.is_empty() {
                for (path, said) in &lacks {
                    let path: Vec<&str> = path.iter().map(String::as_str).collect();
                    found.report(&path, said);
                }
                let lacks = found.into_found();
                let source = SourceConfig::incomplete(server.name, "mcp".to_owned(), lacks);
                self.sources.push(source);
                continue;
            }
            let checked = server.entry.check(folder, &values, &mut |path, said| {
                found.report(path, said);
            });
            problems.extend(found.into_found());
            if let Some(settings) = checked {
                let kind = SourceKind::Mcp(Box::new(settings));
                let adjustments = Adjustments::default();
                let source = SourceConfig { name: server.name, kind, adjustments, document: None };
                self.sources.push(source);
            }
        }
        problems
    }

    /// Whether all was well; then who may call what says nothing about that is settled.
    fn settled(mut self, mut problems: Vec<Problem>) -> Result<Self, ConfigError> {
        if !problems.is_empty() {
            // Whoever has to correct the file wants to hear of everything.
            let lacks = self.check_complete().err().map(ConfigError::into_problems);
            problems.extend(lacks.unwrap_or_default());
            problems.sort_by_key(|problem| (problem.place.is_none(), problem.place));
            return Err(ConfigError::new(problems).naming(self.files));
        }
        let has_identities = self.knows_callers();
        for source in &mut self.sources {
            if let SourceKind::OpenApi(settings) = &source.kind
                && let Location::File(document) = &settings.document
            {
                source.document = FileStamp::of(document);
                self.files.push(document.clone());
            }
            if matches!(source.kind, SourceKind::Mcp(_) | SourceKind::OpenApi(_)) {
                source.adjustments.unsaid = Some(Access::unsaid(&source.name, has_identities));
            }
        }
        Ok(self)
    }

    /// Whether every source has what it refers to. A gateway runs without those that have not; whoever
    /// checks a file wants to know.
    ///
    /// # Errors
    ///
    /// What is not there.
    pub fn check_complete(&self) -> Result<(), ConfigError> {
        let lacks = self.sources.iter().filter_map(|source| match &source.kind {
            SourceKind::Incomplete { lacks, .. } => Some(lacks),
            _ => None,
        });
        let lacks: Vec<_> = lacks.flatten().cloned().collect();
        if lacks.is_empty() { Ok(()) } else { Err(ConfigError::new(lacks)) }
    }

    /// Whether callers are asked who they are.
    pub fn knows_callers(&self) -> bool {
        !self.identities.is_empty() || self.auth.is_some()
    }

    /// Who is known here and is another one, or nobody, once `next` holds.
    pub(crate) fn ended_by<'a>(&'a self, next: &'a Self) -> Ended<'a> {
        let named = self.identities.iter().filter(|known| !next.identities.contains(known));
        // Whoever gets a name that somebody came with on a signed token is another one, too.
        let new = next.identities.iter().filter(|known| !self.identities.contains(known));
        let new = new.filter(|_| self.auth.is_some());
        let mut named: BTreeSet<_> =
            named.chain(new).map(|known| known.identity.id.as_str()).collect();
        if !self.knows_callers() && next.knows_callers() {
            named.insert(LOCAL);
        }
        let known = self.identities.iter().chain(&next.identities);
        let known = known.map(|known| known.identity.id.as_str()).chain([LOCAL, OPERATOR]);
        let known = self.checks_otherwise(next).then(|| known.collect());
        Ended { named, known }
    }

    /// Whether signed tokens are checked otherwise in `next`, beyond the names that are taken.
    fn checks_otherwise(&self, next: &Self) -> bool {
        let said = |config: &Self| {
            config.auth.clone().map(|auth| JwtSettings { taken_names: Vec::new(), ..auth })
        };
        said(self) != said(next)
    }

    /// Whether this is somebody whom the configuration knows, as it knows him.
    pub(crate) fn knows(&self, identity: &Identity) -> bool {
        let named = self.identities.iter().find(|known| known.identity.id == identity.id);
        match (named, identity.id.as_str()) {
            (Some(known), _) => known.identity == *identity,
            (None, LOCAL) => !self.knows_callers(),
            (None, OPERATOR) => true,
            (None, _) => self.auth.is_some(),
        }
    }

    /// Knows the identities by their tokens, and those for whom the authorization server vouches; open
    /// if there are neither.
    pub fn authenticator(&self) -> Authenticator {
        if !self.knows_callers() {
            return Authenticator::open();
        }
        let known = self.identities.iter().map(|known| (known.token_hash, known.identity.clone()));
        let known = Authenticator::with(known);
        match &self.auth {
            Some(settings) => known.trusting(settings.clone()),
            None => known,
        }
    }

    /// The JSON Schema of the file.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(ConfigFile).to_value()
    }
}

/// What each source of a document would be, in one word.
fn kinds(document: &Document<'_>) -> BTreeMap<String, &'static str> {
    let names = document.names("source").into_iter();
    let kinds = names.filter_map(|name| {
        let word = validate::KINDS.into_iter().find(|word| document.has(&["source", &name, word]));
        word.map(|word| (name, word))
    });
    kinds.collect()
}

#[cfg(test)]
mod tests;
