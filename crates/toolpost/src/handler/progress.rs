//! Progress reports and log messages of a running call.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

/// A progress report of a running call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Progress {
    /// Current progress. Must increase with each report.
    pub progress: f64,
    /// Total, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// Description of the current step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Progress {
    /// Creates a report without a total.
    pub fn new(progress: f64) -> Self {
        Self { progress, total: None, message: None }
    }

    /// Sets the total.
    #[must_use]
    pub fn with_total(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// Sets the description of the current step.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

/// A log message that a running call sends to its caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogMessage {
    /// Severity: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.
    #[serde(default)]
    pub level: String,
    /// Name of the logger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// The logged value.
    #[serde(default)]
    pub data: Value,
}

impl LogMessage {
    /// Creates a message without a logger name.
    pub fn new(level: impl Into<String>, data: impl Into<Value>) -> Self {
        Self { level: level.into(), logger: None, data: data.into() }
    }
}

/// Observes a running call. It runs on the handler's task, so it must not block.
pub trait ProgressObserver: Send + Sync {
    /// Called for each progress report.
    fn progress(&self, progress: Progress);

    /// Called for each log message; ignored by default.
    fn log(&self, message: LogMessage) {
        drop(message);
    }
}

impl<F: Fn(Progress) + Send + Sync> ProgressObserver for F {
    fn progress(&self, progress: Progress) {
        self(progress);
    }
}

/// Sends progress reports to a bounded channel or to an observer, which must not block. Reports are
/// dropped while the channel is full, because later reports supersede them.
#[derive(Clone, Default)]
pub struct ProgressSender(Option<Arc<dyn ProgressObserver>>);

impl ProgressSender {
    /// Creates a sender for a bounded channel. Reports are dropped while the channel is full.
    pub fn new(sender: mpsc::Sender<Progress>) -> Self {
        // A report is dropped if the channel is full or closed.
        Self::from_fn(move |progress| drop(sender.try_send(progress)))
    }

    /// Creates a sender that passes reports to a function, which must not block.
    pub fn from_fn(observer: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self::from_observer(Arc::new(observer))
    }

    /// Passes progress reports and log messages to an observer.
    pub fn from_observer(observer: Arc<dyn ProgressObserver>) -> Self {
        Self(Some(observer))
    }

    /// Sends a report to the observer, if there is one.
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
