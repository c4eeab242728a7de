//! Places with one schema: judged and repaired in the same step.

use serde_json::{Map, Value};

use super::super::program::{Additional, ArrayRules, Logic, Node, NodeId, ObjectRules, Property};
use super::super::repair::Extras;
use super::super::verdict::{address, admits_scalar};
use super::choose::Candidate;
use super::convert::{conversion, converted};
use super::{Normalizer, Step};

/// Up to this many properties are removed from an object one by one.
const FEW: usize = 2;

impl<'p> Normalizer<'p> {
    /// Normalizes a place under one schema, and says whether it fits now.
    #[inline]
    pub(super) fn place(&mut self, id: NodeId, value: &mut Value, at: &Step<'_>) -> bool {
        self.is_plain(id, value) || self.closely(id, value, at)
    }

    /// Whether the type of a value is all that is asked of it, and the right one: most places of
    /// most values, for which no step is worth taking.
    #[inline]
    fn is_plain(&self, id: NodeId, value: &Value) -> bool {
        let node = self.program.node(id);
        node.bare && node.types.overlaps(self.program.type_of(value))
    }

    /// Normalizes a place that is not plain.
    fn closely(&mut self, id: NodeId, value: &mut Value, at: &Step<'_>) -> bool {
        if !self.judge.enter() {
            return false;
        }
        let node = self.program.node(id);
        let admitted = node.types.overlaps(self.program.type_of(value));
        let fits = if let Some(logic) = node.logic.as_deref() {
            self.shared(id, node, logic, value, at)
        } else if admitted && (node.literals.is_none() || self.judge.admits_literal(node, value)) {
            self.inside(id, node, value, at)
        } else {
            // A container of the wrong type is not entered, so what is wrong in it is not known.
            self.vague |= node.looks_into(value);
            let new = converted(self.program, &[id], value);
            let fits = self.replace(value, new, at) && admits_scalar(node, value);
            self.noted(fits, id, at)
        };
        self.judge.leave();
        fits
    }

    /// Normalizes a place that several schemas may speak about.
    fn shared(
        &mut self,
        id: NodeId,
        node: &'p Node,
        logic: &'p Logic,
        value: &mut Value,
        at: &Step<'_>,
    ) -> bool {
        if let Some(union) = logic.only_union()
            && !node.cyclic
            && !node.has_rules()
            && let Some(only) = self.only_candidate(union, value)
        {
            return self.under_candidate(id, only, value, at);
        }
        let fits = self.judge.is_clean(id, value) || self.region(&[id], value, at);
        self.vague |= !fits;
        fits
    }

    /// Passes a local verdict on, and notes it if it is bad.
    #[inline]
    fn noted(&mut self, fits: bool, id: NodeId, at: &Step<'_>) -> bool {
        if !fits {
            self.misfit(id, at);
        }
        fits
    }

    /// Normalizes under the only variant that the value can be meant for; unless a discriminator
    /// says so too, one that does not fit before stripping changes nothing.
    fn under_candidate(
        &mut self,
        id: NodeId,
        only: Candidate,
        value: &mut Value,
        at: &Step<'_>,
    ) -> bool {
        let (start, stripped) = (self.log.len(), self.closed_strips);
        let (misfits, vague) = (self.misfits.len(), self.vague);
        let fits = self.place(only.variant, value, at);
        let fitted = fits && self.closed_strips == stripped;
        if fitted {
            return true;
        }
        let kept = only.named || self.log.len() == start;
        if !kept {
            self.log.undo_below(value, &at.pointer(), start);
            self.forget();
            // It may fit as it was, where only a default that was filled in does not.
            if self.judge.fits(id, value) {
                self.misfits.truncate(misfits);
                self.vague = vague;
                return true;
            }
        }
        if fits && kept {
            return true;
        }
        // What is wrong below is the union's business now: no variant fits.
        self.misfits.truncate(misfits);
        self.vague = vague;
        self.misfit(id, at);
        false
    }

    /// Converts a scalar to the type that all of the nodes ask for, if there is one way to.
    pub(super) fn convert(&mut self, nodes: &[NodeId], value: &mut Value, at: &Step<'_>) -> bool {
        let new = conversion(self.program, nodes, value);
        self.replace(value, new, at)
    }

    /// Puts a conversion, if there is one, in the place of what it was made of.
    fn replace(&mut self, value: &mut Value, new: Option<Value>, at: &Step<'_>) -> bool {
        let Some(new) = new else {
            return false;
        };
        self.log.converted(at, value, new);
        self.forget();
        true
    }

    fn inside(&mut self, id: NodeId, node: &'p Node, value: &mut Value, at: &Step<'_>) -> bool {
        let (below, here) = match value {
            Value::Object(map) => match node.object.as_deref() {
                Some(rules) => self.object(rules, map, at),
                None => return true,
            },
            Value::Array(items) => match node.array.as_deref() {
                Some(rules) => self.array(rules, items, at),
                None => return true,
            },
            _ => (true, admits_scalar(node, value)),
        };
        self.noted(here, id, at) && below
    }

    /// Whether the items fit, and whether the array does, apart from them.
    fn array(&mut self, rules: &'p ArrayRules, items: &mut [Value], at: &Step<'_>) -> (bool, bool) {
        let mut below = true;
        for (index, item) in items.iter_mut().enumerate() {
            let Some(node) = rules.item(index) else { break };
            below &= self.is_plain(node, item) || self.closely(node, item, &at.index(index));
        }
        let here = rules.admits_length(items.len()) && self.judge.admits_items(rules, items, None);
        (below, here)
    }

    /// Whether the properties fit, and whether the object does, apart from them.
    fn object(
        &mut self,
        rules: &'p ObjectRules,
        map: &mut Map<String, Value>,
        at: &Step<'_>,
    ) -> (bool, bool) {
        let mut seen = Seen::default();
        let mut below = true;
        let by_name = rules.patterns.is_empty();
        for (name, child) in map.iter_mut() {
            let named = seen.find(rules, name);
            below &= match named.and_then(|property| property.node) {
                Some(node) if by_name => {
                    self.is_plain(node, child) || self.closely(node, child, &at.name(name))
                }
                _ => self.property(rules, named, name, child, at, &mut seen),
            };
        }
        // Where nothing counts or couples the properties, extras go first and leave their room to
        // the defaults; elsewhere a default may be the reason why an extra has to stay.
        let in_order = rules.min > 0 || !rules.dependent_required.is_empty();
        if seen.extras > 0 && !in_order {
            self.drop_extras(rules, map, at, &mut seen);
        }
        if seen.defaults < rules.defaults {
            below &= self.fill(rules, map, at, &mut seen);
        }
        if seen.extras > 0 && in_order {
            self.drop_extras(rules, map, at, &mut seen);
        }
        let here = seen.required == rules.required
            && (seen.extras == 0 || rules.additional != Additional::Forbidden)
            && rules.admits_size(map.len())
            && self.judge.admits_names(rules, map)
            && rules.admits_dependencies(map);
        (below, here)
    }

    /// Normalizes a property that its name alone does not lead to a schema.
    fn property(
        &mut self,
        rules: &'p ObjectRules,
        named: Option<&'p Property>,
        name: &str,
        child: &mut Value,
        at: &Step<'_>,
        seen: &mut Seen,
    ) -> bool {
        let node = named.and_then(|property| property.node);
        if !rules.patterns.is_empty() {
            let matching = rules.patterns.iter().filter(|(pattern, _)| pattern.matches(name));
            let nodes: Vec<NodeId> =
                node.into_iter().chain(matching.map(|found| found.1)).collect();
            match *nodes.as_slice() {
                [] => {}
                [node] => return self.place(node, child, &at.name(name)),
                _ => {
                    let fits = self.region(&nodes, child, &at.name(name));
                    self.vague |= !fits;
                    return fits;
                }
            }
        }
        match rules.additional {
            Additional::Schema(node) => {
                self.is_plain(node, child) || self.closely(node, child, &at.name(name))
            }
            Additional::Allowed => true,
            Additional::Unsaid | Additional::Forbidden => {
                seen.extras += 1;
                // A required property is never extra: without it the object would not fit.
                if !named.is_some_and(|property| property.required) {
                    seen.unnamed.insert(seen.position - 1);
                }
                true
            }
        }
    }

    /// Fills in what is missing and has a default, which is then a value like any other.
    fn fill(
        &mut self,
        rules: &'p ObjectRules,
        map: &mut Map<String, Value>,
        at: &Step<'_>,
        seen: &mut Seen,
    ) -> bool {
        let mut fits = true;
        let depth = self.inside.len();
        for (index, property) in rules.names.entries().iter().enumerate() {
            let Some(default) = &property.default else {
                continue;
            };
            if seen.has_default(index, &property.name, map) || !self.may_fill(default) {
                continue;
            }
            let here = at.name(&property.name);
            self.log.defaulted(&here, default);
            self.forget();
            let name = self.log.owned(&property.name);
            let child = map.entry(name).or_insert_with(|| default.clone());
            seen.required += usize::from(property.required);
            // Only a container has an inside to come back to the same default in.
            let container = default.is_object() || default.is_array();
            self.inside.extend(container.then(|| address(default)));
            fits &= match property.node {
                Some(node) if rules.patterns.is_empty() => {
                    self.is_plain(node, child) || self.closely(node, child, &here)
                }
                _ => {
                    let mut alone = Seen::default();
                    let named = alone.find(rules, &property.name);
                    self.property(rules, named, &property.name, child, at, &mut alone)
                }
            };
            self.inside.truncate(depth);
        }
        fits
    }

    /// Strips what the schema does not name, unless the object is free-form or would then be too
    /// small for its own schema.
    fn drop_extras(
        &mut self,
        rules: &'p ObjectRules,
        map: &mut Map<String, Value>,
        at: &Step<'_>,
        seen: &mut Seen,
    ) {
        if !rules.closed_set || self.judge.extras == Extras::Keep {
            return;
        }
        let stripped = if rules.dependent_required.is_empty() {
            self.strip_positions(at, map, &seen.unnamed, rules.min)
        } else {
            let mut kept = vec![true; map.len()];
            for (position, kept) in kept.iter_mut().enumerate() {
                *kept = !seen.unnamed.contains(position);
            }
            rules.keep_dependents(map, &mut kept);
            self.strip_all_but(at, map, &kept, rules.min)
        };
        if rules.additional == Additional::Forbidden {
            self.closed_strips += stripped;
        }
        seen.extras -= stripped;
    }

    /// Strips what stands at these positions, unless too little would be left, and says how much
    /// that was.
    fn strip_positions(
        &mut self,
        at: &Step<'_>,
        map: &mut Map<String, Value>,
        positions: &Positions,
        smallest: usize,
    ) -> usize {
        if positions.count == 0 || map.len() - positions.count < smallest {
            return 0;
        }
        // Removing many at once rebuilds the table of the object, which is slower for a few: for
        // two of eleven properties by a seventh of the whole run.
        if let Some(few) = positions.few.get(..positions.count)
            && few.len() * 4 <= map.len()
        {
            self.log.strip_few(at, map, few);
        } else {
            let mut extras = (0..).map(|position| positions.contains(position));
            self.log.strip(at, map, || extras.next().unwrap_or(false));
        }
        self.forget();
        positions.count
    }

    /// Strips what is not kept, unless too little would be left, and says how much that was.
    pub(super) fn strip_all_but(
        &mut self,
        at: &Step<'_>,
        map: &mut Map<String, Value>,
        kept: &[bool],
        smallest: usize,
    ) -> usize {
        let left = kept.iter().filter(|kept| **kept).count();
        if left < smallest || left == map.len() {
            return 0;
        }
        let mut keep = kept.iter();
        self.log.strip(at, map, || !keep.next().copied().unwrap_or(true));
        self.forget();
        kept.len() - left
    }
}

/// What the walk over an object has met so far.
#[derive(Default)]
struct Seen {
    cursor: usize,
    required: usize,
    defaults: usize,
    /// Which of the first names of the table were met and have a default, a bit each.
    defaulted: u64,
    extras: usize,
    /// How many properties there were.
    position: usize,
    /// Those that may be stripped.
    unnamed: Positions,
}

/// Some properties of an object, by their positions; a bit each for the first ones, so that an
/// ordinary object needs no list.
#[derive(Default)]
struct Positions {
    count: usize,
    /// The first of them once more, as a list.
    few: [usize; FEW],
    first: u64,
    /// Sorted, since an object is walked from front to back.
    rest: Vec<usize>,
}

impl Positions {
    fn insert(&mut self, position: usize) {
        if let Some(free) = self.few.get_mut(self.count) {
            *free = position;
        }
        self.count += 1;
        match position {
            0..64 => self.first |= 1 << position,
            _ => self.rest.push(position),
        }
    }

    fn contains(&self, position: usize) -> bool {
        match position {
            0..64 => self.first & (1 << position) != 0,
            _ => self.rest.binary_search(&position).is_ok(),
        }
    }
}

impl Seen {
    /// Notes the next property, and says what the schema has under its name.
    #[inline]
    fn find<'p>(&mut self, rules: &'p ObjectRules, name: &str) -> Option<&'p Property> {
        self.position += 1;
        let property = rules.names.find(name, &mut self.cursor)?;
        self.required += usize::from(property.required);
        if property.default.is_some() {
            self.note_default(self.cursor - 1);
        }
        Some(property)
    }

    fn note_default(&mut self, index: usize) {
        self.defaults += 1;
        if index < 64 {
            self.defaulted |= 1 << index;
        }
    }

    /// Whether a property that has a default is there already.
    fn has_default(&self, index: usize, name: &str, map: &Map<String, Value>) -> bool {
        if index < 64 { self.defaulted & (1 << index) != 0 } else { map.contains_key(name) }
    }
}
