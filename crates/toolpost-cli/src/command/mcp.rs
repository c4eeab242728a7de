//! `mcp`: the operations for one MCP client, on standard input and output.

mod stream;

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use toolpost::mcp::DEPTH_VARIABLE as DEPTH;
use toolpost::{Identity, nearest};
use toolpost_gateway::auth::LOCAL;
use toolpost_gateway::config::Config;
use toolpost_gateway::journal::Mode;
use toolpost_gateway::{DataError, DataFolder, GatewaySettings, McpView, Setup, builtin};

use super::backend::TOKEN_VARIABLE;
use super::connect::{Asking, parts};
use super::serve::{doubts, sight};
use super::signal::StopRequests;
use crate::arguments::McpOptions;
use crate::failure::Failure;

/// What servers have to end in when the client has left.
const LEAST_PATIENCE: Duration = Duration::from_secs(3);

/// How often it may have been started by itself; a chain of gateways is fine.
const MOST_DEEP: u32 = 4;

pub(crate) async fn mcp(options: &McpOptions) -> Result<(), Failure> {
    let file = options.config.clone().or_else(Config::here);
    let mut config = file.as_deref().map(Config::load).transpose()?.unwrap_or_default();
    check_depth()?;
    for doubt in doubts(&config) {
        tracing::warn!(doubt, "this is probably not meant");
    }
    if let Some(name) = &options.source {
        keep_only(&mut config, name)?;
    }
    let identity = identity(&mut config).await?;
    let mut settings = GatewaySettings::default();
    settings.drain = options.drain;
    settings.mcp.start_patience = options.wait;
    let sight = sight(&config)?;
    let data = data(options, &config)?;
    let registry = builtin::registry_for(&config);
    let setup = Setup::new(registry, config).settings(settings).sight(sight);
    // Nobody but the client can reach this process, and he does not approve his own calls.
    let mut setup = setup.unattended();
    if let Some(data) = data {
        setup = setup.journal(data.path()).map_err(anyhow::Error::from)?;
    }
    let running = setup.mcp(parts(Asking::Nobody).await).start();
    let mut view = McpView::default();
    (view.tools, view.dialect) = (options.tools, options.dialect);
    view.source = options.source.as_deref().map(Into::into);
    let mut requests = StopRequests::new()?;
    let (reader, writer) = (stream::input(), stream::output());
    let (stop, asked) = tokio::sync::oneshot::channel::<()>();
    let gateway = running.gateway();
    let serving = gateway.serve_mcp(reader, writer, identity, view, async { drop(asked.await) });
    let serving = async {
        serving.await;
        running.close(LEAST_PATIENCE).await;
    };
    let watching = async {
        requests.next().await;
        drop(stop);
        requests.next().await;
    };
    tokio::select! {
        () = serving => Ok(()),
        () = watching => {
            tracing::warn!("asked to stop again: ending at once");
            std::process::exit(130)
        }
    }
}

/// Where calls are written down. Clients start their servers with few variables, so a home is asked
/// for only where something is written.
fn data(options: &McpOptions, config: &Config) -> Result<Option<DataFolder>, Failure> {
    match DataFolder::open(options.data.as_deref()) {
        Err(DataError::NoHome) if config.journal.mode == Mode::Off => Ok(None),
        opened => Ok(Some(opened.map_err(anyhow::Error::from)?)),
    }
}

/// A client's file may name this very command, and then it would start itself without end.
fn check_depth() -> Result<(), Failure> {
    let depth = std::env::var(DEPTH).ok().and_then(|depth| depth.parse::<u32>().ok());
    if depth.unwrap_or(0) < MOST_DEEP {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "`toolpost mcp` was started by itself {MOST_DEEP} times over; one of its sources is `toolpost \
         mcp` with the same configuration: name another with --config"
    )))
}

/// Whoever asks for one source needs no other.
fn keep_only(config: &mut Config, name: &str) -> Result<(), Failure> {
    let built_in = builtin::registry_for(config).catalog();
    let is_built_in = built_in.list().iter().any(|one| one.id().namespace() == name);
    let names = config.sources.iter().map(|source| source.name.as_str());
    if !is_built_in && !names.clone().any(|known| known == name) {
        let hint = nearest(name, names).map(|near| format!("; did you mean `{near}`?"));
        let hint = hint.unwrap_or_default();
        return Err(Failure::Usage(format!("there is no source `{name}` here{hint}")));
    }
    config.sources.retain(|source| source.name == name);
    Ok(())
}

/// Who the client is: the owner of the token in the environment, or whoever started this. He can
/// read the file and start its servers, so he may call them.
async fn identity(config: &mut Config) -> Result<Arc<Identity>, Failure> {
    let token = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
    if let Some(token) = token {
        let known = config.authenticator().identify(Some(&token)).await;
        return known.map_err(|error| anyhow!("{TOKEN_VARIABLE}: {error}").into());
    }
    for source in &mut config.sources {
        source.adjustments.open();
    }
    Ok(Arc::new(Identity::new(LOCAL)))
}
