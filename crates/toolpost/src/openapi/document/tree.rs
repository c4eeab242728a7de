//! A compact tree of one file: interned strings, and containers as ranges of a vector.

use serde_json::{Number, Value};

use super::interner::{StringId, StringInterner};
use super::large_objects::LargeObjectIndex;
use crate::json::unescape_token;

/// A JSON document. For large documents it takes a fraction of the memory and parse time of a
/// [`Value`]. Values are created only when they are read.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(super) strings: StringInterner,
    pub(super) numbers: Vec<Number>,
    /// Items of all arrays.
    pub(super) items: Vec<CompactValue>,
    /// Members of all objects.
    pub(super) members: Vec<(StringId, CompactValue)>,
    pub(super) large_objects: LargeObjectIndex,
    pub(super) root: CompactValue,
}

/// A value of a tree in compact form. It is only meaningful together with its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum CompactValue {
    #[default]
    Null,
    Bool(bool),
    Number(u32),
    Text(StringId),
    Array(ChildRange),
    Object(ChildRange),
}

/// The children of an array or object, which are stored contiguously. Two non-empty containers are
/// the same node if and only if their ranges are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ChildRange {
    pub(super) start: u32,
    pub(super) length: u32,
}

/// A value with a reference to its tree.
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

    /// Returns the values of all members with this name, by a scan over one vector.
    pub(crate) fn members_named(&self, name: &str) -> impl Iterator<Item = TreeNode<'_>> {
        let name = self.strings.find(name);
        let members = self.members.iter().filter(move |(own, _)| Some(*own) == name);
        members.map(|(_, value)| self.node(*value))
    }
}

impl<'t> TreeNode<'t> {
    pub(crate) fn tree(self) -> &'t Tree {
        self.tree
    }

    /// Returns the value without the reference to its tree.
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

    /// Returns a string, number or boolean as text.
    pub(crate) fn scalar_text(self) -> Option<String> {
        let text = self.as_str().map(str::to_owned);
        let number = || self.as_number().map(ToString::to_string);
        text.or_else(number).or_else(|| self.as_bool().map(|is| is.to_string()))
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

    /// Whether the value is a non-empty array or object.
    pub(crate) fn is_container(self) -> bool {
        matches!(self.value, CompactValue::Array(span) | CompactValue::Object(span) if span.length > 0)
    }

    /// Returns the JSON type name for messages.
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

    /// Returns the member with this name, or `None` if there is none or this is not an object.
    pub(crate) fn get(self, name: &str) -> Option<TreeNode<'t>> {
        let CompactValue::Object(span) = self.value else { return None };
        let name = self.tree.strings.find(name)?;
        let value = self.tree.large_objects.find(&self.tree.members, span, name)?;
        Some(self.tree.node(value))
    }

    /// Returns a member that is a string.
    pub(crate) fn text(self, name: &str) -> Option<&'t str> {
        self.get(name)?.as_str()
    }

    /// Whether a member is `true`.
    pub(crate) fn flag(self, name: &str) -> bool {
        self.get(name).and_then(TreeNode::as_bool) == Some(true)
    }

    /// Returns the members in document order. Empty if this is not an object.
    pub(crate) fn members(self) -> impl ExactSizeIterator<Item = (&'t str, TreeNode<'t>)> {
        let range = match self.value {
            CompactValue::Object(span) => span.range(),
            _ => 0..0,
        };
        let tree = self.tree;
        tree.members[range].iter().map(|(key, value)| (tree.strings.get(*key), tree.node(*value)))
    }

    /// Returns the items in document order. Empty if this is not an array.
    pub(crate) fn items(self) -> impl ExactSizeIterator<Item = TreeNode<'t>> {
        let range = match self.value {
            CompactValue::Array(span) => span.range(),
            _ => 0..0,
        };
        let tree = self.tree;
        tree.items[range].iter().map(|value| tree.node(*value))
    }

    /// Resolves a JSON Pointer.
    pub(crate) fn pointer(self, pointer: &str) -> Option<TreeNode<'t>> {
        if pointer.is_empty() {
            return Some(self);
        }
        let mut tokens = pointer.strip_prefix('/')?.split('/');
        tokens.try_fold(self, |node, token| match node.value {
            CompactValue::Array(_) => node.items().nth(token.parse().ok()?),
            _ if token.contains('~') => node.get(&unescape_token(token)),
            _ => node.get(token),
        })
    }

    /// Copies the value into a [`Value`].
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
