//! Fills in defaults and converts scalars where several schemas apply.

use serde_json::{Map, Value};

use super::super::program::NodeId;
use super::super::validate::address;
use super::applicable::Purpose;
use super::{Normalizer, ValuePath};

impl Normalizer<'_> {
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
        let applied = self.applicable(set, value, Purpose::Repair);
        match value {
            Value::Object(map) => self.fill_and_convert_object(&applied.nodes, map, at),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let child_nodes = self.item_nodes(&applied.nodes, index);
                    if !child_nodes.is_empty() {
                        self.fill_and_convert(&child_nodes, item, &at.item(index));
                    }
                }
            }
            _ => _ = self.convert(&applied.nodes, value, at),
        }
        self.evaluator.leave();
    }

    fn fill_and_convert_object(
        &mut self,
        nodes: &[NodeId],
        map: &mut Map<String, Value>,
        at: &ValuePath<'_>,
    ) {
        for (name, child) in map.iter_mut() {
            let (child_nodes, _) = self.property_nodes(nodes, name);
            if !child_nodes.is_empty() {
                self.fill_and_convert(&child_nodes, child, &at.member(name));
            }
        }
        for (name, default) in self.missing_defaults(nodes, map) {
            if !self.admit_default(default) {
                continue;
            }
            self.repair_log.record_default(&at.member(name), default);
            self.clear_caches();
            let child = map.entry(name).or_insert_with(|| default.clone());
            let (child_nodes, _) = self.property_nodes(nodes, name);
            self.open_defaults.push(address(default));
            self.fill_and_convert(&child_nodes, child, &at.member(name));
            self.open_defaults.pop();
        }
    }
}
