//! Fills in defaults and converts scalars where several schemas apply.

use serde_json::Value;

use super::super::program::{Applicators, NodeId, PropertyDefault};
use super::super::validate::address;
use super::applicable::Purpose;
use super::{Normalizer, ValuePath};

/// Maximum number of defaults that are inserted one by one into an object, because together they
/// make it invalid. Of a larger number, none is inserted.
const MAX_SINGLE_INSERTIONS: usize = 64;

type MissingDefault<'p> = (&'p str, &'p PropertyDefault);

impl<'p> Normalizer<'p> {
    /// Fills in defaults and converts scalars in a value and its children.
    pub(super) fn fill_and_convert(
        &mut self,
        set: &[NodeId],
        value: &mut Value,
        at: &ValuePath<'_>,
    ) {
        if !self.evaluator.enter() {
            return;
        }
        let nodes = self.applicable(set, value, Purpose::Repair).nodes;
        match value {
            Value::Object(map) => {
                for (name, child) in map.iter_mut() {
                    let (child_nodes, _) = self.property_nodes(&nodes, name);
                    if !child_nodes.is_empty() {
                        self.fill_and_convert(&child_nodes, child, &at.member(name));
                    }
                }
                self.insert_defaults(set, &nodes, value, at);
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let child_nodes = self.item_nodes(&nodes, index);
                    if !child_nodes.is_empty() {
                        self.fill_and_convert(&child_nodes, item, &at.item(index));
                    }
                }
            }
            _ => _ = self.convert(&nodes, value, at),
        }
        self.evaluator.leave();
    }

    /// Inserts the defaults of missing properties, except those that would make the object invalid.
    fn insert_defaults(
        &mut self,
        set: &[NodeId],
        nodes: &[NodeId],
        value: &mut Value,
        at: &ValuePath<'_>,
    ) {
        let Value::Object(map) = &*value else { return };
        let missing = self.missing_defaults(nodes, map);
        if missing.is_empty() || self.evaluator.budget.is_exceeded() {
            return;
        }
        let start = self.repair_log.len();
        let was_valid = self.all_valid(set, value);
        missing.iter().for_each(|default| self.insert_default(default, value, at));
        if (was_valid || self.has_choices(nodes)) && !self.all_valid(set, value) {
            self.undo_repairs(value, at, start);
            self.insert_one_by_one(set, &missing, was_valid, value, at);
        }
        for (name, default) in missing {
            let Some(child) = value.get_mut(name) else { continue };
            let (child_nodes, _) = self.property_nodes(nodes, name);
            self.open_defaults.push(address(&default.value));
            self.fill_and_convert(&child_nodes, child, &at.member(name));
            self.open_defaults.pop();
        }
    }

    fn insert_one_by_one(
        &mut self,
        set: &[NodeId],
        missing: &[MissingDefault<'p>],
        mut is_valid: bool,
        value: &mut Value,
        at: &ValuePath<'_>,
    ) {
        let is_small = missing.len() <= MAX_SINGLE_INSERTIONS;
        for default in missing {
            let start = self.repair_log.len();
            if is_small {
                self.insert_default(default, value, at);
            }
            let stays_valid = is_small && self.all_valid(set, value);
            if stays_valid || (is_small && !is_valid) {
                is_valid = stays_valid;
            } else {
                self.undo_repairs(value, at, start);
                self.reject_default(default.1);
            }
        }
    }

    fn insert_default(
        &mut self,
        (name, default): &MissingDefault<'p>,
        value: &mut Value,
        at: &ValuePath<'_>,
    ) {
        let Value::Object(map) = value else { return };
        self.repair_log.record_default(&at.member(name), default);
        map.insert((*name).to_owned(), default.value.clone());
        self.clear_caches();
    }

    fn has_choices(&self, nodes: &[NodeId]) -> bool {
        let applicators =
            nodes.iter().filter_map(|id| self.program.node(*id).applicators.as_deref());
        applicators.into_iter().any(Applicators::has_choices)
    }
}
