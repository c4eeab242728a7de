//! Waiting for sources that are starting, so that an early call does not fail.

use std::sync::Arc;
use std::time::Duration;

use super::state::CallState;
use super::{Pipeline, PipelineShared};
use crate::handler::CallContext;

/// Share of the remaining time of a call that it waits for sources. The rest is for the call
/// itself, or for an error that names the source.
const WAIT_SHARE: f64 = 0.9;

impl Pipeline {
    /// Waits while the source of the namespace is starting, or while any source is. Waits at most as
    /// long as the settings allow, and less than `timeout`.
    pub async fn wait_for_sources(&self, namespace: Option<&str>, timeout: Option<Duration>) {
        self.0.wait_for_sources(namespace, timeout).await;
    }
}

impl PipelineShared {
    async fn wait_for_sources(&self, namespace: Option<&str>, timeout: Option<Duration>) {
        if !self.registry.catalog().is_starting(namespace) {
            return;
        }
        let max = match namespace {
            Some(_) => self.settings.source_wait,
            None => self.settings.startup_wait,
        };
        let max = timeout.map_or(max, |timeout| max.min(timeout.mul_f64(WAIT_SHARE)));
        let _ = tokio::time::timeout(max, self.registry.wait_started(namespace)).await;
    }
}

/// Waits for the sources that a call needs. If it had to wait, the call uses the current catalog.
pub(super) async fn wait(shared: &PipelineShared, context: &CallContext, namespace: Option<&str>) {
    if !shared.registry.catalog().is_starting(namespace) {
        return;
    }
    shared.wait_for_sources(namespace, context.remaining()).await;
    context.set_snapshot(shared.registry.catalog());
}

/// Waits for the source of an operation that is not in the catalog, and looks it up again.
pub(super) async fn wait_for_operation(call: &mut CallState) {
    call.may_wait_for_source = false;
    let (shared, context) = (Arc::clone(&call.shared), call.context.clone());
    let id = context.operation();
    let namespace = id.split_once('.').map_or(id, |(namespace, _)| namespace);
    // If the call is canceled meanwhile, a later stage fails.
    if call.until_canceled(wait(&shared, &context, Some(namespace))).await.is_ok() {
        call.resolve_again();
    }
}
