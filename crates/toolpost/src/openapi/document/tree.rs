//! One file as a tree that takes little room: every text is kept once, and a list is one piece of a
//! larger one.

use std::borrow::Cow;

use serde_json::{Number, Value};

use super::interner::{StringId, StringInterner};
use super::large_objects::LargeObjectIndex;

/// A JSON document. A large one takes a fraction of the memory of a [`Value`] and of the time to
/// make one, and what is never looked at is never made.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) strings: StringInterner,
    pub(super) numbers: Vec<Number>,
    /// The items of all lists.
    pub(super) items: Vec<CompactValue>,
    /// The members of all objects.
    pub(super) members: Vec<(StringId, CompactValue)>,
    pub(super) large_objects: LargeObjectIndex,
    pub(super) root: CompactValue,
}

/// A value of a tree: small, and only meaningful beside its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CompactValue {
    Null,
    Bool(bool),
    Number(u32),
    Text(StringId),
    Array(ChildRange),
    Object(ChildRange),
}

/// The children of a list or an object, which stand together. Two that are not empty are the same
/// place of the document exactly when their spans are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ChildRange {
    pub(super) start: u32,
    pub(super) length: u32,
}

/// A value together with its tree.
#[derive(Clone, Copy)]
pub(crate) struct TreeNode<'t> {
    tree: &'t Tree,
    value: CompactValue,
}

impl Tree {
    pub(crate) fn root(&self) -> TreeNode<'_> {
        self.node(self.root)
    }

    pub(crate) fn node(&self, compact_value: CompactValue) -> TreeNode<'_> {
        TreeNode { tree: self, value: compact_value }
    }

    /// What all members of this name are, wherever they are: a look that costs little.
    pub(crate) fn members_named(&self, name: &str) -> impl Iterator<Item = TreeNode<'_>> {
        let name = self.strings.find(name);
        let members = self.members.iter().filter(move |(own, _)| Some(*own) == name);
        members.map(|(_, value)| self.node(*value))
    }
}

impl<'t> TreeNode<'t> {
    /// What is left when the tree is known from elsewhere.
    pub(crate) fn compact_value(self) -> CompactValue {
        self.value
    }

    pub(crate) fn as_str(self) -> Option<&'t str> {
        match self.value {
            CompactValue::Text(id) => Some(self.tree.strings.get(id)),
            _ => None,
        }
    }

    pub(crate) fn as_bool(self) -> Option<bool> {
        match self.value {
            CompactValue::Bool(is) => Some(is),
            _ => None,
        }
    }

    pub(crate) fn as_number(self) -> Option<&'t Number> {
        match self.value {
            CompactValue::Number(index) => self.tree.numbers.get(index as usize),
            _ => None,
        }
    }

    pub(crate) fn is_null(self) -> bool {
        self.value == CompactValue::Null
    }

    pub(crate) fn is_object(self) -> bool {
        matches!(self.value, CompactValue::Object(_))
    }

    pub(crate) fn is_array(self) -> bool {
        matches!(self.value, CompactValue::Array(_))
    }

    /// Whether there may be something in it.
    pub(crate) fn is_container(self) -> bool {
        matches!(self.value, CompactValue::Array(span) | CompactValue::Object(span) if span.length > 0)
    }

    /// The JSON name of its type, for messages.
    pub(crate) fn type_name(self) -> &'static str {
        match self.value {
            CompactValue::Null => "null",
            CompactValue::Bool(_) => "boolean",
            CompactValue::Number(_) => "number",
            CompactValue::Text(_) => "string",
            CompactValue::Array(_) => "array",
            CompactValue::Object(_) => "object",
        }
    }

    /// The member of that name, if this is an object that has one.
    pub(crate) fn get(self, name: &str) -> Option<TreeNode<'t>> {
        let CompactValue::Object(span) = self.value else { return None };
        let name = self.tree.strings.find(name)?;
        let value = self.tree.large_objects.find(&self.tree.members, span, name)?;
        Some(self.tree.node(value))
    }

    /// The members in their order; none if this is no object.
    pub(crate) fn members(self) -> impl ExactSizeIterator<Item = (&'t str, TreeNode<'t>)> {
        let range = match self.value {
            CompactValue::Object(span) => span.range(),
            _ => 0..0,
        };
        let tree = self.tree;
        tree.members[range].iter().map(|(key, value)| (tree.strings.get(*key), tree.node(*value)))
    }

    /// The items in their order; none if this is no list.
    pub(crate) fn items(self) -> impl ExactSizeIterator<Item = TreeNode<'t>> {
        let range = match self.value {
            CompactValue::Array(span) => span.range(),
            _ => 0..0,
        };
        let tree = self.tree;
        tree.items[range].iter().map(|value| tree.node(*value))
    }

    /// The place that a JSON Pointer leads to.
    pub(crate) fn pointer(self, pointer: &str) -> Option<TreeNode<'t>> {
        if pointer.is_empty() {
            return Some(self);
        }
        let tokens = pointer.strip_prefix('/')?.split('/');
        tokens.map(unescape_pointer_token).try_fold(self, |node, token| node.child(&token))
    }

    fn child(self, token: &str) -> Option<TreeNode<'t>> {
        match self.value {
            CompactValue::Array(_) => self.items().nth(token.parse().ok()?),
            _ => self.get(token),
        }
    }

    /// The value, copied out.
    pub(crate) fn to_value(self) -> Value {
        match self.value {
            CompactValue::Null => Value::Null,
            CompactValue::Bool(is) => Value::Bool(is),
            CompactValue::Number(_) => self.as_number().cloned().map_or(Value::Null, Value::Number),
            CompactValue::Text(id) => Value::from(self.tree.strings.get(id)),
            CompactValue::Array(_) => self.items().map(TreeNode::to_value).collect(),
            CompactValue::Object(_) => {
                let members =
                    self.members().map(|(name, value)| (name.to_owned(), value.to_value()));
                Value::Object(members.collect())
            }
        }
    }
}

/// A part of a pointer as it was before it was written into one.
fn unescape_pointer_token(token: &str) -> Cow<'_, str> {
    if token.contains('~') {
        Cow::Owned(token.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(token)
    }
}

impl ChildRange {
    pub(super) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }
}

impl std::fmt::Debug for TreeNode<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.to_value())
    }
}
