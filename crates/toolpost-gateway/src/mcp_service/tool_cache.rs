//! Cache of the tool sets of the current catalog, by dialect and selected source.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use toolpost::mcp::method_of;
use toolpost::view::{Dialect, ToolSet, ViewSettings};
use toolpost::{Catalog, Identity, Operation};

use super::settings::McpEndpointSettings;
use crate::{admin, builtin};

/// Maximum number of cached tool sets.
const MAX_TOOL_SETS: usize = 64;

type ToolSetKey = (Dialect, Option<Arc<str>>);

/// Cached tool sets by dialect and source.
#[derive(Debug, Default)]
pub(super) struct ToolCache(Mutex<HashMap<ToolSetKey, Arc<ToolSet>>>);

impl ToolCache {
    /// Removes all tool sets, so that they are rebuilt with the current settings.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Returns the tool set for a catalog. Tools of unchanged operations are reused.
    pub(super) fn get(
        &self,
        catalog: &Arc<Catalog>,
        dialect: Dialect,
        source: Option<&Arc<str>>,
        settings: &McpEndpointSettings,
    ) -> Arc<ToolSet> {
        let mut cached = self.0.lock();
        let key = (dialect, source.cloned());
        let tool_set = match cached.get(&key) {
            Some(tool_set) if Arc::ptr_eq(tool_set.catalog(), catalog) => {
                return Arc::clone(tool_set);
            }
            Some(tool_set) => tool_set.updated(Arc::clone(catalog)),
            None => {
                let mut view = ViewSettings::new(dialect);
                view.compact_above = settings.compact_above;
                view.namespace = key.1.clone();
                view.hidden_namespaces = vec![admin::NAMESPACE.into()];
                if !settings.offers_demo {
                    view.unlisted_namespaces.push(builtin::DEMO_NAMESPACE.into());
                }
                ToolSet::new(Arc::clone(catalog), view)
            }
        };
        for warning in tool_set.warnings() {
            tracing::warn!("{warning}");
        }
        let tool_set = Arc::new(tool_set);
        if cached.len() >= MAX_TOOL_SETS
            && let Some(other) = cached.keys().find(|other| **other != key).cloned()
        {
            cached.remove(&other);
        }
        cached.insert(key, Arc::clone(&tool_set));
        tool_set
    }
}

/// Whether an identity can use an operation as a tool. `hub.register` is not a tool. Neither are
/// the MCP methods of servers, which clients use through the same methods of this endpoint.
pub(super) fn is_tool(operation: &Operation, identity: &Identity) -> bool {
    operation.spec().access_control.is_callable_by(Some(identity)) && can_be_tool(operation)
}

/// Whether an operation is a tool for any identity.
pub(super) fn can_be_tool(operation: &Operation) -> bool {
    operation.id().as_str() != "hub.register" && method_of(operation.spec()).is_none()
}
