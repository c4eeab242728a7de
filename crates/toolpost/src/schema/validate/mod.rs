//! Whether a value fits: one walk over the value and the program, without allocating.
//!
//! The walk answers one of two questions, chosen by a constant parameter. `CLEAN = false`: does
//! the value fit? `CLEAN = true`: does it fit, with nothing to fill in and nothing to strip? The
//! second may say no where the answer is yes (two schemas that split the names of one object
//! between them), which only means that the place is looked at more closely.

mod applicators;
mod array;
mod evaluated;
mod object;

use std::collections::HashMap;

use serde_json::Value;

use super::program::{MAX_DEPTH, NodeId, SchemaNode, SchemaProgram};
use super::repair::Extras;
pub(super) use evaluated::EvaluatedSet;

/// Walks values for one question at a time.
pub(super) struct Evaluator<'p> {
    pub(super) program: &'p SchemaProgram,
    pub(super) extras: Extras,
    /// How many schemas have been applied; what the tests of linearity count.
    pub(super) steps: u64,
    /// The walk went deeper than [`MAX_DEPTH`]: no verdict of it counts.
    pub(super) overflow: bool,
    depth: u32,
    /// The nodes being applied, where one may lead back to itself.
    active: Vec<(NodeId, usize)>,
    /// The keys here are numbers and addresses of ours, which no caller can make collide, so that
    /// a run need not begin with drawing seeds.
    memo: HashMap<(NodeId, usize, bool), bool, foldhash::fast::FixedState>,
    evaluated_memo:
        HashMap<(NodeId, usize, bool), (bool, EvaluatedSet), foldhash::fast::FixedState>,
}

/// The identity of a place while nothing is changed.
#[inline]
pub(super) fn address(value: &Value) -> usize {
    std::ptr::from_ref(value) as usize
}

impl<'p> Evaluator<'p> {
    pub(super) fn new(program: &'p SchemaProgram, extras: Extras) -> Self {
        Self {
            program,
            extras,
            steps: 0,
            overflow: false,
            depth: 0,
            active: Vec::new(),
            memo: HashMap::default(),
            evaluated_memo: HashMap::default(),
        }
    }

    /// Whether the value fits.
    pub(super) fn is_valid(&mut self, id: NodeId, value: &Value) -> bool {
        self.evaluate::<false>(id, value)
    }

    /// Whether the value fits and nothing about it would change.
    pub(super) fn is_clean(&mut self, id: NodeId, value: &Value) -> bool {
        self.evaluate::<true>(id, value)
    }

    /// Whether a value that is not part of the walked one fits.
    pub(super) fn is_valid_detached(&mut self, id: NodeId, value: &Value) -> bool {
        let mut detached = Self::new(self.program, self.extras);
        detached.depth = self.depth;
        let fits = detached.is_valid(id, value);
        self.steps += detached.steps;
        self.overflow |= detached.overflow;
        fits
    }

    /// Forgets what was learnt about places, because one has changed.
    #[inline]
    pub(super) fn clear_memo(&mut self) {
        if !self.memo.is_empty() {
            self.memo = HashMap::default();
        }
        if !self.evaluated_memo.is_empty() {
            self.evaluated_memo = HashMap::default();
        }
    }

    /// Goes one level deeper, if there is room.
    #[inline]
    pub(super) fn enter(&mut self) -> bool {
        self.steps += 1;
        if self.depth == MAX_DEPTH {
            self.overflow = true;
            return false;
        }
        self.depth += 1;
        true
    }

    #[inline]
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Applies a schema to a place of its own.
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

    /// Applies a schema to a place that others may be applied to as well.
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

    /// Applies a node that may be met again at this place.
    fn apply_memoized<const CLEAN: bool>(
        &mut self,
        id: NodeId,
        node: &'p SchemaNode,
        value: &Value,
        evaluated: Option<&mut EvaluatedSet>,
    ) -> bool {
        let active_key = (id, address(value));
        // A schema that leads back to itself asks nothing more than it already does.
        if node.cyclic && self.active.contains(&active_key) {
            return true;
        }
        let key = (id, active_key.1, CLEAN);
        let known = match &evaluated {
            None => self.memo.get(&key).map(|fits| (*fits, None)),
            Some(_) => self.evaluated_memo.get(&key).map(|(fits, own)| (*fits, Some(own.clone()))),
        };
        let (fits, own) = known.unwrap_or_else(|| {
            self.active.push(active_key);
            let mut own = evaluated.is_some().then(EvaluatedSet::default);
            let fits = self.apply_node::<CLEAN>(node, value, own.as_mut());
            self.active.pop();
            match &own {
                None => _ = self.memo.insert(key, fits),
                Some(own) => _ = self.evaluated_memo.insert(key, (fits, own.clone())),
            }
            (fits, own)
        });
        if let (Some(evaluated), Some(own), true) = (evaluated, own, fits) {
            evaluated.merge(&own);
        }
        fits
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
        // The keyword sees what this schema evaluates, not what its neighbors do.
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
            _ => admits_scalar(node, value),
        };
        fits && node
            .applicators
            .as_deref()
            .is_none_or(|applicators| self.apply_in_place::<CLEAN>(applicators, value, evaluated))
    }

    /// Comparing containers recurses into them, so what is too deep is refused first.
    pub(super) fn admits_literal(&mut self, node: &SchemaNode, value: &Value) -> bool {
        let container = value.is_array() || value.is_object();
        if container && super::dialect::nests_deeper(value, MAX_DEPTH) {
            self.overflow = true;
            return false;
        }
        node.admits_literal(value)
    }
}

/// The keywords about the inside of numbers and strings.
#[inline]
pub(super) fn admits_scalar(node: &SchemaNode, value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            node.number.as_deref().is_none_or(|rules| rules.admits(value, number))
        }
        Value::String(text) => node.string.as_deref().is_none_or(|rules| rules.admits(value, text)),
        _ => true,
    }
}
