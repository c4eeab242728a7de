//! `mcp`: serves the operations to one MCP client over standard input and output.

mod stdio;

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use toolpost::mcp::DEPTH_VARIABLE as DEPTH;
use toolpost::{Identity, suggest_name};
use toolpost_gateway::auth;
use toolpost_gateway::config::Config;
use toolpost_gateway::journal::JournalMode;
use toolpost_gateway::{DataDir, DataError, Gateway, GatewaySettings, McpView};

use super::backend::TOKEN_VARIABLE;
use super::mcp_connect::{AuthorizationMode, mcp_env};
use super::serve::{demo_registry, lint_config, telemetry};
use super::signal::Signals;
use crate::arguments::{McpOptions, variable};
use crate::error::CommandError;

/// Maximum time for servers to stop after the client disconnects.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum nesting depth of `toolpost mcp` processes. Short chains of gateways are allowed.
const MAX_DEPTH: u32 = 4;

pub(crate) async fn mcp(options: &McpOptions) -> Result<(), CommandError> {
    let file = options.run.config.clone().or_else(Config::discover);
    let mut config = file.as_deref().map(Config::load).transpose()?.unwrap_or_default();
    check_depth()?;
    for warning in lint_config(&config) {
        tracing::warn!(warning, "configuration warning");
    }
    if let Some(name) = &options.source {
        retain_source(&mut config, name)?;
    }
    let identity = client_identity(&mut config).await?;
    let mut settings = GatewaySettings::default();
    settings.drain_timeout = options.run.drain;
    let mcp_telemetry = telemetry(&config)?;
    let data = open_data_folder(options, &config)?;
    let registry = demo_registry(&config);
    // Only the client can reach this process, and callers cannot approve their own calls.
    let mut setup = Gateway::builder(registry)
        .config(config)
        .settings(settings)
        .telemetry(mcp_telemetry)
        .unattended()
        .startup_wait(options.wait)
        .mcp_env(mcp_env(AuthorizationMode::NonInteractive).await);
    if let Some(data) = data {
        setup = setup.journal(data.path());
    }
    let gateway = setup.build().map_err(anyhow::Error::from)?;
    let mut view = McpView::default();
    (view.tools, view.dialect) = (options.tools, options.dialect);
    view.source = options.source.as_deref().map(Into::into);
    let mut requests = Signals::stop()?;
    let (reader, writer) = (stdio::stdin(), stdio::stdout());
    let (stop, stop_signal) = tokio::sync::oneshot::channel::<()>();
    let serving =
        gateway.serve_mcp(reader, writer, identity, view, async { drop(stop_signal.await) });
    let serving = async {
        serving.await;
        gateway.close(CLOSE_TIMEOUT).await;
    };
    let watching = async {
        requests.next().await;
        drop(stop);
        requests.next().await;
    };
    tokio::select! {
        () = serving => Ok(()),
        () = watching => {
            tracing::warn!("second stop signal; exiting immediately");
            std::process::exit(130)
        }
    }
}

/// Opens the data folder for the journal. MCP clients start servers with few environment variables,
/// so a missing home is an error only if the journal is on.
fn open_data_folder(
    options: &McpOptions,
    config: &Config,
) -> Result<Option<DataDir>, CommandError> {
    match DataDir::open(options.run.data.as_deref()) {
        Err(DataError::NoHome) if config.journal.mode == JournalMode::Off => Ok(None),
        opened => Ok(Some(opened.map_err(anyhow::Error::from)?)),
    }
}

/// Checks the nesting depth. A client's file can contain `toolpost mcp` itself, which would
/// otherwise start itself endlessly.
fn check_depth() -> Result<(), CommandError> {
    let depth = std::env::var(DEPTH).ok().and_then(|depth| depth.parse::<u32>().ok());
    if depth.unwrap_or(0) < MAX_DEPTH {
        return Ok(());
    }
    Err(CommandError::Usage(format!(
        "`toolpost mcp` started itself {MAX_DEPTH} times: one of its sources is `toolpost mcp` with the \
         same configuration; use another one with --config"
    )))
}

fn retain_source(config: &mut Config, name: &str) -> Result<(), CommandError> {
    let built_in = demo_registry(config).catalog();
    let is_built_in = built_in.list().iter().any(|operation| operation.id().namespace() == name);
    let names = config.sources.iter().map(|source| source.name.as_str());
    if !is_built_in && !names.clone().any(|known| known == name) {
        let hint =
            suggest_name(name, names).map(|suggestion| format!("; did you mean `{suggestion}`?"));
        let hint = hint.unwrap_or_default();
        return Err(CommandError::Usage(format!("no source `{name}` in the configuration{hint}")));
    }
    config.sources.retain(|source| source.name == name);
    Ok(())
}

/// Returns the identity of the client: the owner of the token in the environment, or else `local`.
/// `local` may call every source, because it can read the file and start the servers.
async fn client_identity(config: &mut Config) -> Result<Arc<Identity>, CommandError> {
    if let Some(token) = variable(TOKEN_VARIABLE) {
        let known = config.authenticator().identify(Some(&token)).await;
        return known.map_err(|error| anyhow!("{TOKEN_VARIABLE}: {error}").into());
    }
    for source in &mut config.sources {
        source.adjustments.open_access();
    }
    Ok(Arc::new(auth::local()))
}
