//! The tools of a catalog.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use super::listing::Listing;
use super::settings::{Era, Listed, ViewSettings};
use super::tool::Tool;
use crate::operation::Operation;
use crate::registry::Catalog;

/// The operations through which every other is found and called.
const COMPACT: [&str; 4] = ["hub.call", "hub.list", "hub.schema", "hub.search"];

/// Every operation of one snapshot of a catalog as a tool, found by its name.
#[derive(Debug)]
pub struct Toolbox {
    catalog: Arc<Catalog>,
    settings: ViewSettings,
    /// Sorted by id.
    tools: Vec<Arc<Tool>>,
    names: HashMap<String, usize, foldhash::fast::RandomState>,
    warnings: Vec<String>,
    /// The lists that were asked for, by what they show.
    listings: Mutex<HashMap<Shown, Arc<Listing>>>,
}

/// What a listing shows: one bit for each tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Shown {
    era: Era,
    tools: Box<[u64]>,
}

impl Toolbox {
    /// The tools of a catalog.
    pub fn new(catalog: Arc<Catalog>, settings: ViewSettings) -> Self {
        Self::with(catalog, settings, |operation, settings| {
            Arc::new(Tool::new(Arc::clone(operation), settings))
        })
    }

    /// The tools of a later catalog; what is known about unchanged operations is kept.
    #[must_use]
    pub fn renewed(&self, catalog: Arc<Catalog>) -> Self {
        let known: HashMap<*const Operation, &Arc<Tool>> =
            self.tools.iter().map(|tool| (Arc::as_ptr(tool.operation()), tool)).collect();
        Self::with(catalog, self.settings.clone(), |operation, settings| {
            let known = known.get(&Arc::as_ptr(operation)).map(|tool| Arc::clone(tool));
            known.unwrap_or_else(|| Arc::new(Tool::new(Arc::clone(operation), settings)))
        })
    }

    fn with(
        catalog: Arc<Catalog>,
        settings: ViewSettings,
        tool: impl Fn(&Arc<Operation>, &ViewSettings) -> Arc<Tool>,
    ) -> Self {
        let mut names = HashMap::with_hasher(<_>::default());
        let mut tools: Vec<Arc<Tool>> = Vec::new();
        let mut warnings = Vec::new();
        let is_shown = |namespace: &str| {
            let is_asked_for = settings.namespace.as_deref().is_none_or(|one| one == namespace);
            is_asked_for && settings.hidden.iter().all(|hidden| **hidden != *namespace)
        };
        let shown = catalog.list().iter().filter(|one| is_shown(one.id().namespace()));
        for operation in shown {
            let tool = tool(operation, &settings);
            match names.entry(tool.name().to_owned()) {
                Entry::Vacant(place) => {
                    place.insert(tools.len());
                    tools.push(tool);
                }
                Entry::Occupied(place) => {
                    let first = tools[*place.get()].id();
                    let (id, name) = (tool.id(), tool.name());
                    warnings.push(format!(
                        "{id} is no tool: its name would be `{name}`, and that is {first}"
                    ));
                }
            }
        }
        Self { catalog, settings, tools, names, warnings, listings: Mutex::default() }
    }

    /// The snapshot that these are the tools of.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Which operations are no tools, and why.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The tool of that name, whether or not a listing shows it; who may call it is for the caller
    /// of this to ask.
    pub fn tool(&self, name: &str) -> Option<&Arc<Tool>> {
        self.names.get(name).map(|position| &self.tools[*position])
    }

    /// Every tool, sorted by the ids of the operations.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// A list of the tools that somebody sees. Callers who see the same share one list.
    pub fn listing(
        &self,
        listed: Listed,
        era: Era,
        is_visible: impl Fn(&Operation) -> bool,
    ) -> Arc<Listing> {
        let shown = Shown { era, tools: self.shown(listed, is_visible) };
        let known = || self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listing) = known().get(&shown) {
            return Arc::clone(listing);
        }
        let tools = self.tools.iter().enumerate();
        let tools = tools.filter(|(position, _)| shown.has(*position)).map(|(_, tool)| tool);
        let listing = Arc::new(Listing::new(tools, era, self.settings.page));
        let mut known = known();
        // Whoever has so many kinds of callers starts anew rather than keeping them all.
        if known.len() >= self.settings.listings {
            known.clear();
        }
        known.insert(shown, Arc::clone(&listing));
        listing
    }

    fn shown(&self, listed: Listed, is_visible: impl Fn(&Operation) -> bool) -> Box<[u64]> {
        let mut visible = vec![0_u64; self.tools.len().div_ceil(64)];
        let mut compact = visible.clone();
        let (mut count, mut is_compact) = (0, false);
        for (position, tool) in self.tools.iter().enumerate() {
            if !is_visible(tool.operation()) {
                continue;
            }
            let (word, bit) = (position / 64, 1 << (position % 64));
            visible[word] |= bit;
            count += 1;
            if COMPACT.contains(&tool.id().as_str()) {
                compact[word] |= bit;
                is_compact = true;
            }
        }
        let wants_compact = match listed {
            Listed::All => false,
            Listed::Compact => true,
            Listed::Auto => count > self.settings.compact_above,
        };
        // Where those four are not there, an empty list would help nobody.
        if wants_compact && is_compact { compact.into() } else { visible.into() }
    }
}

impl Shown {
    fn has(&self, position: usize) -> bool {
        self.tools[position / 64] & (1 << (position % 64)) != 0
    }
}
