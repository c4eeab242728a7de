//! The tools of the catalog of the moment, in each dialect and for each source that is asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use toolpost::view::{Dialect, Toolbox, ViewSettings};
use toolpost::{Catalog, Identity, Operation};

use super::settings::McpDoorSettings;
use crate::admin;

/// How many toolboxes are kept; there are four dialects, and few sources are asked for alone.
const MOST: usize = 64;

type Key = (Dialect, Option<Arc<str>>);

/// Toolboxes that were asked for.
#[derive(Debug, Default)]
pub(super) struct Boxes(Mutex<HashMap<Key, Arc<Toolbox>>>);

impl Boxes {
    /// Forgets them, because others would be made now.
    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The toolbox of a catalog; a later one takes over what is known about unchanged operations.
    pub(super) fn get(
        &self,
        catalog: &Arc<Catalog>,
        dialect: Dialect,
        source: Option<&Arc<str>>,
        settings: &McpDoorSettings,
    ) -> Arc<Toolbox> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (dialect, source.cloned());
        let toolbox = match known.get(&key) {
            Some(toolbox) if Arc::ptr_eq(toolbox.catalog(), catalog) => return Arc::clone(toolbox),
            Some(toolbox) => toolbox.renewed(Arc::clone(catalog)),
            None => {
                let mut view = ViewSettings::new(dialect);
                view.compact_above = settings.compact_above;
                view.namespace = key.1.clone();
                view.hidden = vec![admin::NAMESPACE.into()];
                Toolbox::new(Arc::clone(catalog), view)
            }
        };
        for warning in toolbox.warnings() {
            tracing::warn!("{warning}");
        }
        let toolbox = Arc::new(toolbox);
        if known.len() >= MOST
            && let Some(other) = known.keys().find(|other| **other != key).cloned()
        {
            known.remove(&other);
        }
        known.insert(key, Arc::clone(&toolbox));
        toolbox
    }
}

/// Whether somebody sees an operation as a tool. What a peer calls to register itself is none, and
/// neither are the methods of servers, which clients reach by the same methods here.
pub(super) fn is_tool(operation: &Operation, identity: &Identity) -> bool {
    operation.spec().access_control.admits(Some(identity)) && can_be_tool(operation)
}

/// Whether an operation is a tool for anybody.
pub(super) fn can_be_tool(operation: &Operation) -> bool {
    operation.id().as_str() != "hub.register" && !is_method(operation)
}

fn is_method(operation: &Operation) -> bool {
    toolpost::mcp::method_of(operation.spec()).is_some()
}
