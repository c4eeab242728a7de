//! Determines which schemas apply to a value and to its children.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::super::budget::Budget;
use super::super::program::{
    AdditionalProperties, Applicators, NodeId, ObjectRules, Property, PropertyDefault,
    SchemaProgram,
};
use super::Normalizer;

/// The purpose for which applicable schemas are collected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Repair: a union contributes the chosen variant.
    Repair,
    /// Dry run: like `Repair`, but choices are not postponed.
    DryRun,
    /// Strip: a union contributes every valid variant, because each declares properties.
    Strip,
}

/// The schemas that apply to one value.
pub(super) struct ApplicableSchemas {
    pub(super) nodes: Vec<NodeId>,
    /// No variant of some union matches, so the schemas of the children are unknown.
    pub(super) undecided: bool,
}

/// An ordered list of nodes without duplicates.
#[derive(Default)]
struct NodeSet {
    nodes: Vec<NodeId>,
    seen: HashSet<NodeId, foldhash::fast::FixedState>,
}

/// List length below which duplicates are found by a linear scan, which is faster than a hash set.
const MAX_LINEAR_SCAN: usize = 16;

impl NodeSet {
    fn insert(&mut self, id: NodeId) {
        let fresh = if self.nodes.len() < MAX_LINEAR_SCAN {
            !self.nodes.contains(&id)
        } else {
            if self.seen.is_empty() {
                self.seen.extend(&self.nodes);
            }
            self.seen.insert(id)
        };
        if fresh {
            self.nodes.push(id);
        }
    }

    /// Adds the schemas that apply unconditionally, starting from the entry at `from`.
    fn expand(&mut self, program: &SchemaProgram, value: &Value, from: usize) {
        let mut at = from;
        while let Some(id) = self.nodes.get(at) {
            at += 1;
            let Some(applicators) = program.node(*id).applicators.as_deref() else {
                continue;
            };
            applicators.all.iter().for_each(|part| self.insert(*part));
            if let Value::Object(map) = value {
                let due =
                    applicators.dependents.iter().filter(|(name, _)| map.contains_key(&**name));
                due.for_each(|(_, node)| self.insert(*node));
            }
        }
    }
}

impl<'p> Normalizer<'p> {
    /// Determines the schemas that apply to a value.
    pub(super) fn applicable(
        &mut self,
        set: &[NodeId],
        value: &Value,
        purpose: Purpose,
    ) -> ApplicableSchemas {
        let mut list = NodeSet::default();
        set.iter().for_each(|id| list.insert(*id));
        list.expand(self.program, value, 0);
        let mut applicable = ApplicableSchemas { nodes: Vec::new(), undecided: false };
        if purpose == Purpose::Repair && self.must_postpone(&list.nodes, value) {
            self.postponed = true;
            applicable.nodes = list.nodes;
            return applicable;
        }
        let mut at = 0;
        while let Some(id) = list.nodes.get(at) {
            at += 1;
            let end = list.nodes.len();
            if let Some(applicators) = self.program.node(*id).applicators.as_deref() {
                applicable.undecided |=
                    !self.resolve_choices(applicators, value, purpose, &mut list);
                list.expand(self.program, value, end);
            }
        }
        self.evaluator.budget.spend(list.nodes.len());
        applicable.nodes = list.nodes;
        applicable
    }

    /// Whether a choice depends on a value that other schemas are about to change.
    fn must_postpone(&mut self, nodes: &[NodeId], value: &Value) -> bool {
        let decides = |id: &NodeId| {
            self.program.node(*id).applicators.as_deref().is_some_and(Applicators::has_choices)
        };
        !self.decide_now
            && nodes.iter().any(decides)
            && nodes.iter().any(|id| self.program.node(*id).has_rules())
            && self.estimate(nodes, value).changes > 0
    }

    /// Adds the schemas chosen by unions and conditions; `false` if a union has no match.
    fn resolve_choices(
        &mut self,
        applicators: &'p Applicators,
        value: &Value,
        purpose: Purpose,
        list: &mut NodeSet,
    ) -> bool {
        let mut decided = true;
        for union in &applicators.unions {
            self.evaluator.budget.spend(union.variants.len());
            let chosen = if purpose == Purpose::Strip {
                self.valid_variants(union, value)
            } else {
                self.choose_variant(union, value).into_iter().collect()
            };
            decided &= !chosen.is_empty();
            chosen.into_iter().for_each(|variant| list.insert(variant));
        }
        if let Some(condition) = &applicators.condition {
            let holds = self.evaluator.check_valid(condition.test, value);
            let branch = if holds { condition.then } else { condition.otherwise };
            branch.into_iter().for_each(|branch| list.insert(branch));
            if holds && purpose == Purpose::Strip {
                list.insert(condition.test);
            }
        }
        decided
    }

    /// Returns the schemas of a property, and whether it counts as declared.
    pub(super) fn property_nodes(&self, nodes: &[NodeId], name: &str) -> (Vec<NodeId>, bool) {
        let (mut found, mut known) = (Vec::new(), false);
        self.evaluator.budget.spend(nodes.len());
        for id in nodes {
            if let Some(rules) = self.program.node(*id).object.as_deref() {
                known |= rules.property_nodes(name, &mut found, self.evaluator.budget);
            }
        }
        if !known {
            let rest = nodes.iter().filter_map(|id| {
                self.program.node(*id).applicators.as_deref()?.unevaluated_properties
            });
            for node in rest.filter(|node| !self.is_never(*node)) {
                known = true;
                push_new(&mut found, node);
            }
        }
        (found, known)
    }

    /// Returns the schemas of an item.
    pub(super) fn item_nodes(&self, nodes: &[NodeId], index: usize) -> Vec<NodeId> {
        let mut found = Vec::new();
        self.evaluator.budget.spend(nodes.len());
        let rules = nodes.iter().filter_map(|id| self.program.node(*id).array.as_deref());
        rules.filter_map(|rules| rules.item(index)).for_each(|node| push_new(&mut found, node));
        if found.is_empty() {
            let rest = nodes
                .iter()
                .filter_map(|id| self.program.node(*id).applicators.as_deref()?.unevaluated_items);
            rest.for_each(|node| push_new(&mut found, node));
        }
        found
    }

    /// Whether any of the schemas declares properties.
    pub(super) fn declares_properties(&self, nodes: &[NodeId]) -> bool {
        nodes.iter().any(|id| {
            let node = self.program.node(*id);
            let rest = node
                .applicators
                .as_deref()
                .and_then(|applicators| applicators.unevaluated_properties);
            node.object.as_deref().is_some_and(|rules| rules.declares_properties)
                || rest.is_some_and(|rest| self.is_never(rest))
        })
    }

    /// Returns the defaults of missing properties that match every schema of their property, one
    /// per name, in schema order. A recursive default aborts the attempt.
    pub(super) fn missing_defaults(
        &mut self,
        nodes: &[NodeId],
        map: &Map<String, Value>,
    ) -> Vec<(&'p str, &'p PropertyDefault)> {
        let mut missing: Vec<(&'p str, &'p PropertyDefault)> = Vec::new();
        let program = self.program;
        let rules = nodes.iter().filter_map(|id| program.node(*id).object.as_deref());
        for property in rules.filter(|rules| rules.defaults > 0).flat_map(ObjectRules::entries) {
            let name = &*property.name;
            if let Some(default) = &property.default
                && self.evaluator.budget.spend(1 + missing.len() / 8)
                && !map.contains_key(name)
                && !missing.iter().any(|(known, _)| *known == name)
                && self.admit_default(&default.value)
                && self.matches_property(nodes, name, default)
            {
                missing.push((name, default));
            }
        }
        missing
    }

    fn matches_property(
        &mut self,
        nodes: &[NodeId],
        name: &str,
        default: &'p PropertyDefault,
    ) -> bool {
        let (child_nodes, _) = self.property_nodes(nodes, name);
        let is_valid = self.all_valid(&child_nodes, &default.value);
        if !is_valid {
            self.reject_default(default);
        }
        is_valid
    }

    fn is_never(&self, id: NodeId) -> bool {
        let node = self.program.node(id);
        node.type_only && node.types == super::super::program::TypeSet::NONE
    }
}

impl ObjectRules {
    fn entries(&self) -> &[Property] {
        self.properties.entries()
    }

    /// Adds the schemas of one property, and returns whether the property is declared.
    fn property_nodes(&self, name: &str, found: &mut Vec<NodeId>, budget: &Budget<'_>) -> bool {
        let declared = self.properties.get(name);
        let matching = self.patterns.iter().filter(|(pattern, _)| pattern.matches(name, budget));
        let direct = declared.and_then(|property| property.node);
        let mut known = false;
        for node in direct.into_iter().chain(matching.map(|(_, node)| *node)) {
            known = true;
            push_new(found, node);
        }
        if known {
            return true;
        }
        match self.additional {
            AdditionalProperties::Schema(node) => push_new(found, node),
            AdditionalProperties::Allowed => {}
            // A required property is never extra: the object would be invalid without it.
            _ => return declared.is_some_and(|property| property.required),
        }
        true
    }
}

fn push_new(list: &mut Vec<NodeId>, id: NodeId) {
    if !list.contains(&id) {
        list.push(id);
    }
}
