//! Normalizes values to which one schema applies: validates and repairs in a single walk.

use serde_json::Value;

use super::super::program::{
    AdditionalProperties, Applicators, ArrayRules, NodeId, ObjectRules, Property, PropertyDefault,
    SchemaNode,
};
use super::super::repair::Extras;
use super::super::validate::{address, admits_scalar};
use super::choose::VariantCandidate;
use super::{Normalizer, ValuePath};
use crate::json::JsonObject;

/// Maximum number of properties that are removed from an object one by one.
const MAX_SINGLE_REMOVALS: usize = 2;

impl<'p> Normalizer<'p> {
    /// Normalizes a value under one schema, and returns whether it is valid afterwards.
    #[inline]
    pub(super) fn normalize_value(
        &mut self,
        id: NodeId,
        value: &mut Value,
        at: &ValuePath<'_>,
    ) -> bool {
        self.matches_type_only(id, value) || self.normalize_constrained(id, value, at)
    }

    /// Whether the node constrains only the type and it matches: the fast path for most values.
    #[inline]
    fn matches_type_only(&self, id: NodeId, value: &Value) -> bool {
        let node = self.program.node(id);
        node.type_only && node.types.overlaps(self.program.type_of(value))
    }

    /// Normalizes a value under a node with more than a type constraint, or of the wrong type.
    fn normalize_constrained(&mut self, id: NodeId, value: &mut Value, at: &ValuePath<'_>) -> bool {
        if !self.evaluator.enter() {
            return false;
        }
        let node = self.program.node(id);
        let admitted = node.types.overlaps(self.program.type_of(value));
        let fits = if let Some(applicators) = node.applicators.as_deref() {
            self.normalize_composite(id, node, applicators, value, at)
        } else if admitted
            && (node.literals.is_none() || self.evaluator.admits_literal(node, value))
        {
            match node.unstable && (value.is_object() || value.is_array()) {
                true => self.normalize_unstable(id, value, at),
                false => self.normalize_contents(id, node, value, at),
            }
        } else {
            let new = self.convert_mismatched(id, value);
            self.replace(value, new, at) && admits_scalar(node, value, self.evaluator.budget)
        };
        self.evaluator.leave();
        fits
    }

    /// Normalizes a value to which several schemas can apply.
    fn normalize_composite(
        &mut self,
        id: NodeId,
        node: &'p SchemaNode,
        applicators: &'p Applicators,
        value: &mut Value,
        at: &ValuePath<'_>,
    ) -> bool {
        if let Some(union) = applicators.only_union()
            && !node.cyclic
            && !node.has_rules()
            && let Some(only) = self.only_candidate(union, value)
        {
            return self.normalize_as_variant(id, only, value, at);
        }
        self.normalize_unstable(id, value, at)
    }

    /// Normalizes a value whose repairs can depend on each other or make it invalid.
    fn normalize_unstable(&mut self, id: NodeId, value: &mut Value, at: &ValuePath<'_>) -> bool {
        self.evaluator.check_clean(id, value) || self.normalize_multi(&[id], value, at)
    }

    /// Normalizes under the only candidate variant. Unless a discriminator selects the variant, the
    /// repairs are undone if the value is invalid without stripping.
    fn normalize_as_variant(
        &mut self,
        id: NodeId,
        only: VariantCandidate,
        value: &mut Value,
        at: &ValuePath<'_>,
    ) -> bool {
        let (start, stripped) = (self.repair_log.len(), self.forbidden_strips);
        let is_valid = self.normalize_value(only.variant, value, at);
        let is_valid_unstripped = is_valid && self.forbidden_strips == stripped;
        if is_valid_unstripped {
            return true;
        }
        let is_accepted = only.is_discriminated || self.repair_log.len() == start;
        if !is_accepted {
            self.undo_repairs(value, at, start);
            // The original value can be valid if only a filled-in default was not.
            return self.evaluator.check_valid(id, value);
        }
        is_valid
    }

    /// Converts a scalar to a type that all nodes admit, if exactly one conversion applies.
    pub(super) fn convert(
        &mut self,
        nodes: &[NodeId],
        value: &mut Value,
        at: &ValuePath<'_>,
    ) -> bool {
        let new = self.conversion(nodes, value);
        self.replace(value, new, at)
    }

    /// Replaces the value by its conversion, if any.
    fn replace(&mut self, value: &mut Value, new: Option<Value>, at: &ValuePath<'_>) -> bool {
        let Some(new) = new else {
            return false;
        };
        self.repair_log.convert(at, value, new);
        self.clear_caches();
        true
    }

    fn normalize_contents(
        &mut self,
        id: NodeId,
        node: &'p SchemaNode,
        value: &mut Value,
        at: &ValuePath<'_>,
    ) -> bool {
        let (start, strips) = (self.repair_log.len(), self.forbidden_strips);
        let (children_valid, is_valid) = match value {
            Value::Object(map) => match node.object.as_deref() {
                Some(rules) => self.normalize_object(rules, map, at),
                None => return true,
            },
            Value::Array(items) => match node.array.as_deref() {
                Some(rules) => self.normalize_array(rules, items, at),
                None => return true,
            },
            _ => (true, admits_scalar(node, value, self.evaluator.budget)),
        };
        // Repaired items can violate `uniqueItems` or `contains`.
        if !is_valid && value.is_array() && self.restore_valid(&[id], value, at, start) {
            self.forbidden_strips = strips;
            return true;
        }
        is_valid && children_valid
    }

    /// Normalizes the items. Returns whether the items are valid, and whether the array itself is.
    fn normalize_array(
        &mut self,
        rules: &'p ArrayRules,
        items: &mut [Value],
        at: &ValuePath<'_>,
    ) -> (bool, bool) {
        let mut children_valid = self.evaluator.budget.spend(items.len());
        for (index, item) in items.iter_mut().enumerate() {
            let Some(node) = rules.item(index) else { break };
            children_valid &= self.matches_type_only(node, item)
                || self.normalize_constrained(node, item, &at.item(index));
        }
        let is_valid =
            rules.admits_length(items.len()) && self.evaluator.admits_items(rules, items, None);
        (children_valid, is_valid)
    }

    /// Normalizes the properties. Returns whether they and the object itself are valid.
    fn normalize_object(
        &mut self,
        rules: &'p ObjectRules,
        map: &mut JsonObject,
        at: &ValuePath<'_>,
    ) -> (bool, bool) {
        let mut scan = ObjectScan::default();
        let steps = map.len() + rules.defaults + rules.dependent_steps;
        let mut children_valid = self.evaluator.budget.spend(steps);
        let by_name = rules.patterns.is_empty();
        for (name, child) in map.iter_mut() {
            let declared = scan.visit(rules, name);
            children_valid &= match declared.and_then(|property| property.node) {
                Some(node) if by_name => {
                    self.matches_type_only(node, child)
                        || self.normalize_constrained(node, child, &at.member(name))
                }
                _ => self.normalize_property(rules, declared, name, child, at, &mut scan),
            };
        }
        // Without a minimum size or dependencies, strip extras first, so that defaults can reuse
        // their memory. Otherwise fill in defaults first, because a default can require an extra to
        // stay.
        let in_order = rules.min > 0 || !rules.dependent_required.is_empty();
        if scan.extras > 0 && !in_order {
            self.strip_extras(rules, map, at, &mut scan);
        }
        if scan.defaults < rules.defaults {
            children_valid &= self.fill_defaults(rules, map, at, &mut scan);
        }
        if scan.extras > 0 && in_order {
            self.strip_extras(rules, map, at, &mut scan);
        }
        let is_valid = scan.required == rules.required
            && (scan.extras == 0 || rules.additional != AdditionalProperties::Forbidden)
            && rules.admits_size(map.len())
            && self.evaluator.admits_property_names(rules, map)
            && rules.admits_dependencies(map);
        (children_valid, is_valid)
    }

    /// Normalizes a property to which patterns or `additionalProperties` can apply.
    fn normalize_property(
        &mut self,
        rules: &'p ObjectRules,
        declared: Option<&'p Property>,
        name: &str,
        child: &mut Value,
        at: &ValuePath<'_>,
        scan: &mut ObjectScan,
    ) -> bool {
        let node = declared.and_then(|property| property.node);
        if !rules.patterns.is_empty() {
            let budget = self.evaluator.budget;
            let matching =
                rules.patterns.iter().filter(|(pattern, _)| pattern.matches(name, budget));
            let nodes: Vec<NodeId> =
                node.into_iter().chain(matching.map(|found| found.1)).collect();
            match *nodes.as_slice() {
                [] => {}
                [node] => return self.normalize_value(node, child, &at.member(name)),
                _ => return self.normalize_multi(&nodes, child, &at.member(name)),
            }
        }
        match rules.additional {
            AdditionalProperties::Schema(node) => {
                self.matches_type_only(node, child)
                    || self.normalize_constrained(node, child, &at.member(name))
            }
            AdditionalProperties::Allowed => true,
            AdditionalProperties::Unspecified | AdditionalProperties::Forbidden => {
                scan.extras += 1;
                // A required property is never extra: the object would be invalid without it.
                if !declared.is_some_and(|property| property.required) {
                    scan.strippable.insert(scan.position - 1);
                }
                true
            }
        }
    }

    /// Fills in missing properties that have defaults, and normalizes the filled-in values.
    fn fill_defaults(
        &mut self,
        rules: &'p ObjectRules,
        map: &mut JsonObject,
        at: &ValuePath<'_>,
        scan: &mut ObjectScan,
    ) -> bool {
        let mut fits = true;
        let depth = self.open_defaults.len();
        for (index, property) in rules.properties.entries().iter().enumerate() {
            let Some(declared_default) = &property.default else {
                continue;
            };
            let PropertyDefault { value: default, .. } = declared_default;
            if scan.has_default(index, &property.name, map) || !self.admit_default(default) {
                continue;
            }
            let property_path = at.member(&property.name);
            self.repair_log.record_default(&property_path, declared_default);
            self.clear_caches();
            let name = self.repair_log.owned_name(&property.name);
            let child = map.entry(name).or_insert_with(|| default.clone());
            scan.required += usize::from(property.required);
            // Only a default that is a container can contain the same default again.
            let container = default.is_object() || default.is_array();
            self.open_defaults.extend(container.then(|| address(default)));
            fits &= match property.node {
                Some(node) if rules.patterns.is_empty() => {
                    self.matches_type_only(node, child)
                        || self.normalize_constrained(node, child, &property_path)
                }
                _ => {
                    let mut alone = ObjectScan::default();
                    let declared = alone.visit(rules, &property.name);
                    self.normalize_property(rules, declared, &property.name, child, at, &mut alone)
                }
            };
            self.open_defaults.truncate(depth);
        }
        fits
    }

    /// Strips undeclared properties, except for free-form objects and below `minProperties`.
    fn strip_extras(
        &mut self,
        rules: &'p ObjectRules,
        map: &mut JsonObject,
        at: &ValuePath<'_>,
        scan: &mut ObjectScan,
    ) {
        if !rules.declares_properties || self.evaluator.extras == Extras::Keep {
            return;
        }
        let stripped = if rules.dependent_required.is_empty() {
            self.strip_positions(at, map, &scan.strippable, rules.min)
        } else {
            let mut retained = vec![true; map.len()];
            for (position, retained) in retained.iter_mut().enumerate() {
                *retained = !scan.strippable.contains(position);
            }
            rules.retain_dependents(map, &mut retained, self.evaluator.budget);
            self.strip_all_but(at, map, &retained, rules.min)
        };
        if rules.additional == AdditionalProperties::Forbidden {
            self.forbidden_strips += stripped;
        }
        scan.extras -= stripped;
    }

    /// Strips these properties unless fewer than `smallest` would remain; returns the number.
    fn strip_positions(
        &mut self,
        at: &ValuePath<'_>,
        map: &mut JsonObject,
        positions: &PositionSet,
        smallest: usize,
    ) -> usize {
        if positions.count == 0 || map.len() - positions.count < smallest {
            return 0;
        }
        // Removing many properties at once rebuilds the object's table, which is slower for a few:
        // by a seventh of the whole run for two of eleven properties.
        if let Some(few) = positions.first_positions.get(..positions.count)
            && few.len() * 4 <= map.len()
        {
            self.repair_log.strip_at(at, map, few);
        } else {
            let mut extras = (0..).map(|position| positions.contains(position));
            self.repair_log.strip(at, map, || extras.next().unwrap_or(false));
        }
        self.clear_caches();
        positions.count
    }

    /// Strips the other properties unless fewer than `smallest` would remain; returns the number.
    pub(super) fn strip_all_but(
        &mut self,
        at: &ValuePath<'_>,
        map: &mut JsonObject,
        retained: &[bool],
        smallest: usize,
    ) -> usize {
        let retained_count = retained.iter().filter(|retained| **retained).count();
        if retained_count < smallest || retained_count == map.len() {
            return 0;
        }
        let mut keep = retained.iter();
        self.repair_log.strip(at, map, || !keep.next().copied().unwrap_or(true));
        self.clear_caches();
        retained.len() - retained_count
    }
}

/// State of the walk over an object's properties.
#[derive(Default)]
struct ObjectScan {
    cursor: usize,
    required: usize,
    defaults: usize,
    /// Bit set of the first 64 declared names that are present and have a default.
    present_defaults: u64,
    extras: usize,
    /// Number of properties visited.
    position: usize,
    /// Positions of properties that can be stripped.
    strippable: PositionSet,
}

/// A set of property positions. The first 64 are bits, which need no allocation.
#[derive(Default)]
struct PositionSet {
    count: usize,
    /// The first positions, also as a list.
    first_positions: [usize; MAX_SINGLE_REMOVALS],
    low_bits: u64,
    /// Positions from 64 on. Sorted, because objects are walked in order.
    high_positions: Vec<usize>,
}

impl PositionSet {
    fn insert(&mut self, position: usize) {
        if let Some(free) = self.first_positions.get_mut(self.count) {
            *free = position;
        }
        self.count += 1;
        match position {
            0..64 => self.low_bits |= 1 << position,
            _ => self.high_positions.push(position),
        }
    }

    fn contains(&self, position: usize) -> bool {
        match position {
            0..64 => self.low_bits & (1 << position) != 0,
            _ => self.high_positions.binary_search(&position).is_ok(),
        }
    }
}

impl ObjectScan {
    /// Counts the next property, and returns its declaration in the schema, if any.
    #[inline]
    fn visit<'p>(&mut self, rules: &'p ObjectRules, name: &str) -> Option<&'p Property> {
        self.position += 1;
        let property = rules.properties.find(name, &mut self.cursor)?;
        self.required += usize::from(property.required);
        if property.default.is_some() {
            self.record_default(self.cursor - 1);
        }
        Some(property)
    }

    fn record_default(&mut self, index: usize) {
        self.defaults += 1;
        if index < 64 {
            self.present_defaults |= 1 << index;
        }
    }

    /// Whether a property with a default is present.
    fn has_default(&self, index: usize, name: &str, map: &JsonObject) -> bool {
        if index < 64 { self.present_defaults & (1 << index) != 0 } else { map.contains_key(name) }
    }
}
