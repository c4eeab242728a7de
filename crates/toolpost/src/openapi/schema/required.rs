//! Required properties by direction. Read-only properties are optional in requests and write-only
//! properties in responses, even if the schema requires them.

use super::super::document::{NodeRef, TreeNode};
use super::context::SchemaContext;
use super::shape::SchemaUsage;

/// Maximum depth of references and `allOf` in the search for a property.
const MAX_HOPS: u32 = 8;

/// Returns the `required` names of a schema that apply to this usage.
pub(super) fn required_names(
    context: &SchemaContext,
    node_ref: NodeRef,
    parent_schema: Option<NodeRef>,
    usage: SchemaUsage,
) -> Vec<String> {
    let node = context.documents.node(node_ref);
    let mut names: Vec<String> = Vec::new();
    for name in
        node.get("required").into_iter().flat_map(TreeNode::items).filter_map(TreeNode::as_str)
    {
        let is_new = !names.iter().any(|known| known == name);
        if is_new && !is_optional_for_usage(context, node_ref, parent_schema, name, usage) {
            names.push(name.to_owned());
        }
    }
    names
}

fn is_optional_for_usage(
    context: &SchemaContext,
    node_ref: NodeRef,
    parent_schema: Option<NodeRef>,
    name: &str,
    usage: SchemaUsage,
) -> bool {
    let flag = match usage {
        SchemaUsage::Request | SchemaUsage::Form => "readOnly",
        SchemaUsage::Response => "writeOnly",
    };
    let property = find_property(context, node_ref, name, MAX_HOPS)
        .or_else(|| find_property(context, parent_schema?, name, MAX_HOPS));
    property.is_some_and(|property| has_flag(context, property, flag, MAX_HOPS))
}

/// Finds the schema of a property.
pub(super) fn find_property(
    context: &SchemaContext,
    schema: NodeRef,
    name: &str,
    hops: u32,
) -> Option<NodeRef> {
    let documents = &context.documents;
    let hops = hops.checked_sub(1)?;
    let schema = documents.resolve_chain(schema).ok()?;
    let properties = documents.get(schema, "properties");
    let own = properties.and_then(|properties| documents.get(properties, name));
    own.or_else(|| {
        let parts = documents.get(schema, "allOf")?;
        let mut parts = documents.node(parts).items().map(|part| documents.node_ref(schema, part));
        parts.find_map(|part| find_property(context, part, name, hops))
    })
}

fn has_flag(context: &SchemaContext, schema: NodeRef, flag: &str, hops: u32) -> bool {
    let Some(hops) = hops.checked_sub(1) else { return false };
    let documents = &context.documents;
    let node = documents.node(schema);
    if node.get(flag).and_then(TreeNode::as_bool) == Some(true) {
        return true;
    }
    let behind = node.get("$ref").and_then(TreeNode::as_str);
    let behind = behind.and_then(|reference| documents.resolve(schema, reference).ok());
    let mut parts = node.get("allOf").into_iter().flat_map(TreeNode::items);
    behind.is_some_and(|behind| has_flag(context, behind, flag, hops))
        || parts.any(|part| has_flag(context, documents.node_ref(schema, part), flag, hops))
}
