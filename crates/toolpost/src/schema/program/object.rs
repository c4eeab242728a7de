//! The keywords about objects, and the table that finds a property by its name.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::short_bytes::str_eq;
use super::{NodeId, PatternMatcher};

pub(in crate::schema) struct ObjectRules {
    pub(in crate::schema) properties: PropertyTable,
    /// How many names of the table are required.
    pub(in crate::schema) required: usize,
    /// How many names of the table have a default.
    pub(in crate::schema) defaults: usize,
    /// Names whose schema admits a single text or number: what tells variants apart.
    pub(in crate::schema) tags: Box<[u32]>,
    pub(in crate::schema) patterns: Box<[(PatternMatcher, NodeId)]>,
    pub(in crate::schema) additional: AdditionalProperties,
    pub(in crate::schema) property_names: Option<NodeId>,
    pub(in crate::schema) min: usize,
    pub(in crate::schema) max: Option<usize>,
    pub(in crate::schema) dependent_required: Box<[DependentRequired]>,
    /// Whether the schema says which properties there are; without that the object is free-form.
    pub(in crate::schema) declares_properties: bool,
}

/// A property, and the names that are required beside it.
pub(in crate::schema) type DependentRequired = (Box<str>, Box<[Box<str>]>);

/// `additionalProperties`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::schema) enum AdditionalProperties {
    Unspecified,
    Allowed,
    Forbidden,
    Schema(NodeId),
}

pub(in crate::schema) struct Property {
    pub(in crate::schema) name: Box<str>,
    /// `None` for a name that is only required.
    pub(in crate::schema) node: Option<NodeId>,
    pub(in crate::schema) required: bool,
    pub(in crate::schema) default: Option<Value>,
}

impl ObjectRules {
    #[inline]
    pub(in crate::schema) fn admits_size(&self, size: usize) -> bool {
        size >= self.min && self.max.is_none_or(|max| size <= max)
    }

    pub(in crate::schema) fn admits_dependencies(&self, map: &Map<String, Value>) -> bool {
        self.dependent_required.iter().all(|(trigger, names)| {
            !map.contains_key(&**trigger) || names.iter().all(|name| map.contains_key(&**name))
        })
    }

    /// Keeps, beside what is kept already, the properties that kept ones make required.
    pub(in crate::schema) fn retain_dependents(
        &self,
        map: &Map<String, Value>,
        retained: &mut [bool],
    ) {
        if self.dependent_required.is_empty() {
            return;
        }
        let positions: HashMap<&str, usize> =
            map.keys().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let position_of = |name: &str| positions.get(name).copied();
        loop {
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

/// Below this many names a scan over them beats hashing.
const MAX_LINEAR_SCAN: usize = 8;

/// The names a schema speaks about.
#[derive(Default)]
pub(in crate::schema) struct PropertyTable {
    entries: Box<[Property]>,
    index: HashMap<Box<str>, u32, foldhash::fast::RandomState>,
    /// The traits of all names, which rule most others out at once.
    name_mask: u64,
}

impl PropertyTable {
    pub(in crate::schema) fn new(entries: Vec<Property>) -> Self {
        let mut index = HashMap::default();
        if entries.len() > MAX_LINEAR_SCAN {
            index.extend((0_u32..).zip(&entries).map(|(at, entry)| (entry.name.clone(), at)));
        }
        let name_mask = entries.iter().fold(0, |all, entry| all | name_bit(&entry.name));
        Self { entries: entries.into(), index, name_mask }
    }

    pub(in crate::schema) fn entries(&self) -> &[Property] {
        &self.entries
    }

    pub(in crate::schema) fn set_default(&mut self, at: usize, default: Value) {
        self.entries[at].default = Some(default);
    }

    /// Finds a name. Objects tend to come in the order of their schema, perhaps with a gap, so the
    /// two entries after the one found last are tried first.
    #[inline]
    pub(in crate::schema) fn find(&self, name: &str, cursor: &mut usize) -> Option<&Property> {
        match self.entries.get(*cursor) {
            Some(next) if str_eq(&next.name, name) => {
                *cursor += 1;
                Some(next)
            }
            _ => self.find_slow(name, cursor),
        }
    }

    /// Out of line, so that the usual case is short enough to be part of its caller.
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

    /// Finds a name without a cursor.
    pub(in crate::schema) fn get(&self, name: &str) -> Option<&Property> {
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

/// One of 64 bits, by the length of a name and its first and last byte.
#[inline]
fn name_bit(name: &str) -> u64 {
    let ends = match name.as_bytes() {
        [] => 0,
        [first, .., last] => usize::from(*first) * 5 + usize::from(*last),
        [only] => usize::from(*only),
    };
    1 << ((ends + name.len() * 7) % 64)
}
