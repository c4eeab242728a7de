//! The compiled form of a schema: a flat arena of nodes that name each other by number.

mod array;
mod number;
mod object;
mod pattern;
mod string;
mod types;

use serde_json::Value;

pub(super) use array::{ArrayRules, Contains};
pub(super) use number::{Bound, Multiple, NumberRules};
pub(super) use object::{
    AdditionalProperties, DependentRequired, ObjectRules, Property, PropertyTable,
};
pub(super) use pattern::PatternMatcher;
pub(super) use string::{ContentRule, StringRules};
pub(super) use types::{IntegerRule, TypeSet};

/// A node of the arena.
pub(super) type NodeId = u32;

/// How deeply evaluation may nest before a value is refused instead of walked.
///
/// Every level costs a few stack frames; the limit keeps the deepest walk well inside the 2 MiB
/// of an ordinary thread, and is four times what the JSON parser itself lets through.
pub(super) const MAX_DEPTH: u32 = 512;

/// A whole compiled schema.
pub(super) struct SchemaProgram {
    pub(super) nodes: Vec<SchemaNode>,
    pub(super) root: NodeId,
    pub(super) integer_rule: IntegerRule,
    pub(super) draft: jsonschema::Draft,
    /// Some schema depends on the dynamic scope of references, which only the `jsonschema` crate
    /// tracks, or leads back to itself in place: the final verdict is the crate's.
    pub(super) requires_fallback: bool,
}

impl SchemaProgram {
    #[inline]
    pub(super) fn node(&self, id: NodeId) -> &SchemaNode {
        &self.nodes[id as usize]
    }

    #[inline]
    pub(super) fn type_of(&self, value: &Value) -> TypeSet {
        TypeSet::of_value(value, self.integer_rule)
    }
}

/// One schema object, its keywords sorted by the type they speak about.
pub(super) struct SchemaNode {
    pub(super) types: TypeSet,
    /// Nothing but `types` restricts a value here.
    pub(super) type_only: bool,
    /// Several ways lead here from one place, so the verdict is remembered.
    pub(super) memoize: bool,
    /// The node can reach itself without leaving the place.
    pub(super) cyclic: bool,
    /// What `const` and `enum` leave to choose from.
    pub(super) literals: Option<Box<[Value]>>,
    pub(super) number: Option<Box<NumberRules>>,
    pub(super) string: Option<Box<StringRules>>,
    pub(super) array: Option<Box<ArrayRules>>,
    pub(super) object: Option<Box<ObjectRules>>,
    pub(super) applicators: Option<Box<Applicators>>,
    /// The part of the schema that looks at nothing below the place, as a schema of its own: what
    /// words a misfit here. `None` where a misfit cannot be told from those below.
    pub(super) shallow: Option<Box<Value>>,
}

impl SchemaNode {
    /// A node that admits `types` and asks nothing else.
    pub(super) fn from_types(types: TypeSet) -> Self {
        Self {
            types,
            type_only: true,
            memoize: false,
            cyclic: false,
            literals: None,
            number: None,
            string: None,
            array: None,
            object: None,
            applicators: None,
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
    pub(super) fn constrains_contents(&self, value: &Value) -> bool {
        match value {
            Value::Object(_) => self.object.is_some(),
            Value::Array(_) => self.array.is_some(),
            _ => false,
        }
    }

    /// Whether anything here can ask for a change by itself, decisions aside.
    pub(super) fn has_rules(&self) -> bool {
        self.types != TypeSet::ANY
            || self.literals.is_some()
            || self.array.is_some()
            || self.object.is_some()
    }
}

/// A property, and the schema that applies to an object which has it.
pub(super) type DependentSchema = (Box<str>, NodeId);

/// The keywords that apply further schemas to the same place.
#[derive(Default)]
pub(super) struct Applicators {
    /// `$ref` and `allOf`.
    pub(super) all: Box<[NodeId]>,
    /// `anyOf` and `oneOf`.
    pub(super) unions: Box<[Union]>,
    pub(super) not: Option<NodeId>,
    pub(super) condition: Option<Condition>,
    /// `dependentSchemas`, and the schemas of `dependencies`.
    pub(super) dependents: Box<[DependentSchema]>,
    pub(super) unevaluated_properties: Option<NodeId>,
    pub(super) unevaluated_items: Option<NodeId>,
}

impl Applicators {
    /// The union, where there is one and nothing beside it.
    pub(super) fn only_union(&self) -> Option<&Union> {
        let is_only_applicator = self.all.is_empty()
            && self.not.is_none()
            && self.condition.is_none()
            && self.dependents.is_empty()
            && self.unevaluated_properties.is_none()
            && self.unevaluated_items.is_none();
        match &*self.unions {
            [union] if is_only_applicator => Some(union),
            _ => None,
        }
    }

    /// Whether which schemas apply depends on a choice.
    pub(super) fn has_choices(&self) -> bool {
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
