//! Creates values that replace missing or invalid ones.

use serde_json::{Map, Value};

use super::check::CastRun;
use super::error::{CastCode, CastError, CastResult};
use super::node::{ArrayRules, CastKind, CastNodeId, NumericLimit, ObjectRules, StringRules};
use super::unique::UndefinedValues;

/// Maximum amount of data that one cast creates: one unit per value, plus one per 64 bytes of text.
///
/// A few definitions that each reference the next one twice describe a value of exponential size.
const MAX_CREATED: usize = 1_000_000;

impl CastRun<'_> {
    pub(super) fn create(&mut self, id: CastNodeId) -> CastResult<Value> {
        self.enter()?;
        self.charge(1)?;
        let created = match &self.program[id].default {
            Some(default) => self.copy_literal(default)?,
            None => self.create_kind(id)?,
        };
        self.leave();
        Ok(created)
    }

    /// Adds to the number of created units, and fails if it exceeds [`MAX_CREATED`].
    pub(super) fn charge(&mut self, units: usize) -> CastResult<()> {
        self.created = self.created.saturating_add(units);
        if self.created > MAX_CREATED { Err(CastError::new(CastCode::Stack)) } else { Ok(()) }
    }

    pub(super) fn copy_literal(&mut self, written: &Value) -> CastResult<Value> {
        self.charge(creation_cost(written))?;
        Ok(written.clone())
    }

    /// Dispatches by kind. Each recursive kind has its own function, for small stack frames.
    fn create_kind(&mut self, id: CastNodeId) -> CastResult<Value> {
        let program = self.program;
        match &program[id].kind {
            CastKind::Array(rules) => self.create_array(rules),
            CastKind::Tuple(nodes) => self.create_tuple(nodes),
            CastKind::Object(rules) => self.create_object(rules),
            CastKind::Reference(reference) => self.create(self.ref_target(reference)?),
            CastKind::Union(variants) => self.create(variants[0]),
            CastKind::Intersect { parts, .. } => self.create_intersect(id, parts),
            plain => self.create_scalar(plain),
        }
    }

    fn create_scalar(&mut self, kind: &CastKind) -> CastResult<Value> {
        Ok(match kind {
            CastKind::Never => return Err(CastError::new(CastCode::CreateNever)),
            CastKind::Not(_) => return Err(CastError::new(CastCode::CreateNot)),
            CastKind::TooDeep => return Err(CastError::new(CastCode::Stack)),
            CastKind::Null => Value::Null,
            CastKind::Boolean => Value::Bool(false),
            CastKind::Literal(literal) => self.copy_literal(literal)?,
            CastKind::Number(rules) | CastKind::Integer(rules) => {
                rules.minimum.as_ref().map_or_else(|| 0.into(), |minimum| minimum.raw.clone())
            }
            CastKind::String(rules) => self.create_string(rules)?,
            _ => Value::Object(Map::new()),
        })
    }

    fn create_object(&mut self, rules: &ObjectRules) -> CastResult<Value> {
        let mut map = Map::new();
        for (key, property) in rules.properties.iter().filter(|(_, property)| property.required) {
            map.insert(key.clone(), self.create(property.node)?);
        }
        Ok(Value::Object(map))
    }

    fn create_string(&mut self, rules: &StringRules) -> CastResult<Value> {
        if let Some(pattern) = &rules.pattern {
            return Err(CastError::with_detail(CastCode::CreatePattern, pattern.source()));
        }
        if let Some(format) = &rules.format {
            return Err(CastError::with_detail(CastCode::CreateFormat, format));
        }
        let length = truncated_length(rules.length.min.as_ref());
        if length < 0.0 {
            return Err(CastError::new(CastCode::Stack));
        }
        let length = length as usize;
        self.charge(length / 64)?;
        Ok(Value::String(" ".repeat(length)))
    }

    fn create_array(&mut self, rules: &ArrayRules) -> CastResult<Value> {
        if rules.unique {
            return Err(CastError::new(CastCode::CreateUniqueItems));
        }
        if rules.contains.is_some() {
            return Err(CastError::new(CastCode::CreateContains));
        }
        let length = truncated_length(rules.length.min.as_ref()) as usize;
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(self.create(rules.items)?);
        }
        Ok(Value::Array(items))
    }

    fn create_tuple(&mut self, nodes: &[CastNodeId]) -> CastResult<Value> {
        let mut items = Vec::with_capacity(nodes.len());
        for node in nodes {
            items.push(self.create(*node)?);
        }
        Ok(Value::Array(items))
    }

    fn create_intersect(&mut self, id: CastNodeId, parts: &[CastNodeId]) -> CastResult<Value> {
        let mut merged = Value::Object(Map::new());
        for part in parts {
            merged = spread(merged, self.create(*part)?);
        }
        let fits =
            self.with_fresh_memo(UndefinedValues::default(), |run| run.check(id, Some(&merged)))?;
        if fits { Ok(merged) } else { Err(CastError::new(CastCode::CreateIntersect)) }
    }
}

/// JavaScript's `{ ...base, ...part }`; a scalar part replaces the base.
fn spread(base: Value, part: Value) -> Value {
    if !matches!(part, Value::Null | Value::Array(_) | Value::Object(_)) {
        return part;
    }
    let mut members = spread_members(base);
    members.extend(spread_members(part));
    Value::Object(members)
}

/// Spreads a value like JavaScript: members, items by index, or UTF-16 code units.
fn spread_members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Array(items) => by_index(items),
        // A lone surrogate has no JSON form and becomes U+FFFD.
        Value::String(text) => by_index(
            text.encode_utf16().map(|unit| String::from_utf16_lossy(&[unit]).into()).collect(),
        ),
        _ => Map::new(),
    }
}

fn by_index(items: Vec<Value>) -> Map<String, Value> {
    items.into_iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect()
}

/// A length as JavaScript reads it: truncated toward zero, and 0 if it is not a number.
fn truncated_length(limit: Option<&NumericLimit>) -> f64 {
    match limit {
        Some(limit) if !limit.number.is_nan() => limit.number.trunc(),
        _ => 0.0,
    }
}

/// Returns the cost of a value in units of [`MAX_CREATED`].
fn creation_cost(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(creation_cost).sum::<usize>() + 1,
        Value::Object(map) => map.values().map(creation_cost).sum::<usize>() + 1,
        Value::String(text) => text.len() / 64 + 1,
        _ => 1,
    }
}
