//! `mcp`: the operations for one MCP client, on standard input and output.

mod stream;

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use futures::future::join_all;
use manila::{Identity, Pipeline};
use manila_gateway::auth::LOCAL;
use manila_gateway::config::{Access, Config};
use manila_gateway::{Gateway, GatewaySettings, McpView, Sources, builtin};

use super::backend::TOKEN_VARIABLE;
use super::connect::{Asking, found, parts};
use super::serve::{LEAST_PATIENCE, announce_all};
use super::signal::StopRequests;
use crate::arguments::McpOptions;
use crate::failure::Failure;

pub(crate) async fn mcp(options: &McpOptions) -> Result<(), Failure> {
    let file = options.config.clone().or_else(Config::here);
    let mut config = file.as_deref().map(Config::load).transpose()?.unwrap_or_default();
    let identity = identity(&mut config)?;
    let mut settings = GatewaySettings::default();
    settings.drain = options.drain;
    settings.mcp = config.mcp.clone();
    let gateway = Gateway::with(Pipeline::new(builtin::registry()), settings);
    let sources = Sources::start_with(&gateway, &config, &parts(Asking::Nobody).await)
        .map_err(anyhow::Error::from)?;
    let mut view = McpView::default();
    (view.tools, view.dialect) = (options.tools, options.dialect);
    view.source = options.source.as_deref().map(Into::into);
    let mut requests = StopRequests::new()?;
    tokio::select! {
        () = wait_for(&sources, options.wait) => {}
        () = requests.next() => return Ok(()),
    }
    let (reader, writer) = (stream::input(), stream::output());
    let stop = async { requests.next().await };
    tokio::select! {
        _ = gateway.serve_mcp(reader, writer, identity, view, stop) => {}
        never = announce_all(&sources) => match never {},
    }
    sources.close(options.drain.max(LEAST_PATIENCE)).await;
    Ok(())
}

/// Who the client is: the owner of the token in the environment, or whoever started this. He can
/// read the file and start its servers, so he may call them.
fn identity(config: &mut Config) -> Result<Arc<Identity>, Failure> {
    if let Ok(token) = std::env::var(TOKEN_VARIABLE) {
        let known = config.authenticator().authenticate(Some(&token));
        return known.map_err(|error| anyhow!("{TOKEN_VARIABLE}: {error}").into());
    }
    for source in &mut config.sources {
        source.adjustments.access = Some(Access::Open);
    }
    Ok(Arc::new(Identity::new(LOCAL)))
}

/// Many clients list the tools once, so what is about to come is waited for.
async fn wait_for(sources: &Sources, patience: Duration) {
    let all = join_all(sources.servers().map(|(_, server)| found(server, patience)));
    // What is not there then comes later, or never; either way it is announced.
    let _ = tokio::time::timeout(patience, all).await;
}
