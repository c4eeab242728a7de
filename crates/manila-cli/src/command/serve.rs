//! `serve`: the gateway, until it is asked to stop.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use manila::{Pipeline, Registry};
use manila_gateway::config::{Config, SourceKind};
use manila_gateway::{Gateway, GatewaySettings, ListenError, Sources, builtin};

use super::signal::StopRequests;
use crate::arguments::ServeOptions;
use crate::failure::Failure;
use crate::output;

pub(crate) async fn serve(options: &ServeOptions) -> Result<(), Failure> {
    let file = config_file(options);
    let config = file.as_deref().map(Config::load).transpose()?.unwrap_or_default();
    if options.check {
        return Ok(print_check(file.as_deref(), &config)?);
    }
    let registry = builtin::registry();
    let mut settings = GatewaySettings::default();
    settings.drain = options.drain;
    let gateway = Gateway::with(Pipeline::new(registry.clone()), settings)
        .with_authenticator(config.authenticator());
    let listener = gateway.bind(options.listen).await.map_err(|error| match error {
        ListenError::Bind { .. } => anyhow!("{error}; choose another address with --listen"),
        other => anyhow!(other),
    })?;
    let _sources = Sources::start(&gateway, &config).map_err(anyhow::Error::from)?;
    let mut requests = StopRequests::new()?;
    // A reader who has seen enough of the offer must not end the gateway.
    if let Err(error) = print_offer(&registry, &config, listener.local_addr()?) {
        tracing::debug!(%error, "the offer was not printed whole");
    }
    let (stop, asked) = tokio::sync::oneshot::channel::<()>();
    let serving = gateway.serve(listener, async { drop(asked.await) });
    let watching = async {
        requests.next().await;
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
    }
}

/// The file that was named, or the one that is here.
fn config_file(options: &ServeOptions) -> Option<PathBuf> {
    let here = || Path::new(Config::FILE_NAME).exists().then(|| Config::FILE_NAME.into());
    options.config.clone().or_else(here)
}

fn print_check(file: Option<&Path>, config: &Config) -> std::io::Result<()> {
    let Some(file) = file else {
        return output::print_line("No manila.toml here: the embedded default, open on loopback.");
    };
    output::print_line(&format!(
        "{} is fine: {}, {}.",
        file.display(),
        count(config.identities.len(), "identity", "identities"),
        count(config.sources.len(), "source", "sources"),
    ))?;
    for known in &config.identities {
        let (name, scopes) = (&known.identity.id, known.identity.scopes.join(", "));
        let scopes = if scopes.is_empty() { "no scopes" } else { &scopes };
        output::print_line(&output::harmless(&format!("  identity {name}: {scopes}")))?;
    }
    for source in &config.sources {
        let kind = match &source.kind {
            SourceKind::Spoke { identity } => format!("a spoke, connected by {identity}"),
            _ => "another hub".to_owned(),
        };
        output::print_line(&format!("  source {}: {kind}", source.name))?;
    }
    Ok(())
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn print_offer(registry: &Registry, config: &Config, address: SocketAddr) -> std::io::Result<()> {
    let catalog = registry.catalog();
    output::print_line(&format!("Manila {} on http://{address}\n", env!("CARGO_PKG_VERSION")))?;
    output::print_line(
        "  POST /api/{namespace}/{name}   call an operation; subscriptions stream as server-sent events",
    )?;
    output::print_line(
        "  WebSocket /hub                 the call protocol: spokes connect here, and --url ws://… calls",
    )?;
    output::print_line("  GET  /health                   whether it is alive\n")?;
    output::print_line(&format!("{} operations:", catalog.len()))?;
    let width = catalog.list().iter().map(|found| found.id().as_str().len()).max().unwrap_or(0);
    for operation in catalog.list() {
        let (id, spec) = (operation.id().as_str(), operation.spec());
        let kind = spec.kind.as_str();
        output::print_line(&format!("  {id:width$}  {kind:12}  {}", spec.description))?;
    }
    let known = config.identities.len();
    let (who, header) = if known == 0 {
        ("Open to every program on this machine, without a token.".to_owned(), "")
    } else {
        let known = count(known, "identity has", "identities have");
        (format!("Asks for a token; {known} one."), " --oauth2-bearer \"$MANILA_TOKEN\"")
    };
    output::print_line(&format!("\n{who} Try:"))?;
    output::print_line(&format!(
        "  curl http://{address}/api/demo/add{header} --json '{{\"a\": 2, \"b\": 3}}'\n"
    ))
}
