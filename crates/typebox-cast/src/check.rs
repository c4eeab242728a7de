//! Checks values against nodes with TypeBox's rules, which differ from JSON Schema's.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde_json::{Map, Value};

use super::error::{CastCode, CastError, CastResult};
use super::js::{self, MAX_DEPTH};
use super::node::{
    ArrayRules, CastKind, CastNodeId, CastReference, CastSchema, Contains, ObjectRules,
    RecordRules, UndeclaredRule,
};
use super::scalar::{is_valid_number, is_valid_string, matches_pattern};
use super::unique::{self, UndefinedValues};

/// State of casting one value: the compiled schema, counters and memoized results.
pub(super) struct CastRun<'p> {
    pub(super) program: &'p CastSchema,
    /// Number of nodes that can still be applied.
    steps_left: u64,
    /// Current combined depth of checks, creations and casts.
    pub(super) depth: usize,
    /// Maximum depth since the last reset.
    peak: usize,
    /// Amount of data created so far, in the units of [`super::create`].
    pub(super) created: usize,
    /// Boxed, because recursive calls that replace it keep the outer memo on the stack.
    pub(super) memo: Box<CastMemo>,
}

/// Results memoized by value address; valid only while the values are not moved.
#[derive(Default)]
pub(super) struct CastMemo {
    results: HashMap<(CastNodeId, usize), CachedCheck, RandomState>,
    pub(super) scores: HashMap<(CastNodeId, usize), u64, RandomState>,
    pub(super) undefined: UndefinedValues,
}

#[derive(Clone, Copy)]
struct CachedCheck {
    is_valid: bool,
    /// Additional depth the check reached, for the depth limit of a memoized result.
    height: usize,
}

/// Returns the address of a value, or zero if the value is absent.
pub(super) fn address_or_zero(value: Option<&Value>) -> usize {
    value.map_or(0, unique::address)
}

impl<'p> CastRun<'p> {
    pub(super) fn new(program: &'p CastSchema, max_steps: u64) -> Self {
        Self { program, steps_left: max_steps, depth: 0, peak: 0, created: 0, memo: Box::default() }
    }

    /// Runs `work` with an empty memo, for temporary values.
    pub(super) fn with_fresh_memo<T>(
        &mut self,
        undefined: UndefinedValues,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let fresh = Box::new(CastMemo { undefined, ..CastMemo::default() });
        let outer = std::mem::replace(&mut self.memo, fresh);
        let result = work(self);
        self.memo = outer;
        result
    }

    pub(super) fn enter(&mut self) -> CastResult<()> {
        self.steps_left =
            self.steps_left.checked_sub(1).ok_or_else(|| CastError::new(CastCode::Steps))?;
        self.depth += 1;
        self.peak = self.peak.max(self.depth);
        if self.depth > MAX_DEPTH { Err(CastError::new(CastCode::Stack)) } else { Ok(()) }
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn check(&mut self, id: CastNodeId, value: Option<&Value>) -> CastResult<bool> {
        self.enter()?;
        let fits = self.check_kind(id, value)?;
        self.leave();
        Ok(fits)
    }

    fn check_kind(&mut self, id: CastNodeId, value: Option<&Value>) -> CastResult<bool> {
        let program = self.program;
        Ok(match (&program[id].kind, value) {
            (CastKind::Unknown, _) => true,
            (CastKind::Never, _) => false,
            (CastKind::TooDeep, _) => return Err(CastError::new(CastCode::Stack)),
            (CastKind::Reference(reference), _) => self.check_reference(reference, value)?,
            (CastKind::Not(inner), _) => !self.check(*inner, value)?,
            (CastKind::Union(variants), _) => self.check_until(true, variants, value)?,
            (CastKind::Intersect { parts, unevaluated }, _) => {
                self.check_intersect(id, parts, *unevaluated, value)?
            }
            (CastKind::Null, Some(Value::Null)) | (CastKind::Boolean, Some(Value::Bool(_))) => true,
            (CastKind::Literal(literal), Some(value)) => js::json_eq(literal, value),
            (CastKind::Number(rules), Some(Value::Number(number))) => {
                number.as_f64().is_some_and(|number| is_valid_number(rules, number))
            }
            (CastKind::Integer(rules), Some(Value::Number(number))) => number
                .as_f64()
                .is_some_and(|number| number.fract() == 0.0 && is_valid_number(rules, number)),
            (CastKind::String(rules), Some(Value::String(text))) => is_valid_string(rules, text)?,
            (CastKind::Array(rules), Some(Value::Array(items))) => {
                self.check_array(rules, items)?
            }
            (CastKind::Tuple(nodes), Some(Value::Array(items))) => {
                self.check_tuple(nodes, items)?
            }
            (CastKind::Object(rules), Some(Value::Object(map))) => self.check_object(rules, map)?,
            (CastKind::Record(rules), Some(Value::Object(map))) => self.check_record(rules, map)?,
            _ => false,
        })
    }

    pub(super) fn ref_target(&self, reference: &CastReference) -> CastResult<CastNodeId> {
        reference.target.map_err(|code| CastError::with_detail(code, &reference.text))
    }

    /// Resolves a chain of references. Returns any other node unchanged.
    pub(super) fn resolve(&self, id: CastNodeId) -> CastResult<CastNodeId> {
        match &self.program[id].kind {
            CastKind::Reference(reference) => self.ref_target(reference),
            _ => Ok(id),
        }
    }

    fn check_reference(
        &mut self,
        reference: &CastReference,
        value: Option<&Value>,
    ) -> CastResult<bool> {
        let target = self.ref_target(reference)?;
        // Memoization keeps the check polynomial for schemas whose references fan out.
        let key = (target, address_or_zero(value));
        if let Some(cached) = self.memo.results.get(&key).copied() {
            let deepest = self.depth + cached.height;
            self.peak = self.peak.max(deepest);
            let beyond = deepest > MAX_DEPTH;
            return if beyond { Err(CastError::new(CastCode::Stack)) } else { Ok(cached.is_valid) };
        }
        let outer = std::mem::replace(&mut self.peak, self.depth);
        let fits = self.check(target, value)?;
        let height = self.peak - self.depth;
        self.peak = self.peak.max(outer);
        self.memo.results.insert(key, CachedCheck { is_valid: fits, height });
        Ok(fits)
    }

    /// Checks the nodes in order until a result equals `end`. Returns whether one did.
    fn check_until(
        &mut self,
        end: bool,
        nodes: &[CastNodeId],
        value: Option<&Value>,
    ) -> CastResult<bool> {
        for node in nodes {
            if self.check(*node, value)? == end {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_intersect(
        &mut self,
        id: CastNodeId,
        parts: &[CastNodeId],
        unevaluated: UndeclaredRule,
        value: Option<&Value>,
    ) -> CastResult<bool> {
        let all = !self.check_until(false, parts, value)?;
        let (Some(Value::Object(map)), UndeclaredRule::Closed | UndeclaredRule::Schema(_)) =
            (value, unevaluated)
        else {
            return Ok(all);
        };
        for (key, member) in js::entries(map) {
            if !self.declares_key(id, key)? && !self.check_rest(unevaluated, member)? {
                return Ok(false);
            }
        }
        Ok(all)
    }

    fn check_rest(&mut self, rest: UndeclaredRule, member: &Value) -> CastResult<bool> {
        match rest {
            UndeclaredRule::Open => Ok(true),
            UndeclaredRule::Closed => Ok(false),
            UndeclaredRule::Schema(node) => self.check_child(node, member),
        }
    }

    /// Checks a member or an item, which can represent `undefined`.
    fn check_child(&mut self, id: CastNodeId, child: &Value) -> CastResult<bool> {
        let child = self.memo.undefined.defined(child);
        self.check(id, child)
    }

    fn check_array(&mut self, rules: &ArrayRules, items: &[Value]) -> CastResult<bool> {
        if !rules.length.contains(items.len()) {
            return Ok(false);
        }
        for item in items {
            if !self.check_child(rules.items, item)? {
                return Ok(false);
            }
        }
        if rules.unique {
            let levels = MAX_DEPTH.saturating_sub(self.depth);
            let different = unique::all_unique(items, &self.memo.undefined, levels);
            if !different.ok_or(CastError::new(CastCode::Stack))? {
                return Ok(false);
            }
        }
        match &rules.contains {
            None => Ok(true),
            Some(contains) => self.check_contains(contains, items),
        }
    }

    fn check_contains(&mut self, contains: &Contains, items: &[Value]) -> CastResult<bool> {
        let mut count = 0_u32;
        for item in items {
            count += u32::from(self.check_child(contains.node, item)?);
        }
        let count = f64::from(count);
        let enough = count > 0.0 && contains.min.is_none_or(|min| count >= min);
        Ok(enough && contains.max.is_none_or(|max| count <= max))
    }

    fn check_tuple(&mut self, nodes: &[CastNodeId], items: &[Value]) -> CastResult<bool> {
        if nodes.len() != items.len() {
            return Ok(false);
        }
        for (node, item) in nodes.iter().zip(items) {
            if !self.check_child(*node, item)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_object(&mut self, rules: &ObjectRules, map: &Map<String, Value>) -> CastResult<bool> {
        if !rules.size.contains(map.len()) {
            return Ok(false);
        }
        for (key, property) in &rules.properties {
            let member = map.get(key);
            let value = member.and_then(|member| self.memo.undefined.defined(member));
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
        if rules.additional == UndeclaredRule::Open {
            return Ok(true);
        }
        for (key, member) in js::entries(map) {
            if !rules.properties.contains_key(key) && !self.check_rest(rules.additional, member)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_record(&mut self, rules: &RecordRules, map: &Map<String, Value>) -> CastResult<bool> {
        if !rules.size.contains(map.len()) {
            return Ok(false);
        }
        let pattern = &rules.pattern;
        // An invalid pattern is an error even if the object has no members.
        matches_pattern(pattern, "")?;
        // Check all matching members first: the order determines which failure is reported.
        for (key, member) in js::entries(map) {
            if matches_pattern(pattern, key)? && !self.check_child(rules.value, member)? {
                return Ok(false);
            }
        }
        if rules.additional == UndeclaredRule::Open {
            return Ok(true);
        }
        for (key, member) in js::entries(map) {
            if !matches_pattern(pattern, key)? && !self.check_rest(rules.additional, member)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
