//! What sources are made of that no configuration holds.

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

/// What MCP sources are given by the process that starts them.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct McpEnv {
    /// The command line that is put before that of every server, and ends it when this process is
    /// gone.
    pub watcher: Vec<OsString>,
    /// Where what authorization servers gave is kept.
    pub credentials: Option<Arc<dyn CredentialStore>>,
    /// Who can ask a person to agree; without it, a server that wants that is down.
    pub authorizer: Option<Arc<dyn Authorizer>>,
}

impl McpEnv {
    /// Starts a source, if it is an MCP server. Its operations appear in the registry, adjusted, as
    /// soon as it has listed them.
    pub fn start(&self, registry: &Registry, source: &SourceConfig) -> Option<McpSource> {
        let SourceKind::Mcp(settings) = &source.kind else { return None };
        let (settings, hooks) = self.prepare(settings, &source.adjustments);
        Some(McpSource::start(registry, &source.name, settings, hooks))
    }

    /// Starts a server that no configuration knows yet.
    pub fn start_server(
        &self,
        registry: &Registry,
        name: &str,
        settings: McpSettings,
    ) -> McpSource {
        McpSource::start(registry, name, self.with_watcher(settings), self.hooks())
    }

    /// What a server is started with.
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

/// Why a source cannot be started as it is configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The address of a hub is none.
    #[error(transparent)]
    Connect(#[from] toolpost::transport::ConnectError),
    /// Something that it refers to is not there.
    #[error("{0}")]
    Incomplete(String),
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

/// What a peer that uses the name of a source is judged by.
pub(super) fn spoke_config(source: &SourceConfig) -> SpokeConfig {
    let mut rules = SpokeConfig::default();
    // Nobody but the operator connects a name, unless it is that of a spoke; see `Upstream`.
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
