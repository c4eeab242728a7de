//! Analysis of a complete program.

use super::super::program::{AdditionalProperties, NodeId, SchemaNode, SchemaProgram, TypeSet};

/// Marks nodes to memoize, cyclic nodes, and properties that discriminate variants.
pub(super) fn analyze(program: &mut SchemaProgram) {
    mark_cyclic(program);
    mark_memoized(program);
    mark_tags(program);
}

/// Marks nodes whose constraints on an object or array a filled-in or stripped property can violate.
/// Constraints in `applicators` are validated after repairs in any case.
pub(super) fn mark_unstable(program: &mut SchemaProgram) {
    for node in &mut program.nodes {
        let has_literals =
            node.literals.is_some() && (node.object.is_some() || node.array.is_some());
        let has_limits = node.object.as_ref().is_some_and(|rules| {
            rules.defaults > 0 && (rules.max.is_some() || !rules.dependent_required.is_empty())
        });
        node.unstable = has_literals || has_limits;
    }
}

/// Marks a node as cyclic unless all nodes it applies in place are acyclic.
fn mark_cyclic(program: &mut SchemaProgram) {
    let count = program.nodes.len();
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut open = vec![0_usize; count];
    for (at, node) in program.nodes.iter().enumerate() {
        for next in in_place(node) {
            users[next as usize].push(at);
            open[at] += 1;
        }
    }
    let mut acyclic: Vec<usize> = (0..count).filter(|at| open[*at] == 0).collect();
    while let Some(at) = acyclic.pop() {
        for user in std::mem::take(&mut users[at]) {
            open[user] -= 1;
            if open[user] == 0 {
                acyclic.push(user);
            }
        }
    }
    for (node, open) in program.nodes.iter_mut().zip(open) {
        node.cyclic = open > 0;
    }
}

/// Marks nodes to memoize. If two schemas apply to one value, the subschemas they share would be
/// evaluated twice, and again at every level below.
fn mark_memoized(program: &mut SchemaProgram) {
    let count = program.nodes.len();
    let mut below = vec![false; count];
    let mut pending: Vec<NodeId> = Vec::new();
    for (at, node) in program.nodes.iter().enumerate() {
        if has_overlapping_schemas(program, node) {
            below[at] = true;
            pending.extend(in_place(node).chain(children(node)));
        }
    }
    let mut uses = vec![0_u32; count];
    while let Some(id) = pending.pop() {
        let at = id as usize;
        uses[at] += 1;
        if uses[at] == 1 && !below[at] {
            below[at] = true;
            pending.extend(in_place(&program.nodes[at]).chain(children(&program.nodes[at])));
        }
    }
    for (node, uses) in program.nodes.iter_mut().zip(uses) {
        node.memoize = uses > 1 && has_subschemas(node);
    }
}

/// Whether two schemas of the node can apply to the same value.
fn has_overlapping_schemas(program: &SchemaProgram, node: &SchemaNode) -> bool {
    let overlapping = node.object.as_ref().is_some_and(|rules| {
        rules.patterns.len() + usize::from(!rules.properties.entries().is_empty()) > 1
            && !rules.patterns.is_empty()
    });
    let items = node.array.as_ref().is_some_and(|rules| rules.contains.is_some());
    if overlapping || items {
        return true;
    }
    let mut taken = local_types(node);
    for part in in_place(node) {
        let part = program.node(part);
        let types = if has_subschemas(part) { part.types } else { TypeSet::NONE };
        if taken.overlaps(types) {
            return true;
        }
        taken = taken.union(types);
    }
    false
}

fn has_subschemas(node: &SchemaNode) -> bool {
    in_place(node).next().is_some() || children(node).next().is_some()
}

/// Returns the container types whose children the node itself constrains.
fn local_types(node: &SchemaNode) -> TypeSet {
    let object = if node.object.is_some() { TypeSet::OBJECT } else { TypeSet::NONE };
    let array = if node.array.is_some() { TypeSet::ARRAY } else { TypeSet::NONE };
    object.union(array)
}

/// Returns the schemas that a node applies to the same value.
fn in_place(node: &SchemaNode) -> impl Iterator<Item = NodeId> {
    node.applicators.iter().flat_map(|applicators| {
        let condition = applicators.condition.iter().flat_map(|condition| {
            [Some(condition.test), condition.then, condition.otherwise].into_iter().flatten()
        });
        applicators
            .all
            .iter()
            .chain(applicators.unions.iter().flat_map(|union| union.variants.iter()))
            .copied()
            .chain(applicators.not)
            .chain(condition)
            .chain(applicators.dependents.iter().map(|(_, node)| *node))
    })
}

/// Returns the schemas that a node applies to children of the value.
fn children(node: &SchemaNode) -> impl Iterator<Item = NodeId> {
    let object = node.object.iter().flat_map(|rules| {
        let additional = match rules.additional {
            AdditionalProperties::Schema(node) => Some(node),
            _ => None,
        };
        let property_nodes = rules.properties.entries().iter().filter_map(|property| property.node);
        property_nodes.chain(rules.patterns.iter().map(|(_, node)| *node)).chain(additional)
    });
    let array = node.array.iter().flat_map(|rules| {
        let contains = rules.contains.as_ref().map(|contains| contains.node);
        rules.prefix.iter().copied().chain(rules.rest).chain(contains)
    });
    let rest = node.applicators.iter().flat_map(|applicators| {
        applicators.unevaluated_properties.into_iter().chain(applicators.unevaluated_items)
    });
    object.chain(array).chain(rest)
}

/// Marks properties whose schema admits a single literal; they can select a variant.
fn mark_tags(program: &mut SchemaProgram) {
    let single: Vec<bool> = program
        .nodes
        .iter()
        .map(|node| node.literals.as_ref().is_some_and(|literals| literals.len() == 1))
        .collect();
    for node in &mut program.nodes {
        let Some(rules) = &mut node.object else {
            continue;
        };
        rules.tags = (0_u32..)
            .zip(rules.properties.entries())
            .filter(|(_, entry)| entry.node.is_some_and(|node| single[node as usize]))
            .map(|(at, _)| at)
            .collect();
    }
}
