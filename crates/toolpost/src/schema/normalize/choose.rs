//! Which variant of a union a value is meant for.

use serde_json::{Map, Value};

use super::super::program::{NodeId, Types, Union};
use super::super::verdict::address;
use super::Normalizer;

/// The only variant that a value can be meant for.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) variant: NodeId,
    /// Whether a property that tells variants apart names it.
    pub(super) named: bool,
}

impl<'p> Normalizer<'p> {
    /// The variant that is left when all others are ruled out for good: by the type of the
    /// container, or by a property that has the one value which this variant allows there and
    /// another does not.
    pub(super) fn only_candidate(&self, union: &'p Union, value: &Value) -> Option<Candidate> {
        let map = match value {
            Value::Object(map) => Some(map),
            Value::Array(_) => None,
            _ => return None,
        };
        let typed = |variant: &&NodeId| {
            self.program.node(**variant).types.overlaps(self.program.type_of(value))
        };
        let mut typed = union.variants.iter().filter(typed);
        let first = *typed.next()?;
        let Some(second) = typed.next() else {
            let named = map.is_some_and(|map| self.tags(first, map).is_some());
            return Some(Candidate { variant: first, named: named || self.is_named(union, value) });
        };
        let map = map?;
        let rest = [first, *second].into_iter().chain(typed.copied());
        let mut tagged = rest.filter(|variant| self.rules_out(*variant, map).is_none());
        let variant = tagged.next()?;
        let decided = tagged.next().is_none() && self.rules_in(union, variant, map);
        decided.then_some(Candidate { variant, named: true })
    }

    fn is_named(&self, union: &'p Union, value: &Value) -> bool {
        union.discriminator.is_some() && self.discriminated(union, value).is_some()
    }

    /// The first property of the variant itself whose single value the object contradicts.
    fn rules_out(&self, variant: NodeId, map: &Map<String, Value>) -> Option<&'p str> {
        let rules = self.program.node(variant).object.as_deref()?;
        rules.tags.iter().find_map(|tag| {
            let property = &rules.names.entries()[*tag as usize];
            let expected = self.program.node(property.node?);
            let differs = !expected.admits_literal(map.get(&*property.name)?);
            differs.then_some(&*property.name)
        })
    }

    /// Whether every other variant is contradicted by a property that this one pins, so that no
    /// repair under this one can bring them back.
    fn rules_in(&self, union: &'p Union, variant: NodeId, map: &Map<String, Value>) -> bool {
        let Some(rules) = self.program.node(variant).object.as_deref() else {
            return false;
        };
        let pins = |name: &str| {
            rules.tags.iter().any(|tag| &*rules.names.entries()[*tag as usize].name == name)
        };
        let mut others = union.variants.iter().filter(|other| **other != variant);
        others.all(|other| {
            !self.program.node(*other).types.overlaps(Types::OBJECT)
                || self.rules_out(*other, map).is_some_and(pins)
        })
    }

    /// The variant that fits after repairs, with the fewest of them, then the first; if none
    /// fits, the one that a discriminator names.
    pub(super) fn choose(&mut self, union: &'p Union, value: &Value) -> Option<NodeId> {
        let place = (std::ptr::from_ref(union) as usize, address(value));
        // A union that leads back to itself at the same place has no other answer there.
        if self.choosing.contains(&place) {
            return None;
        }
        self.choosing.push(place);
        let best = self.cheapest(union, value);
        self.choosing.pop();
        best.or_else(|| self.discriminated(union, value))
    }

    fn cheapest(&mut self, union: &'p Union, value: &Value) -> Option<NodeId> {
        let mut best: Option<(u32, NodeId)> = None;
        for variant in &union.variants {
            if !self.could_fit(*variant, value) {
                continue;
            }
            if self.judge.is_clean(*variant, value) {
                return best
                    .filter(|(repairs, _)| *repairs == 0)
                    .map_or(Some(*variant), |found| Some(found.1));
            }
            let cost = self.trial(&[*variant], value);
            if cost.fits && best.is_none_or(|(repairs, _)| cost.repairs() < repairs) {
                best = Some((cost.repairs(), *variant));
            }
        }
        best.map(|(_, variant)| variant)
    }

    /// The type alone rules a variant out, unless the value is a scalar that may be converted.
    fn could_fit(&self, variant: NodeId, value: &Value) -> bool {
        let scalar = !(value.is_array() || value.is_object() || value.is_null());
        scalar || self.program.node(variant).types.overlaps(self.program.type_of(value))
    }

    /// The variants that fit as the value is now; without any, the one a discriminator names.
    pub(super) fn fitting(&mut self, union: &'p Union, value: &Value) -> Vec<NodeId> {
        let variants = union.variants.iter().copied();
        let mut found: Vec<NodeId> =
            variants.filter(|variant| self.judge.fits(*variant, value)).collect();
        if found.is_empty() {
            found.extend(self.discriminated(union, value));
        }
        found
    }

    fn discriminated(&self, union: &'p Union, value: &Value) -> Option<NodeId> {
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
        let tagged = union.variants.iter().map(|variant| (*variant, self.tags(*variant, map)));
        let matching: Vec<_> =
            tagged.filter_map(|(variant, tags)| Some((tags?, variant))).collect();
        let most = matching.iter().map(|(tags, _)| *tags).max()?;
        let mut chosen = matching.iter().filter(|(tags, _)| *tags == most);
        let (_, variant) = chosen.next()?;
        chosen.next().is_none().then_some(*variant)
    }

    /// How many properties of the object are the single value that the variant allows there;
    /// `None` if there is no such property, or one with another value.
    fn tags(&self, variant: NodeId, map: &Map<String, Value>) -> Option<usize> {
        let mut seen = vec![variant];
        let (mut at, mut matching) = (0, 0);
        while let Some(id) = seen.get(at) {
            at += 1;
            let node = self.program.node(*id);
            if let Some(rules) = node.object.as_deref() {
                for tag in &rules.tags {
                    let property = &rules.names.entries()[*tag as usize];
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
            for part in node.logic.iter().flat_map(|logic| &logic.all) {
                if !seen.contains(part) {
                    seen.push(*part);
                }
            }
        }
        (matching > 0).then_some(matching)
    }
}
