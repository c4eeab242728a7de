//! Starts sources from their configuration.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use toolpost::connection::ReconnectSettings;
use toolpost::hub::{SpokeConfig, Upstream};
use toolpost::mcp::{McpSettings, McpSource, McpTransport, OAuthHooks};
use toolpost::openapi::{OpenApiError, OpenApiSource, ServiceHosts};
use toolpost::protocol::Secret;
use toolpost::transport::WsConnector;
use toolpost::{Registry, RunningSource, Source, SourceHooks, SpecTransform};

use super::SourceContext;
use super::status::SourceStatusTracker;
use crate::config::{Adjustments, SourceConfig, SourceKind};

/// Environment of MCP sources, shared by the process.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct McpEnv {
    /// Command line that wraps that of every server and ends the server when this process exits.
    pub watcher: Vec<OsString>,
    /// Stores OAuth credentials and obtains the consent of the user.
    pub oauth: OAuthHooks,
}

impl McpEnv {
    /// Starts the source if it is an MCP server or an HTTP service. Its adjusted operations are
    /// registered once they are listed.
    ///
    /// # Errors
    ///
    /// The configuration of the service is invalid.
    pub fn start(
        &self,
        registry: &Registry,
        source: &SourceConfig,
    ) -> Result<Option<RunningSource>, SourceError> {
        let prepared = self.prepare(source)?;
        Ok(prepared.map(|(prepared, _)| prepared(registry, source_hooks(source), None)))
    }

    /// Prepares an MCP server, or an HTTP service with its hosts; `None` for any other source.
    fn prepare(
        &self,
        source: &SourceConfig,
    ) -> Result<Option<(PreparedSource, Option<ServiceHosts>)>, SourceError> {
        Ok(match &source.kind {
            SourceKind::Mcp(settings) => {
                Some((prepare(self.mcp_source(&source.name, settings)), None))
            }
            SourceKind::OpenApi(settings) => {
                let service = OpenApiSource::new(&source.name, settings.as_ref().clone());
                let service = service.map_err(Box::new)?;
                let hosts = service.hosts();
                Some((prepare(service), Some(hosts)))
            }
            _ => None,
        })
    }

    /// Starts a server that is not in a configuration.
    pub fn start_server(
        &self,
        registry: &Registry,
        name: &str,
        settings: &McpSettings,
    ) -> RunningSource {
        RunningSource::start(registry, self.mcp_source(name, settings), SourceHooks::default())
    }

    fn mcp_source(&self, name: &str, settings: &McpSettings) -> McpSource {
        let mut settings = settings.clone();
        if let McpTransport::Stdio(stdio) = &mut settings.transport {
            stdio.watcher.clone_from(&self.watcher);
        }
        McpSource::new(name, settings).oauth(self.oauth.clone())
    }
}

/// The reason why a source cannot be started with its configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The URL of a hub is invalid.
    #[error(transparent)]
    Connect(#[from] toolpost::transport::ConnectError),
    /// The source refers to a missing variable or file.
    #[error("{0}")]
    Incomplete(String),
    /// The configuration of an HTTP service is invalid.
    #[error(transparent)]
    Service(#[from] Box<OpenApiError>),
}

/// A source and its status.
#[derive(Debug)]
pub(super) struct SourceEntry {
    pub(super) config: SourceConfig,
    /// `None` for a spoke, which connects to this gateway.
    pub(super) source: Option<RunningSource>,
    pub(super) status: Arc<SourceStatusTracker>,
}

/// Starts a source that is ready to be started, or replaces another one by it. The replaced source
/// has the duration to finish its calls in flight.
pub(super) type PreparedSource = Box<
    dyn FnOnce(&Registry, SourceHooks, Option<(RunningSource, Duration)>) -> RunningSource + Send,
>;

fn prepare(source: impl Source) -> PreparedSource {
    Box::new(|registry, hooks, before| match before {
        Some((before, timeout)) => before.replace_with(registry, source, hooks, timeout),
        None => RunningSource::start(registry, source, hooks),
    })
}

impl SourceEntry {
    pub(super) fn start(context: &SourceContext, env: &McpEnv, config: &SourceConfig) -> Self {
        Self::start_prepared(context, config, Self::prepare(context, env, config), None)
    }

    /// Prepares a source; `None` for a spoke.
    pub(super) fn prepare(
        context: &SourceContext,
        env: &McpEnv,
        config: &SourceConfig,
    ) -> Result<Option<(PreparedSource, Option<ServiceHosts>)>, SourceError> {
        Ok(match &config.kind {
            SourceKind::Hub { url, token, tls } => {
                let token = token.as_ref().map(|token| Secret::new(token.reveal()));
                let connector = WsConnector::with_tls(url, token, context.websocket, tls)?;
                let settings = ReconnectSettings::default();
                let upstream = Upstream::new(&context.hub, &config.name, connector, settings);
                Some((prepare(upstream), None))
            }
            SourceKind::Incomplete { .. } => {
                return Err(SourceError::Incomplete(config.kind.describe()));
            }
            _ => env.prepare(config)?,
        })
    }

    /// Starts a prepared source in place of `before`. A source that cannot be started is disabled.
    pub(super) fn start_prepared(
        context: &SourceContext,
        config: &SourceConfig,
        prepared: Result<Option<(PreparedSource, Option<ServiceHosts>)>, SourceError>,
        before: Option<(RunningSource, Duration)>,
    ) -> Self {
        context.hub.configure_spoke(&config.name, spoke_config(config));
        let registry = &context.registry;
        let (source, hosts) = match prepared {
            Ok(None) => (None, None),
            Ok(Some((prepared, hosts))) => {
                (Some(prepared(registry, source_hooks(config), before)), hosts)
            }
            Err(error) => {
                let reason = error.to_string();
                tracing::warn!(source = config.name, reason, "source disabled");
                (Some(RunningSource::disabled(registry, &config.name, &reason)), None)
            }
        };
        let monitor = source.as_ref().map(RunningSource::monitor);
        let status = Arc::new(SourceStatusTracker { kind: config.kind.clone(), hosts, monitor });
        context.statuses.insert(&config.name, &status);
        Self { config: config.clone(), source, status }
    }
}

/// Returns the hooks that apply the configuration to the operations of a source.
pub(super) fn source_hooks(source: &SourceConfig) -> SourceHooks {
    let mut hooks = SourceHooks::default();
    let reviewed = source.adjustments.clone();
    hooks.transform = Some(spec_transform(&source.adjustments));
    hooks.lint = Some(Arc::new(move |names| reviewed.unmatched_settings(names)));
    hooks.timeout = match &source.kind {
        SourceKind::Mcp(settings) => Some(settings.timeout),
        _ => source.adjustments.timeout,
    };
    hooks
}

/// Returns the rules for peers that register under the name of a source.
pub(super) fn spoke_config(source: &SourceConfig) -> SpokeConfig {
    let mut rules = SpokeConfig::default();
    // An empty owner reserves the name; only a spoke can be registered by a peer.
    rules.owner = Some(match &source.kind {
        SourceKind::Spoke { identity } => identity.clone(),
        _ => String::new(),
    });
    rules.timeout = source.adjustments.timeout;
    rules.transform = Some(spec_transform(&source.adjustments));
    rules
}

fn spec_transform(adjustments: &Adjustments) -> SpecTransform {
    let adjustments = adjustments.clone();
    Arc::new(move |spec| adjustments.apply(spec))
}
