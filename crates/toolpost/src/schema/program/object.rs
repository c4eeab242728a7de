//! Object keywords, and the table of declared properties.

use std::collections::HashMap;

use serde_json::Value;

use super::{NodeId, PatternMatcher};
use crate::json::{JsonObject, JsonPointer, str_eq};
use crate::schema::budget::{Budget, ValueSize};

pub(crate) struct ObjectRules {
    pub(crate) properties: PropertyTable,
    /// Number of required properties in the table.
    pub(crate) required: usize,
    /// Number of properties in the table that have a default.
    pub(crate) defaults: usize,
    /// Indices of properties whose schema admits a single literal; they discriminate variants.
    pub(crate) tags: Box<[u32]>,
    pub(crate) patterns: Box<[(PatternMatcher, NodeId)]>,
    pub(crate) additional: AdditionalProperties,
    pub(crate) property_names: Option<NodeId>,
    pub(crate) min: usize,
    pub(crate) max: Option<usize>,
    pub(crate) dependent_required: Box<[DependentRequired]>,
    /// Number of names in `dependent_required`.
    pub(crate) dependent_steps: usize,
    /// Whether the schema declares properties; otherwise the object is free-form.
    pub(crate) declares_properties: bool,
}

/// A property name, and the names required if that property is present.
pub(crate) type DependentRequired = (Box<str>, Box<[Box<str>]>);

/// `additionalProperties`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdditionalProperties {
    Unspecified,
    Allowed,
    Forbidden,
    Schema(NodeId),
}

#[derive(Default)]
pub(crate) struct Property {
    pub(crate) name: Box<str>,
    /// `None` for a name that occurs only in `required`.
    pub(crate) node: Option<NodeId>,
    pub(crate) required: bool,
    pub(crate) default: Option<PropertyDefault>,
}

/// A default that is valid for the schema of its property.
pub(crate) struct PropertyDefault {
    pub(crate) value: Value,
    pub(crate) size: ValueSize,
    /// Location of the schema of the property.
    pub(crate) pointer: JsonPointer,
}

impl ObjectRules {
    #[inline]
    pub(crate) fn admits_size(&self, size: usize) -> bool {
        size >= self.min && self.max.is_none_or(|max| size <= max)
    }

    pub(crate) fn admits_dependencies(&self, map: &JsonObject) -> bool {
        self.dependent_required.iter().all(|(trigger, names)| {
            !map.contains_key(&**trigger) || names.iter().all(|name| map.contains_key(&**name))
        })
    }

    /// Also retains properties that retained ones require.
    pub(crate) fn retain_dependents(
        &self,
        map: &JsonObject,
        retained: &mut [bool],
        budget: &Budget<'_>,
    ) {
        if self.dependent_required.is_empty() {
            return;
        }
        let positions: HashMap<&str, usize> =
            map.keys().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let position_of = |name: &str| positions.get(name).copied();
        loop {
            if !budget.spend(retained.len() + self.dependent_steps) {
                return;
            }
            let before = retained.iter().filter(|retained| **retained).count();
            for (trigger, names) in &self.dependent_required {
                if position_of(trigger).is_some_and(|at| retained[at]) {
                    names
                        .iter()
                        .filter_map(|name| position_of(name))
                        .for_each(|at| retained[at] = true);
                }
            }
            if retained.iter().filter(|retained| **retained).count() == before {
                return;
            }
        }
    }
}

/// Table size up to which a linear scan is faster than hashing.
const MAX_LINEAR_SCAN: usize = 8;

/// The property names in a schema.
#[derive(Default)]
pub(crate) struct PropertyTable {
    entries: Box<[Property]>,
    index: HashMap<Box<str>, u32, foldhash::fast::RandomState>,
    /// Union of the bits of all names; rules out most undeclared names without a lookup.
    name_mask: u64,
}

impl PropertyTable {
    pub(crate) fn new(entries: Vec<Property>) -> Self {
        let mut index = HashMap::default();
        if entries.len() > MAX_LINEAR_SCAN {
            index.extend((0_u32..).zip(&entries).map(|(at, entry)| (entry.name.clone(), at)));
        }
        let name_mask = entries.iter().fold(0, |all, entry| all | name_bit(&entry.name));
        Self { entries: entries.into(), index, name_mask }
    }

    pub(crate) fn entries(&self) -> &[Property] {
        &self.entries
    }

    pub(crate) fn set_default(&mut self, at: usize, default: PropertyDefault) {
        self.entries[at].default = Some(default);
    }

    /// Finds a property by name. Objects usually follow the order of their schema, possibly with a
    /// gap, so the two entries after the last match are tried first.
    #[inline]
    pub(crate) fn find(&self, name: &str, cursor: &mut usize) -> Option<&Property> {
        match self.entries.get(*cursor) {
            Some(next) if str_eq(&next.name, name) => {
                *cursor += 1;
                Some(next)
            }
            _ => self.find_slow(name, cursor),
        }
    }

    /// Not inlined, so that the fast path in `find` is small enough to inline.
    #[inline(never)]
    fn find_slow(&self, name: &str, cursor: &mut usize) -> Option<&Property> {
        let skipped = *cursor + 1;
        let at = match self.entries.get(skipped) {
            Some(entry) if str_eq(&entry.name, name) => skipped,
            _ => self.position(name)?,
        };
        *cursor = at + 1;
        self.entries.get(at)
    }

    /// Finds a property by name, without a cursor.
    pub(crate) fn get(&self, name: &str) -> Option<&Property> {
        self.entries.get(self.position(name)?)
    }

    fn position(&self, name: &str) -> Option<usize> {
        if self.name_mask & name_bit(name) == 0 {
            return None;
        }
        if self.index.is_empty() {
            self.entries.iter().position(|entry| &*entry.name == name)
        } else {
            self.index.get(name).map(|at| *at as usize)
        }
    }
}

/// Maps a name to one of 64 bits, by its length and its first and last byte.
#[inline]
fn name_bit(name: &str) -> u64 {
    let ends = match name.as_bytes() {
        [] => 0,
        [first, .., last] => usize::from(*first) * 5 + usize::from(*last),
        [only] => usize::from(*only),
    };
    1 << ((ends + name.len() * 7) % 64)
}
