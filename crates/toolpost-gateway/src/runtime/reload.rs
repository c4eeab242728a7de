//! Another configuration in the place of the one that holds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{Mutex, watch};

use super::ConfigSource;
use super::builder::authenticator;
use crate::app::Gateway;
use crate::auth::TokenHash;
use crate::config::{Config, ConfigError, IdentityConfig};
use crate::source::{SourceDiff, SourceState, SourceStatus, Sources};

/// How long calls in flight may go on at a source that is taken out or reached otherwise.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Something that takes part in changes of the configuration, beside sources and identities.
pub trait Reloadable: Send + Sync + std::fmt::Debug + 'static {
    /// Takes over what is different, and says in `report` what people should know. It cannot refuse:
    /// whatever can be wrong with a configuration is found when it is read.
    fn apply_config(&self, before: &Config, now: &Config, report: &mut ReloadReport);

    /// What is different from the configuration of the start and holds only after the next one.
    fn restart_needed(&self, initial: &Config, now: &Config) -> Vec<String> {
        let _ = (initial, now);
        Vec::new()
    }
}

/// What became of a configuration that was read again: names of sources, and words for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReloadReport {
    /// Sources that were not there before.
    pub added: Vec<String>,
    /// Sources that are not there any more.
    pub removed: Vec<String>,
    /// Sources that are reached otherwise, and were started anew.
    pub changed: Vec<String>,
    /// Sources that are reached as before, and whose operations are adjusted otherwise.
    pub adjusted: Vec<String>,
    /// Sources that nobody touched.
    pub unchanged: Vec<String>,
    /// What else is different, for people.
    pub notes: Vec<String>,
    /// What takes effect after a restart.
    pub restart_needed: Vec<String>,
}

impl ReloadReport {
    /// Whether nothing at all was different.
    pub fn is_unchanged(&self) -> bool {
        let sources = [&self.added, &self.removed, &self.changed, &self.adjusted];
        sources.iter().all(|names| names.is_empty())
            && self.notes.is_empty()
            && self.restart_needed.is_empty()
    }
}

/// Why a configuration cannot hold. The one of before does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// It is wrong.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The file that it comes from is not there any more, which may be a moment of whoever writes it.
    #[error(
        "{} was removed; restore it, or restart the gateway to run without it",
        .0.display()
    )]
    FileMissing(PathBuf),
    /// It knows nobody, and the one that holds asks callers who they are.
    #[error(
        "there would be no authentication any more: the last identity, or [auth], is gone; keep \
         one, or start the gateway again to open it to every program on this machine"
    )]
    AuthRemoved,
    /// It was being read when the gateway stopped.
    #[error("the gateway is stopping")]
    Stopping,
}

impl ReloadError {
    /// Everything that is wrong, each on its own.
    pub fn problems(&self) -> Vec<String> {
        match self {
            Self::Config(error) => error.problems().iter().map(ToString::to_string).collect(),
            other => vec![other.to_string()],
        }
    }
}

/// Who wants the configuration to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReloadTrigger {
    /// Somebody, who wants to hear what came of it in any case.
    Request,
    /// One of its files has changed, or may have.
    FileChange,
}

/// The one who changes what holds, one change after another.
#[derive(Debug)]
pub(super) struct Reloader {
    gateway: Gateway,
    config_source: ConfigSource,
    operator: Option<TokenHash>,
    reloadables: Vec<Arc<dyn Reloadable>>,
    /// What held at the start; a part of it may still do.
    initial: Config,
    active: Mutex<ActiveConfig>,
    /// How often another configuration has begun to hold.
    generation: watch::Sender<u64>,
}

#[derive(Debug)]
struct ActiveConfig {
    config: Config,
    /// The file that it was read from, where there is one.
    file: Option<PathBuf>,
    /// The files of one that was refused since; it may hold when one of them has changed.
    rejected_files: Vec<PathBuf>,
    /// Gone when the gateway has stopped.
    sources: Option<Sources>,
}

impl Reloader {
    pub(super) fn new(
        gateway: Gateway,
        config_source: ConfigSource,
        operator: Option<TokenHash>,
        reloadables: Vec<Arc<dyn Reloadable>>,
        config: Config,
        sources: Sources,
    ) -> Self {
        let file = config_source.file();
        let initial = config.clone();
        let active = Mutex::new(ActiveConfig {
            config,
            file,
            rejected_files: Vec::new(),
            sources: Some(sources),
        });
        let (generation, _) = watch::channel(0);
        Self { gateway, config_source, operator, reloadables, initial, active, generation }
    }

    pub(super) async fn config(&self) -> Config {
        self.active.lock().await.config.clone()
    }

    pub(super) async fn source_statuses(&self) -> Vec<SourceStatus> {
        self.active.lock().await.sources.as_ref().map(Sources::statuses).unwrap_or_default()
    }

    /// Tells when another configuration holds.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// The patterns of `[approval]` that fit none of the operations that are there. Those that may be
    /// about a source that is not there are not among them.
    pub(super) async fn unmatched_approval_patterns(&self) -> Vec<String> {
        let config = self.config().await;
        let statuses = self.source_statuses().await;
        let unseen = statuses.iter().filter(|source| source.state != SourceState::Ready);
        let unseen: Vec<&str> = unseen.map(|source| source.name.as_str()).collect();
        let catalog = self.gateway.0.pipeline.registry().catalog();
        let ids: Vec<&str> = catalog.list().iter().map(|known| known.id().as_str()).collect();
        config.unmatched_approval_patterns(&ids, &unseen)
    }

    /// The files whose changes matter.
    pub(super) async fn files(&self) -> Vec<PathBuf> {
        let mut files = self.config_source.watched_files();
        if self.config_source != ConfigSource::Static {
            let holds = self.active.lock().await;
            files.extend(holds.config.files.iter().chain(&holds.rejected_files).cloned());
        }
        files
    }

    pub(super) async fn close(&self, timeout: Duration) -> bool {
        let sources = self.active.lock().await.sources.take();
        match sources {
            Some(sources) => sources.close(timeout).await,
            None => true,
        }
    }

    /// Reads the configuration again, makes it hold, and tells the log what came of it.
    pub(super) async fn reload(&self, trigger: ReloadTrigger) -> Result<ReloadReport, ReloadError> {
        if self.config_source == ConfigSource::Static {
            let mut report = ReloadReport::default();
            report.notes.push("there is no configuration file to reload".to_owned());
            return Ok(report);
        }
        let mut reloaded = self.reload_from_source().await;
        self.gateway.0.telemetry.record_reload(reloaded.is_ok());
        self.active.lock().await.rejected_files = match &reloaded {
            Err(ReloadError::Config(error)) => error.files().to_vec(),
            _ => Vec::new(),
        };
        match &reloaded {
            Ok(report) if report.is_unchanged() => match trigger {
                ReloadTrigger::Request => tracing::info!("configuration unchanged"),
                ReloadTrigger::FileChange => tracing::debug!("configuration unchanged"),
            },
            Ok(report) => log_report(report),
            Err(error) => {
                for problem in error.problems() {
                    tracing::error!(problem, "configuration rejected; keeping the previous one");
                }
            }
        }
        if let Ok(report) = &mut reloaded {
            // The log hears of these when the sources have started.
            report.notes.extend(self.unmatched_approval_patterns().await);
        }
        reloaded
    }

    async fn reload_from_source(&self) -> Result<ReloadReport, ReloadError> {
        let (source, before) = (self.config_source.clone(), self.active.lock().await.file.clone());
        let reading = tokio::task::spawn_blocking(move || load_config(&source, before));
        let (file, config) = reading.await.map_err(|_| ReloadError::Stopping)??;
        let reloaded = self.apply_config(config).await?;
        self.active.lock().await.file = file;
        Ok(reloaded)
    }

    pub(super) async fn apply_config(&self, config: Config) -> Result<ReloadReport, ReloadError> {
        let mut holds = self.active.lock().await;
        let ActiveConfig { config: before, sources, .. } = &mut *holds;
        let sources = sources.as_mut().ok_or(ReloadError::Stopping)?;
        // Whoever edits a file by accident must not open the gateway to everybody.
        if before.requires_auth() && !config.requires_auth() {
            return Err(ReloadError::AuthRemoved);
        }
        let mut report = ReloadReport::default();
        // First who may come in and what is asked of him, so that nobody calls what is new by what is over.
        self.apply_identities(before, &config, &mut report);
        for reloadable in &self.reloadables {
            reloadable.apply_config(before, &config, &mut report);
            report.restart_needed.extend(reloadable.restart_needed(&self.initial, &config));
        }
        report.add_source_changes(sources.apply_config(&config, DRAIN_TIMEOUT).await);
        self.apply_endpoints(before, &config, &mut report);
        // Whoever was being let in meanwhile, as who he was before.
        let revoked = before.revoked_identities(&config);
        self.gateway.disconnect_identities(&|id| revoked.contains(id));
        report
            .notes
            .extend(config.notes.iter().filter(|note| !before.notes.contains(note)).cloned());
        *before = config;
        self.generation.send_modify(|count| *count += 1);
        Ok(report)
    }

    /// Replaces whom the endpoints know. Whoever is another one than before, or nobody, loses what was
    /// opened in his name.
    fn apply_identities(&self, before: &Config, now: &Config, report: &mut ReloadReport) {
        if before.identities == now.identities && before.auth == now.auth {
            return;
        }
        self.gateway.authenticator().replace(&authenticator(now, self.operator));
        let revoked = before.revoked_identities(now);
        if revoked.includes_jwt() {
            let ended = self.gateway.disconnect_identities(&|id| revoked.is_jwt_identity(id));
            report.notes.push(format!(
                "[auth] changed; {ended} open connections with signed tokens were closed"
            ));
        }
        for id in &revoked.ids {
            let ended = self.gateway.disconnect_identities(&|caller_id| caller_id == *id);
            let is_there = now.identities.iter().any(|known| known.identity.id == *id);
            let what = if is_there { "has changed" } else { "was removed" };
            report.notes.push(format!("`{id}` {what}; {ended} open connections were closed"));
        }
        let is_new = |known: &&IdentityConfig| {
            !before.identities.iter().any(|old| old.identity.id == known.identity.id)
        };
        for known in now.identities.iter().filter(is_new) {
            report.notes.push(format!("`{}` was added", known.identity.id));
        }
    }

    fn apply_endpoints(&self, before: &Config, now: &Config, report: &mut ReloadReport) {
        if before.mcp != now.mcp {
            self.gateway.0.mcp.update_settings(&now.mcp);
            report.notes.push("[mcp] applies to new requests".to_owned());
        }
    }
}

impl ReloadReport {
    fn add_source_changes(&mut self, changes: SourceDiff) {
        self.added = changes.added;
        self.removed = changes.removed;
        self.changed = changes.changed;
        self.adjusted = changes.adjusted;
        self.unchanged = changes.unchanged;
    }
}

/// What there is to read now, and from where. A file that has gone is no wish for an empty one, nor
/// for another one that lies beside it and counted for nothing as long as it was there.
fn load_config(
    source: &ConfigSource,
    before: Option<PathBuf>,
) -> Result<(Option<PathBuf>, Config), ReloadError> {
    let file = source.file();
    match before {
        Some(before) if file.as_ref() != Some(&before) && !before.exists() => {
            Err(ReloadError::FileMissing(before))
        }
        _ => {
            let config = file.as_deref().map(Config::load).transpose()?.unwrap_or_default();
            Ok((file, config))
        }
    }
}

fn log_report(report: &ReloadReport) {
    let ReloadReport { added, removed, changed, adjusted, unchanged, .. } = report;
    let unchanged = unchanged.len();
    tracing::info!(?added, ?removed, ?changed, ?adjusted, unchanged, "configuration reloaded");
    for note in &report.notes {
        tracing::info!(note, "configuration reloaded");
    }
    for key in &report.restart_needed {
        tracing::warn!(key, "takes effect after a restart");
    }
}
