//! Whether a value fits a node, by TypeBox's rules rather than JSON Schema's.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde_json::{Map, Value};

use super::error::{CastCode, Fault};
use super::js::{self, MAX_DEPTH};
use super::node::{
    ArrayRules, Contains, Kind, NodeId, ObjectRules, Program, RecordRules, Reference, Rest,
};
use super::scalar::{count_fits, number_fits, pattern_fits, size_fits, string_fits};
use super::unique::{self, Holes};

/// How many checks behind references are made before their verdicts are kept.
///
/// Ordinary values never get there and pay for no table; a schema whose references fan out does,
/// and its exponential walk becomes a polynomial one.
const CHECKS_BEFORE_MEMORY: usize = 20_000;

pub(super) type Outcome<'p, T> = Result<T, Fault<'p>>;

/// One cast of one value: the compiled schema and what is remembered on the way.
pub(super) struct Run<'p> {
    pub(super) program: &'p Program,
    /// How many checks, creations and casts are under way.
    pub(super) depth: usize,
    /// The greatest depth since it was last reset.
    peak: usize,
    /// Values made up so far, in units of [`super::create`].
    pub(super) made: usize,
    checks: usize,
    /// Boxed, because recursion that sets it aside keeps it on the stack.
    pub(super) memory: Box<Memory>,
}

/// What is known about values by their address; it lives no longer than they stay in place.
#[derive(Default)]
pub(super) struct Memory {
    verdicts: HashMap<(NodeId, usize), Verdict, RandomState>,
    pub(super) scores: HashMap<(NodeId, usize), u64, RandomState>,
    pub(super) holes: Holes,
}

#[derive(Clone, Copy)]
struct Verdict {
    fits: bool,
    /// How much deeper the check went, so that a remembered one meets the same limit.
    height: usize,
}

/// The identity of a value, or of its absence.
pub(super) fn identity(value: Option<&Value>) -> usize {
    value.map_or(0, unique::address)
}

impl<'p> Run<'p> {
    pub(super) fn new(program: &'p Program) -> Self {
        Self { program, depth: 0, peak: 0, made: 0, checks: 0, memory: Box::default() }
    }

    /// Does something with values that do not outlive it, and so must not be remembered.
    pub(super) fn apart<T>(&mut self, holes: Holes, work: impl FnOnce(&mut Self) -> T) -> T {
        let fresh = Box::new(Memory { holes, ..Memory::default() });
        let outer = std::mem::replace(&mut self.memory, fresh);
        let result = work(self);
        self.memory = outer;
        result
    }

    pub(super) fn enter(&mut self) -> Outcome<'p, ()> {
        self.depth += 1;
        self.peak = self.peak.max(self.depth);
        if self.depth > MAX_DEPTH { Err(Fault::new(CastCode::Stack)) } else { Ok(()) }
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn check(&mut self, id: NodeId, value: Option<&Value>) -> Outcome<'p, bool> {
        self.enter()?;
        let fits = self.check_kind(id, value)?;
        self.leave();
        Ok(fits)
    }

    fn check_kind(&mut self, id: NodeId, value: Option<&Value>) -> Outcome<'p, bool> {
        let program = self.program;
        Ok(match (&program[id].kind, value) {
            (Kind::Unknown, _) => true,
            (Kind::Never, _) => false,
            (Kind::TooDeep, _) => return Err(Fault::new(CastCode::Stack)),
            (Kind::Reference(reference), _) => self.check_reference(reference, value)?,
            (Kind::Not(inner), _) => !self.check(*inner, value)?,
            (Kind::Union(variants), _) => self.check_any(variants, value)?,
            (Kind::Intersect { parts, unevaluated }, _) => {
                self.check_intersect(id, parts, *unevaluated, value)?
            }
            (Kind::Null, Some(Value::Null)) | (Kind::Boolean, Some(Value::Bool(_))) => true,
            (Kind::Literal(literal), Some(value)) => js::same(literal, value),
            (Kind::Number(rules), Some(Value::Number(number))) => {
                number.as_f64().is_some_and(|number| number_fits(rules, number))
            }
            (Kind::Integer(rules), Some(Value::Number(number))) => number
                .as_f64()
                .is_some_and(|number| number.fract() == 0.0 && number_fits(rules, number)),
            (Kind::String(rules), Some(Value::String(text))) => string_fits(rules, text)?,
            (Kind::Array(rules), Some(Value::Array(items))) => self.check_array(rules, items)?,
            (Kind::Tuple(nodes), Some(Value::Array(items))) => self.check_tuple(nodes, items)?,
            (Kind::Object(rules), Some(Value::Object(map))) => self.check_object(rules, map)?,
            (Kind::Record(rules), Some(Value::Object(map))) => self.check_record(rules, map)?,
            _ => false,
        })
    }

    pub(super) fn target(&self, reference: &'p Reference) -> Outcome<'p, NodeId> {
        reference.target.map_err(|code| Fault::naming(code, &reference.text))
    }

    /// The node behind a chain of references, or the node itself.
    pub(super) fn resolved(&self, id: NodeId) -> Outcome<'p, NodeId> {
        match &self.program[id].kind {
            Kind::Reference(reference) => self.target(reference),
            _ => Ok(id),
        }
    }

    fn check_reference(
        &mut self,
        reference: &'p Reference,
        value: Option<&Value>,
    ) -> Outcome<'p, bool> {
        let target = self.target(reference)?;
        self.checks += 1;
        if self.remembers() { self.recall(target, value) } else { self.check(target, value) }
    }

    /// Whether enough work was done for the tables to pay.
    pub(super) fn remembers(&self) -> bool {
        self.checks > CHECKS_BEFORE_MEMORY
    }

    fn recall(&mut self, target: NodeId, value: Option<&Value>) -> Outcome<'p, bool> {
        let key = (target, identity(value));
        if let Some(known) = self.memory.verdicts.get(&key).copied() {
            let deepest = self.depth + known.height;
            self.peak = self.peak.max(deepest);
            let beyond = deepest > MAX_DEPTH;
            return if beyond { Err(Fault::new(CastCode::Stack)) } else { Ok(known.fits) };
        }
        let outer = std::mem::replace(&mut self.peak, self.depth);
        let fits = self.check(target, value)?;
        let height = self.peak - self.depth;
        self.peak = self.peak.max(outer);
        self.memory.verdicts.insert(key, Verdict { fits, height });
        Ok(fits)
    }

    fn check_any(&mut self, variants: &[NodeId], value: Option<&Value>) -> Outcome<'p, bool> {
        for variant in variants {
            if self.check(*variant, value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_all(&mut self, parts: &[NodeId], value: Option<&Value>) -> Outcome<'p, bool> {
        for part in parts {
            if !self.check(*part, value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_intersect(
        &mut self,
        id: NodeId,
        parts: &[NodeId],
        unevaluated: Rest,
        value: Option<&Value>,
    ) -> Outcome<'p, bool> {
        let all = self.check_all(parts, value)?;
        let (Some(Value::Object(map)), Rest::Closed | Rest::Schema(_)) = (value, unevaluated)
        else {
            return Ok(all);
        };
        for (key, member) in js::entries(map) {
            if !self.knows(id, key)? && !self.check_rest(unevaluated, member)? {
                return Ok(false);
            }
        }
        Ok(all)
    }

    fn check_rest(&mut self, rest: Rest, member: &Value) -> Outcome<'p, bool> {
        match rest {
            Rest::Open => Ok(true),
            Rest::Closed => Ok(false),
            Rest::Schema(node) => {
                let member = self.memory.holes.fill(member);
                self.check(node, member)
            }
        }
    }

    fn check_array(&mut self, rules: &ArrayRules, items: &[Value]) -> Outcome<'p, bool> {
        if !count_fits(items.len(), rules.min_items.as_ref(), rules.max_items.as_ref()) {
            return Ok(false);
        }
        for item in items {
            let item = self.memory.holes.fill(item);
            if !self.check(rules.items, item)? {
                return Ok(false);
            }
        }
        if rules.unique {
            let levels = MAX_DEPTH.saturating_sub(self.depth);
            let different = unique::all_different(items, &self.memory.holes, levels);
            if !different.ok_or(Fault::new(CastCode::Stack))? {
                return Ok(false);
            }
        }
        match &rules.contains {
            None => Ok(true),
            Some(contains) => self.check_contains(contains, items),
        }
    }

    fn check_contains(&mut self, contains: &Contains, items: &[Value]) -> Outcome<'p, bool> {
        let mut count = 0_u32;
        for item in items {
            let item = self.memory.holes.fill(item);
            count += u32::from(self.check(contains.node, item)?);
        }
        let count = f64::from(count);
        let enough = count > 0.0 && contains.min.is_none_or(|min| count >= min);
        Ok(enough && contains.max.is_none_or(|max| count <= max))
    }

    fn check_tuple(&mut self, nodes: &[NodeId], items: &[Value]) -> Outcome<'p, bool> {
        if nodes.len() != items.len() {
            return Ok(false);
        }
        for (node, item) in nodes.iter().zip(items) {
            let item = self.memory.holes.fill(item);
            if !self.check(*node, item)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_object(&mut self, rules: &ObjectRules, map: &Map<String, Value>) -> Outcome<'p, bool> {
        if !size_fits(&rules.size, map) {
            return Ok(false);
        }
        for property in rules.properties.iter() {
            let member = map.get(&property.key);
            let value = member.and_then(|member| self.memory.holes.fill(member));
            if value.is_none() && !property.required {
                continue;
            }
            if !self.check(property.node, value)? {
                return Ok(false);
            }
            if member.is_none() && self.must_be_present(property.node) {
                return Ok(false);
            }
        }
        if rules.additional == Rest::Open {
            return Ok(true);
        }
        for (key, member) in js::entries(map) {
            if !rules.properties.contains(key) && !self.check_rest(rules.additional, member)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_record(
        &mut self,
        rules: &'p RecordRules,
        map: &Map<String, Value>,
    ) -> Outcome<'p, bool> {
        if !size_fits(&rules.size, map) {
            return Ok(false);
        }
        let pattern = &rules.pattern;
        // A broken pattern fails even where there is nothing to match.
        pattern_fits(pattern, "")?;
        // All matching members come first: the order decides which failure is met.
        for (key, member) in js::entries(map) {
            if pattern_fits(pattern, key)? && !self.check_rest(Rest::Schema(rules.value), member)? {
                return Ok(false);
            }
        }
        if rules.additional == Rest::Open {
            return Ok(true);
        }
        for (key, member) in js::entries(map) {
            if !pattern_fits(pattern, key)? && !self.check_rest(rules.additional, member)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
