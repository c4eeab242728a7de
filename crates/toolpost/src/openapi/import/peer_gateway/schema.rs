//! Schemas of another gateway, unchanged: inline, or assembled from the components of its document.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::super::super::document::{DocumentSet, Node, NodeRef};
use crate::schema::{
    COMPONENTS_PREFIX, PropertyNames, Schema, SchemaPart, referenced_components, unbundle,
};

/// Maximum number of component values that are copied for all schemas of a document. A component
/// can be part of many schemas, so a small document could otherwise cause excessive work.
const MAX_COMPONENT_VALUES: usize = 4_000_000;

/// Cache of assembled schemas. Many operations share a schema.
pub(in super::super) struct PeerSchemas {
    cache: HashMap<String, Result<Schema, String>>,
    remaining_values: usize,
}

impl Default for PeerSchemas {
    fn default() -> Self {
        Self { cache: HashMap::new(), remaining_values: MAX_COMPONENT_VALUES }
    }
}

impl PeerSchemas {
    /// Returns the schema at a node.
    pub(super) fn get_or_build(
        &mut self,
        documents: &Arc<DocumentSet>,
        node: Node<'_>,
    ) -> Result<Schema, String> {
        if component_name(node).is_none() {
            return build_schema(documents, node.node_ref());
        }
        let text = node.to_value().to_string();
        if let Some(known) = self.cache.get(&text) {
            return known.clone();
        }
        let schema = match collect_components(documents, node, &mut self.remaining_values) {
            Some(_) => build_schema(documents, node.node_ref()),
            None => Err("the schemas of the document are too large in total".to_owned()),
        };
        self.cache.insert(text, schema.clone());
        schema
    }
}

/// Builds the schema at a node. It is compiled only as a check and then dropped.
fn build_schema(documents: &Arc<DocumentSet>, node_ref: NodeRef) -> Result<Schema, String> {
    let peer_schema = PeerSchema { documents: Arc::clone(documents), node_ref };
    let schema_json = peer_schema.unbundle().ok_or("one of its components is missing")?;
    let schema = Schema::new(schema_json).map_err(|error| error.to_string())?;
    schema.compile().map_err(|error| error.to_string())?;
    Ok(if schema.is_unknown() { schema } else { Schema::part(Arc::new(peer_schema)) })
}

/// A schema at a node of a gateway document.
struct PeerSchema {
    documents: Arc<DocumentSet>,
    node_ref: NodeRef,
}

impl PeerSchema {
    fn unbundle(&self) -> Option<Value> {
        let node = self.documents.node(self.node_ref);
        let components = collect_components(&self.documents, node, &mut usize::MAX.clone())?;
        unbundle(&node.to_value(), |name| components.get(name))
    }
}

impl SchemaPart for PeerSchema {
    fn to_value(&self) -> Value {
        self.unbundle().expect("checked during import")
    }

    fn property_names(&self) -> PropertyNames {
        let node = self.documents.node(self.node_ref);
        PropertyNames::of(&node.target().unwrap_or(node).to_value())
    }
}

/// Collects the components of a schema; `None` if they exceed the remaining values.
fn collect_components(
    documents: &DocumentSet,
    peer_schema: Node<'_>,
    remaining_values: &mut usize,
) -> Option<HashMap<String, Value>> {
    let mut components = HashMap::new();
    let mut queue: Vec<String> = component_names(peer_schema).map(str::to_owned).collect();
    while let Some(name) = queue.pop() {
        if components.contains_key(&name) {
            continue;
        }
        let schemas = documents.root().get("components").and_then(|it| it.get("schemas"));
        let Some(node) = schemas.and_then(|schemas| schemas.get(&name)) else { continue };
        *remaining_values = remaining_values.checked_sub(value_count(node))?;
        let value = node.to_value();
        queue.extend(referenced_components(&value).map(str::to_owned));
        components.insert(name, value);
    }
    Some(components)
}

/// Returns the names of the components that a schema and its definitions refer to.
fn component_names(node: Node<'_>) -> impl Iterator<Item = &str> {
    let definitions = ["$defs", "definitions"].into_iter().flat_map(move |it| node.members_of(it));
    let definitions = definitions.map(|(_, definition)| definition);
    std::iter::once(node).chain(definitions).filter_map(component_name)
}

fn component_name(node: Node<'_>) -> Option<&str> {
    node.text("$ref")?.strip_prefix(COMPONENTS_PREFIX)
}

fn value_count(node: Node<'_>) -> usize {
    1 + node.items().map(value_count).sum::<usize>()
        + node.members().map(|(_, value)| value_count(value)).sum::<usize>()
}
