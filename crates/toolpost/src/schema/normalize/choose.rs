//! Selects the union variant for a value.

use serde_json::Value;

use super::super::program::{NodeId, TypeSet, Union};
use super::super::validate::address;
use super::Normalizer;
use crate::json::JsonObject;

/// The only variant that a value can match.
#[derive(Clone, Copy)]
pub(super) struct VariantCandidate {
    pub(super) variant: NodeId,
    /// Whether a discriminating property identifies the variant.
    pub(super) is_discriminated: bool,
}

impl<'p> Normalizer<'p> {
    /// Returns the variant if all others are ruled out: by the type of the container, or by a
    /// property whose single allowed value in this variant is present and is not allowed in the
    /// other variant.
    pub(super) fn only_candidate(
        &self,
        union: &'p Union,
        value: &Value,
    ) -> Option<VariantCandidate> {
        let map = match value {
            Value::Object(map) => Some(map),
            Value::Array(_) => None,
            _ => return None,
        };
        self.evaluator.budget.spend(union.variants.len());
        let typed = |variant: &&NodeId| {
            self.program.node(**variant).types.overlaps(self.program.type_of(value))
        };
        let mut typed = union.variants.iter().filter(typed);
        let first = *typed.next()?;
        let Some(second) = typed.next() else {
            let has_tag_match = map.is_some_and(|map| self.count_tag_matches(first, map).is_some());
            return Some(VariantCandidate {
                variant: first,
                is_discriminated: has_tag_match
                    || self.discriminated_variant(union, value).is_some(),
            });
        };
        let map = map?;
        let rest = [first, *second].into_iter().chain(typed.copied());
        let mut tagged = rest.filter(|variant| self.contradicted_property(*variant, map).is_none());
        let variant = tagged.next()?;
        let decided = tagged.next().is_none() && self.contradicts_all_others(union, variant, map);
        decided.then_some(VariantCandidate { variant, is_discriminated: true })
    }

    /// Returns the first tag property of the variant that has another value in the object.
    fn contradicted_property(&self, variant: NodeId, map: &JsonObject) -> Option<&'p str> {
        let rules = self.program.node(variant).object.as_deref()?;
        self.evaluator.budget.spend(rules.tags.len());
        rules.tags.iter().find_map(|tag| {
            let property = &rules.properties.entries()[*tag as usize];
            let expected = self.program.node(property.node?);
            let differs = !expected.admits_literal(map.get(&*property.name)?);
            differs.then_some(&*property.name)
        })
    }

    /// Whether every other variant is contradicted by a tag property of this one, so that no repair
    /// under this variant can make another one match.
    fn contradicts_all_others(&self, union: &'p Union, variant: NodeId, map: &JsonObject) -> bool {
        let Some(rules) = self.program.node(variant).object.as_deref() else {
            return false;
        };
        let pins = |name: &str| {
            rules.tags.iter().any(|tag| &*rules.properties.entries()[*tag as usize].name == name)
        };
        let mut others = union.variants.iter().filter(|other| **other != variant);
        others.all(|other| {
            !self.program.node(*other).types.overlaps(TypeSet::OBJECT)
                || self.contradicted_property(*other, map).is_some_and(pins)
        })
    }

    /// Returns the first variant that is valid with the fewest repairs, or the discriminated one.
    pub(super) fn choose_variant(&mut self, union: &'p Union, value: &Value) -> Option<NodeId> {
        let union_key = (std::ptr::from_ref(union) as usize, address(value));
        // A union that refers to itself in place has no variant here.
        if self.active_unions.contains(&union_key) {
            return None;
        }
        self.active_unions.push(union_key);
        let best = self.cheapest_variant(union, value);
        self.active_unions.pop();
        best.or_else(|| self.discriminated_variant(union, value))
    }

    fn cheapest_variant(&mut self, union: &'p Union, value: &Value) -> Option<NodeId> {
        let mut best: Option<(u32, NodeId)> = None;
        for variant in &union.variants {
            if !self.can_match_type(*variant, value) {
                continue;
            }
            if self.evaluator.check_clean(*variant, value) {
                return best
                    .filter(|(repairs, _)| *repairs == 0)
                    .map_or(Some(*variant), |found| Some(found.1));
            }
            let cost = self.dry_run(&[*variant], value);
            if cost.is_valid && best.is_none_or(|(repairs, _)| cost.total() < repairs) {
                best = Some((cost.total(), *variant));
            }
        }
        best.map(|(_, variant)| variant)
    }

    /// Whether the type allows the variant. Scalars always pass, because they can be converted.
    fn can_match_type(&self, variant: NodeId, value: &Value) -> bool {
        let scalar = !(value.is_array() || value.is_object() || value.is_null());
        scalar || self.program.node(variant).types.overlaps(self.program.type_of(value))
    }

    /// Returns the variants for which the value is valid, or the discriminated one.
    pub(super) fn valid_variants(&mut self, union: &'p Union, value: &Value) -> Vec<NodeId> {
        let variants = union.variants.iter().copied();
        let mut found: Vec<NodeId> =
            variants.filter(|variant| self.evaluator.check_valid(*variant, value)).collect();
        if found.is_empty() {
            found.extend(self.discriminated_variant(union, value));
        }
        found
    }

    fn discriminated_variant(&self, union: &'p Union, value: &Value) -> Option<NodeId> {
        let Value::Object(map) = value else {
            return None;
        };
        if let Some(discriminator) = &union.discriminator
            && let Some(Value::String(name)) = map.get(&*discriminator.property)
            && let Some((_, node)) =
                discriminator.variants.iter().find(|(known, _)| &**known == name.as_str())
        {
            return Some(*node);
        }
        let tagged =
            union.variants.iter().map(|variant| (*variant, self.count_tag_matches(*variant, map)));
        let matching: Vec<_> =
            tagged.filter_map(|(variant, tags)| Some((tags?, variant))).collect();
        let limit = matching.iter().map(|(tags, _)| *tags).max()?;
        let mut chosen = matching.iter().filter(|(tags, _)| *tags == limit);
        let (_, variant) = chosen.next()?;
        chosen.next().is_none().then_some(*variant)
    }

    /// Returns the number of matching tag properties; `None` if there are none or one differs.
    fn count_tag_matches(&self, variant: NodeId, map: &JsonObject) -> Option<usize> {
        let mut seen = vec![variant];
        let (mut at, mut matching) = (0, 0);
        while let Some(id) = seen.get(at) {
            at += 1;
            let node = self.program.node(*id);
            if let Some(rules) = node.object.as_deref() {
                self.evaluator.budget.spend(1 + rules.tags.len());
                for tag in &rules.tags {
                    let property = &rules.properties.entries()[*tag as usize];
                    let Some(value) = map.get(&*property.name) else {
                        continue;
                    };
                    let expected = self.program.node(property.node?);
                    if !expected.admits_literal(value) {
                        return None;
                    }
                    matching += 1;
                }
            }
            for part in node.applicators.iter().flat_map(|applicators| &applicators.all) {
                self.evaluator.budget.spend(seen.len() / 8);
                if !seen.contains(part) {
                    seen.push(*part);
                }
            }
        }
        (matching > 0).then_some(matching)
    }
}
