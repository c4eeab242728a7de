//! Schemas of another gateway, to the letter: whole, or as components of its document.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::super::super::document::{Library, Node, Place};
use crate::schema::{Schema, SchemaPart, components_of, restored};

/// Where components stand, as references say it.
const COMPONENTS: &str = "#/components/schemas/";
/// How many values of components are put together for all schemas of a document. Each of them may be
/// a part of many schemas, so that a small document could ask for more work than anybody has time for.
const MOST_VALUES: usize = 4_000_000;

/// The schemas that were put together, since many operations share one.
pub(in super::super) struct Schemas {
    known: HashMap<String, Result<Schema, String>>,
    values_left: usize,
}

impl Default for Schemas {
    fn default() -> Self {
        Self { known: HashMap::new(), values_left: MOST_VALUES }
    }
}

impl Schemas {
    /// The schema that is described at a place.
    ///
    /// # Errors
    ///
    /// It is none, or does not compile.
    pub(super) fn take(&mut self, library: &Arc<Library>, place: Place) -> Result<Schema, String> {
        let node = library.node(place);
        if component_name(node).is_none() {
            return made(library, place);
        }
        let text = node.to_value().to_string();
        if let Some(known) = self.known.get(&text) {
            return known.clone();
        }
        let made = match gathered(library, node, &mut self.values_left) {
            Some(_) => made(library, place),
            None => Err("the schemas of the document are too large together".to_owned()),
        };
        self.known.insert(text, made.clone());
        made
    }
}

/// The schema at a place, if it is one. It is compiled to see that, and not kept: most operations are
/// never called.
fn made(library: &Arc<Library>, place: Place) -> Result<Schema, String> {
    let described = Described { library: Arc::clone(library), place };
    let written = described.restored().ok_or("one of its components is missing")?;
    let alone = Schema::new(written).map_err(|error| error.to_string())?;
    alone.compile().map_err(|error| error.to_string())?;
    Ok(if alone.is_unknown() { alone } else { Schema::part(Arc::new(described)) })
}

/// A schema as a document describes it.
struct Described {
    library: Arc<Library>,
    place: Place,
}

impl Described {
    fn restored(&self) -> Option<Value> {
        let node = self.library.node(self.place);
        let components = gathered(&self.library, node, &mut usize::MAX.clone())?;
        restored(&node.to_value(), |name| components.get(name))
    }
}

impl SchemaPart for Described {
    fn write(&self) -> Value {
        self.restored().expect("it was there when the document was imported")
    }
}

/// The components that a schema is put together from: itself, its definitions, and what these lead to.
/// `None` if that would be more values than are left.
fn gathered(
    library: &Library,
    described: Node<'_>,
    values_left: &mut usize,
) -> Option<HashMap<String, Value>> {
    let mut gathered = HashMap::new();
    let mut waiting: Vec<String> = named(described).map(str::to_owned).collect();
    while let Some(name) = waiting.pop() {
        if gathered.contains_key(&name) {
            continue;
        }
        let Some(node) = component(library, &name) else { continue };
        *values_left = values_left.checked_sub(size(node))?;
        let value = node.to_value();
        waiting.extend(components_of(&value).map(str::to_owned));
        gathered.insert(name, value);
    }
    Some(gathered)
}

/// The components that a schema names itself.
fn named(node: Node<'_>) -> impl Iterator<Item = &str> {
    let definitions = ["$defs", "definitions"].into_iter().filter_map(move |name| node.get(name));
    let definitions = definitions.flat_map(|definitions| definitions.members().map(|(_, one)| one));
    std::iter::once(node).chain(definitions).filter_map(component_name)
}

fn component_name(node: Node<'_>) -> Option<&str> {
    node.get("$ref").and_then(Node::as_str)?.strip_prefix(COMPONENTS)
}

fn component<'l>(library: &'l Library, name: &str) -> Option<Node<'l>> {
    library.node(library.root()).get("components")?.get("schemas")?.get(name)
}

fn size(node: Node<'_>) -> usize {
    1 + node.items().map(size).sum::<usize>()
        + node.members().map(|(_, value)| size(value)).sum::<usize>()
}
