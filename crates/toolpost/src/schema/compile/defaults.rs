//! Chooses the default of each property. A default that does not fit is a warning.

use std::collections::HashMap;

use serde_json::Value;

use super::super::Issue;
use super::super::budget::{Budget, Exceeded, ValueSize};
use super::super::program::{NodeId, PropertyDefault, SchemaProgram};
use super::super::repair::Extras;
use super::super::validate::{Evaluator, address};
use crate::json::{JsonPointer, ValuePath};

/// The default candidates of a property, to choose from once the program is complete.
pub(super) struct DefaultChoice {
    /// The node with the property, and the index of the property in it.
    pub(super) owner: NodeId,
    pub(super) index: usize,
    /// Address of the schema of the property in the document.
    pub(super) schema: usize,
    pub(super) candidates: Vec<DefaultCandidate>,
}

/// A candidate for the default of a property.
pub(super) struct DefaultCandidate {
    pub(super) value: Value,
    /// The union variant for which the default must be valid.
    pub(super) variant: Option<NodeId>,
}

/// Assigns each property its first valid default candidate.
pub(super) fn assign_defaults(
    program: &mut SchemaProgram,
    document: &Value,
    choices: Vec<DefaultChoice>,
    budget: &Budget<'_>,
) {
    let mut pointers = choices.iter().map(|choice| (choice.schema, None)).collect();
    find_pointers(document, &ValuePath::ROOT, &mut pointers, budget);
    for DefaultChoice { owner, index, schema, candidates } in choices {
        let pointer = pointers.get(&schema).cloned().flatten().unwrap_or_default();
        let admitted = candidates
            .into_iter()
            .find(|candidate| admits(program, owner, index, candidate, budget));
        match (admitted, &mut program.nodes[owner as usize].object) {
            (Some(DefaultCandidate { value, .. }), Some(rules)) => {
                rules.properties.set_default(
                    index,
                    PropertyDefault { size: ValueSize::of(&value), value, pointer },
                );
                rules.defaults += 1;
            }
            _ => program.warnings.push(Issue::new(
                pointer,
                "the default does not match its schema, so it is not filled in",
            )),
        }
    }
    program.has_defaults = program
        .nodes
        .iter()
        .any(|node| node.object.as_ref().is_some_and(|rules| rules.defaults > 0));
}

/// Finds the JSON Pointers of schemas by their addresses. A document nests at most 256 levels.
fn find_pointers(
    value: &Value,
    at: &ValuePath<'_>,
    pointers: &mut HashMap<usize, Option<JsonPointer>>,
    budget: &Budget<'_>,
) {
    if let Some(found) = pointers.get_mut(&address(value)) {
        let pointer = at.pointer();
        // Names around a schema are in the pointers of all schemas below.
        if !budget.allocate(2 * pointer.as_str().len()) {
            return;
        }
        *found = Some(pointer);
    }
    match value {
        _ if pointers.is_empty() => {}
        Value::Object(members) => {
            for (name, member) in members {
                find_pointers(member, &at.member(name), pointers, budget);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find_pointers(item, &at.item(index), pointers, budget);
            }
        }
        _ => {}
    }
}

/// Whether a default is valid for its variant and for every schema of the property in its node.
fn admits(
    program: &SchemaProgram,
    owner: NodeId,
    index: usize,
    candidate: &DefaultCandidate,
    budget: &Budget<'_>,
) -> bool {
    let Some(rules) = program.node(owner).object.as_deref() else { return false };
    let property = &rules.properties.entries()[index];
    let patterns =
        rules.patterns.iter().filter(|(pattern, _)| pattern.matches(&property.name, budget));
    let nodes =
        property.node.into_iter().chain(candidate.variant).chain(patterns.map(|found| found.1));
    let mut evaluator = Evaluator::with_budget(program, Extras::Keep, budget);
    let name = || Value::String(property.name.to_string());
    let is_valid = nodes.into_iter().all(|node| evaluator.check_valid(node, &candidate.value))
        && rules.property_names.is_none_or(|names| evaluator.check_valid(names, &name()));
    evaluator.clear_memo();
    // A default that nests too deeply is not filled in; the schema remains usable.
    if budget.exceeded() == Some(Exceeded::Depth) {
        budget.resume();
        return false;
    }
    is_valid && !budget.is_exceeded()
}
