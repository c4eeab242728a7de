//! How far a call has come, for whoever is watching.

use serde::{Deserialize, Serialize};
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
    /// Progress towards an unknown end.
    pub fn new(progress: f64) -> Self {
        Self { progress, total: None, message: None }
    }

    /// Says where it ends.
    #[must_use]
    pub fn of(mut self, total: f64) -> Self {
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

/// Where progress goes. The channel is bounded by whoever made it; when it is full a report is
/// dropped, because a later one says more and a slow watcher must not slow the work.
#[derive(Debug, Clone, Default)]
pub struct ProgressSender(Option<mpsc::Sender<Progress>>);

impl ProgressSender {
    /// Sends reports into a bounded channel.
    pub fn new(sender: mpsc::Sender<Progress>) -> Self {
        Self(Some(sender))
    }

    pub(crate) fn send(&self, progress: Progress) {
        if let Some(sender) = &self.0 {
            // Full or closed: either way nobody misses this one report.
            let _ = sender.try_send(progress);
        }
    }
}
