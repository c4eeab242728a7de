//! The keywords about arrays.

use super::NodeId;

#[derive(Default)]
pub(in crate::schema) struct ArrayRules {
    pub(in crate::schema) min: usize,
    pub(in crate::schema) max: Option<usize>,
    pub(in crate::schema) unique: bool,
    /// The schemas of the first items, one each.
    pub(in crate::schema) prefix: Box<[NodeId]>,
    /// The schema of every item after them.
    pub(in crate::schema) rest: Option<NodeId>,
    pub(in crate::schema) contains: Option<Contains>,
}

/// `contains` with its bounds.
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

    /// The schema of the item at `index`.
    #[inline]
    pub(in crate::schema) fn item(&self, index: usize) -> Option<NodeId> {
        self.prefix.get(index).copied().or(self.rest)
    }
}
