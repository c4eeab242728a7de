//! A running source.

use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;
use toolpost::connection::ReconnectSettings;
use toolpost::hub::Upstream;
use toolpost::mcp::McpSource;
use toolpost::openapi::OpenApiSource;
use toolpost::protocol::Secret;
use toolpost::transport::WsConnector;

use super::mcp_env::{McpEnv, SourceError, spoke_config, start_service};
use super::status::{self, SourceStatusTracker};
use crate::app::Gateway;
use crate::config::{SourceConfig, SourceKind};

/// A source and its status.
#[derive(Debug)]
pub(super) struct RunningSource {
    pub(super) config: SourceConfig,
    pub(super) connection: SourceConnection,
    pub(super) status: Arc<SourceStatusTracker>,
    /// Tracks and logs the status of the source until dropped.
    _watch_task: Option<AbortOnDropHandle<()>>,
}

/// The local end of a source.
#[derive(Debug)]
pub(super) enum SourceConnection {
    Mcp(McpSource),
    OpenApi(OpenApiSource),
    Hub(Upstream),
    /// The spoke connects to this gateway.
    Spoke,
    /// The source cannot be started with its configuration.
    Disabled,
}

impl RunningSource {
    pub(super) fn start(gateway: &Gateway, env: &McpEnv, source: &SourceConfig) -> Self {
        gateway.hub().configure_spoke(&source.name, spoke_config(source));
        let started = SourceConnection::start(gateway, env, source);
        Self::with_connection(gateway, source, started)
    }

    /// Creates a source from the result of its start. A failed source is disabled with the reason.
    pub(super) fn with_connection(
        gateway: &Gateway,
        source: &SourceConfig,
        started: Result<SourceConnection, SourceError>,
    ) -> Self {
        let started = started.map_err(|error| match error {
            SourceError::Service { error, .. } => error.to_string(),
            other => other.to_string(),
        });
        let status = Arc::new(SourceStatusTracker::new(&source.kind, &started));
        gateway.0.source_statuses.insert(&source.name, &status);
        if let Err(reason) = &started {
            tracing::warn!(source = source.name, reason, "source disabled");
            gateway.pipeline().registry().mark_disabled(&source.name, reason.clone());
        }
        let connection = started.unwrap_or(SourceConnection::Disabled);
        let watching =
            status::spawn_watcher(&source.name, &connection, &status).map(AbortOnDropHandle::new);
        Self { config: source.clone(), connection, status, _watch_task: watching }
    }

    pub(super) async fn close(self) {
        match self.connection {
            SourceConnection::Mcp(server) => server.close().await,
            SourceConnection::OpenApi(service) => service.close().await,
            SourceConnection::Hub(_) | SourceConnection::Spoke | SourceConnection::Disabled => {}
        }
    }
}

impl SourceConnection {
    fn start(gateway: &Gateway, env: &McpEnv, source: &SourceConfig) -> Result<Self, SourceError> {
        let registry = gateway.pipeline().registry();
        Ok(match &source.kind {
            SourceKind::Mcp(_) => env.start(registry, source).map_or(Self::Disabled, Self::Mcp),
            SourceKind::OpenApi(settings) => {
                Self::OpenApi(start_service(registry, source, settings)?)
            }
            SourceKind::Hub { url, token } => {
                let token = token.as_ref().map(|token| Secret::new(token.reveal()));
                let connector =
                    WsConnector::with_settings(url, token, gateway.0.settings.websocket)?;
                let settings = ReconnectSettings::default();
                Self::Hub(Upstream::start(gateway.hub(), &source.name, connector, settings))
            }
            SourceKind::Spoke { .. } => Self::Spoke,
            SourceKind::Incomplete { .. } => {
                return Err(SourceError::Incomplete(source.kind.describe()));
            }
        })
    }
}
