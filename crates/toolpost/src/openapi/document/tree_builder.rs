//! Builds a tree. A finished array or object takes the values pushed since its start.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use serde_json::Number;

use super::interner::StringId;
use super::tree::{ChildRange, CompactValue, Tree};

/// Maximum nesting depth of arrays and objects. It is slightly below the limit of `serde_json`, so
/// that an extracted and wrapped part of a document can be parsed again.
pub(super) const MAX_DEPTH: usize = 120;

/// Maximum number of bytes that YAML aliases may add to a document, including overhead.
pub(super) const MAX_ALIAS_BYTES: usize = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct TreeBuilder {
    tree: Tree,
    open_items: Vec<CompactValue>,
    open_members: Vec<(StringId, CompactValue)>,
    /// For each string, the last object in which it was found as a member name.
    last_object_with_key: Vec<u32>,
    object_counter: u32,
    depth: usize,
    /// Maximum number of values; set if the reader expands aliases and leaves `<<` in place.
    max_expanded_values: Option<usize>,
    /// Why the builder stopped, for readers that can return only a message.
    pub(super) error: Option<BuildError>,
    /// The first duplicates, up to the maximum number that is reported.
    duplicates: Vec<DuplicateKey>,
    duplicate_count: usize,
}

/// Why well-formed text is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BuildError {
    #[error("the document is too large")]
    TooLarge,
    #[error("arrays and objects are nested more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("aliases expand the document by more than {} MiB", MAX_ALIAS_BYTES >> 20)]
    AliasExpansion,
    #[error("an alias refers to a value that contains it")]
    CircularAlias,
    #[error("a mapping key must be a scalar, found a list or an object")]
    InvalidKey,
}

/// A duplicate member name in an object. The last value is used.
#[derive(Debug, Clone, Copy)]
pub(super) struct DuplicateKey {
    pub(super) key: StringId,
    pub(super) object: ChildRange,
}

/// Maximum number of duplicates that are reported individually.
const MAX_DUPLICATES: usize = 20;

/// Number of open values at the start of an array or object.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContainerStart(usize);

impl TreeBuilder {
    /// Creates a builder for a reader that expands aliases and leaves merge keys (`<<`).
    pub(super) fn with_expanded_aliases(max_values: usize) -> Self {
        Self { max_expanded_values: Some(max_values), ..Self::default() }
    }

    pub(super) fn intern(&mut self, text: &str) -> Result<StringId, BuildError> {
        self.tree.strings.intern(text).ok_or(BuildError::TooLarge)
    }

    pub(super) fn string(&self, id: StringId) -> &str {
        self.tree.strings.get(id)
    }

    pub(super) fn push_number(&mut self, number: Number) -> Result<CompactValue, BuildError> {
        let index = u32::try_from(self.tree.numbers.len()).map_err(|_| BuildError::TooLarge)?;
        self.tree.numbers.push(number);
        Ok(CompactValue::Number(index))
    }

    pub(super) fn begin_array(&mut self) -> Result<ContainerStart, BuildError> {
        self.check_depth(0)?;
        self.depth += 1;
        Ok(ContainerStart(self.open_items.len()))
    }

    pub(super) fn push_item(&mut self, value: CompactValue) {
        self.open_items.push(value);
    }

    pub(super) fn end_array(&mut self, start: ContainerStart) -> Result<CompactValue, BuildError> {
        self.depth -= 1;
        let span = self.child_range(self.tree.items.len(), self.open_items.len() - start.0)?;
        self.tree.items.extend(self.open_items.drain(start.0..));
        Ok(CompactValue::Array(span))
    }

    pub(super) fn begin_object(&mut self) -> Result<ContainerStart, BuildError> {
        self.check_depth(0)?;
        self.depth += 1;
        Ok(ContainerStart(self.open_members.len()))
    }

    pub(super) fn push_member(&mut self, name: StringId, value: CompactValue) {
        self.open_members.push((name, value));
    }

    /// Ends an object and adds the members of `merged` that it does not define itself.
    pub(super) fn end_object(
        &mut self,
        start: ContainerStart,
        merged: &[CompactValue],
    ) -> Result<CompactValue, BuildError> {
        self.depth -= 1;
        let duplicate_keys = self.remove_duplicates(start);
        self.merge_members(start, merged);
        let span = self.child_range(self.tree.members.len(), self.open_members.len() - start.0)?;
        self.tree.large_objects.insert(&self.open_members[start.0..], span);
        self.tree.members.extend(self.open_members.drain(start.0..));
        self.duplicate_count += duplicate_keys.len();
        let remaining = MAX_DUPLICATES - self.duplicates.len();
        let reported = duplicate_keys.into_iter().take(remaining);
        self.duplicates.extend(reported.map(|key| DuplicateKey { key, object: span }));
        Ok(CompactValue::Object(span))
    }

    /// Checks that a value of this height fits into [`MAX_DEPTH`] here.
    pub(super) fn check_depth(&self, height: usize) -> Result<(), BuildError> {
        if self.depth + height < MAX_DEPTH { Ok(()) } else { Err(BuildError::TooDeep) }
    }

    /// Whether a member is a merge key (`<<`), which adds the members of other objects.
    pub(super) fn is_merge_key(&self, name: StringId, value: CompactValue) -> bool {
        self.max_expanded_values.is_some() && self.string(name) == "<<" && self.can_merge(value)
    }

    pub(super) fn can_merge(&self, value: CompactValue) -> bool {
        match value {
            CompactValue::Object(_) => true,
            CompactValue::Array(span) => self.tree.items[span.range()]
                .iter()
                .all(|item| matches!(item, CompactValue::Object(_))),
            _ => false,
        }
    }

    fn merge_members(&mut self, start: ContainerStart, merged: &[CompactValue]) {
        if merged.is_empty() {
            return;
        }
        let mut names: HashSet<_> =
            self.open_members[start.0..].iter().map(|(name, _)| *name).collect();
        for merged_value in merged {
            let objects = match merged_value {
                CompactValue::Array(span) => &self.tree.items[span.range()],
                merged_value => std::slice::from_ref(merged_value),
            };
            for object in objects {
                let CompactValue::Object(span) = object else { continue };
                let members = self.tree.members[span.range()].iter();
                self.open_members.extend(members.filter(|(name, _)| names.insert(*name)));
            }
        }
    }

    /// Keeps one member per name, with the last value. Returns the duplicate names.
    fn remove_duplicates(&mut self, start: ContainerStart) -> Vec<StringId> {
        if !self.detect_duplicates(start) {
            return Vec::new();
        }
        let mut duplicate_keys = Vec::new();
        let mut indices = HashMap::new();
        for (name, value) in self.open_members.split_off(start.0) {
            match indices.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(self.open_members.len());
                    self.open_members.push((name, value));
                }
                Entry::Occupied(entry) => {
                    self.open_members[*entry.get()].1 = value;
                    duplicate_keys.push(name);
                }
            }
        }
        duplicate_keys
    }

    /// Whether an object has duplicate names; pairwise up to 8 members, then by stamps.
    fn detect_duplicates(&mut self, start: ContainerStart) -> bool {
        let members = &self.open_members[start.0..];
        if members.len() <= 8 {
            return (1..members.len())
                .any(|at| members[..at].iter().any(|(name, _)| *name == members[at].0));
        }
        self.object_counter += 1;
        self.last_object_with_key.resize(self.tree.strings.len(), 0);
        let stamps = &mut self.last_object_with_key;
        let mut names = members.iter().map(|(name, _)| name.index());
        names.any(|name| {
            std::mem::replace(&mut stamps[name], self.object_counter) == self.object_counter
        })
    }

    /// Stores the error and converts it into the error type of the reader.
    pub(super) fn fail<E: serde::de::Error>(&mut self, error: BuildError) -> E {
        self.error = Some(error);
        E::custom(error)
    }

    fn child_range(&self, start: usize, length: usize) -> Result<ChildRange, BuildError> {
        let count = self.tree.items.len() + self.tree.members.len() + length;
        if self.max_expanded_values.is_some_and(|max| count > max) {
            return Err(BuildError::AliasExpansion);
        }
        let to_u32 = |size: usize| u32::try_from(size).map_err(|_| BuildError::TooLarge);
        to_u32(start + length)?;
        Ok(ChildRange { start: to_u32(start)?, length: to_u32(length)? })
    }

    pub(super) fn finish(self, root: CompactValue) -> BuiltTree {
        let Self { mut tree, duplicates, duplicate_count, .. } = self;
        tree.root = root;
        tree.strings.shrink();
        tree.numbers.shrink_to_fit();
        tree.items.shrink_to_fit();
        tree.members.shrink_to_fit();
        BuiltTree { tree, duplicates, duplicate_count }
    }
}

/// A finished tree with its duplicate member names.
#[derive(Debug)]
pub(super) struct BuiltTree {
    pub(super) tree: Tree,
    /// The first duplicates, up to the maximum number that is reported.
    pub(super) duplicates: Vec<DuplicateKey>,
    pub(super) duplicate_count: usize,
}
