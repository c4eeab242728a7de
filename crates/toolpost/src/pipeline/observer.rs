//! Who watches calls without a say in them: for metrics, and for the spans of a trace.

use std::time::Duration;

use serde_json::{Map, Value};

use super::audit::AuditOutcome;
use super::hooks::CallView;
use crate::operation::Operation;
use crate::trace::CallSpan;

/// Watches every call, nested and refused ones too. Nothing of it may wait.
pub trait Observer: Send + Sync + 'static {
    /// The spans of a call that begins, given what came with it, where calls are recorded. Whatever
    /// the call causes stands below them; without them it stands below what came.
    fn span(
        &self,
        metadata: Option<&Map<String, Value>>,
        operation: Option<&Operation>,
    ) -> Option<Box<CallSpan>> {
        let _ = (metadata, operation);
        None
    }

    /// A call begins; [`Observer::end`] follows in any case.
    fn begin(&self, call: &CallView<'_>);

    /// A call has ended.
    fn end(&self, call: &CallView<'_>, audit_outcome: &AuditOutcome<'_>, times: CallTimes);
}

/// How long a call took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallTimes {
    /// From its beginning to its end.
    pub total: Duration,
    /// How much of it the handler had, if it was entered.
    pub handler: Option<Duration>,
}

impl CallTimes {
    pub(super) fn new(total: Duration, handler: Option<Duration>) -> Self {
        Self { total, handler }
    }
}
