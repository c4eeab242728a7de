//! What stands in for a value that is missing or bad.

use serde_json::{Map, Value};

use super::check::{Outcome, Run};
use super::error::{CastCode, Fault};
use super::node::{ArrayRules, Kind, Limit, NodeId, ObjectRules, StringRules};
use super::unique::Holes;

/// How much one cast may make up: one unit a value, and one for every 64 bytes of text.
///
/// A few references that each appear twice describe a value of any size; this is where it ends.
const MAX_MADE: usize = 1_000_000;

impl<'p> Run<'p> {
    pub(super) fn create(&mut self, id: NodeId) -> Outcome<'p, Value> {
        self.enter()?;
        self.spend(1)?;
        let made = match &self.program[id].default {
            Some(default) => self.copy_of(default)?,
            None => self.create_kind(id)?,
        };
        self.leave();
        Ok(made)
    }

    /// Counts what is about to be made up.
    pub(super) fn spend(&mut self, units: usize) -> Outcome<'p, ()> {
        self.made = self.made.saturating_add(units);
        if self.made > MAX_MADE { Err(Fault::new(CastCode::Stack)) } else { Ok(()) }
    }

    pub(super) fn copy_of(&mut self, written: &Value) -> Outcome<'p, Value> {
        self.spend(size(written))?;
        Ok(written.clone())
    }

    /// Hands over at once: what recurses must not carry the locals of all other kinds with it.
    fn create_kind(&mut self, id: NodeId) -> Outcome<'p, Value> {
        let program = self.program;
        match &program[id].kind {
            Kind::Array(rules) => self.create_array(rules),
            Kind::Tuple(nodes) => self.create_tuple(nodes),
            Kind::Object(rules) => self.create_object(rules),
            Kind::Reference(reference) => self.create(self.target(reference)?),
            Kind::Union(variants) => self.create(variants[0]),
            Kind::Intersect { parts, .. } => self.create_intersect(id, parts),
            plain => self.create_plain(plain),
        }
    }

    fn create_plain(&mut self, kind: &'p Kind) -> Outcome<'p, Value> {
        Ok(match kind {
            Kind::Never => return Err(Fault::new(CastCode::CreateNever)),
            Kind::Not(_) => return Err(Fault::new(CastCode::CreateNot)),
            Kind::TooDeep => return Err(Fault::new(CastCode::Stack)),
            Kind::Null => Value::Null,
            Kind::Boolean => Value::Bool(false),
            Kind::Literal(literal) => self.copy_of(literal)?,
            Kind::Number(rules) | Kind::Integer(rules) => {
                rules.minimum.as_ref().map_or_else(|| 0.into(), |minimum| minimum.raw.clone())
            }
            Kind::String(rules) => self.create_string(rules)?,
            _ => Value::Object(Map::new()),
        })
    }

    fn create_object(&mut self, rules: &ObjectRules) -> Outcome<'p, Value> {
        let mut map = Map::new();
        for property in rules.properties.iter().filter(|property| property.required) {
            map.insert(property.key.clone(), self.create(property.node)?);
        }
        Ok(Value::Object(map))
    }

    fn create_string(&mut self, rules: &'p StringRules) -> Outcome<'p, Value> {
        if let Some(pattern) = &rules.pattern {
            return Err(Fault::naming(CastCode::CreatePattern, pattern.source()));
        }
        if let Some(format) = &rules.format {
            return Err(Fault::naming(CastCode::CreateFormat, format));
        }
        let length = whole(rules.min_length.as_ref());
        if length < 0.0 {
            return Err(Fault::new(CastCode::Stack));
        }
        let length = length as usize;
        self.spend(length / 64)?;
        Ok(Value::String(" ".repeat(length)))
    }

    fn create_array(&mut self, rules: &ArrayRules) -> Outcome<'p, Value> {
        if rules.unique {
            return Err(Fault::new(CastCode::CreateUniqueItems));
        }
        if rules.contains.is_some() {
            return Err(Fault::new(CastCode::CreateContains));
        }
        let length = whole(rules.min_items.as_ref()) as usize;
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(self.create(rules.items)?);
        }
        Ok(Value::Array(items))
    }

    fn create_tuple(&mut self, nodes: &[NodeId]) -> Outcome<'p, Value> {
        let mut items = Vec::with_capacity(nodes.len());
        for node in nodes {
            items.push(self.create(*node)?);
        }
        Ok(Value::Array(items))
    }

    fn create_intersect(&mut self, id: NodeId, parts: &[NodeId]) -> Outcome<'p, Value> {
        let mut whole = Value::Object(Map::new());
        for part in parts {
            whole = spread(whole, self.create(*part)?);
        }
        let fits = self.apart(Holes::default(), |run| run.check(id, Some(&whole)))?;
        if fits { Ok(whole) } else { Err(Fault::new(CastCode::CreateIntersect)) }
    }
}

/// JavaScript's `{ ...whole, ...part }`, where a scalar part replaces what was there.
fn spread(whole: Value, part: Value) -> Value {
    if !matches!(part, Value::Null | Value::Array(_) | Value::Object(_)) {
        return part;
    }
    let mut members = members(whole);
    members.extend(self::members(part));
    Value::Object(members)
}

/// What spreading a value yields: its members, its items by index, the units of a string.
fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Array(items) => by_index(items),
        // A string spreads into its UTF-16 units; half a pair has no JSON form but this.
        Value::String(text) => by_index(
            text.encode_utf16().map(|unit| String::from_utf16_lossy(&[unit]).into()).collect(),
        ),
        _ => Map::new(),
    }
}

fn by_index(items: Vec<Value>) -> Map<String, Value> {
    items.into_iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect()
}

/// A length as JavaScript reads it: toward zero, and nothing for what is no number.
fn whole(limit: Option<&Limit>) -> f64 {
    match limit {
        Some(limit) if !limit.number.is_nan() => limit.number.trunc(),
        _ => 0.0,
    }
}

/// What a value counts for in [`MAX_MADE`].
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 1,
        Value::Object(map) => map.values().map(size).sum::<usize>() + 1,
        Value::String(text) => text.len() / 64 + 1,
        _ => 1,
    }
}
