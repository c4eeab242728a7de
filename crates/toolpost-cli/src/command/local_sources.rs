//! The MCP servers and HTTP services of a configuration, started for one command.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::join_all;
use toolpost::Registry;
use toolpost::hub::RESERVED_NAMES;
use toolpost::mcp::McpSource;
use toolpost::openapi::OpenApiSource;
use toolpost_gateway::approval::{ApprovalSettings, RejectingGate};
use toolpost_gateway::builtin::DemoOperations;
use toolpost_gateway::config::{ClientFile, Config, SourceConfig, SourceKind};
use toolpost_gateway::start_service;

use super::mcp_connect::{AuthorizationMode, Spinner, mcp_env, wait_until_ready};
use crate::error::CommandError;
use crate::output;

/// How long the processes of servers have to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long the document of a service may take to be read.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Which operations a command is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum OperationSelection<'a> {
    All,
    Namespace(&'a str),
    Operation(&'a str),
}

/// Servers at work, and the sources that only a gateway can have.
#[derive(Default)]
pub(super) struct LocalSources {
    servers: Vec<McpSource>,
    services: Vec<OpenApiSource>,
    unsupported: BTreeMap<String, &'static str>,
    /// Which calls would wait for somebody's word in a gateway.
    approval: ApprovalSettings,
    /// Every source of the configuration, started or not.
    names: Vec<String>,
}

impl LocalSources {
    /// Starts what the command needs and waits until it is there. A server that is not there is a
    /// warning, unless the command is about it alone.
    pub(super) async fn start(
        registry: &Registry,
        file: Option<&Path>,
        scope: OperationSelection<'_>,
    ) -> Result<Self, CommandError> {
        let name = scope.source();
        if name.is_some_and(|name| RESERVED_NAMES.contains(&name)) {
            return Self::built_in_only(registry, file);
        }
        let Some(config) = load_config(file)? else { return Ok(Self::default()) };
        remove_demo(registry, &config);
        let mut started = Self { approval: config.approval, ..Self::default() };
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
            output::notice(&format!(
                "Skipped: {names}. Use --url to call them through a running gateway."
            ));
        }
        let failed = started.start_sources(registry, requested).await;
        let messages = failed
            .into_iter()
            .map(|(failed, reason)| format!("source `{failed}` is not available: {reason}"));
        for message in messages {
            if name.is_some() {
                started.close().await;
                return Err(CommandError::Unreachable(message));
            }
            output::warning(&message);
        }
        Ok(started)
    }

    /// Nothing is started for what is built in, but what must not be called alone must not be here
    /// either.
    fn built_in_only(registry: &Registry, file: Option<&Path>) -> Result<Self, CommandError> {
        let config =
            config_path(file).map(|file| Config::load(&file)).transpose()?.unwrap_or_default();
        remove_demo(registry, &config);
        Ok(Self { approval: config.approval, ..Self::default() })
    }

    /// Refuses what would wait: nobody can be asked in this process.
    pub(super) fn approval_gate(&self) -> RejectingGate {
        RejectingGate::new(self.approval.clone())
    }

    /// Starts the servers beside one another, and says which failed and why.
    async fn start_sources(
        &mut self,
        registry: &Registry,
        sources: Vec<SourceConfig>,
    ) -> Vec<(String, String)> {
        if sources.is_empty() {
            return Vec::new();
        }
        let is_interactive = std::io::stderr().is_terminal();
        let env = mcp_env(if is_interactive {
            AuthorizationMode::Interactive
        } else {
            AuthorizationMode::NonInteractive
        })
        .await;
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        let spinner = Spinner::new(format!("waiting for {}", names.join(", ")));
        let (mut servers, mut services, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for mut source in sources {
            // Whoever can read the file and start its servers may call them.
            source.adjustments.open_access();
            match &source.kind {
                SourceKind::Mcp(settings) => {
                    let timeout = settings.start_timeout;
                    let Some(server) = env.start(registry, &source) else { continue };
                    servers.push(async move {
                        let found = wait_until_ready(&server, timeout).await;
                        (source.name, server, found.err())
                    });
                }
                SourceKind::OpenApi(settings) => match start_service(registry, &source, settings) {
                    Ok(service) => services.push(async move {
                        let found = service.ready(DOCUMENT_TIMEOUT).await;
                        let reason = found.err().map(|error| error.message().to_owned());
                        (source.name, service, reason)
                    }),
                    Err(error) => failed.push((source.name, error.to_string())),
                },
                _ => {}
            }
        }
        let (servers, services) = tokio::join!(join_all(servers), join_all(services));
        drop(spinner);
        for (name, server, reason) in servers {
            self.servers.push(server);
            failed.extend(reason.map(|reason| (name, reason)));
        }
        for (name, service, reason) in services {
            self.services.push(service);
            failed.extend(reason.map(|reason| (name, reason)));
        }
        failed
    }

    /// What to say about an operation that is not there, if its source is one that is not here.
    pub(super) fn missing_source_hint(&self, operation: &str) -> Option<String> {
        let (name, _) = operation.split_once('.')?;
        let kind = self.unsupported.get(name)?;
        Some(format!("`{name}` is a {kind}; call it through a running gateway with --url"))
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Ends the servers, and waits for it.
    pub(super) async fn close(self) {
        let servers = join_all(self.servers.into_iter().map(McpSource::close));
        let services = join_all(self.services.into_iter().map(OpenApiSource::close));
        let closing = async { tokio::join!(servers, services) };
        if tokio::time::timeout(CLOSE_TIMEOUT, closing).await.is_err() {
            output::warning("a server did not stop in time; its watcher will end it");
        }
    }
}

impl<'a> OperationSelection<'a> {
    /// The one source that it is about; calling the hub's own operations is about all of them.
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

/// Takes out what is built in and the configuration does not want.
fn remove_demo(registry: &Registry, config: &Config) {
    if config.without_demo {
        DemoOperations::new(registry.clone()).remove();
    }
}

/// The file that was named, or the one that is here.
fn config_path(file: Option<&Path>) -> Option<PathBuf> {
    file.map(PathBuf::from).or_else(Config::discover)
}

/// The configuration that was named, or the one that is here.
fn load_config(file: Option<&Path>) -> Result<Option<Config>, CommandError> {
    let Some(file) = config_path(file) else { return Ok(None) };
    let config = Config::load(&file)?;
    if file == Path::new(ClientFile::FILE_NAME) && !config.sources.is_empty() {
        output::notice("Reading .mcp.json, since there is no toolpost.toml here.");
    }
    Ok(Some(config))
}
