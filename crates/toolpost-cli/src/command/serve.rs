//! `serve`: runs the gateway until it is stopped.

mod banner;
mod descriptors;

use std::time::Duration;

use anyhow::anyhow;
use toolpost::Registry;
use toolpost_gateway::config::Config;
use toolpost_gateway::{
    ConfigSource, DataDir, Gateway, GatewayError, GatewaySettings, Telemetry, builtin,
    check_address,
};

use super::mcp_connect::{AuthorizationMode, mcp_env};
use super::signal::{Signals, has_terminal};
use crate::arguments::ServeOptions;
use crate::error::CommandError;
use crate::output;

/// Interval at which the configuration files are checked for changes.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) async fn serve(options: &ServeOptions) -> Result<(), CommandError> {
    let config_source =
        options.run.config.clone().map_or(ConfigSource::Discovered, ConfigSource::File);
    let file = config_source.file();
    let config = config_source.load()?;
    if output::json_requested() && !options.check {
        return Err(CommandError::usage("--json requires --check"));
    }
    if options.check {
        config.check_missing()?;
        check_address(options.listen, &config.authenticator()).map_err(listen_failure)?;
        return Ok(banner::print_check(file.as_deref(), &config, &lint_config(&config))?);
    }
    for note in &config.notes {
        tracing::warn!(note, "configuration warning");
    }
    // Installed before startup: a reload signal during startup refers to the configuration already
    // loaded.
    let mut hangups = Signals::reload()?;
    let is_attached = has_terminal();
    let data = DataDir::open(options.run.data.as_deref()).map_err(CommandError::usage)?;
    let operator = data.operator_token().map_err(CommandError::usage)?.hash();
    let registry = demo_registry(&config);
    let mut settings = GatewaySettings::default();
    settings.drain_timeout = options.run.drain;
    descriptors::raise_limit(config.limits.connections());
    let mut setup = Gateway::builder(registry.clone())
        .config(config.clone())
        .config_source(config_source)
        .settings(settings)
        .operator(operator)
        .telemetry(telemetry(&config)?)
        .journal(data.path())
        .socket(data.socket_path())
        .listen(options.listen.to_string())
        .mcp_env(mcp_env(AuthorizationMode::NonInteractive).await);
    if !options.no_watch {
        setup = setup.watch(WATCH_INTERVAL);
    }
    let mut requests = Signals::stop()?;
    let (running, listener) = setup.bind().await.map_err(listen_failure)?;
    // A closed standard output must not stop the gateway.
    let address = listener.local_addr()?;
    if let Err(error) = banner::print(&registry, file.as_deref(), &config, address, &data) {
        tracing::debug!(%error, "startup banner not printed");
    }
    let (stop, stop_signal) = tokio::sync::oneshot::channel::<()>();
    let (close_terminal, terminal_closed) = tokio::sync::oneshot::channel::<()>();
    let serving = running.serve(listener, async { drop(stop_signal.await) });
    let watching = async {
        tokio::select! {
            () = requests.next() => {}
            Ok(()) = terminal_closed => {}
        }
        running.set_not_ready();
        if !options.shutdown_delay.is_zero() {
            let shutdown_delay = options.shutdown_delay;
            tracing::info!(?shutdown_delay, "shutdown requested; reporting not-ready");
            tokio::select! {
                () = tokio::time::sleep(shutdown_delay) => {}
                () = requests.next() => {}
            }
        }
        tracing::info!("shutting down; draining calls");
        drop(stop);
        requests.next().await;
    };
    let reloading = async {
        loop {
            hangups.next().await;
            if is_attached && !has_terminal() {
                tracing::info!("terminal closed");
                let _ = close_terminal.send(());
                return std::future::pending().await;
            }
            tracing::info!("reload requested by signal");
            // The result is logged.
            let _ = running.reload().await;
        }
    };
    tokio::select! {
        served = serving => served.map(drop).map_err(|error| anyhow!(error).into()),
        () = watching => {
            tracing::warn!("second stop signal; exiting immediately");
            std::process::exit(130)
        }
        () = reloading => Ok(()),
        () = reap_orphans() => Ok(()),
    }
}

/// Reaps orphaned processes if this process is process 1.
async fn reap_orphans() {
    #[cfg(target_os = "linux")]
    toolpost::mcp::reap_orphans().await;
    std::future::pending::<()>().await;
}

pub(super) fn demo_registry(config: &Config) -> Registry {
    if config.without_demo { Registry::new() } else { builtin::registry() }
}

/// Returns the lint warnings of a configuration before any source is started.
pub(super) fn lint_config(config: &Config) -> Vec<String> {
    let catalog = demo_registry(config).catalog();
    let ids: Vec<&str> = catalog.list().iter().map(|known| known.id().as_str()).collect();
    config.lint(&ids)
}

/// Converts a listen error: an address that is not allowed or cannot be bound is a usage error.
fn listen_failure(error: GatewayError) -> CommandError {
    match error {
        GatewayError::NotLoopback(_) => CommandError::usage(error),
        GatewayError::Bind { .. } => {
            CommandError::Usage(format!("{error}; choose another address with --listen"))
        }
        other => anyhow!(other).into(),
    }
}

/// Builds the telemetry. OpenTelemetry environment variables apply where the file sets nothing.
pub(super) fn telemetry(config: &Config) -> Result<Telemetry, CommandError> {
    let settings = config.telemetry.clone().with_environment(|name| std::env::var(name).ok());
    let result = settings.and_then(|settings| Telemetry::new(&settings));
    result.map_err(|error| anyhow!("invalid [telemetry] settings: {error}").into())
}
