//! The compiled form of a schema: a flat arena of nodes that name each other by number.

mod array;
mod number;
mod object;
mod pattern;
mod text;
mod types;

use serde_json::Value;

pub(super) use array::{ArrayRules, Contains};
pub(super) use number::{Bound, Multiple, NumberRules};
pub(super) use object::{Additional, DependentRequired, ObjectRules, Property, PropertyTable};
pub(super) use pattern::Pattern;
pub(super) use text::{Content, TextRules};
pub(super) use types::{Integers, Types};

/// A node of the arena.
pub(super) type NodeId = u32;

/// How deeply evaluation may nest before a value is refused instead of walked.
///
/// Every level costs a few stack frames; the limit keeps the deepest walk well inside the 2 MiB
/// of an ordinary thread, and is four times what the JSON parser itself lets through.
pub(super) const MAX_DEPTH: u32 = 512;

/// A whole compiled schema.
pub(super) struct Program {
    pub(super) nodes: Vec<Node>,
    pub(super) root: NodeId,
    pub(super) integers: Integers,
    pub(super) draft: jsonschema::Draft,
    /// Some schema depends on the dynamic scope of references, which only the `jsonschema` crate
    /// tracks, or leads back to itself in place: the final verdict is the crate's.
    pub(super) foreign: bool,
}

impl Program {
    #[inline]
    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    #[inline]
    pub(super) fn type_of(&self, value: &Value) -> Types {
        Types::of(value, self.integers)
    }
}

/// One schema object, its keywords sorted by the type they speak about.
pub(super) struct Node {
    pub(super) types: Types,
    /// Nothing but `types` restricts a value here.
    pub(super) bare: bool,
    /// Several ways lead here from one place, so the verdict is remembered.
    pub(super) memo: bool,
    /// The node can reach itself without leaving the place.
    pub(super) cyclic: bool,
    /// What `const` and `enum` leave to choose from.
    pub(super) literals: Option<Box<[Value]>>,
    pub(super) number: Option<Box<NumberRules>>,
    pub(super) text: Option<Box<TextRules>>,
    pub(super) array: Option<Box<ArrayRules>>,
    pub(super) object: Option<Box<ObjectRules>>,
    pub(super) logic: Option<Box<Logic>>,
    /// The part of the schema that looks at nothing below the place, as a schema of its own: what
    /// words a misfit here. `None` where a misfit cannot be told from those below.
    pub(super) shallow: Option<Box<Value>>,
}

impl Node {
    /// A node that admits `types` and asks nothing else.
    pub(super) fn of_types(types: Types) -> Self {
        Self {
            types,
            bare: true,
            memo: false,
            cyclic: false,
            literals: None,
            number: None,
            text: None,
            array: None,
            object: None,
            logic: None,
            shallow: None,
        }
    }

    /// Whether `const` and `enum` let the value through.
    #[inline]
    pub(super) fn admits_literal(&self, value: &Value) -> bool {
        self.literals.as_ref().is_none_or(|literals| {
            literals.iter().any(|literal| jsonschema::json::cmp::equal(value, literal))
        })
    }

    /// Whether the node has rules for the inside of the value.
    pub(super) fn looks_into(&self, value: &Value) -> bool {
        match value {
            Value::Object(_) => self.object.is_some(),
            Value::Array(_) => self.array.is_some(),
            _ => false,
        }
    }

    /// Whether anything here can ask for a change by itself, decisions aside.
    pub(super) fn has_rules(&self) -> bool {
        self.types != Types::ANY
            || self.literals.is_some()
            || self.array.is_some()
            || self.object.is_some()
    }
}

/// A property, and the schema that applies to an object which has it.
pub(super) type Dependent = (Box<str>, NodeId);

/// The keywords that apply further schemas to the same place.
#[derive(Default)]
pub(super) struct Logic {
    /// `$ref` and `allOf`.
    pub(super) all: Box<[NodeId]>,
    /// `anyOf` and `oneOf`.
    pub(super) unions: Box<[Union]>,
    pub(super) not: Option<NodeId>,
    pub(super) condition: Option<Condition>,
    /// `dependentSchemas`, and the schemas of `dependencies`.
    pub(super) dependents: Box<[Dependent]>,
    pub(super) unevaluated_properties: Option<NodeId>,
    pub(super) unevaluated_items: Option<NodeId>,
}

impl Logic {
    /// The union, where there is one and nothing beside it.
    pub(super) fn only_union(&self) -> Option<&Union> {
        let alone = self.all.is_empty()
            && self.not.is_none()
            && self.condition.is_none()
            && self.dependents.is_empty()
            && self.unevaluated_properties.is_none()
            && self.unevaluated_items.is_none();
        match &*self.unions {
            [union] if alone => Some(union),
            _ => None,
        }
    }

    /// Whether which schemas apply depends on a choice.
    pub(super) fn decides(&self) -> bool {
        !self.unions.is_empty() || self.condition.is_some()
    }
}

/// `anyOf` or `oneOf`.
pub(super) struct Union {
    pub(super) variants: Box<[NodeId]>,
    pub(super) exactly_one: bool,
    pub(super) discriminator: Option<Discriminator>,
}

/// OpenAPI's `discriminator`: the property, and which of its texts means which variant.
pub(super) struct Discriminator {
    pub(super) property: Box<str>,
    pub(super) variants: Box<[(Box<str>, NodeId)]>,
}

/// `if`, `then`, `else`.
pub(super) struct Condition {
    pub(super) test: NodeId,
    pub(super) then: Option<NodeId>,
    pub(super) otherwise: Option<NodeId>,
}
