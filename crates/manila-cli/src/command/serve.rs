//! `serve`: the gateway, until it is asked to stop.

mod descriptors;
mod offer;

use std::time::{Duration, Instant};

use anyhow::anyhow;
use futures::future::join_all;
use manila::Pipeline;
use manila::mcp::{McpSource, SourceStatus};
use manila_gateway::config::Config;
use manila_gateway::{DataFolder, Gateway, GatewaySettings, ListenError, Sources, admin, builtin};

use super::connect::{Asking, parts};
use super::signal::StopRequests;
use crate::arguments::ServeOptions;
use crate::failure::Failure;

pub(crate) async fn serve(options: &ServeOptions) -> Result<(), Failure> {
    let file = options.config.clone().or_else(Config::here);
    let config = file.as_deref().map(Config::load).transpose()?.unwrap_or_default();
    if options.check {
        return Ok(offer::print_check(file.as_deref(), &config)?);
    }
    let data = DataFolder::open(options.data.as_deref()).map_err(anyhow::Error::from)?;
    let operator = data.operator_token().map_err(anyhow::Error::from)?.hash();
    let registry = builtin::registry();
    let mut settings = GatewaySettings::default();
    settings.drain = options.drain;
    settings.mcp = config.mcp.clone();
    descriptors::provide_for(settings.connections);
    let gateway = Gateway::with(Pipeline::new(registry.clone()), settings)
        .with_authenticator(config.authenticator().also(operator, admin::operator()));
    let listener = gateway.bind(options.listen).await.map_err(|error| match error {
        ListenError::Bind { .. } => anyhow!("{error}; choose another address with --listen"),
        other => anyhow!(other),
    })?;
    let sources = Sources::start_with(&gateway, &config, &parts(Asking::Nobody).await)
        .map_err(anyhow::Error::from)?;
    let mut requests = StopRequests::new()?;
    // A reader who has seen enough of the offer must not end the gateway.
    let address = listener.local_addr()?;
    if let Err(error) = offer::print(&registry, file.as_deref(), &config, address) {
        tracing::debug!(%error, "the offer was not printed whole");
    }
    let (stop, asked) = tokio::sync::oneshot::channel::<()>();
    let serving = gateway.serve(listener, async { drop(asked.await) });
    let asked_to_stop = std::cell::Cell::new(None);
    let watching = async {
        requests.next().await;
        tracing::info!("stopping: no new connections, calls in flight may finish");
        asked_to_stop.set(Some(Instant::now()));
        drop(stop);
        requests.next().await;
    };
    let serving = async {
        let served = tokio::select! {
            served = serving => served,
            never = announce_all(&sources) => match never {},
        };
        let spent = asked_to_stop.get().map(|since| since.elapsed()).unwrap_or_default();
        let left = options.drain.saturating_sub(spent).max(LEAST_PATIENCE);
        if !sources.close(left).await {
            tracing::warn!("a server did not end in time and is left to its watcher");
        }
        served
    };
    tokio::select! {
        served = serving => served.map(drop).map_err(|error| anyhow!(error).into()),
        () = watching => {
            tracing::warn!("asked to stop again: ending at once");
            std::process::exit(130)
        }
    }
}

/// What is left for servers to end in, however long calls took.
pub(super) const LEAST_PATIENCE: Duration = Duration::from_secs(3);

pub(super) enum Never {}

/// Says what becomes of each server, as long as it is asked.
pub(super) async fn announce_all(sources: &Sources) -> Never {
    join_all(sources.servers().map(|(name, server)| announce(name, server))).await;
    std::future::pending().await
}

async fn announce(source: &str, server: &McpSource) {
    let mut status = server.status();
    loop {
        match &*status.borrow_and_update() {
            SourceStatus::Ready(found) => {
                let (server, version) = (&found.server, &found.server_version);
                let (protocol, tools) = (&found.protocol, found.tools.len());
                tracing::info!(source, server, version, protocol, tools, "source ready");
                for warning in &found.warnings {
                    tracing::warn!(source, warning, "odd tool");
                }
            }
            SourceStatus::Down { reason, again_in } => {
                tracing::warn!(source, reason, ?again_in, "source down");
            }
            _ => {}
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}
