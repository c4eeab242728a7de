//! Audit records of requests that an endpoint rejects before they are calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use toolpost::{Authority, CallError, CallRequest, Identity, epoch_ms};

use crate::app::Gateway;

/// Maximum number of anonymous rejections recorded per second. Clients without a token must not be
/// able to fill the journal and displace its records.
const MAX_PER_SECOND: u32 = 20;

/// Number of anonymous rejections in the current second.
#[derive(Debug, Default)]
pub(crate) struct AnonymousRejections {
    second: AtomicI64,
    count: AtomicU32,
}

impl AnonymousRejections {
    fn try_record(&self, second: i64) -> bool {
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.count.store(0, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed) < MAX_PER_SECOND
    }
}

/// Audits a rejected request. Returns the error to send instead if the caller exceeds a limit.
pub(super) async fn audit_rejection(
    gateway: &Gateway,
    request: CallRequest<'_>,
    identity: &Arc<Identity>,
    error: &CallError,
) -> Option<CallError> {
    let authority = Authority::untrusted(Some(Arc::clone(identity)));
    gateway.pipeline().record_rejected(request, authority, error).await
}

/// Audits a rejected request without an identity.
pub(super) async fn audit_anonymous_rejection(
    gateway: &Gateway,
    request: CallRequest<'_>,
    reason: &str,
) {
    if gateway.0.anonymous_rejections.try_record(epoch_ms() / 1_000) {
        let error = CallError::access_denied(reason.to_owned());
        gateway.pipeline().record_rejected(request, Authority::untrusted(None), &error).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_rejections_are_rate_limited_in_journal() {
        let rejections = AnonymousRejections::default();
        for second in [7, 8] {
            let recorded = (0..100).filter(|_| rejections.try_record(second)).count();
            assert_eq!(recorded, MAX_PER_SECOND as usize);
        }
    }
}
