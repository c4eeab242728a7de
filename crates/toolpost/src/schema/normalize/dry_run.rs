//! Dry run: computes the cost of repairing a value without changing it.

use serde_json::Value;

use super::super::budget::Budget;
use super::super::program::{AdditionalProperties, NodeId, ObjectRules};
use super::super::repair::Extras;
use super::super::validate::address;
use super::Normalizer;
use super::applicable::Purpose;
use crate::json::JsonObject;

/// The cost of repairing a value, and whether the result is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RepairCost {
    /// Number of defaults and conversions.
    pub(super) changes: u32,
    /// Number of properties that would be stripped.
    pub(super) strips: u32,
    /// Whether the value is valid after the changes, before stripping.
    pub(super) is_valid: bool,
}

/// Memory of a memoized cost, without its set of nodes.
const DRY_RUN_MEMORY: usize = 80;

impl RepairCost {
    const ZERO: Self = Self { changes: 0, strips: 0, is_valid: true };
    const INVALID: Self = Self { changes: 0, strips: 0, is_valid: false };

    pub(super) fn total(self) -> u32 {
        self.changes.saturating_add(self.strips)
    }

    fn add(&mut self, other: Self) {
        self.changes = self.changes.saturating_add(other.changes);
        self.strips = self.strips.saturating_add(other.strips);
        self.is_valid &= other.is_valid;
    }
}

impl<'p> Normalizer<'p> {
    /// Returns the cost of repairing a value under several schemas.
    pub(super) fn dry_run(&mut self, set: &[NodeId], value: &Value) -> RepairCost {
        let key = (Box::from(set), address(value));
        if let Some(cost) = self.dry_runs.get(&key) {
            return *cost;
        }
        if !self.evaluator.enter() {
            return RepairCost::INVALID;
        }
        let applied = self.applicable(set, value, Purpose::DryRun);
        let mut cost = self.estimate(&applied.nodes, value);
        // A valid value stays valid: the changes that would make it invalid are not made.
        if cost.changes == 0 || !cost.is_valid {
            cost.is_valid = self.all_valid(set, value);
        }
        cost.is_valid &= !applied.undecided;
        self.evaluator.leave();
        let memory = DRY_RUN_MEMORY + size_of_val(set);
        self.dry_run_memory += memory;
        self.evaluator.budget.allocate(memory);
        self.dry_runs.insert(key, cost);
        cost
    }

    /// Returns the repair cost under schemas that are already known to apply.
    pub(super) fn estimate(&mut self, nodes: &[NodeId], value: &Value) -> RepairCost {
        match value {
            Value::Object(map) => self.estimate_object(nodes, map, value),
            Value::Array(items) => self.estimate_array(nodes, items, value),
            _ => self.estimate_scalar(nodes, value),
        }
    }

    fn estimate_scalar(&mut self, nodes: &[NodeId], value: &Value) -> RepairCost {
        let Some(new) = self.conversion(nodes, value) else {
            return RepairCost::ZERO;
        };
        let fits = nodes.iter().all(|id| self.evaluator.check_valid_detached(*id, &new));
        RepairCost { changes: 1, strips: 0, is_valid: fits }
    }

    fn estimate_array(&mut self, nodes: &[NodeId], items: &[Value], value: &Value) -> RepairCost {
        let mut cost = RepairCost::ZERO;
        for (index, item) in items.iter().enumerate() {
            let child_nodes = self.item_nodes(nodes, index);
            if !child_nodes.is_empty() {
                cost.add(self.dry_run(&child_nodes, item));
            }
        }
        cost.is_valid &= self.admits_shape(nodes, value);
        for id in nodes {
            if let Some(rules) = self.program.node(*id).array.as_deref() {
                cost.is_valid &= rules.admits_length(items.len())
                    && self.evaluator.admits_items(rules, items, None);
            }
        }
        cost
    }

    fn estimate_object(&mut self, nodes: &[NodeId], map: &JsonObject, value: &Value) -> RepairCost {
        let mut cost = RepairCost::ZERO;
        let mut extras = 0;
        for (name, child) in map {
            let (child_nodes, known) = self.property_nodes(nodes, name);
            if !child_nodes.is_empty() {
                cost.add(self.dry_run(&child_nodes, child));
            }
            extras += u32::from(!known);
        }
        let missing = self.missing_defaults(nodes, map);
        for (name, default) in &missing {
            let (child_nodes, _) = self.property_nodes(nodes, name);
            cost.changes = cost.changes.saturating_add(1);
            self.open_defaults.push(address(&default.value));
            cost.add(self.dry_run(&child_nodes, &default.value));
            self.open_defaults.pop();
        }
        if self.evaluator.extras == Extras::Strip && self.declares_properties(nodes) {
            cost.strips = cost.strips.saturating_add(extras);
        }
        cost.is_valid &= self.admits_shape(nodes, value);
        let size = map.len() + missing.len();
        let has =
            |name: &str| map.contains_key(name) || missing.iter().any(|(found, _)| *found == name);
        for id in nodes {
            let node = self.program.node(*id);
            let rest = node
                .applicators
                .as_deref()
                .and_then(|applicators| applicators.unevaluated_properties);
            cost.is_valid &= extras == 0 || rest.is_none();
            if let Some(rules) = node.object.as_deref() {
                let names = rules.required + rules.dependent_steps;
                let lookups = names.saturating_mul(1 + missing.len() / 8);
                cost.is_valid &= self.evaluator.budget.spend(lookups)
                    && rules.admits_size(size)
                    && self.evaluator.admits_property_names(rules, map)
                    && rules.admits_required(&has)
                    && rules.admits_additional(map, self.evaluator.budget);
            }
        }
        cost
    }

    /// Checks the constraints on a container as a whole, except its size and its children.
    fn admits_shape(&mut self, nodes: &[NodeId], value: &Value) -> bool {
        nodes.iter().all(|id| {
            let node = self.program.node(*id);
            let not = node.applicators.as_deref().and_then(|applicators| applicators.not);
            node.types.overlaps(self.program.type_of(value))
                && (node.literals.is_none() || self.evaluator.admits_literal(node, value))
                && not.is_none_or(|not| !self.evaluator.check_valid(not, value))
        })
    }
}

impl ObjectRules {
    fn admits_required(&self, has: &impl Fn(&str) -> bool) -> bool {
        let required = self.properties.entries().iter().filter(|property| property.required);
        let mut dependent = self.dependent_required.iter();
        required.map(|property| &*property.name).all(has)
            && dependent.all(|(trigger, names)| !has(trigger) || names.iter().all(|name| has(name)))
    }

    fn admits_additional(&self, map: &JsonObject, budget: &Budget<'_>) -> bool {
        self.additional != AdditionalProperties::Forbidden
            || map.keys().all(|name| {
                self.properties.get(name).is_some_and(|property| property.node.is_some())
                    || self.patterns.iter().any(|(pattern, _)| pattern.matches(name, budget))
            })
    }
}
