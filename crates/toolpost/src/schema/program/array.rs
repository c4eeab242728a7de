//! Array keywords.

use super::NodeId;

#[derive(Default)]
pub(in crate::schema) struct ArrayRules {
    pub(in crate::schema) min: usize,
    pub(in crate::schema) max: Option<usize>,
    pub(in crate::schema) unique: bool,
    /// Schemas of the first items, one per item.
    pub(in crate::schema) prefix: Box<[NodeId]>,
    /// Schema of all items after the prefix.
    pub(in crate::schema) rest: Option<NodeId>,
    pub(in crate::schema) contains: Option<Contains>,
}

/// `contains`, `minContains` and `maxContains`.
pub(in crate::schema) struct Contains {
    pub(in crate::schema) node: NodeId,
    pub(in crate::schema) min: usize,
    pub(in crate::schema) max: Option<usize>,
    /// Whether a matching item counts as evaluated, as it does since 2020-12.
    pub(in crate::schema) evaluates: bool,
}

impl ArrayRules {
    #[inline]
    pub(in crate::schema) fn admits_length(&self, length: usize) -> bool {
        length >= self.min && self.max.is_none_or(|max| length <= max)
    }

    /// Returns the schema of the item at `index`.
    #[inline]
    pub(in crate::schema) fn item(&self, index: usize) -> Option<NodeId> {
        self.prefix.get(index).copied().or(self.rest)
    }
}
