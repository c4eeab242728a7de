//! A gateway that is run: its configuration, its sources, who may come in, and how all of that
//! changes while calls go on.
//!
//! | file | holds |
//! |---|---|
//! | `setup` | what is put together before anything starts, with places for what others add |
//! | `reload` | another configuration in the place of the one that holds |
//! | `origin` | where the configuration comes from |
//! | `watch` | the files that it is made of, looked at from time to time |
//! | `operations` | `gateway.sources` and `gateway.reload` |

mod operations;
mod origin;
mod reload;
mod setup;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::app::{Gateway, ListenError, Starting};
use crate::config::Config;
use crate::server::Drained;
use crate::source::{SourceSight, SourceState};
use reload::{Asker, Reloader};

pub use origin::Origin;
pub use reload::{Part, ReloadError, Reloaded};
pub use setup::Setup;

/// How long the start waits for sources; then the gateway is ready without those that take longer.
const STARTING: Duration = Duration::from_secs(10);

/// How soon to look again whether the sources have started.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What is left for servers to end in, however long calls took.
const LEAST_PATIENCE: Duration = Duration::from_secs(3);

enum Never {}

/// A gateway with its sources, as its configuration says. Dropping it ends the sources.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use toolpost_gateway::config::Config;
/// use toolpost_gateway::{Setup, builtin};
///
/// let setup = Setup::new(builtin::registry(), Config::default());
/// let (running, listener) = setup.bind("127.0.0.1:0".parse()?).await?;
/// let stop = async { /* a signal, in real life */ };
/// let drained = running.serve(listener, stop).await?;
/// assert!(drained.in_time);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Running {
    gateway: Gateway,
    reloader: Arc<Reloader>,
    /// Looks at the files of the configuration, as long as this is there.
    _watching: Option<AbortOnDropHandle<()>>,
}

impl Running {
    /// The gateway, for those who mount its doors themselves.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// The configuration that holds.
    pub async fn config(&self) -> Config {
        self.reloader.config().await
    }

    /// How each source is doing.
    pub async fn sources(&self) -> Vec<SourceSight> {
        self.reloader.sight().await
    }

    /// Reads the configuration again and makes it hold. What did not change is not touched.
    ///
    /// # Errors
    ///
    /// Why it cannot hold; then everything is as before.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        self.reloader.reload(Asker::Person).await
    }

    /// Makes another configuration hold, wherever it came from.
    ///
    /// # Errors
    ///
    /// Why it cannot hold; then everything is as before.
    pub async fn change(&self, config: Config) -> Result<Reloaded, ReloadError> {
        self.reloader.change(config).await
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
    ) -> Result<Drained, ListenError> {
        let mut asked = None;
        let serving = self.gateway.serve(listener, async {
            shutdown.await;
            asked = Some(Instant::now());
        });
        // From before the first request on.
        let starting = self.gateway.starting();
        let served = tokio::select! {
            served = serving => served,
            never = self.look_after(starting) => match never {},
        };
        let spent = asked.map(|since| since.elapsed()).unwrap_or_default();
        let left = self.gateway.0.settings.drain.saturating_sub(spent).max(LEAST_PATIENCE);
        if !self.close(left).await {
            tracing::warn!("a server did not end in time and is left to its watcher");
        }
        served
    }

    /// Says at `/ready` that the gateway starts until its sources have; then, and after each change,
    /// says in the log which calls nobody is asked about although the configuration means some.
    async fn look_after(&self, starting: Starting) -> Never {
        let mut changes = self.reloader.changes();
        self.settle().await;
        drop(starting);
        loop {
            for problem in self.reloader.unfit_approvals().await {
                tracing::warn!(problem, "an approval is configured that nothing needs");
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            self.settle().await;
        }
    }

    /// Waits until each source was found or is known to be down. One that takes long is not waited
    /// for, and neither is any when the gateway stops.
    async fn settle(&self) {
        let settled = async {
            let is_starting = |source: &SourceSight| source.state == SourceState::Starting;
            while self.sources().await.iter().any(is_starting) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::select! {
            () = settled => {}
            () = tokio::time::sleep(STARTING) => {}
            () = self.gateway.0.stopping.cancelled() => {}
        }
    }

    /// Ends the sources, and says whether that was done in time. Calls that need them come first, and
    /// what is known about all of them is written before this ends.
    pub async fn close(&self, patience: Duration) -> bool {
        let in_time = self.reloader.close(patience).await;
        if let Some(journal) = self.gateway.0.journal.clone() {
            // A thread is waited for, so not where others have to wait as well.
            let _ = tokio::task::spawn_blocking(move || journal.close()).await;
        }
        // Last, so that the spans of the last calls are among what is sent.
        self.gateway.0.sight.close(LEAST_PATIENCE).await;
        in_time
    }
}
