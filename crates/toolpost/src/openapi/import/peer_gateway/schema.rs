//! Schemas of another gateway, to the letter: whole, or as components of its document.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::super::super::document::{DocumentSet, NodeRef, TreeNode};
use crate::schema::{Schema, SchemaPart, referenced_components, unbundle};

/// Where components stand, as references say it.
const COMPONENT_PREFIX: &str = "#/components/schemas/";
/// How many values of components are put together for all schemas of a document. Each of them may be
/// a part of many schemas, so that a small document could ask for more work than anybody has time for.
const MAX_COMPONENT_VALUES: usize = 4_000_000;

/// The schemas that were put together, since many operations share one.
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
    /// The schema at a node.
    ///
    /// # Errors
    ///
    /// It is none, or does not compile.
    pub(super) fn get_or_build(
        &mut self,
        documents: &Arc<DocumentSet>,
        node_ref: NodeRef,
    ) -> Result<Schema, String> {
        let node = documents.node(node_ref);
        if component_name(node).is_none() {
            return build_schema(documents, node_ref);
        }
        let text = node.to_value().to_string();
        if let Some(known) = self.cache.get(&text) {
            return known.clone();
        }
        let schema = match collect_components(documents, node, &mut self.remaining_values) {
            Some(_) => build_schema(documents, node_ref),
            None => Err("the schemas of the document are too large together".to_owned()),
        };
        self.cache.insert(text, schema.clone());
        schema
    }
}

/// The schema at a node, if it is valid. It is compiled as a check and then dropped, since most
/// operations are never called.
fn build_schema(documents: &Arc<DocumentSet>, node_ref: NodeRef) -> Result<Schema, String> {
    let peer_schema = PeerSchema { documents: Arc::clone(documents), node_ref };
    let schema_json = peer_schema.unbundle().ok_or("one of its components is missing")?;
    let schema = Schema::new(schema_json).map_err(|error| error.to_string())?;
    schema.compile().map_err(|error| error.to_string())?;
    Ok(if schema.is_unknown() { schema } else { Schema::part(Arc::new(peer_schema)) })
}

/// A schema as a document describes it.
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
        self.unbundle().expect("it was there when the document was imported")
    }
}

/// The components that a schema is put together from: itself, its definitions, and what these lead to.
/// `None` if that would be more values than are left.
fn collect_components(
    documents: &DocumentSet,
    peer_schema: TreeNode<'_>,
    remaining_values: &mut usize,
) -> Option<HashMap<String, Value>> {
    let mut components = HashMap::new();
    let mut queue: Vec<String> = component_names(peer_schema).map(str::to_owned).collect();
    while let Some(name) = queue.pop() {
        if components.contains_key(&name) {
            continue;
        }
        let Some(node) = component(documents, &name) else { continue };
        *remaining_values = remaining_values.checked_sub(value_count(node))?;
        let value = node.to_value();
        queue.extend(referenced_components(&value).map(str::to_owned));
        components.insert(name, value);
    }
    Some(components)
}

/// The components that a schema names itself.
fn component_names(node: TreeNode<'_>) -> impl Iterator<Item = &str> {
    let definitions = ["$defs", "definitions"].into_iter().filter_map(move |name| node.get(name));
    let definitions = definitions.flat_map(|definitions| definitions.members().map(|(_, one)| one));
    std::iter::once(node).chain(definitions).filter_map(component_name)
}

fn component_name(node: TreeNode<'_>) -> Option<&str> {
    node.get("$ref").and_then(TreeNode::as_str)?.strip_prefix(COMPONENT_PREFIX)
}

fn component<'l>(documents: &'l DocumentSet, name: &str) -> Option<TreeNode<'l>> {
    documents.node(documents.root()).get("components")?.get("schemas")?.get(name)
}

fn value_count(node: TreeNode<'_>) -> usize {
    1 + node.items().map(value_count).sum::<usize>()
        + node.members().map(|(_, value)| value_count(value)).sum::<usize>()
}
