//! The kinds that a schema document is compiled to.

use std::collections::HashMap;
use std::ops::Index;

use foldhash::fast::RandomState;
use serde_json::Value;

use super::error::CastCode;
use super::pattern::Pattern;

/// A compiled schema: its nodes in one list, so that references and recursion are mere numbers.
#[derive(Debug)]
pub(in crate::schema) struct Program {
    pub(super) nodes: Vec<Node>,
    pub(super) root: NodeId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodeId(pub(super) u32);

impl Index<NodeId> for Program {
    type Output = Node;

    fn index(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) default: Option<Value>,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Unknown,
    Never,
    Null,
    Boolean,
    /// Never null, which is a kind of its own.
    Literal(Value),
    Number(Box<NumberRules>),
    Integer(Box<NumberRules>),
    String(Box<StringRules>),
    Not(NodeId),
    Union(Vec<NodeId>),
    Intersect {
        parts: Vec<NodeId>,
        unevaluated: Rest,
    },
    Array(Box<ArrayRules>),
    Tuple(Vec<NodeId>),
    Object(Box<ObjectRules>),
    Record(Box<RecordRules>),
    Reference(Box<Reference>),
    /// Nested so deeply that a visit could only end in a stack error.
    TooDeep,
}

/// What is said about the properties that nothing else names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Open,
    Closed,
    Schema(NodeId),
}

/// A bound as written, because it can become data, and as JavaScript would compare it.
#[derive(Debug, Clone)]
pub(super) struct Limit {
    pub(super) raw: Value,
    /// NaN for what is not a number: then every comparison fails, as it does in JavaScript.
    pub(super) number: f64,
}

impl Limit {
    /// The bound, unless it is written as something else than a number.
    pub(super) fn literal(&self) -> Option<f64> {
        self.raw.is_number().then_some(self.number)
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct NumberRules {
    pub(super) minimum: Option<Limit>,
    pub(super) maximum: Option<Limit>,
    pub(super) exclusive_minimum: Option<Limit>,
    pub(super) exclusive_maximum: Option<Limit>,
    pub(super) multiple_of: Option<Limit>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct StringRules {
    pub(super) min_length: Option<Limit>,
    pub(super) max_length: Option<Limit>,
    pub(super) pattern: Option<Pattern>,
    /// An annotation when a value is checked, an obstacle when one is made up.
    pub(super) format: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct ArrayRules {
    pub(super) items: NodeId,
    pub(super) min_items: Option<Limit>,
    pub(super) max_items: Option<Limit>,
    pub(super) unique: bool,
    pub(super) contains: Option<Contains>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Contains {
    pub(super) node: NodeId,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct SizeRules {
    pub(super) min: Option<Limit>,
    pub(super) max: Option<Limit>,
}

#[derive(Debug, Clone)]
pub(super) struct ObjectRules {
    pub(super) size: SizeRules,
    pub(super) properties: Properties,
    pub(super) additional: Rest,
}

#[derive(Debug, Clone)]
pub(super) struct RecordRules {
    pub(super) size: SizeRules,
    pub(super) pattern: Pattern,
    pub(super) value: NodeId,
    pub(super) additional: Rest,
}

#[derive(Debug, Clone)]
pub(super) struct Reference {
    pub(super) text: String,
    /// The end of the chain of references, or why it has none.
    pub(super) target: Result<NodeId, CastCode>,
}

/// The declared properties in the order in which JavaScript would visit them.
#[derive(Debug, Clone, Default)]
pub(super) struct Properties {
    list: Vec<Property>,
    positions: HashMap<String, usize, RandomState>,
}

#[derive(Debug, Clone)]
pub(super) struct Property {
    pub(super) key: String,
    pub(super) node: NodeId,
    pub(super) required: bool,
}

impl Properties {
    pub(super) fn push(&mut self, property: Property) {
        self.positions.insert(property.key.clone(), self.list.len());
        self.list.push(property);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Property> {
        self.list.iter()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Property> {
        self.positions.get(key).map(|position| &self.list[*position])
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.positions.contains_key(key)
    }
}
