//! The sources of a configuration, connected to a gateway.

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use manila::Registry;
use manila::connection::SessionSettings;
use manila::hub::{SpokeRules, Upstream};
use manila::link::{ConnectError, WsConnector};
use manila::mcp::{Authorizer, CredentialStore, McpSettings, McpSource, McpTransport, SourceHooks};
use manila::openapi::{OpenApiError, OpenApiSettings, OpenApiSource};
use manila::protocol::Secret;

use crate::app::Gateway;
use crate::config::{Adjustments, Config, SourceConfig, SourceKind};

/// The sources at work. Dropping it ends them; [`Sources::close`] also waits for it.
#[derive(Debug)]
pub struct Sources {
    hubs: Vec<Upstream>,
    servers: Vec<(String, McpSource)>,
    services: Vec<(String, OpenApiSource)>,
}

/// What MCP sources are given by the process that starts them.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct McpParts {
    /// The command line that is put before that of every server, and ends it when this process is
    /// gone.
    pub watcher: Vec<OsString>,
    /// Where what authorization servers gave is kept.
    pub credentials: Option<Arc<dyn CredentialStore>>,
    /// Who can ask a person to agree; without it, a server that wants that is down.
    pub authorizer: Option<Arc<dyn Authorizer>>,
}

/// Why the sources of a configuration cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The address of a hub is none.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A service cannot be called as it is configured.
    #[error("source `{name}`: {error}")]
    #[non_exhaustive]
    Service {
        /// Which.
        name: String,
        /// Why.
        #[source]
        error: Box<OpenApiError>,
    },
}

impl Sources {
    /// Expects the spokes that are named, connects to the hubs and starts the MCP servers. A source
    /// that is not there yet is waited for, and delays nobody.
    ///
    /// # Errors
    ///
    /// An address is not one, or a service cannot be called as it is configured.
    pub fn start(gateway: &Gateway, config: &Config) -> Result<Self, SourceError> {
        Self::start_with(gateway, config, &McpParts::default())
    }

    /// [`Sources::start`] with something for the MCP servers.
    ///
    /// # Errors
    ///
    /// An address is not one, or a service cannot be called as it is configured.
    pub fn start_with(
        gateway: &Gateway,
        config: &Config,
        parts: &McpParts,
    ) -> Result<Self, SourceError> {
        let mut sources = Self { hubs: Vec::new(), servers: Vec::new(), services: Vec::new() };
        for source in &config.sources {
            sources.add(gateway, source, parts)?;
        }
        Ok(sources)
    }

    /// The HTTP services by name.
    pub fn services(&self) -> impl Iterator<Item = (&str, &OpenApiSource)> {
        self.services.iter().map(|(name, service)| (name.as_str(), service))
    }

    /// The MCP servers by name.
    pub fn servers(&self) -> impl Iterator<Item = (&str, &McpSource)> {
        self.servers.iter().map(|(name, server)| (name.as_str(), server))
    }

    /// Ends them, all at once, and says whether that was done in time. Calls that need them come
    /// first: drain the gateway before.
    pub async fn close(self, patience: Duration) -> bool {
        let servers = join_all(self.servers.into_iter().map(|(_, server)| server.close()));
        let services = join_all(self.services.into_iter().map(|(_, service)| service.close()));
        tokio::time::timeout(patience, async { tokio::join!(servers, services) }).await.is_ok()
    }

    fn add(
        &mut self,
        gateway: &Gateway,
        source: &SourceConfig,
        parts: &McpParts,
    ) -> Result<(), SourceError> {
        let mut rules = rules(&source.adjustments);
        // Nobody but the operator connects a name, unless it is that of a spoke; see `Upstream`.
        let owner = match &source.kind {
            SourceKind::Spoke { identity } => identity.clone(),
            _ => String::new(),
        };
        rules.owner = Some(owner);
        gateway.hub().expect(&source.name, rules);
        match &source.kind {
            SourceKind::Mcp(_) => {
                let started = parts.start(gateway.pipeline().registry(), source);
                self.servers.extend(started.map(|server| (source.name.clone(), server)));
            }
            SourceKind::OpenApi(settings) => {
                let service = start_service(gateway.pipeline().registry(), source, settings)?;
                self.services.push((source.name.clone(), service));
            }
            SourceKind::Hub { url, token } => {
                let token = token.as_ref().map(|token| Secret::new(token.reveal()));
                let connector = WsConnector::with(url, token, gateway.0.settings.websocket)?;
                let settings = SessionSettings::default();
                self.hubs.push(Upstream::start(gateway.hub(), &source.name, connector, settings));
            }
            SourceKind::Spoke { .. } => {}
        }
        Ok(())
    }
}

impl McpParts {
    /// Starts a source, if it is an MCP server. Its operations appear in the registry, adjusted, as
    /// soon as it has listed them.
    pub fn start(&self, registry: &Registry, source: &SourceConfig) -> Option<McpSource> {
        let SourceKind::Mcp(settings) = &source.kind else { return None };
        let adjustments = source.adjustments.clone();
        let mut hooks = self.hooks();
        hooks.adjust = Some(Arc::new(move |spec| adjustments.apply(spec)));
        let settings = self.watched(settings.as_ref().clone());
        Some(McpSource::start(registry, &source.name, settings, hooks))
    }

    /// Starts a server that no configuration knows yet.
    pub fn start_server(
        &self,
        registry: &Registry,
        name: &str,
        settings: McpSettings,
    ) -> McpSource {
        McpSource::start(registry, name, self.watched(settings), self.hooks())
    }

    fn hooks(&self) -> SourceHooks {
        let mut hooks = SourceHooks::default();
        hooks.credentials.clone_from(&self.credentials);
        hooks.authorizer.clone_from(&self.authorizer);
        hooks
    }

    fn watched(&self, mut settings: McpSettings) -> McpSettings {
        if let McpTransport::Stdio(stdio) = &mut settings.transport {
            stdio.watcher.clone_from(&self.watcher);
        }
        settings
    }
}

/// Starts an HTTP service. Its operations appear in the registry, adjusted, as soon as its document was
/// read.
///
/// # Errors
///
/// It cannot be called as it is configured.
pub fn start_service(
    registry: &Registry,
    source: &SourceConfig,
    settings: &OpenApiSettings,
) -> Result<OpenApiSource, SourceError> {
    let adjustments = source.adjustments.clone();
    let mut hooks = manila::openapi::SourceHooks::default();
    let reviewed = adjustments.clone();
    hooks.adjust = Some(Arc::new(move |spec| adjustments.apply(spec)));
    hooks.review = Some(Arc::new(move |names| reviewed.strays(names)));
    OpenApiSource::start(registry, &source.name, settings.clone(), hooks)
        .map_err(|error| SourceError::Service { name: source.name.clone(), error: Box::new(error) })
}

impl fmt::Debug for McpParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpParts").field("watcher", &self.watcher).finish_non_exhaustive()
    }
}

fn rules(adjustments: &Adjustments) -> SpokeRules {
    let mut rules = SpokeRules::default();
    rules.timeout = adjustments.timeout;
    let adjustments = adjustments.clone();
    rules.adjust = Some(Arc::new(move |spec| adjustments.apply(spec)));
    rules
}
