//! Tracks which properties or items of one value have been evaluated.

use smallvec::SmallVec;

/// A bit set of properties or items, by position. The first 128 need no allocation.
#[derive(Clone, Default)]
pub(crate) struct EvaluatedSet {
    words: SmallVec<[u64; 2]>,
    /// Whether any schema declared properties.
    pub(crate) declares_properties: bool,
}

impl EvaluatedSet {
    #[inline]
    pub(crate) fn insert(&mut self, at: usize) {
        if self.words.len() <= at / 64 {
            self.words.resize(at / 64 + 1, 0);
        }
        self.words[at / 64] |= 1 << (at % 64);
    }

    /// Number of bytes, without inline storage.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>() + self.words.len() * 8
    }

    pub(crate) fn contains(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(to, from)| *to |= from);
        self.declares_properties |= other.declares_properties;
    }

    /// Whether the first `count` positions are all evaluated.
    pub(crate) fn contains_all(&self, count: usize) -> bool {
        (0..count).all(|at| self.contains(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluated_set_keeps_inserted_positions() {
        let mut marks = EvaluatedSet::default();
        for at in [0, 63, 64, 127, 128, 191, 192, 1000] {
            assert!(!marks.contains(at));
            marks.insert(at);
            assert!(marks.contains(at) && !marks.contains(at + 1), "{at}");
        }
        let mut other = EvaluatedSet::default();
        other.merge(&marks);
        assert!(
            other.contains(1000)
                && !other.contains(999)
                && !other.contains_all(2)
                && other.contains_all(1)
        );
    }
}
