//! `serve`: the gateway, until it is asked to stop.

use std::net::SocketAddr;

use anyhow::anyhow;
use manila::{Pipeline, Registry};
use manila_gateway::{Gateway, GatewaySettings, ListenError};

use super::registry;
use super::signal::StopRequests;
use crate::arguments::ServeOptions;
use crate::failure::Failure;
use crate::output;

pub(crate) async fn serve(options: &ServeOptions) -> Result<(), Failure> {
    let registry = registry();
    let mut settings = GatewaySettings::default();
    settings.drain = options.drain;
    let gateway = Gateway::with(Pipeline::new(registry.clone()), settings);
    let listener = Gateway::bind(options.listen).await.map_err(|error| match error {
        ListenError::Bind { .. } => anyhow!("{error}; choose another address with --listen"),
        other => anyhow!(other),
    })?;
    let mut requests = StopRequests::new()?;
    // A reader who has seen enough of the offer must not end the gateway.
    if let Err(error) = print_offer(&registry, listener.local_addr()?) {
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

fn print_offer(registry: &Registry, address: SocketAddr) -> std::io::Result<()> {
    let catalog = registry.catalog();
    output::print_line(&format!("Manila {} on http://{address}\n", env!("CARGO_PKG_VERSION")))?;
    output::print_line(
        "  POST /api/{namespace}/{name}   call an operation; subscriptions stream as server-sent events",
    )?;
    output::print_line("  GET  /health                   whether it is alive\n")?;
    output::print_line(&format!("{} operations:", catalog.len()))?;
    let width = catalog.list().iter().map(|found| found.id().as_str().len()).max().unwrap_or(0);
    for operation in catalog.list() {
        let (id, spec) = (operation.id().as_str(), operation.spec());
        let kind = spec.kind.as_str();
        output::print_line(&format!("  {id:width$}  {kind:12}  {}", spec.description))?;
    }
    output::print_line("\nOpen to every program on this machine, without a token. Try:")?;
    output::print_line(&format!(
        "  curl http://{address}/api/demo/add --json '{{\"a\": 2, \"b\": 3}}'\n"
    ))
}
