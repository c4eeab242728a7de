//! Stripping in a region, once its values are settled.

use serde_json::{Map, Value};

use super::super::program::NodeId;
use super::applied::Purpose;
use super::{Normalizer, Step};

impl Normalizer<'_> {
    /// Strips what no schema that applies names, at and below a place.
    pub(super) fn strip(&mut self, set: &[NodeId], value: &mut Value, at: &Step<'_>) {
        if !(value.is_object() || value.is_array()) || !self.judge.enter() {
            return;
        }
        let applied = self.applied(set, value, Purpose::Strip);
        if !applied.undecided {
            match value {
                Value::Object(map) => self.strip_object(&applied.nodes, map, at),
                Value::Array(items) => {
                    for (index, item) in items.iter_mut().enumerate() {
                        let below = self.item_nodes(&applied.nodes, index);
                        if !below.is_empty() {
                            self.strip(&below, item, &at.index(index));
                        }
                    }
                }
                _ => {}
            }
        }
        self.judge.leave();
    }

    fn strip_object(&mut self, nodes: &[NodeId], map: &mut Map<String, Value>, at: &Step<'_>) {
        let mut kept = Vec::with_capacity(map.len());
        for (name, child) in map.iter_mut() {
            let (below, known) = self.property_nodes(nodes, name);
            if !below.is_empty() {
                self.strip(&below, child, &at.name(name));
            }
            kept.push(known);
        }
        if !self.names_properties(nodes) || kept.iter().all(|kept| *kept) {
            return;
        }
        let mut smallest = 0;
        for rules in nodes.iter().filter_map(|id| self.program.node(*id).object.as_deref()) {
            smallest = smallest.max(rules.min);
            rules.keep_dependents(map, &mut kept);
        }
        self.strip_all_but(at, map, &kept, smallest);
    }
}
