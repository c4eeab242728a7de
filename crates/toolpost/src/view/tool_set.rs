//! The tools of a catalog.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;

use super::listing::Listing;
use super::settings::{ListMode, ProtocolGeneration, ViewSettings};
use super::tool::Tool;
use crate::operation::Operation;
use crate::registry::Catalog;

/// The operations of a compact listing, through which clients find and call all others.
const COMPACT_OPERATIONS: [&str; 4] = ["hub.call", "hub.list", "hub.schema", "hub.search"];

/// The operations of a catalog snapshot as MCP tools, indexed by tool name.
#[derive(Debug)]
pub struct ToolSet {
    catalog: Arc<Catalog>,
    settings: ViewSettings,
    /// Sorted by operation id.
    tools: Vec<Arc<Tool>>,
    names: HashMap<String, usize, foldhash::fast::RandomState>,
    warnings: Vec<String>,
    /// Cached listings by the tools they contain.
    listings: Mutex<HashMap<ListingKey, Arc<Listing>>>,
}

/// Key of a cached listing: the protocol generation, and one bit per tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ListingKey {
    generation: ProtocolGeneration,
    tools: Box<[u64]>,
}

impl ToolSet {
    /// Creates the tools of a catalog.
    pub fn new(catalog: Arc<Catalog>, settings: ViewSettings) -> Self {
        Self::build(catalog, settings, |operation, settings| {
            Arc::new(Tool::new(Arc::clone(operation), settings))
        })
    }

    /// Creates the tools of a newer catalog, reusing the tools of unchanged operations.
    #[must_use]
    pub fn updated(&self, catalog: Arc<Catalog>) -> Self {
        let known: HashMap<*const Operation, &Arc<Tool>> =
            self.tools.iter().map(|tool| (Arc::as_ptr(tool.operation()), tool)).collect();
        Self::build(catalog, self.settings.clone(), |operation, settings| {
            let known = known.get(&Arc::as_ptr(operation)).map(|tool| Arc::clone(tool));
            known.unwrap_or_else(|| Arc::new(Tool::new(Arc::clone(operation), settings)))
        })
    }

    fn build(
        catalog: Arc<Catalog>,
        settings: ViewSettings,
        tool: impl Fn(&Arc<Operation>, &ViewSettings) -> Arc<Tool>,
    ) -> Self {
        let mut names = HashMap::with_hasher(<_>::default());
        let mut tools: Vec<Arc<Tool>> = Vec::new();
        let mut warnings = Vec::new();
        let is_listed = |namespace: &str| {
            let is_selected = settings.namespace.as_deref().is_none_or(|one| one == namespace);
            is_selected && settings.hidden_namespaces.iter().all(|hidden| **hidden != *namespace)
        };
        let listed = catalog.list().iter().filter(|one| is_listed(one.id().namespace()));
        for operation in listed {
            let tool = tool(operation, &settings);
            match names.entry(tool.name().to_owned()) {
                Entry::Vacant(slot) => {
                    slot.insert(tools.len());
                    tools.push(tool);
                }
                Entry::Occupied(slot) => {
                    let first = tools[*slot.get()].id();
                    let (id, name) = (tool.id(), tool.name());
                    warnings.push(format!(
                        "{id} is not exposed as a tool: its tool name `{name}` is already used by {first}"
                    ));
                }
            }
        }
        Self { catalog, settings, tools, names, warnings, listings: Mutex::default() }
    }

    /// Returns the catalog snapshot that the tools were created from.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns a warning for each operation that is not exposed as a tool.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the namespaces whose operations are not listed, whether or not they are tools.
    pub fn unlisted_namespaces(&self) -> Vec<Arc<str>> {
        let ViewSettings { hidden_namespaces, unlisted_namespaces, .. } = &self.settings;
        hidden_namespaces.iter().chain(unlisted_namespaces).cloned().collect()
    }

    /// Returns the tool with this name, whether or not it is listed. Does not check access.
    pub fn tool(&self, name: &str) -> Option<&Arc<Tool>> {
        self.names.get(name).map(|position| &self.tools[*position])
    }

    /// Returns all tools, sorted by operation id.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// Returns the list of visible tools. Clients that see the same tools share one cached list.
    pub fn listing(
        &self,
        mode: ListMode,
        generation: ProtocolGeneration,
        is_visible: impl Fn(&Operation) -> bool,
    ) -> Arc<Listing> {
        let key = ListingKey { generation, tools: self.select_tools(mode, is_visible) };
        let known = || self.listings.lock();
        if let Some(listing) = known().get(&key) {
            return Arc::clone(listing);
        }
        let tools = self.tools.iter().enumerate();
        let tools = tools.filter(|(position, _)| key.contains(*position)).map(|(_, tool)| tool);
        let listing = Arc::new(Listing::new(tools, generation, self.settings.page_size));
        let mut known = known();
        // Clear the cache when it is full.
        if known.len() >= self.settings.max_cached_listings {
            known.clear();
        }
        known.insert(key, Arc::clone(&listing));
        listing
    }

    fn select_tools(&self, mode: ListMode, is_visible: impl Fn(&Operation) -> bool) -> Box<[u64]> {
        let mut visible = vec![0_u64; self.tools.len().div_ceil(64)];
        let mut compact = visible.clone();
        let (mut count, mut is_compact) = (0, false);
        let ViewSettings { namespace, unlisted_namespaces, .. } = &self.settings;
        let is_listed = |operation: &Operation| {
            let is_own = |one: &Arc<str>| **one == *operation.id().namespace();
            namespace.is_some() || !unlisted_namespaces.iter().any(is_own)
        };
        for (position, tool) in self.tools.iter().enumerate() {
            if !is_listed(tool.operation()) || !is_visible(tool.operation()) {
                continue;
            }
            let (word, bit) = (position / 64, 1 << (position % 64));
            visible[word] |= bit;
            count += 1;
            if COMPACT_OPERATIONS.contains(&tool.id().as_str()) {
                compact[word] |= bit;
                is_compact = true;
            }
        }
        let wants_compact = match mode {
            ListMode::All => false,
            ListMode::Compact => true,
            ListMode::Auto => count > self.settings.compact_above,
        };
        // If none of the compact operations is visible, list all visible tools instead of none.
        if wants_compact && is_compact { compact.into() } else { visible.into() }
    }
}

impl ListingKey {
    fn contains(&self, position: usize) -> bool {
        self.tools[position / 64] & (1 << (position % 64)) != 0
    }
}
