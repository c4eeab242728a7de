//! Member index for large objects, such as thousands of schemas in one document.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::interner::StringId;
use super::tree::{ChildRange, CompactValue};

/// Minimum size of an indexed object. Smaller objects are searched linearly.
const MIN_INDEXED_MEMBERS: u32 = 32;

/// Index of the members of large objects, by object start and member name.
#[derive(Debug, Default)]
pub(super) struct LargeObjectIndex(HashMap<(u32, StringId), u32, RandomState>);

impl LargeObjectIndex {
    /// Indexes the members of a finished object if it is large enough.
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
