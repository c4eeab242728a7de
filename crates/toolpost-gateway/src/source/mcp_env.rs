//! Inputs for starting sources that are not part of the configuration.

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

use toolpost::Registry;
use toolpost::hub::SpokeConfig;
use toolpost::mcp::{
    Authorizer, CredentialStore, McpSettings, McpSource, McpTransport, SourceHooks,
};
use toolpost::openapi::{OpenApiError, OpenApiSettings, OpenApiSource};

use crate::config::{Adjustments, SourceConfig, SourceKind};

/// What the process provides to MCP sources.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct McpEnv {
    /// Command line that wraps that of every server and ends the server when this process exits.
    pub watcher: Vec<OsString>,
    /// Stores the credentials from authorization servers.
    pub credentials: Option<Arc<dyn CredentialStore>>,
    /// Obtains a person's consent for OAuth; without it, a server that requires consent is down.
    pub authorizer: Option<Arc<dyn Authorizer>>,
}

impl McpEnv {
    /// Starts the source if it is an MCP server. Its adjusted operations are registered once the
    /// server has listed them.
    pub fn start(&self, registry: &Registry, source: &SourceConfig) -> Option<McpSource> {
        let SourceKind::Mcp(settings) = &source.kind else { return None };
        let (settings, hooks) = self.prepare(settings, &source.adjustments);
        Some(McpSource::start(registry, &source.name, settings, hooks))
    }

    /// Starts a server that is not in a configuration.
    pub fn start_server(
        &self,
        registry: &Registry,
        name: &str,
        settings: McpSettings,
    ) -> McpSource {
        McpSource::start(registry, name, self.with_watcher(settings), self.hooks())
    }

    /// Returns the settings and hooks to start a server with.
    pub(super) fn prepare(
        &self,
        settings: &McpSettings,
        adjustments: &Adjustments,
    ) -> (McpSettings, SourceHooks) {
        let (mut hooks, reviewed) = (self.hooks(), adjustments.clone());
        hooks.transform = Some(spec_transform(adjustments));
        hooks.lint = Some(Arc::new(move |names| reviewed.unmatched_settings(names)));
        (self.with_watcher(settings.clone()), hooks)
    }

    fn hooks(&self) -> SourceHooks {
        let mut hooks = SourceHooks::default();
        hooks.credentials.clone_from(&self.credentials);
        hooks.authorizer.clone_from(&self.authorizer);
        hooks
    }

    fn with_watcher(&self, mut settings: McpSettings) -> McpSettings {
        if let McpTransport::Stdio(stdio) = &mut settings.transport {
            stdio.watcher.clone_from(&self.watcher);
        }
        settings
    }
}

impl fmt::Debug for McpEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpEnv").field("watcher", &self.watcher).finish_non_exhaustive()
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

/// Starts an HTTP service. Its adjusted operations are registered once its document has been read.
///
/// # Errors
///
/// The configuration of the service is invalid.
pub fn start_service(
    registry: &Registry,
    source: &SourceConfig,
    settings: &OpenApiSettings,
) -> Result<OpenApiSource, SourceError> {
    let hooks = service_hooks(&source.adjustments);
    OpenApiSource::start(registry, &source.name, settings.clone(), hooks)
        .map_err(|error| SourceError::Service { name: source.name.clone(), error: Box::new(error) })
}

pub(super) fn service_hooks(adjustments: &Adjustments) -> toolpost::openapi::SourceHooks {
    let mut hooks = toolpost::openapi::SourceHooks::default();
    let reviewed = adjustments.clone();
    hooks.transform = Some(spec_transform(adjustments));
    hooks.lint = Some(Arc::new(move |names| reviewed.unmatched_settings(names)));
    hooks
}

/// Returns the rules for peers that register under the name of a source.
pub(super) fn spoke_config(source: &SourceConfig) -> SpokeConfig {
    let mut rules = SpokeConfig::default();
    // An empty owner reserves the name for `Upstream`; only a spoke can be registered by a peer.
    rules.owner = Some(match &source.kind {
        SourceKind::Spoke { identity } => identity.clone(),
        _ => String::new(),
    });
    rules.timeout = source.adjustments.timeout;
    rules.transform = Some(spec_transform(&source.adjustments));
    rules
}

pub(super) fn spec_transform(adjustments: &Adjustments) -> toolpost::mcp::SpecTransform {
    let adjustments = adjustments.clone();
    Arc::new(move |spec| adjustments.apply(spec))
}
