//! One file as a tree that takes little room: every text is kept once, and a list is one piece of a
//! larger one.

use std::borrow::Cow;

use serde_json::{Number, Value};

use super::large::Large;
use super::text::{TextId, Texts};

/// A JSON document. A large one takes a fraction of the memory of a [`Value`] and of the time to
/// make one, and what is never looked at is never made.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) texts: Texts,
    pub(super) numbers: Vec<Number>,
    /// The items of all lists.
    pub(super) items: Vec<Cell>,
    /// The members of all objects.
    pub(super) members: Vec<(TextId, Cell)>,
    pub(super) large: Large,
    pub(super) root: Cell,
}

/// A value of a tree: small, and only meaningful beside its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Number(u32),
    Text(TextId),
    Array(Span),
    Object(Span),
}

/// The children of a list or an object, which stand together. Two that are not empty are the same
/// place of the document exactly when their spans are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(super) start: u32,
    pub(super) length: u32,
}

/// A value together with its tree.
#[derive(Clone, Copy)]
pub(crate) struct Node<'t> {
    tree: &'t Tree,
    cell: Cell,
}

impl Tree {
    pub(crate) fn root(&self) -> Node<'_> {
        self.node(self.root)
    }

    pub(crate) fn node(&self, cell: Cell) -> Node<'_> {
        Node { tree: self, cell }
    }

    /// What all members of this name are, wherever they are: a look that costs little.
    pub(crate) fn all_named(&self, name: &str) -> impl Iterator<Item = Node<'_>> {
        let name = self.texts.find(name);
        let members = self.members.iter().filter(move |(own, _)| Some(*own) == name);
        members.map(|(_, cell)| self.node(*cell))
    }
}

impl<'t> Node<'t> {
    /// What is left when the tree is known from elsewhere.
    pub(crate) fn cell(self) -> Cell {
        self.cell
    }

    pub(crate) fn as_str(self) -> Option<&'t str> {
        match self.cell {
            Cell::Text(id) => Some(self.tree.texts.get(id)),
            _ => None,
        }
    }

    pub(crate) fn as_bool(self) -> Option<bool> {
        match self.cell {
            Cell::Bool(is) => Some(is),
            _ => None,
        }
    }

    pub(crate) fn as_number(self) -> Option<&'t Number> {
        match self.cell {
            Cell::Number(index) => self.tree.numbers.get(index as usize),
            _ => None,
        }
    }

    pub(crate) fn is_null(self) -> bool {
        self.cell == Cell::Null
    }

    pub(crate) fn is_object(self) -> bool {
        matches!(self.cell, Cell::Object(_))
    }

    pub(crate) fn is_array(self) -> bool {
        matches!(self.cell, Cell::Array(_))
    }

    /// Whether there may be something in it.
    pub(crate) fn is_composite(self) -> bool {
        matches!(self.cell, Cell::Array(span) | Cell::Object(span) if span.length > 0)
    }

    /// The JSON name of its type, for messages.
    pub(crate) fn type_name(self) -> &'static str {
        match self.cell {
            Cell::Null => "null",
            Cell::Bool(_) => "boolean",
            Cell::Number(_) => "number",
            Cell::Text(_) => "string",
            Cell::Array(_) => "array",
            Cell::Object(_) => "object",
        }
    }

    /// The member of that name, if this is an object that has one.
    pub(crate) fn get(self, name: &str) -> Option<Node<'t>> {
        let Cell::Object(span) = self.cell else { return None };
        let name = self.tree.texts.find(name)?;
        let cell = self.tree.large.find(&self.tree.members, span, name)?;
        Some(self.tree.node(cell))
    }

    /// The members in their order; none if this is no object.
    pub(crate) fn members(self) -> impl ExactSizeIterator<Item = (&'t str, Node<'t>)> {
        let range = match self.cell {
            Cell::Object(span) => span.range(),
            _ => 0..0,
        };
        let tree = self.tree;
        tree.members[range].iter().map(|(key, cell)| (tree.texts.get(*key), tree.node(*cell)))
    }

    /// The items in their order; none if this is no list.
    pub(crate) fn items(self) -> impl ExactSizeIterator<Item = Node<'t>> {
        let range = match self.cell {
            Cell::Array(span) => span.range(),
            _ => 0..0,
        };
        let tree = self.tree;
        tree.items[range].iter().map(|cell| tree.node(*cell))
    }

    /// The place that a JSON Pointer leads to.
    pub(crate) fn pointer(self, pointer: &str) -> Option<Node<'t>> {
        if pointer.is_empty() {
            return Some(self);
        }
        let tokens = pointer.strip_prefix('/')?.split('/');
        tokens.map(unescaped).try_fold(self, |node, token| node.child(&token))
    }

    fn child(self, token: &str) -> Option<Node<'t>> {
        match self.cell {
            Cell::Array(_) => self.items().nth(token.parse().ok()?),
            _ => self.get(token),
        }
    }

    /// The value, copied out.
    pub(crate) fn to_value(self) -> Value {
        match self.cell {
            Cell::Null => Value::Null,
            Cell::Bool(is) => Value::Bool(is),
            Cell::Number(_) => self.as_number().cloned().map_or(Value::Null, Value::Number),
            Cell::Text(id) => Value::from(self.tree.texts.get(id)),
            Cell::Array(_) => self.items().map(Node::to_value).collect(),
            Cell::Object(_) => {
                let members =
                    self.members().map(|(name, value)| (name.to_owned(), value.to_value()));
                Value::Object(members.collect())
            }
        }
    }
}

/// A part of a pointer as it was before it was written into one.
fn unescaped(token: &str) -> Cow<'_, str> {
    if token.contains('~') {
        Cow::Owned(token.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(token)
    }
}

impl Span {
    pub(super) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }
}

impl std::fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.to_value())
    }
}
