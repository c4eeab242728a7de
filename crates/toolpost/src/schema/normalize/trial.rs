//! The dry run: what repairing a place would take, without touching it.

use serde_json::{Map, Value};

use super::super::program::{Additional, NodeId, ObjectRules};
use super::super::repair::Extras;
use super::super::verdict::address;
use super::Normalizer;
use super::applied::Purpose;
use super::convert::conversion;

/// What repairing takes, and whether the value then fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// Defaults and conversions.
    pub(super) changes: u32,
    /// Properties that would be stripped.
    pub(super) strips: u32,
    /// Whether the value fits after the changes, before anything is stripped.
    pub(super) fits: bool,
}

impl Cost {
    const NOTHING: Self = Self { changes: 0, strips: 0, fits: true };
    const MISFIT: Self = Self { changes: 0, strips: 0, fits: false };

    pub(super) fn repairs(self) -> u32 {
        self.changes.saturating_add(self.strips)
    }

    fn add(&mut self, other: Self) {
        self.changes = self.changes.saturating_add(other.changes);
        self.strips = self.strips.saturating_add(other.strips);
        self.fits &= other.fits;
    }
}

impl<'p> Normalizer<'p> {
    /// What repairing a place under several schemas takes.
    pub(super) fn trial(&mut self, set: &[NodeId], value: &Value) -> Cost {
        let key = (Box::from(set), address(value));
        if let Some(cost) = self.trials.get(&key) {
            return *cost;
        }
        if !self.judge.enter() {
            return Cost::MISFIT;
        }
        let applied = self.applied(set, value, Purpose::Measure);
        let mut cost = self.measure(&applied.nodes, value);
        if cost.changes == 0 {
            cost.fits = set.iter().all(|id| self.judge.fits(*id, value));
        }
        cost.fits &= !applied.undecided;
        self.judge.leave();
        self.trials.insert(key, cost);
        cost
    }

    /// The same, once it is known which schemas apply.
    pub(super) fn measure(&mut self, nodes: &[NodeId], value: &Value) -> Cost {
        match value {
            Value::Object(map) => self.measure_object(nodes, map, value),
            Value::Array(items) => self.measure_array(nodes, items, value),
            _ => self.measure_scalar(nodes, value),
        }
    }

    fn measure_scalar(&mut self, nodes: &[NodeId], value: &Value) -> Cost {
        let Some(new) = conversion(self.program, nodes, value) else {
            return Cost::NOTHING;
        };
        let fits = nodes.iter().all(|id| self.judge.fits_aside(*id, &new));
        Cost { changes: 1, strips: 0, fits }
    }

    fn measure_array(&mut self, nodes: &[NodeId], items: &[Value], value: &Value) -> Cost {
        let mut cost = Cost::NOTHING;
        for (index, item) in items.iter().enumerate() {
            let below = self.item_nodes(nodes, index);
            if !below.is_empty() {
                cost.add(self.trial(&below, item));
            }
        }
        cost.fits &= self.admits_shape(nodes, value);
        for id in nodes {
            if let Some(rules) = self.program.node(*id).array.as_deref() {
                cost.fits &=
                    rules.admits_length(items.len()) && self.judge.admits_items(rules, items, None);
            }
        }
        cost
    }

    fn measure_object(
        &mut self,
        nodes: &[NodeId],
        map: &Map<String, Value>,
        value: &Value,
    ) -> Cost {
        let mut cost = Cost::NOTHING;
        let mut extras = 0;
        for (name, child) in map {
            let (below, known) = self.property_nodes(nodes, name);
            if !below.is_empty() {
                cost.add(self.trial(&below, child));
            }
            extras += u32::from(!known);
        }
        let mut missing = self.missing_defaults(nodes, map);
        missing.retain(|(_, default)| self.may_fill(default));
        for (name, default) in &missing {
            let (below, _) = self.property_nodes(nodes, name);
            cost.changes = cost.changes.saturating_add(1);
            self.inside.push(address(default));
            cost.add(self.trial(&below, default));
            self.inside.pop();
        }
        if self.judge.extras == Extras::Strip && self.names_properties(nodes) {
            cost.strips = cost.strips.saturating_add(extras);
        }
        cost.fits &= self.admits_shape(nodes, value);
        let size = map.len() + missing.len();
        let has =
            |name: &str| map.contains_key(name) || missing.iter().any(|(found, _)| *found == name);
        for id in nodes {
            let node = self.program.node(*id);
            let rest = node.logic.as_deref().and_then(|logic| logic.unevaluated_properties);
            cost.fits &= extras == 0 || rest.is_none();
            if let Some(rules) = node.object.as_deref() {
                cost.fits &= rules.admits_size(size)
                    && self.judge.admits_names(rules, map)
                    && rules.admit_presence(&has)
                    && rules.admit_absence(map);
            }
        }
        cost
    }

    /// What is asked of a container as a whole, apart from its size and its parts.
    fn admits_shape(&mut self, nodes: &[NodeId], value: &Value) -> bool {
        nodes.iter().all(|id| {
            let node = self.program.node(*id);
            let not = node.logic.as_deref().and_then(|logic| logic.not);
            node.types.overlaps(self.program.type_of(value))
                && (node.literals.is_none() || self.judge.admits_literal(node, value))
                && not.is_none_or(|not| !self.judge.fits(not, value))
        })
    }
}

impl ObjectRules {
    fn admit_presence(&self, has: &impl Fn(&str) -> bool) -> bool {
        let required = self.names.entries().iter().filter(|property| property.required);
        let mut dependent = self.dependent_required.iter();
        required.map(|property| &*property.name).all(has)
            && dependent.all(|(trigger, names)| !has(trigger) || names.iter().all(|name| has(name)))
    }

    fn admit_absence(&self, map: &Map<String, Value>) -> bool {
        self.additional != Additional::Forbidden
            || map.keys().all(|name| {
                self.names.get(name).is_some_and(|property| property.node.is_some())
                    || self.patterns.iter().any(|(pattern, _)| pattern.matches(name))
            })
    }
}
