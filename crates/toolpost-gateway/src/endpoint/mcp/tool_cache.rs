//! The tools of the catalog of the moment, in each dialect and for each source that is asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use toolpost::view::{Dialect, ToolSet, ViewSettings};
use toolpost::{Catalog, Identity, Operation};

use super::settings::McpEndpointSettings;
use crate::admin;

/// How many toolboxes are kept; there are four dialects, and few sources are asked for alone.
const MAX_TOOL_SETS: usize = 64;

type ToolSetKey = (Dialect, Option<Arc<str>>);

/// Toolboxes that were asked for.
#[derive(Debug, Default)]
pub(super) struct ToolCache(Mutex<HashMap<ToolSetKey, Arc<ToolSet>>>);

impl ToolCache {
    /// Forgets them, because others would be made now.
    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The tool set of a catalog; a later one reuses the tools of unchanged operations.
    pub(super) fn get(
        &self,
        catalog: &Arc<Catalog>,
        dialect: Dialect,
        source: Option<&Arc<str>>,
        settings: &McpEndpointSettings,
    ) -> Arc<ToolSet> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Whether somebody sees an operation as a tool. What a peer calls to register itself is none, and
/// neither are the methods of servers, which clients reach by the same methods here.
pub(super) fn is_tool(operation: &Operation, identity: &Identity) -> bool {
    operation.spec().access_control.is_callable_by(Some(identity)) && can_be_tool(operation)
}

/// Whether an operation is a tool for anybody.
pub(super) fn can_be_tool(operation: &Operation) -> bool {
    operation.id().as_str() != "hub.register" && !is_protocol_method(operation)
}

fn is_protocol_method(operation: &Operation) -> bool {
    toolpost::mcp::method_of(operation.spec()).is_some()
}
