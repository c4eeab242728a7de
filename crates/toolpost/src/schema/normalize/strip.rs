//! Strips extras where several schemas apply, after defaults and conversions.

use serde_json::{Map, Value};

use super::super::program::NodeId;
use super::applicable::Purpose;
use super::{Normalizer, ValuePath};

impl Normalizer<'_> {
    /// Strips properties that no applicable schema declares, in a value and its children.
    pub(super) fn strip(&mut self, set: &[NodeId], value: &mut Value, at: &ValuePath<'_>) {
        if !(value.is_object() || value.is_array()) || !self.evaluator.enter() {
            return;
        }
        let applied = self.applicable(set, value, Purpose::Strip);
        if !applied.undecided {
            match value {
                Value::Object(map) => self.strip_object(&applied.nodes, map, at),
                Value::Array(items) => {
                    for (index, item) in items.iter_mut().enumerate() {
                        let child_nodes = self.item_nodes(&applied.nodes, index);
                        if !child_nodes.is_empty() {
                            self.strip(&child_nodes, item, &at.item(index));
                        }
                    }
                }
                _ => {}
            }
        }
        self.evaluator.leave();
    }

    fn strip_object(&mut self, nodes: &[NodeId], map: &mut Map<String, Value>, at: &ValuePath<'_>) {
        let mut retained = Vec::with_capacity(map.len());
        for (name, child) in map.iter_mut() {
            let (child_nodes, known) = self.property_nodes(nodes, name);
            if !child_nodes.is_empty() {
                self.strip(&child_nodes, child, &at.member(name));
            }
            retained.push(known);
        }
        if !self.declares_properties(nodes) || retained.iter().all(|retained| *retained) {
            return;
        }
        let mut min_properties = 0;
        for rules in nodes.iter().filter_map(|id| self.program.node(*id).object.as_deref()) {
            min_properties = min_properties.max(rules.min);
            rules.retain_dependents(map, &mut retained, self.evaluator.budget);
        }
        self.strip_all_but(at, map, &retained, min_properties);
    }
}
