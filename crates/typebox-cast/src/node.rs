//! Node kinds of a compiled schema.

use std::ops::Index;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use serde_json::Value;

use super::error::CastCode;
use super::pattern::JsRegex;

/// A compiled schema. Nodes are stored in one list and refer to each other by index.
#[derive(Debug)]
pub struct CastSchema {
    pub(super) nodes: Vec<CastNode>,
    pub(super) root: CastNodeId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CastNodeId(pub(super) u32);

impl Index<CastNodeId> for CastSchema {
    type Output = CastNode;

    fn index(&self, id: CastNodeId) -> &CastNode {
        &self.nodes[id.0 as usize]
    }
}

#[derive(Debug, Clone)]
pub(super) struct CastNode {
    pub(super) kind: CastKind,
    pub(super) default: Option<Value>,
}

#[derive(Debug, Clone)]
pub(super) enum CastKind {
    Unknown,
    Never,
    Null,
    Boolean,
    /// A literal other than null, which is [`CastKind::Null`].
    Literal(Value),
    Number(Box<NumberRules>),
    Integer(Box<NumberRules>),
    String(Box<StringRules>),
    Not(CastNodeId),
    Union(Vec<CastNodeId>),
    Intersect {
        parts: Vec<CastNodeId>,
        unevaluated: UndeclaredRule,
    },
    Array(Box<ArrayRules>),
    Tuple(Vec<CastNodeId>),
    Object(Box<ObjectRules>),
    Record(Box<RecordRules>),
    Reference(Box<CastReference>),
    /// A schema nested so deeply that checking it always ends in a stack error.
    TooDeep,
}

/// Rule for properties that are not declared by name or pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UndeclaredRule {
    Open,
    Closed,
    Schema(CastNodeId),
}

/// A bound as written, which can become data, and as the number JavaScript compares with.
#[derive(Debug, Clone)]
pub(super) struct NumericLimit {
    pub(super) raw: Value,
    /// NaN if the bound is not a number, so that every comparison is false, as in JavaScript.
    pub(super) number: f64,
}

impl NumericLimit {
    /// Returns the bound if it is written as a number.
    pub(super) fn literal(&self) -> Option<f64> {
        self.raw.is_number().then_some(self.number)
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct NumberRules {
    pub(super) minimum: Option<NumericLimit>,
    pub(super) maximum: Option<NumericLimit>,
    pub(super) exclusive_minimum: Option<NumericLimit>,
    pub(super) exclusive_maximum: Option<NumericLimit>,
    pub(super) multiple_of: Option<NumericLimit>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct StringRules {
    pub(super) length: CountRange,
    pub(super) pattern: Option<JsRegex>,
    /// An annotation for checks. A string with a format cannot be created.
    pub(super) format: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct ArrayRules {
    pub(super) items: CastNodeId,
    pub(super) length: CountRange,
    pub(super) unique: bool,
    pub(super) contains: Option<Contains>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Contains {
    pub(super) node: CastNodeId,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
}

/// Bounds of a length or of a number of members.
#[derive(Debug, Clone, Default)]
pub(super) struct CountRange {
    pub(super) min: Option<NumericLimit>,
    pub(super) max: Option<NumericLimit>,
}

impl CountRange {
    pub(super) fn contains(&self, count: usize) -> bool {
        // Counts are far below 2^53, where f64 is exact.
        let count = count as f64;
        self.min.as_ref().is_none_or(|min| count >= min.number)
            && self.max.as_ref().is_none_or(|max| count <= max.number)
    }
}

#[derive(Debug, Clone)]
pub(super) struct ObjectRules {
    pub(super) size: CountRange,
    pub(super) properties: Properties,
    pub(super) additional: UndeclaredRule,
}

#[derive(Debug, Clone)]
pub(super) struct RecordRules {
    pub(super) size: CountRange,
    pub(super) pattern: JsRegex,
    pub(super) value: CastNodeId,
    pub(super) additional: UndeclaredRule,
}

#[derive(Debug, Clone)]
pub(super) struct CastReference {
    pub(super) text: String,
    /// The end of the reference chain, or the reason why there is none.
    pub(super) target: Result<CastNodeId, CastCode>,
}

/// Declared properties in JavaScript's iteration order.
pub(super) type Properties = IndexMap<String, Property, RandomState>;

#[derive(Debug, Clone)]
pub(super) struct Property {
    pub(super) node: CastNodeId,
    pub(super) required: bool,
}
