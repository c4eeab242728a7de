//! Tracks which properties or items of one value have been evaluated.

/// A bit set of properties or items, by position. The first 128 need no allocation.
#[derive(Clone, Default)]
pub(in crate::schema) struct EvaluatedSet {
    inline: [u64; 2],
    heap: Vec<u64>,
    /// Whether any schema declared properties.
    pub(in crate::schema) declares_properties: bool,
}

const INLINE_BITS: usize = 128;

impl EvaluatedSet {
    #[inline]
    pub(in crate::schema) fn insert(&mut self, at: usize) {
        let word = if at < INLINE_BITS {
            &mut self.inline[at / 64]
        } else {
            let word = (at - INLINE_BITS) / 64;
            if self.heap.len() <= word {
                self.heap.resize(word + 1, 0);
            }
            &mut self.heap[word]
        };
        *word |= 1 << (at % 64);
    }

    pub(in crate::schema) fn contains(&self, at: usize) -> bool {
        let word = if at < INLINE_BITS {
            self.inline[at / 64]
        } else {
            self.heap.get((at - INLINE_BITS) / 64).copied().unwrap_or(0)
        };
        word & (1 << (at % 64)) != 0
    }

    pub(in crate::schema) fn merge(&mut self, other: &Self) {
        self.inline.iter_mut().zip(other.inline).for_each(|(to, from)| *to |= from);
        if self.heap.len() < other.heap.len() {
            self.heap.resize(other.heap.len(), 0);
        }
        self.heap.iter_mut().zip(&other.heap).for_each(|(to, from)| *to |= from);
        self.declares_properties |= other.declares_properties;
    }

    /// Whether the first `count` positions are all evaluated.
    pub(in crate::schema) fn contains_all(&self, count: usize) -> bool {
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
