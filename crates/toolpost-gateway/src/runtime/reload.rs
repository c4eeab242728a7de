//! Replaces the active configuration.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{Mutex, watch};
use toolpost::{Identity, IdentityKind};

use super::builder::authenticator;
use super::{Components, ConfigSource};
use crate::auth::{AccessEnd, TokenHash};
use crate::builtin;
use crate::config::{Config, ConfigError, IdentityConfig};
use crate::source::{SourceDiff, SourceState, SourceStatus, Sources};

/// How long calls in flight can continue at a source that was removed or reconnected.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Result of a reload: the names of sources, and messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReloadReport {
    /// Changes to the sources.
    #[serde(flatten)]
    pub sources: SourceDiff,
    /// Other changes, as messages for people.
    pub notes: Vec<String>,
    /// Changes that take effect after a restart.
    pub restart_needed: Vec<String>,
}

impl ReloadReport {
    /// Whether nothing changed.
    pub fn is_unchanged(&self) -> bool {
        let SourceDiff { added, removed, changed, adjusted, .. } = &self.sources;
        [added, removed, changed, adjusted].iter().all(|names| names.is_empty())
            && self.notes.is_empty()
            && self.restart_needed.is_empty()
    }
}

/// The reason why a configuration was rejected. The previous one stays active.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The configuration is invalid.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The configuration file no longer exists. An editor may be replacing it.
    #[error(
        "{} was removed; restore it, or restart the gateway to run without it",
        .0.display()
    )]
    FileMissing(PathBuf),
    /// The configuration has no authentication, but the active one requires it.
    #[error(
        "the last identity or [auth] was removed, and a reload cannot disable authentication; keep \
         one, or restart the gateway to open it to every program on this machine"
    )]
    AuthRemoved,
    /// The gateway stopped while the configuration was being read.
    #[error("the gateway is stopping")]
    Stopping,
}

impl ReloadError {
    /// Returns all problems, each as a separate message.
    pub fn problems(&self) -> Vec<String> {
        match self {
            Self::Config(error) => error.problems().iter().map(ToString::to_string).collect(),
            other => vec![other.to_string()],
        }
    }
}

/// What triggers a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReloadTrigger {
    /// An explicit request. An unchanged configuration is logged at info level.
    Request,
    /// One of the configuration files has changed, or may have changed.
    FileChange,
}

/// Applies configuration changes, one at a time.
#[derive(Debug)]
pub(super) struct Reloader {
    pub(super) components: Components,
    pub(super) config_source: ConfigSource,
    pub(super) operator: Option<TokenHash>,
    /// Whether the authenticator does not come from the configuration.
    pub(super) has_fixed_authenticator: bool,
    /// Configuration at startup. Settings that need a restart still have these values.
    pub(super) initial: Config,
    pub(super) active: Mutex<ActiveConfig>,
    /// Number of configurations applied since startup.
    pub(super) generation: watch::Sender<u64>,
}

#[derive(Debug)]
pub(super) struct ActiveConfig {
    config: Config,
    /// The file it was read from, if any.
    file: Option<PathBuf>,
    /// The files of the last rejected configuration. It may be valid after one of them changes.
    rejected_files: Vec<PathBuf>,
    /// `None` after the gateway has stopped.
    sources: Option<Sources>,
}

impl ActiveConfig {
    pub(super) fn new(config: Config, file: Option<PathBuf>, sources: Sources) -> Self {
        Self { config, file, rejected_files: Vec::new(), sources: Some(sources) }
    }
}

impl Reloader {
    pub(super) async fn config(&self) -> Config {
        self.active.lock().await.config.clone()
    }

    pub(super) async fn source_statuses(&self) -> Vec<SourceStatus> {
        self.active.lock().await.sources.as_ref().map(Sources::statuses).unwrap_or_default()
    }

    /// Returns a receiver that is notified when another configuration is active.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Returns the patterns of `[approval]` that match no registered operation. Patterns that could
    /// match an operation of a source that is not ready are omitted.
    pub(super) async fn unmatched_approval_patterns(&self) -> Vec<String> {
        let config = self.config().await;
        let statuses = self.source_statuses().await;
        let unseen = statuses.iter().filter(|source| source.state != SourceState::Ready);
        let unseen: Vec<&str> = unseen.map(|source| source.name.as_str()).collect();
        let catalog = self.components.pipeline.registry().catalog();
        let ids: Vec<&str> = catalog.list().iter().map(|known| known.id().as_str()).collect();
        config.unmatched_approval_patterns(&ids, &unseen)
    }

    /// Returns the files to watch.
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

    /// Reloads the configuration, applies it and logs the result.
    pub(super) async fn reload(&self, trigger: ReloadTrigger) -> Result<ReloadReport, ReloadError> {
        if self.config_source == ConfigSource::Static {
            let mut report = ReloadReport::default();
            report.notes.push("there is no configuration file to reload".to_owned());
            return Ok(report);
        }
        let mut reloaded = self.reload_from_source().await;
        self.components.telemetry.record_reload(reloaded.is_ok());
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
            // Added after logging: `supervise` logs these once the sources have started.
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
        // An accidental edit must not disable authentication.
        if before.requires_auth() && !config.requires_auth() {
            return Err(ReloadError::AuthRemoved);
        }
        let mut report = ReloadReport::default();
        // Before the sources, so that new operations are never called under the old rules.
        self.apply_identities(before, &config, &mut report);
        self.apply_rules(before, &config, &mut report);
        report.restart_needed = self.initial.restart_needed(&config);
        report.sources = sources.apply_config(&config, DRAIN_TIMEOUT).await;
        // Disconnects callers that were authenticated during the reload.
        if !self.has_fixed_authenticator {
            let revoked = before.revoked_identities(&config);
            let is_revoked = |identity: &Identity| revoked.contains(identity);
            self.components.disconnect_identities(&is_revoked, AccessEnd::Revoked);
        }
        report
            .notes
            .extend(config.notes.iter().filter(|note| !before.notes.contains(note)).cloned());
        *before = config;
        self.generation.send_modify(|count| *count += 1);
        Ok(report)
    }

    /// Replaces the accepted identities and closes connections of changed ones.
    fn apply_identities(&self, before: &Config, now: &Config, report: &mut ReloadReport) {
        let is_unchanged =
            before.identities == now.identities && before.auth == now.auth && before.tls == now.tls;
        if is_unchanged || self.has_fixed_authenticator {
            return;
        }
        self.components.authenticator.replace(&authenticator(now, self.operator));
        let (revoked, current) = (before.revoked_identities(now), now.clone());
        let is_valid = move |identity: &Identity| current.has_identity(identity);
        let approvals = &self.components.approvals;
        let is_revoked = |identity: &Identity| revoked.contains(identity);
        let canceled = approvals.revoke_identities(is_valid, &is_revoked);
        if canceled > 0 {
            report.notes.push(format!("calls pending approval that were canceled: {canceled}"));
        }
        let disconnect = |is_affected: &dyn Fn(&Identity) -> bool| {
            let is_affected = |identity: &Identity| is_revoked(identity) && is_affected(identity);
            self.components.disconnect_identities(&is_affected, AccessEnd::Revoked)
        };
        let is_jwt = |identity: &Identity| matches!(identity.kind, IdentityKind::Jwt { .. });
        if revoked.includes_jwt {
            let ended = disconnect(&is_jwt);
            report
                .notes
                .push(format!("[auth] changed; closed {ended} connections opened with JWTs"));
        }
        for id in &revoked.ids {
            let ended = disconnect(&|identity| identity.id == *id);
            let is_there = now.identities.iter().any(|known| known.identity.id == *id);
            let what = if is_there { "has changed" } else { "was removed" };
            report.notes.push(format!("`{id}` {what}; closed {ended} connections"));
        }
        let is_new = |known: &&IdentityConfig| {
            !before.identities.iter().any(|old| old.identity.id == known.identity.id)
        };
        for known in now.identities.iter().filter(is_new) {
            report.notes.push(format!("`{}` was added", known.identity.id));
        }
    }

    /// Configures the components whose settings changed.
    fn apply_rules(&self, before: &Config, now: &Config, report: &mut ReloadReport) {
        let Components { pipeline, approvals, durable, limiter, rooms, mcp, server, .. } =
            &self.components;
        if let (Some(cell), Some(tls)) = (&server.tls, &now.tls)
            && before.tls.as_ref() != Some(tls)
        {
            cell.replace(tls.clone());
            report.notes.push("[tls] applies to new connections".to_owned());
        }
        if before.approval != now.approval {
            approvals.configure(now.approval.clone());
            report.notes.push("[approval] applies to new calls".to_owned());
        }
        if before.idempotency != now.idempotency {
            durable.configure(now.idempotency.clone());
            report.notes.push("[idempotency] applies to all keys".to_owned());
        }
        if before.without_demo != now.without_demo {
            builtin::set_demo_operations(pipeline.registry(), !now.without_demo);
            let state = if now.without_demo { "disabled" } else { "enabled" };
            report.notes.push(format!("demo operations {state}"));
        }
        if before.limits.calls != now.limits.calls {
            limiter.configure(now.limits.calls.clone());
        }
        if !before.limits.calls.is_same_for_common_sources(&now.limits.calls) {
            report.notes.push("limits updated".to_owned());
        }
        if before.rooms != now.rooms {
            rooms.configure(now.rooms.clone());
            report.notes.push("[room] applies to new messages".to_owned());
        }
        let mcp_settings = now.mcp_settings();
        if before.mcp_settings() != mcp_settings {
            mcp.update_settings(&mcp_settings);
        }
        if before.mcp != now.mcp {
            report.notes.push("[mcp] applies to new requests".to_owned());
        }
    }
}

/// Loads the configuration and returns it with its file. A removed file is an error; neither the
/// default nor another file in the folder replaces it.
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
    let SourceDiff { added, removed, changed, adjusted, unchanged } = &report.sources;
    let unchanged = unchanged.len();
    tracing::info!(?added, ?removed, ?changed, ?adjusted, unchanged, "configuration reloaded");
    for note in &report.notes {
        tracing::info!(note, "configuration reloaded");
    }
    for key in &report.restart_needed {
        tracing::warn!(key, "setting takes effect after a restart");
    }
}
