//! How far a call has come, for whoever is watching.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

/// One report of a running call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Progress {
    /// How far it has come; it only grows.
    pub progress: f64,
    /// Where it ends, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What it is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Progress {
    /// Progress toward an unknown end.
    pub fn new(progress: f64) -> Self {
        Self { progress, total: None, message: None }
    }

    /// Says where it ends.
    #[must_use]
    pub fn with_total(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// Says what is happening.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

/// Something that a call says while it is running, for the log of its caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogMessage {
    /// How much it matters: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or
    /// `emergency`.
    #[serde(default)]
    pub level: String,
    /// The part that says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// What it says.
    #[serde(default)]
    pub data: Value,
}

impl LogMessage {
    /// A line without a logger.
    pub fn new(level: impl Into<String>, data: impl Into<Value>) -> Self {
        Self { level: level.into(), logger: None, data: data.into() }
    }
}

/// Somebody who watches a running call. It is called by the handler and must return at once.
pub trait ProgressObserver: Send + Sync {
    /// A report of how far the call has come.
    fn progress(&self, progress: Progress);

    /// Something that the call says; who does not care does nothing.
    fn log(&self, message: LogMessage) {
        drop(message);
    }
}

impl<F: Fn(Progress) + Send + Sync> ProgressObserver for F {
    fn progress(&self, progress: Progress) {
        self(progress);
    }
}

/// Where progress goes: into a bounded channel, or to somebody who must not wait. A report that
/// finds no room is dropped, because a later one says more and a slow watcher must not slow the work.
#[derive(Clone, Default)]
pub struct ProgressSender(Option<Arc<dyn ProgressObserver>>);

impl ProgressSender {
    /// Sends reports into a bounded channel.
    pub fn new(sender: mpsc::Sender<Progress>) -> Self {
        // Full or closed: either way nobody misses this one report.
        Self::from_fn(move |progress| drop(sender.try_send(progress)))
    }

    /// Gives reports to a function, which is called by the handler and must return at once.
    pub fn from_fn(observer: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self::from_observer(Arc::new(observer))
    }

    /// Gives reports, and what the call says, to somebody.
    pub fn from_observer(observer: Arc<dyn ProgressObserver>) -> Self {
        Self(Some(observer))
    }

    /// Tells whoever watches, if somebody does.
    pub fn send(&self, progress: Progress) {
        if let Some(observer) = &self.0 {
            observer.progress(progress);
        }
    }

    pub(crate) fn log(&self, message: LogMessage) {
        if let Some(observer) = &self.0 {
            observer.log(message);
        }
    }
}

impl std::fmt::Debug for ProgressSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ProgressSender").field(&self.0.is_some()).finish()
    }
}
