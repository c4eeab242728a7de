//! Which properties or items of one place have been evaluated so far.

/// A bit for each property or item, by position; the first 128 need no allocation.
#[derive(Clone, Default)]
pub(in crate::schema) struct Marks {
    near: [u64; 2],
    far: Vec<u64>,
    /// Whether some schema said which properties there are.
    pub(in crate::schema) closed_set: bool,
}

const NEAR: usize = 128;

impl Marks {
    #[inline]
    pub(in crate::schema) fn set(&mut self, at: usize) {
        let word = if at < NEAR {
            &mut self.near[at / 64]
        } else {
            let word = (at - NEAR) / 64;
            if self.far.len() <= word {
                self.far.resize(word + 1, 0);
            }
            &mut self.far[word]
        };
        *word |= 1 << (at % 64);
    }

    pub(in crate::schema) fn has(&self, at: usize) -> bool {
        let word = if at < NEAR {
            self.near[at / 64]
        } else {
            self.far.get((at - NEAR) / 64).copied().unwrap_or(0)
        };
        word & (1 << (at % 64)) != 0
    }

    pub(in crate::schema) fn merge(&mut self, other: &Self) {
        self.near.iter_mut().zip(other.near).for_each(|(to, from)| *to |= from);
        if self.far.len() < other.far.len() {
            self.far.resize(other.far.len(), 0);
        }
        self.far.iter_mut().zip(&other.far).for_each(|(to, from)| *to |= from);
        self.closed_set |= other.closed_set;
    }

    /// Whether the first `count` are all evaluated.
    pub(in crate::schema) fn cover(&self, count: usize) -> bool {
        (0..count).all(|at| self.has(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stay_where_they_are_set() {
        let mut marks = Marks::default();
        for at in [0, 63, 64, 127, 128, 191, 192, 1000] {
            assert!(!marks.has(at));
            marks.set(at);
            assert!(marks.has(at) && !marks.has(at + 1), "{at}");
        }
        let mut other = Marks::default();
        other.merge(&marks);
        assert!(other.has(1000) && !other.has(999) && !other.cover(2) && other.cover(1));
    }
}
