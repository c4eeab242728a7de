//! One source at work.

use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;
use toolpost::connection::SessionSettings;
use toolpost::hub::Upstream;
use toolpost::link::WsConnector;
use toolpost::mcp::McpSource;
use toolpost::openapi::OpenApiSource;
use toolpost::protocol::Secret;

use super::parts::{McpParts, SourceError, rules, start_service};
use super::sight::{self, Seen};
use crate::app::Gateway;
use crate::config::{SourceConfig, SourceKind};

/// A source, and what is seen of it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) config: SourceConfig,
    pub(super) body: Body,
    pub(super) seen: Arc<Seen>,
    /// Notes and logs how it is doing, as long as it is there.
    _watching: Option<AbortOnDropHandle<()>>,
}

/// What there is of a source in this process.
#[derive(Debug)]
pub(super) enum Body {
    Server(McpSource),
    Service(OpenApiSource),
    Hub(Upstream),
    /// It comes to us.
    Spoke,
    /// It cannot be started as it is configured.
    Nothing,
}

impl Entry {
    pub(super) fn start(gateway: &Gateway, parts: &McpParts, source: &SourceConfig) -> Self {
        gateway.hub().expect(&source.name, rules(source));
        let body = Body::start(gateway, parts, source);
        Self::of(gateway, source, body)
    }

    /// A source with this body; one that has none says why.
    pub(super) fn of(
        gateway: &Gateway,
        source: &SourceConfig,
        body: Result<Body, SourceError>,
    ) -> Self {
        let body = body.map_err(|error| match error {
            SourceError::Service { error, .. } => error.to_string(),
            other => other.to_string(),
        });
        let seen = Arc::new(Seen::new(&source.kind, &body));
        gateway.0.board.put(&source.name, &seen);
        if let Err(reason) = &body {
            tracing::warn!(source = source.name, reason, "source disabled");
            gateway.pipeline().registry().disable(&source.name, reason.clone());
        }
        let body = body.unwrap_or(Body::Nothing);
        let watching = sight::watch(&source.name, &body, &seen).map(AbortOnDropHandle::new);
        Self { config: source.clone(), body, seen, _watching: watching }
    }

    pub(super) async fn close(self) {
        match self.body {
            Body::Server(server) => server.close().await,
            Body::Service(service) => service.close().await,
            Body::Hub(_) | Body::Spoke | Body::Nothing => {}
        }
    }
}

impl Body {
    fn start(
        gateway: &Gateway,
        parts: &McpParts,
        source: &SourceConfig,
    ) -> Result<Self, SourceError> {
        let registry = gateway.pipeline().registry();
        Ok(match &source.kind {
            SourceKind::Mcp(_) => parts.start(registry, source).map_or(Self::Nothing, Self::Server),
            SourceKind::OpenApi(settings) => {
                Self::Service(start_service(registry, source, settings)?)
            }
            SourceKind::Hub { url, token } => {
                let token = token.as_ref().map(|token| Secret::new(token.reveal()));
                let connector = WsConnector::with(url, token, gateway.0.settings.websocket)?;
                let settings = SessionSettings::default();
                Self::Hub(Upstream::start(gateway.hub(), &source.name, connector, settings))
            }
            SourceKind::Spoke { .. } => Self::Spoke,
            SourceKind::Incomplete { .. } => {
                return Err(SourceError::Incomplete(source.kind.describe()));
            }
        })
    }
}
