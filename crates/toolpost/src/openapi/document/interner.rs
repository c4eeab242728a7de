//! String interner. Documents repeat names such as `description` and `string` thousands of times.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Index of a string in a [`StringInterner`]. Equal ids mean equal strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StringId(u32);

impl StringId {
    /// Returns the position of the string in the interner.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Default)]
pub(super) struct StringInterner {
    buffer: String,
    /// End of each string in `buffer`. A string starts where the previous one ends.
    ends: Vec<u32>,
    table: HashTable<HashedId>,
    /// Randomly seeded, because documents are untrusted input.
    hasher: RandomState,
}

/// A string id with 32 bits of its hash, so that growing the table does not rehash the strings.
#[derive(Debug, Clone, Copy)]
struct HashedId {
    id: StringId,
    hash: u32,
}

impl StringInterner {
    /// Returns the id of a string, which may be new. Returns `None` beyond 4 GiB of strings.
    pub(super) fn intern(&mut self, text: &str) -> Option<StringId> {
        let hash = self.hash(text);
        if let Some(id) = self.find_with_hash(text, hash) {
            return Some(id);
        }
        let id = StringId(u32::try_from(self.ends.len()).ok()?);
        let end = u32::try_from(self.buffer.len() + text.len()).ok()?;
        self.buffer.push_str(text);
        self.ends.push(end);
        self.table
            .insert_unique(widen_hash(hash), HashedId { id, hash }, |entry| widen_hash(entry.hash));
        Some(id)
    }

    pub(super) fn find(&self, text: &str) -> Option<StringId> {
        self.find_with_hash(text, self.hash(text))
    }

    fn find_with_hash(&self, text: &str, hash: u32) -> Option<StringId> {
        let is_it = |entry: &HashedId| entry.hash == hash && self.get(entry.id) == text;
        self.table.find(widen_hash(hash), is_it).map(|entry| entry.id)
    }

    fn hash(&self, text: &str) -> u32 {
        (self.hasher.hash_one(text) >> 32) as u32
    }

    /// Returns the number of strings.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, StringId(id): StringId) -> &str {
        let index = id as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.buffer[start as usize..self.ends[index] as usize]
    }

    /// Releases unused capacity.
    pub(super) fn shrink(&mut self) {
        self.buffer.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

/// Spreads a 32-bit hash over the 64 bits that the hash table uses.
fn widen_hash(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
