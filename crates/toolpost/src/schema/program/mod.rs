//! The compiled form of a schema: a flat arena of nodes that refer to each other by index.

mod array;
mod content;
mod number;
mod object;
mod pattern;
mod string;
mod types;

use serde_json::Value;

use super::Issue;
use super::equality::equal;

pub(super) use array::{ArrayRules, Contains};
pub(super) use content::ContentRule;
pub(super) use number::{Bound, Multiple, NumberRules, compare as compare_numbers};
pub(super) use object::{
    AdditionalProperties, DependentRequired, ObjectRules, Property, PropertyDefault, PropertyTable,
};
pub(super) use pattern::PatternMatcher;
pub(super) use string::StringRules;
pub(crate) use types::{IntegerRule, TypeSet};

/// Index of a node in the arena.
pub(super) type NodeId = u32;

/// Maximum evaluation depth; values that nest deeper are rejected.
///
/// Each level uses a few stack frames. The limit keeps the deepest walk well within the 2 MiB stack
/// of an ordinary thread, and is four times the limit of the JSON parser.
pub(super) const MAX_DEPTH: u32 = 512;

/// A compiled schema.
pub(super) struct SchemaProgram {
    pub(super) nodes: Vec<SchemaNode>,
    pub(super) root: NodeId,
    pub(super) integer_rule: IntegerRule,
    /// Some schema can apply itself to the same value. JSON Schema does not define its meaning.
    pub(super) is_cyclic: bool,
    pub(super) has_defaults: bool,
    /// Defaults that are not filled in.
    pub(super) warnings: Vec<Issue>,
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

/// A schema object with its keywords grouped by the type they apply to.
#[derive(Default)]
pub(super) struct SchemaNode {
    pub(super) types: TypeSet,
    /// The types of the `type` keyword, without the restriction by `const` and `enum`.
    pub(super) declared_types: TypeSet,
    /// `types` is the only constraint.
    pub(super) type_only: bool,
    /// The node can be reached more than once for the same value, so its result is memoized.
    pub(super) memoize: bool,
    /// The node can reach itself while applied to the same value.
    pub(super) cyclic: bool,
    /// A repair can violate the node's own constraints, so a repaired value is validated again.
    pub(super) unstable: bool,
    /// Values admitted by `const` and `enum`.
    pub(super) literals: Option<Box<[Value]>>,
    /// Number of steps to compare a value with all literals.
    pub(super) literal_steps: usize,
    pub(super) number: Option<Box<NumberRules>>,
    pub(super) string: Option<Box<StringRules>>,
    pub(super) array: Option<Box<ArrayRules>>,
    pub(super) object: Option<Box<ObjectRules>>,
    pub(super) applicators: Option<Box<Applicators>>,
}

impl SchemaNode {
    /// Creates a node that admits `types` and has no other constraints.
    pub(super) fn from_types(types: TypeSet) -> Self {
        Self { types, declared_types: types, type_only: true, ..Self::default() }
    }

    /// Whether `const` and `enum` admit the value.
    #[inline]
    pub(super) fn admits_literal(&self, value: &Value) -> bool {
        self.literals
            .as_ref()
            .is_none_or(|literals| literals.iter().any(|literal| equal(value, literal)))
    }

    /// Whether the node itself can require a repair, apart from its applicators.
    pub(super) fn has_rules(&self) -> bool {
        self.types != TypeSet::ANY
            || self.literals.is_some()
            || self.array.is_some()
            || self.object.is_some()
    }
}

/// A property name, and the schema that applies to objects with that property.
pub(super) type DependentSchema = (Box<str>, NodeId);

/// Keywords that apply further schemas to the same value.
#[derive(Default)]
pub(super) struct Applicators {
    /// `$ref` and `allOf`.
    pub(super) all: Box<[NodeId]>,
    /// `anyOf` and `oneOf`.
    pub(super) unions: Box<[Union]>,
    pub(super) not: Option<NodeId>,
    pub(super) condition: Option<Condition>,
    /// `dependentSchemas`, and the schemas in `dependencies`.
    pub(super) dependents: Box<[DependentSchema]>,
    pub(super) unevaluated_properties: Option<NodeId>,
    pub(super) unevaluated_items: Option<NodeId>,
}

impl Applicators {
    /// Returns the union if it is the only applicator.
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

    /// Whether the applicable schemas depend on a choice.
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

/// OpenAPI's `discriminator`: the property, and the variant for each of its values.
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
