//! Configured MCP servers and HTTP services, started for a single command.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::join_all;
use toolpost::hub::RESERVED_NAMES;
use toolpost::{Registry, RunningSource};
use toolpost_gateway::approval::{ApprovalSettings, RejectingGate};
use toolpost_gateway::builtin;
use toolpost_gateway::config::{ClientFile, Config, SourceConfig, SourceKind};

use super::mcp_connect::{AuthorizationMode, mcp_env, spinner};
use crate::error::CommandError;
use crate::output;

const CLOSE_TIMEOUT: Duration = Duration::from_secs(15);

/// Time limit for reading the document of an HTTP service.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub(super) enum OperationSelection<'a> {
    All,
    Namespace(&'a str),
    Operation(&'a str),
}

/// Sources started for a command, and the configured sources that only a gateway supports.
#[derive(Default)]
pub(super) struct LocalSources {
    sources: Vec<RunningSource>,
    unsupported: BTreeMap<String, &'static str>,
    approval: ApprovalSettings,
    /// Names of all configured sources, started or not.
    pub(super) names: Vec<String>,
}

impl LocalSources {
    /// Starts the sources that the command needs and waits until they are ready. A source that
    /// fails to start is a warning, or an error if the command targets only that source.
    pub(super) async fn start(
        registry: &Registry,
        file: Option<&Path>,
        scope: OperationSelection<'_>,
    ) -> Result<Self, CommandError> {
        let Some(file) = file.map(PathBuf::from).or_else(Config::discover) else {
            return Ok(Self::default());
        };
        let config = Config::load(&file)?;
        if config.without_demo {
            builtin::set_demo_operations(registry, false);
        }
        let mut started = Self { approval: config.approval, ..Self::default() };
        let name = scope.source();
        if name.is_some_and(|name| RESERVED_NAMES.contains(&name)) {
            return Ok(started);
        }
        if file == Path::new(ClientFile::FILE_NAME) && !config.sources.is_empty() {
            output::notice(
                "Reading .mcp.json, because there is no toolpost.toml in the current folder.",
            );
        }
        let mut requested: Vec<SourceConfig> = Vec::new();
        for source in config.sources {
            started.names.push(source.name.clone());
            let kind = match source.kind {
                SourceKind::Incomplete { .. } => {
                    let message = format!("source `{}` is {}", source.name, source.kind.describe());
                    if name == Some(&*source.name) {
                        return Err(CommandError::Usage(message));
                    }
                    if name.is_none() {
                        output::warning(&message);
                    }
                    continue;
                }
                SourceKind::Mcp(_) | SourceKind::OpenApi(_) => {
                    if name.is_none_or(|name| name == source.name) {
                        requested.push(source);
                    }
                    continue;
                }
                SourceKind::Spoke { .. } => "spoke",
                _ => "hub",
            };
            started.unsupported.insert(source.name, kind);
        }
        if name.is_none() && !started.unsupported.is_empty() {
            let names: Vec<&str> = started.unsupported.keys().map(String::as_str).collect();
            let names = names.join(", ");
            output::notice(&format!("Skipped {names}: start `toolpost serve` to call them."));
        }
        let failed = started.start_sources(registry, requested).await;
        for (failed, reason) in failed {
            let message = format!("source `{failed}` is not available: {reason}");
            if name.is_some() {
                started.close().await;
                return Err(CommandError::Unreachable(message));
            }
            output::warning(&message);
        }
        Ok(started)
    }

    /// Returns a gate that rejects calls requiring approval, because a local command has no
    /// approver.
    pub(super) fn approval_gate(&self) -> RejectingGate {
        RejectingGate::new(self.approval.clone())
    }

    /// Starts the sources concurrently and returns the names and errors of those that failed.
    async fn start_sources(
        &mut self,
        registry: &Registry,
        sources: Vec<SourceConfig>,
    ) -> Vec<(String, String)> {
        if sources.is_empty() {
            return Vec::new();
        }
        let env = mcp_env(match std::io::stderr().is_terminal() {
            true => AuthorizationMode::Interactive,
            false => AuthorizationMode::NonInteractive,
        })
        .await;
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        let waiting = spinner(format!("waiting for {}", names.join(", ")));
        let (mut starting, mut failed) = (Vec::new(), Vec::new());
        for mut source in sources {
            // A user who can read the file and start its servers may call them.
            source.adjustments.open_access();
            let timeout = match &source.kind {
                SourceKind::Mcp(settings) => settings.start_timeout,
                _ => DOCUMENT_TIMEOUT,
            };
            match env.start(registry, &source) {
                Ok(Some(running)) => starting.push(async move {
                    let reason = running.ready(timeout).await.err();
                    (running, reason)
                }),
                Ok(None) => {}
                Err(error) => failed.push((source.name, error.to_string())),
            }
        }
        let started = join_all(starting).await;
        drop(waiting);
        for (running, error) in started {
            failed
                .extend(error.map(|error| (running.name().to_owned(), error.message().to_owned())));
            self.sources.push(running);
        }
        failed
    }

    /// Returns a hint if the operation belongs to a source that only a gateway can run.
    pub(super) fn missing_source_hint(&self, operation: &str) -> Option<String> {
        let (name, _) = operation.split_once('.')?;
        let kind = self.unsupported.get(name)?;
        Some(format!("`{name}` is a {kind}; start `toolpost serve` to call it"))
    }

    pub(super) async fn close(self) {
        let closing = join_all(self.sources.into_iter().map(RunningSource::close));
        if tokio::time::timeout(CLOSE_TIMEOUT, closing).await.is_err() {
            output::warning("a server did not stop in time; its watcher process terminates it");
        }
    }
}

impl<'a> OperationSelection<'a> {
    /// Returns the single source that is needed, or `None` for all sources. The hub's built-in
    /// operations need all of them.
    fn source(self) -> Option<&'a str> {
        match self {
            Self::All => None,
            Self::Namespace(name) => Some(name),
            Self::Operation(id) => {
                let name = id.split_once('.').map_or(id, |(name, _)| name);
                (name != "hub").then_some(name)
            }
        }
    }
}
