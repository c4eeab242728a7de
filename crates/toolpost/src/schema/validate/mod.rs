//! Validation: one walk over the value and the program, mostly without allocating.
//!
//! A const parameter selects one of two checks. `CLEAN = false` checks that the value is valid.
//! `CLEAN = true` also checks that there is nothing to fill in or strip. The second check can give
//! a false negative if two schemas each declare some properties of one object; normalization then
//! takes its slow path.

mod applicators;
mod array;
mod evaluated;
mod object;

use std::collections::HashMap;

use serde_json::Value;

use super::budget::{Budget, Exceeded};
use super::program::{MAX_DEPTH, NodeId, SchemaNode, SchemaProgram};
use super::repair::Extras;
pub(super) use evaluated::EvaluatedSet;

/// Validates values against a program.
pub(super) struct Evaluator<'p> {
    pub(super) program: &'p SchemaProgram,
    pub(super) extras: Extras,
    /// Limits the work. Once it is exceeded, results are not valid.
    pub(super) budget: &'p Budget<'p>,
    depth: u32,
    /// Cyclic nodes being applied, with the address of the value.
    active: Vec<(NodeId, usize)>,
    /// Lowest index in `active` of a node that was assumed to be valid while it was being applied.
    lowest_assumed: usize,
    /// Keys are node ids and addresses, which input cannot make collide.
    memo: HashMap<(NodeId, usize, bool), bool, foldhash::fast::FixedState>,
    evaluated_memo:
        HashMap<(NodeId, usize, bool), (bool, EvaluatedSet), foldhash::fast::FixedState>,
    /// Memory counted for both.
    memo_memory: usize,
}

/// Memory of a memoized result.
const MEMO_MEMORY: usize = 64;

/// Returns the address of a value, which identifies it until the value is changed.
#[inline]
pub(super) fn address(value: &Value) -> usize {
    std::ptr::from_ref(value) as usize
}

impl<'p> Evaluator<'p> {
    pub(super) fn with_budget(
        program: &'p SchemaProgram,
        extras: Extras,
        budget: &'p Budget<'p>,
    ) -> Self {
        Self {
            program,
            extras,
            budget,
            depth: 0,
            active: Vec::new(),
            lowest_assumed: usize::MAX,
            memo: HashMap::default(),
            evaluated_memo: HashMap::default(),
            memo_memory: 0,
        }
    }

    /// Whether the value is valid.
    pub(super) fn check_valid(&mut self, id: NodeId, value: &Value) -> bool {
        self.evaluate::<false>(id, value)
    }

    /// Whether the value is valid and normalization would not change it.
    pub(super) fn check_clean(&mut self, id: NodeId, value: &Value) -> bool {
        self.evaluate::<true>(id, value)
    }

    /// Whether a temporary value outside the current walk is valid. Its results are not memoized.
    pub(super) fn check_valid_detached(&mut self, id: NodeId, value: &Value) -> bool {
        let mut detached = Self::with_budget(self.program, self.extras, self.budget);
        detached.depth = self.depth;
        let fits = detached.check_valid(id, value);
        detached.clear_memo();
        fits
    }

    /// Clears memoized results, because a value has changed.
    #[inline]
    pub(super) fn clear_memo(&mut self) {
        if self.memo_memory > 0 {
            self.memo = HashMap::default();
            self.evaluated_memo = HashMap::default();
            self.budget.release(self.memo_memory);
            self.memo_memory = 0;
        }
    }

    /// Enters the next level. Returns `false` if the depth limit is reached.
    #[inline]
    pub(super) fn enter(&mut self) -> bool {
        if !self.budget.spend(1) {
            return false;
        }
        if self.depth == MAX_DEPTH {
            self.budget.stop(Exceeded::Depth);
            return false;
        }
        self.depth += 1;
        true
    }

    #[inline]
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Applies a schema to a value as its root schema.
    #[inline]
    fn evaluate<const CLEAN: bool>(&mut self, id: NodeId, value: &Value) -> bool {
        if CLEAN
            && self.extras == Extras::Strip
            && self.program.node(id).applicators.is_some()
            && let Value::Object(map) = value
        {
            let mut evaluated = EvaluatedSet::default();
            return self.apply::<CLEAN>(id, value, Some(&mut evaluated))
                && (!evaluated.declares_properties || evaluated.contains_all(map.len()));
        }
        self.apply::<CLEAN>(id, value, None)
    }

    /// Applies a schema to a value to which other schemas can also apply.
    fn apply<const CLEAN: bool>(
        &mut self,
        id: NodeId,
        value: &Value,
        evaluated: Option<&mut EvaluatedSet>,
    ) -> bool {
        let node = self.program.node(id);
        if !node.types.overlaps(self.program.type_of(value)) {
            return false;
        }
        if node.type_only {
            return true;
        }
        if !self.enter() {
            return false;
        }
        let fits = if node.memoize || node.cyclic {
            self.apply_memoized::<CLEAN>(id, node, value, evaluated)
        } else {
            self.apply_node::<CLEAN>(node, value, evaluated)
        };
        self.leave();
        fits
    }

    /// Applies a node that can be reached again for the same value.
    fn apply_memoized<const CLEAN: bool>(
        &mut self,
        id: NodeId,
        node: &'p SchemaNode,
        value: &Value,
        evaluated: Option<&mut EvaluatedSet>,
    ) -> bool {
        let active_key = (id, address(value));
        // A schema that refers to itself adds no constraint.
        if node.cyclic
            && self.budget.spend(self.active.len() / 8)
            && let Some(at) = self.active.iter().position(|known| *known == active_key)
        {
            self.lowest_assumed = self.lowest_assumed.min(at);
            return true;
        }
        let key = (id, active_key.1, CLEAN);
        let known = match &evaluated {
            None => self.memo.get(&key).map(|fits| (*fits, None)),
            Some(_) => self.evaluated_memo.get(&key).map(|(fits, own)| (*fits, Some(own.clone()))),
        };
        let (fits, own) = known.unwrap_or_else(|| {
            let mut own = evaluated.is_some().then(EvaluatedSet::default);
            let (fits, is_final) = match node.cyclic {
                true => self.apply_cyclic::<CLEAN>(active_key, node, value, own.as_mut()),
                false => (self.apply_node::<CLEAN>(node, value, own.as_mut()), true),
            };
            if is_final {
                self.memoize(key, fits, own.as_ref());
            }
            (fits, own)
        });
        if let (Some(evaluated), Some(own), true) = (evaluated, own, fits) {
            evaluated.merge(&own);
        }
        fits
    }

    /// Applies a node that can reach itself. Returns also whether the result is final: it is not
    /// if it assumes the result of a node that is still being applied.
    fn apply_cyclic<const CLEAN: bool>(
        &mut self,
        active_key: (NodeId, usize),
        node: &'p SchemaNode,
        value: &Value,
        own: Option<&mut EvaluatedSet>,
    ) -> (bool, bool) {
        let outer = std::mem::replace(&mut self.lowest_assumed, usize::MAX);
        self.active.push(active_key);
        let fits = self.apply_node::<CLEAN>(node, value, own);
        self.active.pop();
        let is_final = self.lowest_assumed >= self.active.len();
        self.lowest_assumed = match is_final {
            true => outer,
            false => outer.min(self.lowest_assumed),
        };
        (fits, is_final)
    }

    fn memoize(&mut self, key: (NodeId, usize, bool), fits: bool, own: Option<&EvaluatedSet>) {
        let memory = MEMO_MEMORY + own.map_or(0, EvaluatedSet::memory);
        self.memo_memory += memory;
        self.budget.allocate(memory);
        match own {
            None => _ = self.memo.insert(key, fits),
            Some(own) => _ = self.evaluated_memo.insert(key, (fits, own.clone())),
        }
    }

    fn apply_node<const CLEAN: bool>(
        &mut self,
        node: &'p SchemaNode,
        value: &Value,
        evaluated: Option<&mut EvaluatedSet>,
    ) -> bool {
        if node.literals.is_some() && !self.admits_literal(node, value) {
            return false;
        }
        let unevaluated = node.applicators.as_deref().and_then(|applicators| match value {
            Value::Object(_) => applicators.unevaluated_properties,
            Value::Array(_) => applicators.unevaluated_items,
            _ => None,
        });
        let Some(rest) = unevaluated else {
            return self.apply_keywords::<CLEAN>(node, value, evaluated);
        };
        // `unevaluated*` keywords see what this schema evaluates, not what its siblings evaluate.
        let mut own = EvaluatedSet::default();
        if !self.apply_keywords::<CLEAN>(node, value, Some(&mut own)) {
            return false;
        }
        let fits = self.apply_unevaluated::<CLEAN>(rest, value, &mut own);
        if let Some(evaluated) = evaluated {
            evaluated.merge(&own);
        }
        fits
    }

    /// Collects the properties or items that the keywords other than `unevaluated*` evaluate, and
    /// returns whether these keywords admit the value.
    pub(super) fn evaluated_by_others(
        &mut self,
        id: NodeId,
        value: &Value,
        evaluated: &mut EvaluatedSet,
    ) -> bool {
        self.apply_keywords::<false>(self.program.node(id), value, Some(evaluated))
    }

    fn apply_keywords<const CLEAN: bool>(
        &mut self,
        node: &'p SchemaNode,
        value: &Value,
        mut evaluated: Option<&mut EvaluatedSet>,
    ) -> bool {
        let fits = match value {
            Value::Object(map) => node.object.as_deref().is_none_or(|rules| {
                self.apply_object::<CLEAN>(rules, map, evaluated.as_deref_mut())
            }),
            Value::Array(items) => node.array.as_deref().is_none_or(|rules| {
                self.apply_array::<CLEAN>(rules, items, evaluated.as_deref_mut())
            }),
            _ => admits_scalar(node, value, self.budget),
        };
        fits && node
            .applicators
            .as_deref()
            .is_none_or(|applicators| self.apply_in_place::<CLEAN>(applicators, value, evaluated))
    }

    /// Checks `const` and `enum`. Comparing recurses as deep as the literals.
    pub(super) fn admits_literal(&self, node: &SchemaNode, value: &Value) -> bool {
        self.budget.spend(node.literal_steps) && node.admits_literal(value)
    }
}

/// Checks the number and string keywords.
#[inline]
pub(super) fn admits_scalar(node: &SchemaNode, value: &Value, budget: &Budget<'_>) -> bool {
    match value {
        Value::Number(number) => node.number.as_deref().is_none_or(|rules| rules.admits(number)),
        Value::String(text) => {
            node.string.as_deref().is_none_or(|rules| rules.admits(text, budget))
        }
        _ => true,
    }
}
