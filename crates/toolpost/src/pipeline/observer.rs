//! Passive observers of calls, for metrics and trace spans.

use std::time::Duration;

use serde_json::{Map, Value};

use super::audit::AuditOutcome;
use super::hooks::CallView;
use crate::operation::Operation;
use crate::trace::CallSpan;

/// Observes every call, including nested and rejected ones. Its methods must not block.
pub trait Observer: Send + Sync + 'static {
    /// Returns the spans of a new call, given its metadata; `None` if the call is not traced. Spans
    /// created during the call become their children, or children of the incoming trace context if
    /// this returns `None`.
    fn span(
        &self,
        metadata: Option<&Map<String, Value>>,
        operation: Option<&Operation>,
    ) -> Option<Box<CallSpan>> {
        let _ = (metadata, operation);
        None
    }

    /// Called when a call begins. [`Observer::end`] always follows.
    fn begin(&self, call: &CallView<'_>);

    /// Called when a call has ended.
    fn end(&self, call: &CallView<'_>, audit_outcome: &AuditOutcome<'_>, times: CallTimes);
}

/// Durations of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallTimes {
    /// Total duration.
    pub total: Duration,
    /// Time spent in the handler, if the call was dispatched.
    pub handler: Option<Duration>,
}
