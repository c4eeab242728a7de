//! The members of large objects by name: thousands of schemas are looked up tens of thousands of
//! times.

use std::collections::HashMap;

use super::interner::{SeededHashState, StringId};
use super::tree::{ChildRange, CompactValue};

/// Smaller objects are looked through.
const MIN_INDEXED_MEMBERS: u32 = 32;

/// Where the members of large objects are, by the place where the object begins.
#[derive(Debug, Default)]
pub(super) struct LargeObjectIndex(HashMap<(u32, StringId), u32, SeededHashState>);

impl LargeObjectIndex {
    /// Takes note of an object that ends.
    pub(super) fn insert(&mut self, members: &[(StringId, CompactValue)], object: ChildRange) {
        if object.length >= MIN_INDEXED_MEMBERS {
            let indices = object.start..object.start + object.length;
            let names = members.iter().map(|(name, _)| (object.start, *name));
            self.0.extend(names.zip(indices));
        }
    }

    pub(super) fn find(
        &self,
        members: &[(StringId, CompactValue)],
        object: ChildRange,
        name: StringId,
    ) -> Option<CompactValue> {
        if object.length < MIN_INDEXED_MEMBERS {
            let mut own = members[object.range()].iter();
            return own.find(|(own, _)| *own == name).map(|(_, cell)| *cell);
        }
        let index = self.0.get(&(object.start, name))?;
        members.get(*index as usize).map(|(_, cell)| *cell)
    }
}
