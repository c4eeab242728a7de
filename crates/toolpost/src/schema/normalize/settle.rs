//! Defaults and conversions in a region.

use serde_json::{Map, Value};

use super::super::program::NodeId;
use super::super::verdict::address;
use super::applied::Purpose;
use super::{Normalizer, Step};

impl Normalizer<'_> {
    /// Fills in and converts what the schemas of a place ask for, at and below it.
    pub(super) fn settle(&mut self, set: &[NodeId], value: &mut Value, at: &Step<'_>) {
        if !self.judge.enter() {
            return;
        }
        let applied = self.applied(set, value, Purpose::Settle);
        match value {
            Value::Object(map) => self.settle_object(&applied.nodes, map, at),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let below = self.item_nodes(&applied.nodes, index);
                    if !below.is_empty() {
                        self.settle(&below, item, &at.index(index));
                    }
                }
            }
            _ => _ = self.convert(&applied.nodes, value, at),
        }
        self.judge.leave();
    }

    fn settle_object(&mut self, nodes: &[NodeId], map: &mut Map<String, Value>, at: &Step<'_>) {
        for (name, child) in map.iter_mut() {
            let (below, _) = self.property_nodes(nodes, name);
            if !below.is_empty() {
                self.settle(&below, child, &at.name(name));
            }
        }
        for (name, default) in self.missing_defaults(nodes, map) {
            if !self.may_fill(default) {
                continue;
            }
            self.log.defaulted(&at.name(name), default);
            self.forget();
            let child = map.entry(name).or_insert_with(|| default.clone());
            let (below, _) = self.property_nodes(nodes, name);
            self.inside.push(address(default));
            self.settle(&below, child, &at.name(name));
            self.inside.pop();
        }
    }
}
