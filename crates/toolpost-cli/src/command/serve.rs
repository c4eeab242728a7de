//! `serve`: the gateway, until it is asked to stop.

mod descriptors;
mod offer;

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use toolpost_gateway::builtin::BuiltIn;
use toolpost_gateway::config::Config;
use toolpost_gateway::{
    DataError, DataFolder, GatewaySettings, ListenError, Origin, Running, Setup, Sight, builtin,
    check_address,
};

use super::connect::{Asking, parts};
use super::signal::{ReloadRequests, StopRequests};
use crate::arguments::ServeOptions;
use crate::failure::Failure;

/// How often the files of the configuration are looked at.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn serve(options: &ServeOptions) -> Result<(), Failure> {
    let origin = options.config.clone().map_or(Origin::Here, Origin::File);
    let file = origin.file();
    let config = origin.load()?;
    if options.check {
        config.check_complete()?;
        check_address(options.listen, &config.authenticator()).map_err(refused)?;
        let checked =
            offer::Checked { file: file.as_deref(), config: &config, doubts: doubts(&config) };
        return Ok(checked.print(options.json)?);
    }
    // Whoever asks for a reload during the start means the configuration that has been read.
    let mut reloads = ReloadRequests::new()?;
    let data = DataFolder::open(options.data.as_deref()).map_err(|error| unusable(&error))?;
    let operator = data.operator_token().map_err(|error| unusable(&error))?.hash();
    let registry = builtin::registry_for(&config);
    let mut settings = GatewaySettings::default();
    settings.drain = options.drain;
    descriptors::provide_for(config.limits.connections());
    let mut setup = Setup::new(registry.clone(), config.clone())
        .origin(origin)
        .settings(settings)
        .operator(operator)
        .sight(sight(&config)?)
        .part(Arc::new(BuiltIn::new(registry.clone())))
        .journal(data.path())
        .map_err(anyhow::Error::from)?
        .mcp(parts(Asking::Nobody).await);
    if !options.no_watch {
        setup = setup.watch(LOOK);
    }
    let mut requests = StopRequests::new()?;
    let (running, listener) = setup.bind(options.listen).await.map_err(refused)?;
    // A reader who has seen enough of the offer must not end the gateway.
    let address = listener.local_addr()?;
    if let Err(error) = offer::print(&registry, file.as_deref(), &config, address, &data) {
        tracing::debug!(%error, "the offer was not printed whole");
    }
    let (stop, asked) = tokio::sync::oneshot::channel::<()>();
    let serving = running.serve(listener, async { drop(asked.await) });
    let watching = async {
        requests.next().await;
        running.gateway().announce_stop();
        if !options.notice.is_zero() {
            let notice = options.notice;
            tracing::info!(?notice, "stopping soon: /ready says so, calls are still answered");
            tokio::select! {
                () = tokio::time::sleep(notice) => {}
                () = requests.next() => {}
            }
        }
        tracing::info!("stopping: no new connections, calls in flight may finish");
        drop(stop);
        requests.next().await;
    };
    tokio::select! {
        served = serving => served.map(drop).map_err(|error| anyhow!(error).into()),
        () = watching => {
            tracing::warn!("asked to stop again: ending at once");
            std::process::exit(130)
        }
        never = reload_when_asked(&mut reloads, &running) => match never {},
    }
}

enum Never {}

/// What is probably not meant in a configuration, before any source was started.
pub(super) fn doubts(config: &Config) -> Vec<String> {
    let catalog = builtin::registry_for(config).catalog();
    let ids: Vec<&str> = catalog.list().iter().map(|known| known.id().as_str()).collect();
    config.doubts(&ids)
}

/// The folder was typed, or is the one that is meant where none is.
fn unusable(error: &DataError) -> Failure {
    Failure::Usage(error.to_string())
}

/// An address was typed that nobody may be served at, or that cannot be had.
fn refused(error: ListenError) -> Failure {
    match error {
        ListenError::NotLoopback(_) => Failure::Usage(error.to_string()),
        ListenError::Bind { .. } => {
            Failure::Usage(format!("{error}; choose another address with --listen"))
        }
        other => anyhow!(other).into(),
    }
}

/// Who watches the calls. What the variables of OpenTelemetry say counts where the file says nothing.
pub(super) fn sight(config: &Config) -> Result<Sight, Failure> {
    let settings = config.telemetry.clone().with_environment(|name| std::env::var(name).ok());
    let sight = settings.and_then(|settings| Sight::new(&settings));
    sight.map_err(|words| anyhow!("spans cannot be sent: {words}").into())
}

/// Reads the configuration again on each signal that asks for it; what came of it is in the log.
async fn reload_when_asked(requests: &mut ReloadRequests, running: &Running) -> Never {
    loop {
        requests.next().await;
        tracing::info!("asked to read the configuration again");
        let _ = running.reload().await;
    }
}
