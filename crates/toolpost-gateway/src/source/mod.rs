//! The configured sources of a gateway, by name.

mod diff;
mod start;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio_util::task::TaskTracker;
use toolpost::hub::Hub;
use toolpost::transport::WsSettings;
use toolpost::{Registry, RunningSource};

use crate::auth::Authenticator;
use crate::config::{Access, Config, SourceConfig};
use crate::limits::Limiter;
use start::SourceEntry;

pub use diff::SourceDiff;
pub use start::{McpEnv, SourceError};
pub(crate) use status::SourceStatuses;
pub use status::{LastError, SourceState, SourceStatus};

/// The components that the sources are connected to.
#[derive(Debug, Clone)]
pub(crate) struct SourceContext {
    pub(crate) registry: Registry,
    pub(crate) hub: Hub,
    pub(crate) authenticator: Authenticator,
    pub(crate) websocket: WsSettings,
    pub(crate) limiter: Arc<Limiter>,
    /// Status trackers of the running sources.
    pub(crate) statuses: Arc<SourceStatuses>,
}

/// The running sources. Dropping it stops them; [`Sources::close`] also waits.
#[derive(Debug)]
pub struct Sources {
    context: SourceContext,
    mcp_env: McpEnv,
    entries: BTreeMap<String, SourceEntry>,
    /// Owns the removed sources until their calls have finished.
    retiring: TaskTracker,
}

impl Sources {
    /// Configures the spokes, connects to the hubs and starts the MCP servers and HTTP services. It
    /// does not wait for sources: an unavailable one is retried in the background, and one that
    /// cannot be started is disabled with a reason.
    pub(crate) fn start(context: SourceContext, config: &Config, mcp_env: &McpEnv) -> Self {
        let mut sources = Self {
            context,
            mcp_env: mcp_env.clone(),
            entries: BTreeMap::new(),
            retiring: TaskTracker::new(),
        };
        for source in &config.sources {
            set_source_access(&sources.context, source);
            let entry = SourceEntry::start(&sources.context, mcp_env, source);
            sources.entries.insert(source.name.clone(), entry);
        }
        sources
    }

    /// Returns the running sources; spokes are not among them.
    pub fn running(&self) -> impl Iterator<Item = &RunningSource> {
        self.entries.values().filter_map(|entry| entry.source.as_ref())
    }

    /// Returns the status of each source, ordered by name.
    pub fn statuses(&self) -> Vec<SourceStatus> {
        self.entries.iter().map(|(name, entry)| entry.status.status(&self.context, name)).collect()
    }

    /// Stops all sources and returns whether they stopped in time. Drain calls first.
    pub async fn close(self, timeout: Duration) -> bool {
        self.retiring.close();
        let sources = self.entries.into_values().filter_map(|entry| entry.source);
        let ending = join_all(sources.map(RunningSource::close));
        let ended = async { tokio::join!(ending, self.retiring.wait()) };
        tokio::time::timeout(timeout, ended).await.is_ok()
    }
}

/// Sets the access of the namespace, so that callers with access to a source see why it is down.
fn set_source_access(context: &SourceContext, source: &SourceConfig) {
    let is_auth_required = !context.authenticator.allows_anonymous();
    let access = source.adjustments.effective_access().cloned();
    let access = access.unwrap_or_else(|| Access::default_for(&source.name, is_auth_required));
    context.registry.set_namespace_access(&source.name, access.to_access_control());
}
