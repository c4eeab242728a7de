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
use toolpost_gateway::approval::{ApprovalSettings, Unattended};
use toolpost_gateway::builtin::BuiltIn;
use toolpost_gateway::config::{ClientFile, Config, SourceConfig, SourceKind};
use toolpost_gateway::start_service;

use super::connect::{Asking, Spinner, found, parts};
use crate::failure::Failure;
use crate::output;

/// How long the processes of servers have to end.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long the document of a service may take to be read.
const READING: Duration = Duration::from_secs(60);

/// Which operations a command is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted<'a> {
    All,
    Namespace(&'a str),
    Operation(&'a str),
}

/// Servers at work, and the sources that only a gateway can have.
#[derive(Default)]
pub(super) struct Started {
    servers: Vec<McpSource>,
    services: Vec<OpenApiSource>,
    left_out: BTreeMap<String, &'static str>,
    /// Which calls would wait for somebody's word in a gateway.
    approval: ApprovalSettings,
    /// Every source of the configuration, started or not.
    names: Vec<String>,
}

impl Started {
    /// Starts what the command needs and waits until it is there. A server that is not there is a
    /// warning, unless the command is about it alone.
    pub(super) async fn start(
        registry: &Registry,
        file: Option<&Path>,
        wanted: Wanted<'_>,
    ) -> Result<Self, Failure> {
        let name = wanted.source();
        if name.is_some_and(|name| RESERVED_NAMES.contains(&name)) {
            return Self::of_built_in(registry, file);
        }
        let Some(config) = load(file)? else { return Ok(Self::default()) };
        leave_out(registry, &config);
        let mut started = Self { approval: config.approval, ..Self::default() };
        let mut asked: Vec<SourceConfig> = Vec::new();
        for source in config.sources {
            started.names.push(source.name.clone());
            let kind = match source.kind {
                SourceKind::Incomplete { .. } => {
                    let message = format!("source `{}` is {}", source.name, source.kind.describe());
                    if name == Some(&*source.name) {
                        return Err(Failure::Usage(message));
                    }
                    if name.is_none() {
                        output::warning(&message);
                    }
                    continue;
                }
                SourceKind::Mcp(_) | SourceKind::OpenApi(_) => {
                    if name.is_none_or(|name| name == source.name) {
                        asked.push(source);
                    }
                    continue;
                }
                SourceKind::Spoke { .. } => "spoke",
                _ => "hub",
            };
            started.left_out.insert(source.name, kind);
        }
        if name.is_none() && !started.left_out.is_empty() {
            let names: Vec<&str> = started.left_out.keys().map(String::as_str).collect();
            let names = names.join(", ");
            output::remark(&format!(
                "Left out: {names}. Ask a running gateway for them with --url."
            ));
        }
        let failed = started.wait_for(registry, asked).await;
        let messages = failed
            .into_iter()
            .map(|(failed, reason)| format!("source `{failed}` is not there: {reason}"));
        for message in messages {
            if name.is_some() {
                started.close().await;
                return Err(Failure::Unreachable(message));
            }
            output::warning(&message);
        }
        Ok(started)
    }

    /// Nothing is started for what is built in, but what must not be called alone must not be here
    /// either.
    fn of_built_in(registry: &Registry, file: Option<&Path>) -> Result<Self, Failure> {
        let config = present(file).map(|file| Config::load(&file)).transpose()?.unwrap_or_default();
        leave_out(registry, &config);
        Ok(Self { approval: config.approval, ..Self::default() })
    }

    /// Refuses what would wait: nobody can be asked in this process.
    pub(super) fn gate(&self) -> Unattended {
        Unattended::new(self.approval.clone())
    }

    /// Starts the servers beside one another, and says which failed and why.
    async fn wait_for(
        &mut self,
        registry: &Registry,
        sources: Vec<SourceConfig>,
    ) -> Vec<(String, String)> {
        if sources.is_empty() {
            return Vec::new();
        }
        let is_seen = std::io::stderr().is_terminal();
        let parts = parts(if is_seen { Asking::Person } else { Asking::Nobody }).await;
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        let spinner = Spinner::new(format!("waiting for {}", names.join(", ")));
        let (mut servers, mut services, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for mut source in sources {
            // Whoever can read the file and start its servers may call them.
            source.adjustments.open();
            match &source.kind {
                SourceKind::Mcp(settings) => {
                    let patience = settings.start_timeout;
                    let Some(server) = parts.start(registry, &source) else { continue };
                    servers.push(async move {
                        let found = found(&server, patience).await;
                        (source.name, server, found.err())
                    });
                }
                SourceKind::OpenApi(settings) => match start_service(registry, &source, settings) {
                    Ok(service) => services.push(async move {
                        let found = service.ready(READING).await;
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
    pub(super) fn hint(&self, operation: &str) -> Option<String> {
        let (name, _) = operation.split_once('.')?;
        let kind = self.left_out.get(name)?;
        Some(format!("`{name}` is a {kind}; ask a running gateway with --url"))
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Ends the servers, and waits for it.
    pub(super) async fn close(self) {
        let servers = join_all(self.servers.into_iter().map(McpSource::close));
        let services = join_all(self.services.into_iter().map(OpenApiSource::close));
        let closing = async { tokio::join!(servers, services) };
        if tokio::time::timeout(PATIENCE, closing).await.is_err() {
            output::warning("a server did not end in time and is left to its watcher");
        }
    }
}

impl<'a> Wanted<'a> {
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
fn leave_out(registry: &Registry, config: &Config) {
    if config.without_demo {
        BuiltIn::new(registry.clone()).remove();
    }
}

/// The file that was named, or the one that is here.
fn present(file: Option<&Path>) -> Option<PathBuf> {
    file.map(PathBuf::from).or_else(Config::here)
}

/// The configuration that was named, or the one that is here.
fn load(file: Option<&Path>) -> Result<Option<Config>, Failure> {
    let Some(file) = present(file) else { return Ok(None) };
    let config = Config::load(&file)?;
    if file == Path::new(ClientFile::FILE_NAME) && !config.sources.is_empty() {
        output::remark("Reading .mcp.json, since there is no toolpost.toml here.");
    }
    Ok(Some(config))
}
