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
pub use reload::{ReloadError, ReloadReport};

/// Maximum time to wait for sources at startup. The gateway is ready after that, even if a source
/// is not.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Poll interval while waiting for the sources to start.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Minimum time for servers to stop, even if calls used up the drain timeout.
const MIN_CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

enum NeverReturns {}

/// A running gateway with its configured sources. Dropping it stops the sources.
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
    /// Polls the files of the configuration until dropped.
    _watch_task: Option<AbortOnDropHandle<()>>,
}

impl GatewayHandle {
    /// Returns the gateway, to mount its endpoints in another server.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Returns the active configuration.
    pub async fn config(&self) -> Config {
        self.reloader.config().await
    }

    /// Returns the status of each source.
    pub async fn sources(&self) -> Vec<SourceStatus> {
        self.reloader.source_statuses().await
    }

    /// Reads the configuration again and applies it. Unchanged parts are not interrupted.
    ///
    /// # Errors
    ///
    /// The configuration was rejected; the previous one stays active.
    pub async fn reload(&self) -> Result<ReloadReport, ReloadError> {
        self.reloader.reload(ReloadTrigger::Request).await
    }

    /// Applies a configuration.
    ///
    /// # Errors
    ///
    /// The configuration is rejected; the previous one stays active.
    pub async fn apply_config(&self, config: Config) -> Result<ReloadReport, ReloadError> {
        self.reloader.apply_config(config).await
    }

    /// Serves until `shutdown` resolves, drains like [`Gateway::serve`], and stops the sources.
    ///
    /// # Errors
    ///
    /// [`ListenError::NotLoopback`] without authentication, even if the caller bound the listener.
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
        // `/ready` reports startup from before the first request.
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

    /// Reports at `/ready` that the gateway is starting until its sources have started. After that,
    /// and after each configuration change, logs approval patterns that match no operation.
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

    /// Waits until each source is ready or known to be down, until the timeout passes, or until the
    /// gateway stops.
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

    /// Stops the sources and returns whether they stopped in time. Drain calls first. The journal
    /// is written completely and the remaining spans are sent before this returns.
    pub async fn close(&self, timeout: Duration) -> bool {
        let in_time = self.reloader.close(timeout).await;
        if let Some(journal) = self.gateway.0.journal.clone() {
            // Closing waits for a thread, which would block the runtime.
            let _ = tokio::task::spawn_blocking(move || journal.close()).await;
        }
        // Last, so that the spans of the last calls are sent.
        self.gateway.0.telemetry.close(MIN_CLOSE_TIMEOUT).await;
        in_time
    }
}
