//! The texts of a document, each kept once: an API says `description` and `string` ten thousand
//! times.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// A text of a [`Texts`]. Two are equal when what they say is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TextId(u32);

impl TextId {
    /// The how-manyeth text it is.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Default)]
pub(super) struct Texts {
    all: String,
    /// Where each text ends in `all`; it begins where the one before ends.
    ends: Vec<u32>,
    known: HashTable<Known>,
    hasher: Hasher,
}

/// A text, and half of its hash, so that a growing table need not read all texts again.
#[derive(Debug, Clone, Copy)]
struct Known {
    id: TextId,
    hash: u32,
}

/// Seeded by chance, because documents come from anywhere.
#[derive(Debug, Clone)]
pub(super) struct Hasher(FixedState);

impl Default for Hasher {
    fn default() -> Self {
        let seed = std::hash::RandomState::new().hash_one(0_u8);
        Self(FixedState::with_seed(seed))
    }
}

impl BuildHasher for Hasher {
    type Hasher = foldhash::fast::FoldHasher<'static>;

    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

impl Texts {
    /// The id of a text, which is kept if it is new; `None` when four gigabytes are full.
    pub(super) fn keep(&mut self, text: &str) -> Option<TextId> {
        let hash = self.hash(text);
        if let Some(id) = self.find_hashed(text, hash) {
            return Some(id);
        }
        let id = TextId(u32::try_from(self.ends.len()).ok()?);
        let end = u32::try_from(self.all.len() + text.len()).ok()?;
        self.all.push_str(text);
        self.ends.push(end);
        self.known.insert_unique(spread(hash), Known { id, hash }, |known| spread(known.hash));
        Some(id)
    }

    pub(super) fn find(&self, text: &str) -> Option<TextId> {
        self.find_hashed(text, self.hash(text))
    }

    fn find_hashed(&self, text: &str, hash: u32) -> Option<TextId> {
        let is_it = |known: &Known| known.hash == hash && self.get(known.id) == text;
        self.known.find(spread(hash), is_it).map(|known| known.id)
    }

    fn hash(&self, text: &str) -> u32 {
        (self.hasher.hash_one(text) >> 32) as u32
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, id: TextId) -> &str {
        slice(&self.all, &self.ends, id)
    }

    /// Gives back what was set aside for more.
    pub(super) fn shrink(&mut self) {
        self.all.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

fn slice<'a>(all: &'a str, ends: &[u32], id: TextId) -> &'a str {
    let index = id.0 as usize;
    let start = index.checked_sub(1).map_or(0, |before| ends[before]);
    &all[start as usize..ends[index] as usize]
}

/// Half a hash over the whole width that a table looks at.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
