//! A running gateway: its configuration, sources and identities, and how a reload changes them
//! without interrupting calls.
//!
//! | file | holds |
//! |---|---|
//! | `builder` | everything that is assembled before the start |
//! | `reload` | replaces the active configuration |
//! | `config_source` | where the configuration is read from |
//! | `config_watch` | polls the files of the configuration for changes |
//! | `operations` | `gateway.sources` and `gateway.reload` |

mod builder;
mod config_source;
mod config_watch;
mod operations;
mod reload;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::app::{Gateway, ListenError, StartupGuard};
use crate::config::Config;
use crate::server::DrainReport;
use crate::source::{SourceState, SourceStatus};
use reload::{ReloadTrigger, Reloader};

pub use builder::GatewayBuilder;
pub use config_source::ConfigSource;
pub use reload::{ReloadError, ReloadReport, Reloadable};

/// How long the start waits for sources; then the gateway is ready without those that take longer.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(10);

/// How soon to look again whether the sources have started.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What is left for servers to end in, however long calls took.
const MIN_CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

enum NeverReturns {}

/// A gateway with its sources, as its configuration says. Dropping it ends the sources.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use toolpost_gateway::config::Config;
/// use toolpost_gateway::{GatewayBuilder, builtin};
///
/// let builder = GatewayBuilder::new(builtin::registry(), Config::default());
/// let (running, listener) = builder.bind("127.0.0.1:0".parse()?).await?;
/// let stop = async { /* a signal, in real life */ };
/// let drained = running.serve(listener, stop).await?;
/// assert!(drained.in_time);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct GatewayHandle {
    gateway: Gateway,
    reloader: Arc<Reloader>,
    /// Looks at the files of the configuration, as long as this is there.
    _watch_task: Option<AbortOnDropHandle<()>>,
}

impl GatewayHandle {
    /// The gateway, for those who mount its endpoints themselves.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// The configuration that holds.
    pub async fn config(&self) -> Config {
        self.reloader.config().await
    }

    /// How each source is doing.
    pub async fn sources(&self) -> Vec<SourceStatus> {
        self.reloader.source_statuses().await
    }

    /// Reads the configuration again and makes it hold. What did not change is not touched.
    ///
    /// # Errors
    ///
    /// Why it cannot hold; then everything is as before.
    pub async fn reload(&self) -> Result<ReloadReport, ReloadError> {
        self.reloader.reload(ReloadTrigger::Request).await
    }

    /// Makes another configuration hold, wherever it came from.
    ///
    /// # Errors
    ///
    /// Why it cannot hold; then everything is as before.
    pub async fn apply_config(&self, config: Config) -> Result<ReloadReport, ReloadError> {
        self.reloader.apply_config(config).await
    }

    /// Serves until `shutdown` resolves, drains as [`Gateway::serve`] does, and ends the sources.
    ///
    /// # Errors
    ///
    /// [`ListenError::NotLoopback`] without authentication, whoever bound the listener.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<DrainReport, ListenError> {
        let mut shutdown_started = None;
        let serving = self.gateway.serve(listener, async {
            shutdown.await;
            shutdown_started = Some(Instant::now());
        });
        // From before the first request on.
        let starting = self.gateway.begin_startup();
        let served = tokio::select! {
            served = serving => served,
            never = self.supervise(starting) => match never {},
        };
        let spent = shutdown_started.map(|since| since.elapsed()).unwrap_or_default();
        let remaining =
            self.gateway.0.settings.drain_timeout.saturating_sub(spent).max(MIN_CLOSE_TIMEOUT);
        if !self.close(remaining).await {
            tracing::warn!("a server did not stop in time; its watcher will end it");
        }
        served
    }

    /// Says at `/ready` that the gateway starts until its sources have; then, and after each change,
    /// says in the log which calls nobody is asked about although the configuration means some.
    async fn supervise(&self, starting: StartupGuard) -> NeverReturns {
        let mut changes = self.reloader.subscribe();
        self.wait_for_sources().await;
        drop(starting);
        loop {
            for problem in self.reloader.unmatched_approval_patterns().await {
                tracing::warn!(problem, "approval pattern matches no operation");
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            self.wait_for_sources().await;
        }
    }

    /// Waits until each source was found or is known to be down. One that takes long is not waited
    /// for, and neither is any when the gateway stops.
    async fn wait_for_sources(&self) {
        let startup_finished = async {
            let is_starting = |source: &SourceStatus| source.state == SourceState::Starting;
            while self.sources().await.iter().any(is_starting) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::select! {
            () = startup_finished => {}
            () = tokio::time::sleep(STARTUP_TIMEOUT) => {}
            () = self.gateway.0.stopping.cancelled() => {}
        }
    }

    /// Ends the sources, and says whether that was done in time. Calls that need them come first, and
    /// what is known about all of them is written before this ends.
    pub async fn close(&self, timeout: Duration) -> bool {
        let in_time = self.reloader.close(timeout).await;
        if let Some(journal) = self.gateway.0.journal.clone() {
            // A thread is waited for, so not where others have to wait as well.
            let _ = tokio::task::spawn_blocking(move || journal.close()).await;
        }
        // Last, so that the spans of the last calls are among what is sent.
        self.gateway.0.telemetry.close(MIN_CLOSE_TIMEOUT).await;
        in_time
    }
}
