//! Integration tests of the gateway over real sockets.
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and its rows are tuples"
)]

mod access;
mod access_changes;
mod approval;
mod auth;
mod browser;
mod chained_gateways;
mod chaos;
mod docs;
mod drain;
mod embedding;
mod fuzz_corpus;
mod hostile;
mod http;
mod hub;
mod idempotency;
mod journal_secrets;
mod jwt;
mod layers;
mod limits;
mod mcp;
mod observability;
mod openapi;
mod rejection_audit;
mod room_protocol;
mod rooms_page;
mod security;
mod spokes;
mod sse;
mod tls;

use std::net::SocketAddr;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use toolpost::{Operation, Registry};
use toolpost_gateway::{DrainReport, Gateway, GatewayBuilder, GatewaySettings, builtin};

/// A gateway on a free loopback port.
struct TestGateway {
    address: SocketAddr,
    gateway: Gateway,
    stop: oneshot::Sender<()>,
    served: JoinHandle<DrainReport>,
}

impl TestGateway {
    async fn start() -> Self {
        Self::start_with([], GatewaySettings::default()).await
    }

    /// Starts a gateway with the built-in operations and `operations`.
    async fn start_with(
        operations: impl IntoIterator<Item = Operation>,
        settings: GatewaySettings,
    ) -> Self {
        let registry: Registry = builtin::registry();
        for operation in operations {
            registry.register(operation).unwrap();
        }
        Self::serve(Gateway::builder(registry).settings(settings), "127.0.0.1:0").await
    }

    async fn serve(builder: GatewayBuilder, address: &str) -> Self {
        let (gateway, listener) = builder.listen(address).bind().await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = gateway.clone();
        let served = tokio::spawn(async move {
            serving.serve(listener, async { drop(stopped.await) }).await.unwrap()
        });
        Self { address, gateway, stop, served }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn stop(self) -> DrainReport {
        drop(self.stop);
        self.served.await.unwrap()
    }
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Responses are inspected as sent, without decompression.
    let builder = reqwest::Client::builder().no_gzip().no_brotli().no_zstd().no_proxy();
    // Bounds every wait for a response or the next part of a stream.
    builder.read_timeout(std::time::Duration::from_secs(120)).build().unwrap()
}
