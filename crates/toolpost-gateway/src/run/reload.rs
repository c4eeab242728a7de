//! Another configuration in the place of the one that holds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{Mutex, watch};

use super::Origin;
use super::setup::authenticator;
use crate::app::Gateway;
use crate::auth::TokenHash;
use crate::config::{Config, ConfigError, IdentityConfig};
use crate::source::{SourceChanges, SourceSight, SourceState, Sources};

/// How long calls in flight may go on at a source that is taken out or reached otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// Something that takes part in changes of the configuration, beside sources and identities.
pub trait Part: Send + Sync + std::fmt::Debug + 'static {
    /// Takes over what is different, and says in `report` what people should know. It cannot refuse:
    /// whatever can be wrong with a configuration is found when it is read.
    fn change(&self, before: &Config, now: &Config, report: &mut Reloaded);

    /// What is different from the configuration of the start and holds only after the next one.
    fn restart_needed(&self, began: &Config, now: &Config) -> Vec<String> {
        let _ = (began, now);
        Vec::new()
    }
}

/// What became of a configuration that was read again: names of sources, and words for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Reloaded {
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
    /// What holds only after the next start.
    pub restart_needed: Vec<String>,
}

impl Reloaded {
    /// Whether nothing at all was different.
    pub fn is_nothing(&self) -> bool {
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
        "{} is not there any more; put it back, or start the gateway again to run without it",
        .0.display()
    )]
    Gone(PathBuf),
    /// It knows nobody, and the one that holds asks callers who they are.
    #[error(
        "there would be no authentication any more: the last identity, or [auth], is gone; keep \
         one, or start the gateway again to open it to every program on this machine"
    )]
    Open,
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
pub(super) enum Asker {
    /// Somebody, who wants to hear what came of it in any case.
    Person,
    /// One of its files has changed, or may have.
    Files,
}

/// The one who changes what holds, one change after another.
#[derive(Debug)]
pub(super) struct Reloader {
    gateway: Gateway,
    origin: Origin,
    operator: Option<TokenHash>,
    parts: Vec<Arc<dyn Part>>,
    /// What held at the start; a part of it may still do.
    began: Config,
    holds: Mutex<Holding>,
    /// How often another configuration has begun to hold.
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Holding {
    config: Config,
    /// The file that it was read from, where there is one.
    file: Option<PathBuf>,
    /// The files of one that was refused since; it may hold when one of them has changed.
    refused: Vec<PathBuf>,
    /// Gone when the gateway has stopped.
    sources: Option<Sources>,
}

impl Reloader {
    pub(super) fn new(
        gateway: Gateway,
        origin: Origin,
        operator: Option<TokenHash>,
        parts: Vec<Arc<dyn Part>>,
        config: Config,
        sources: Sources,
    ) -> Self {
        let file = origin.file();
        let began = config.clone();
        let holds =
            Mutex::new(Holding { config, file, refused: Vec::new(), sources: Some(sources) });
        let (changes, _) = watch::channel(0);
        Self { gateway, origin, operator, parts, began, holds, changes }
    }

    pub(super) async fn config(&self) -> Config {
        self.holds.lock().await.config.clone()
    }

    pub(super) async fn sight(&self) -> Vec<SourceSight> {
        self.holds.lock().await.sources.as_ref().map(Sources::sight).unwrap_or_default()
    }

    /// Tells when another configuration holds.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The patterns of `[approval]` that fit none of the operations that are there. Those that may be
    /// about a source that is not there are not among them.
    pub(super) async fn unfit_approvals(&self) -> Vec<String> {
        let config = self.config().await;
        let sight = self.sight().await;
        let unseen = sight.iter().filter(|source| source.state != SourceState::Ready);
        let unseen: Vec<&str> = unseen.map(|source| source.name.as_str()).collect();
        let catalog = self.gateway.0.pipeline.registry().catalog();
        let ids: Vec<&str> = catalog.list().iter().map(|known| known.id().as_str()).collect();
        config.unfit_approvals(&ids, &unseen)
    }

    /// The files whose changes matter.
    pub(super) async fn files(&self) -> Vec<PathBuf> {
        let mut files = self.origin.files();
        if self.origin != Origin::Nowhere {
            let holds = self.holds.lock().await;
            files.extend(holds.config.files.iter().chain(&holds.refused).cloned());
        }
        files
    }

    pub(super) async fn close(&self, patience: Duration) -> bool {
        let sources = self.holds.lock().await.sources.take();
        match sources {
            Some(sources) => sources.close(patience).await,
            None => true,
        }
    }

    /// Reads the configuration again, makes it hold, and tells the log what came of it.
    pub(super) async fn reload(&self, asker: Asker) -> Result<Reloaded, ReloadError> {
        if self.origin == Origin::Nowhere {
            let mut report = Reloaded::default();
            report.notes.push("there is no file that could be read again".to_owned());
            return Ok(report);
        }
        let mut reloaded = self.read_again().await;
        self.gateway.0.sight.note_reload(reloaded.is_ok());
        self.holds.lock().await.refused = match &reloaded {
            Err(ReloadError::Config(error)) => error.files().to_vec(),
            _ => Vec::new(),
        };
        match &reloaded {
            Ok(report) if report.is_nothing() => match asker {
                Asker::Person => tracing::info!("configuration read: the same"),
                Asker::Files => tracing::debug!("configuration read: the same"),
            },
            Ok(report) => tell(report),
            Err(error) => {
                for problem in error.problems() {
                    tracing::error!(problem, "configuration refused; the old one holds");
                }
            }
        }
        if let Ok(report) = &mut reloaded {
            // The log hears of these when the sources have started.
            report.notes.extend(self.unfit_approvals().await);
        }
        reloaded
    }

    async fn read_again(&self) -> Result<Reloaded, ReloadError> {
        let (origin, before) = (self.origin.clone(), self.holds.lock().await.file.clone());
        let reading = tokio::task::spawn_blocking(move || read(&origin, before));
        let (file, config) = reading.await.map_err(|_| ReloadError::Stopping)??;
        let reloaded = self.change(config).await?;
        self.holds.lock().await.file = file;
        Ok(reloaded)
    }

    pub(super) async fn change(&self, config: Config) -> Result<Reloaded, ReloadError> {
        let mut holds = self.holds.lock().await;
        let Holding { config: before, sources, .. } = &mut *holds;
        let sources = sources.as_mut().ok_or(ReloadError::Stopping)?;
        // Whoever edits a file by accident must not open the gateway to everybody.
        if before.knows_callers() && !config.knows_callers() {
            return Err(ReloadError::Open);
        }
        let mut report = Reloaded::default();
        // First who may come in and what is asked of him, so that nobody calls what is new by what is over.
        self.change_identities(before, &config, &mut report);
        for part in &self.parts {
            part.change(before, &config, &mut report);
            report.restart_needed.extend(part.restart_needed(&self.began, &config));
        }
        report.take(sources.change(&config, PATIENCE).await);
        self.change_doors(before, &config, &mut report);
        // Whoever was being let in meanwhile, as who he was before.
        let over = before.ended_by(&config);
        self.gateway.dismiss(&|id| over.has(id));
        report.notes.extend(config.notes.iter().filter(|it| !before.notes.contains(it)).cloned());
        *before = config;
        self.changes.send_modify(|count| *count += 1);
        Ok(report)
    }

    /// Replaces whom the doors know. Whoever is another one than before, or nobody, loses what was
    /// opened in his name.
    fn change_identities(&self, before: &Config, now: &Config, report: &mut Reloaded) {
        if before.identities == now.identities && before.auth == now.auth {
            return;
        }
        self.gateway.authenticator().replace(&authenticator(now, self.operator));
        let over = before.ended_by(now);
        if over.is_about_signed_tokens() {
            let ended = self.gateway.dismiss(&|id| over.came_with_signed_token(id));
            report.notes.push(format!(
                "[auth] holds from now on; {ended} open connections of signed tokens were ended"
            ));
        }
        for id in &over.named {
            let ended = self.gateway.dismiss(&|it| it == *id);
            let is_there = now.identities.iter().any(|known| known.identity.id == *id);
            let what = if is_there { "has changed" } else { "is not known any more" };
            report.notes.push(format!("`{id}` {what}; {ended} open connections were ended"));
        }
        let is_new = |known: &&IdentityConfig| {
            !before.identities.iter().any(|old| old.identity.id == known.identity.id)
        };
        for known in now.identities.iter().filter(is_new) {
            report.notes.push(format!("`{}` is known now", known.identity.id));
        }
    }

    fn change_doors(&self, before: &Config, now: &Config, report: &mut Reloaded) {
        if before.mcp != now.mcp {
            self.gateway.0.mcp.change(&now.mcp);
            report.notes.push("[mcp] holds for requests from now on".to_owned());
        }
    }
}

impl Reloaded {
    fn take(&mut self, changes: SourceChanges) {
        self.added = changes.added;
        self.removed = changes.removed;
        self.changed = changes.changed;
        self.adjusted = changes.adjusted;
        self.unchanged = changes.unchanged;
    }
}

/// What there is to read now, and from where. A file that has gone is no wish for an empty one, nor
/// for another one that lies beside it and counted for nothing as long as it was there.
fn read(
    origin: &Origin,
    before: Option<PathBuf>,
) -> Result<(Option<PathBuf>, Config), ReloadError> {
    let file = origin.file();
    match before {
        Some(before) if file.as_ref() != Some(&before) && !before.exists() => {
            Err(ReloadError::Gone(before))
        }
        _ => {
            let config = file.as_deref().map(Config::load).transpose()?.unwrap_or_default();
            Ok((file, config))
        }
    }
}

fn tell(report: &Reloaded) {
    let Reloaded { added, removed, changed, adjusted, unchanged, .. } = report;
    let unchanged = unchanged.len();
    tracing::info!(?added, ?removed, ?changed, ?adjusted, unchanged, "configuration reloaded");
    for note in &report.notes {
        tracing::info!(note, "configuration reloaded");
    }
    for key in &report.restart_needed {
        tracing::warn!(key, "holds only after the next start");
    }
}
