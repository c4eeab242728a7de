//! Array keywords.

use super::NodeId;

#[derive(Default)]
pub(crate) struct ArrayRules {
    pub(crate) min: usize,
    pub(crate) max: Option<usize>,
    pub(crate) unique: bool,
    /// Schemas of the first items, one per item.
    pub(crate) prefix: Box<[NodeId]>,
    /// Schema of all items after the prefix.
    pub(crate) rest: Option<NodeId>,
    pub(crate) contains: Option<Contains>,
}

/// `contains`, `minContains` and `maxContains`.
pub(crate) struct Contains {
    pub(crate) node: NodeId,
    pub(crate) min: usize,
    pub(crate) max: Option<usize>,
    /// Whether a matching item counts as evaluated, as it does since 2020-12.
    pub(crate) evaluates: bool,
}

impl ArrayRules {
    #[inline]
    pub(crate) fn admits_length(&self, length: usize) -> bool {
        length >= self.min && self.max.is_none_or(|max| length <= max)
    }

    /// Returns the schema of the item at `index`.
    #[inline]
    pub(crate) fn item(&self, index: usize) -> Option<NodeId> {
        self.prefix.get(index).copied().or(self.rest)
    }
}
