//! The members of large objects by name: thousands of schemas are looked up tens of thousands of
//! times.

use std::collections::HashMap;

use super::text::{Hasher, TextId};
use super::tree::{Cell, Span};

/// Smaller objects are looked through.
const LARGE: u32 = 32;

/// Where the members of large objects are, by the place where the object begins.
#[derive(Debug, Default)]
pub(super) struct Large(HashMap<(u32, TextId), u32, Hasher>);

impl Large {
    /// Takes note of an object that ends.
    pub(super) fn note(&mut self, members: &[(TextId, Cell)], object: Span) {
        if object.length >= LARGE {
            let places = object.start..object.start + object.length;
            let names = members.iter().map(|(name, _)| (object.start, *name));
            self.0.extend(names.zip(places));
        }
    }

    pub(super) fn find(
        &self,
        members: &[(TextId, Cell)],
        object: Span,
        name: TextId,
    ) -> Option<Cell> {
        if object.length < LARGE {
            let mut own = members[object.range()].iter();
            return own.find(|(own, _)| *own == name).map(|(_, cell)| *cell);
        }
        let place = self.0.get(&(object.start, name))?;
        members.get(*place as usize).map(|(_, cell)| *cell)
    }
}
