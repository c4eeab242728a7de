//! The sources of a configuration, connected to a gateway: started, changed and ended by name.

mod change;
mod entry;
mod parts;
mod sight;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use tokio_util::task::TaskTracker;
use toolpost::mcp::McpSource;
use toolpost::openapi::OpenApiSource;

use crate::app::Gateway;
use crate::config::{Access, Config, SourceConfig};
use entry::{Body, Entry};

pub use change::SourceChanges;
pub use parts::{McpParts, SourceError, start_service};
pub(crate) use sight::Board;
pub use sight::{LastError, SourceSight, SourceState};

/// The sources at work. Dropping it ends them; [`Sources::close`] also waits for it.
#[derive(Debug)]
pub struct Sources {
    gateway: Gateway,
    parts: McpParts,
    entries: BTreeMap<String, Entry>,
    /// Owns the sources that were taken out while their calls go on.
    leaving: TaskTracker,
}

impl Sources {
    /// Expects the spokes that are named, connects to the hubs and starts the MCP servers and HTTP
    /// services. A source that is not there yet is waited for, and delays nobody; one that cannot be
    /// started at all is disabled, and says why.
    pub fn start(gateway: &Gateway, config: &Config) -> Self {
        Self::start_with(gateway, config, &McpParts::default())
    }

    /// [`Sources::start`] with something for the MCP servers.
    pub fn start_with(gateway: &Gateway, config: &Config, parts: &McpParts) -> Self {
        let mut sources = Self {
            gateway: gateway.clone(),
            parts: parts.clone(),
            entries: BTreeMap::new(),
            leaving: TaskTracker::new(),
        };
        for source in &config.sources {
            guard(gateway, source);
            let entry = Entry::start(gateway, parts, source);
            sources.entries.insert(source.name.clone(), entry);
        }
        sources
    }

    /// The HTTP services by name.
    pub fn services(&self) -> impl Iterator<Item = (&str, &OpenApiSource)> {
        self.entries.iter().filter_map(|(name, entry)| match &entry.body {
            Body::Service(service) => Some((name.as_str(), service)),
            _ => None,
        })
    }

    /// The MCP servers by name.
    pub fn servers(&self) -> impl Iterator<Item = (&str, &McpSource)> {
        self.entries.iter().filter_map(|(name, entry)| match &entry.body {
            Body::Server(server) => Some((name.as_str(), server)),
            _ => None,
        })
    }

    /// How each of them is doing, by name.
    pub fn sight(&self) -> Vec<SourceSight> {
        self.entries.iter().map(|(name, entry)| entry.seen.sight(&self.gateway.0, name)).collect()
    }

    /// Ends them, all at once, and says whether that was done in time. Calls that need them come
    /// first: drain the gateway before.
    pub async fn close(self, patience: Duration) -> bool {
        self.leaving.close();
        let ending = join_all(self.entries.into_values().map(Entry::close));
        let ended = async { tokio::join!(ending, self.leaving.wait()) };
        tokio::time::timeout(patience, ended).await.is_ok()
    }
}

/// Lets those hear why a source is down who could call it.
fn guard(gateway: &Gateway, source: &SourceConfig) {
    let asks = !gateway.authenticator().is_open();
    let access = source.adjustments.effective_access().cloned();
    let access = access.unwrap_or_else(|| Access::unsaid(&source.name, asks));
    gateway.pipeline().registry().guard(&source.name, access.to_control());
}
