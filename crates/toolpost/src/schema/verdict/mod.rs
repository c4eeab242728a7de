//! Whether a value fits: one walk over the value and the program, without allocating.
//!
//! The walk answers one of two questions, chosen by a constant parameter. `CLEAN = false`: does
//! the value fit? `CLEAN = true`: does it fit, with nothing to fill in and nothing to strip? The
//! second may say no where the answer is yes (two schemas that split the names of one object
//! between them), which only means that the place is looked at more closely.

mod array;
mod logic;
mod marks;
mod object;

use std::collections::HashMap;

use serde_json::Value;

use super::program::{MAX_DEPTH, Node, NodeId, Program};
use super::repair::Extras;
pub(super) use marks::Marks;

/// Walks values for one question at a time.
pub(super) struct Judge<'p> {
    pub(super) program: &'p Program,
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
    marked: HashMap<(NodeId, usize, bool), (bool, Marks), foldhash::fast::FixedState>,
}

/// The identity of a place while nothing is changed.
#[inline]
pub(super) fn address(value: &Value) -> usize {
    std::ptr::from_ref(value) as usize
}

impl<'p> Judge<'p> {
    pub(super) fn new(program: &'p Program, extras: Extras) -> Self {
        Self {
            program,
            extras,
            steps: 0,
            overflow: false,
            depth: 0,
            active: Vec::new(),
            memo: HashMap::default(),
            marked: HashMap::default(),
        }
    }

    /// Whether the value fits.
    pub(super) fn fits(&mut self, id: NodeId, value: &Value) -> bool {
        self.place::<false>(id, value)
    }

    /// Whether the value fits and nothing about it would change.
    pub(super) fn is_clean(&mut self, id: NodeId, value: &Value) -> bool {
        self.place::<true>(id, value)
    }

    /// Whether a value that is not part of the walked one fits.
    pub(super) fn fits_aside(&mut self, id: NodeId, value: &Value) -> bool {
        let mut aside = Self::new(self.program, self.extras);
        aside.depth = self.depth;
        let fits = aside.fits(id, value);
        self.steps += aside.steps;
        self.overflow |= aside.overflow;
        fits
    }

    /// Forgets what was learnt about places, because one has changed.
    #[inline]
    pub(super) fn forget(&mut self) {
        if !self.memo.is_empty() {
            self.memo = HashMap::default();
        }
        if !self.marked.is_empty() {
            self.marked = HashMap::default();
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
    fn place<const CLEAN: bool>(&mut self, id: NodeId, value: &Value) -> bool {
        if CLEAN
            && self.extras == Extras::Strip
            && self.program.node(id).logic.is_some()
            && let Value::Object(map) = value
        {
            let mut marks = Marks::default();
            return self.apply::<CLEAN>(id, value, Some(&mut marks))
                && (!marks.closed_set || marks.cover(map.len()));
        }
        self.apply::<CLEAN>(id, value, None)
    }

    /// Applies a schema to a place that others may be applied to as well.
    fn apply<const CLEAN: bool>(
        &mut self,
        id: NodeId,
        value: &Value,
        marks: Option<&mut Marks>,
    ) -> bool {
        let node = self.program.node(id);
        if !node.types.overlaps(self.program.type_of(value)) {
            return false;
        }
        if node.bare {
            return true;
        }
        if !self.enter() {
            return false;
        }
        let fits = if node.memo || node.cyclic {
            self.apply_once::<CLEAN>(id, node, value, marks)
        } else {
            self.apply_node::<CLEAN>(node, value, marks)
        };
        self.leave();
        fits
    }

    /// Applies a node that may be met again at this place.
    fn apply_once<const CLEAN: bool>(
        &mut self,
        id: NodeId,
        node: &'p Node,
        value: &Value,
        marks: Option<&mut Marks>,
    ) -> bool {
        let place = (id, address(value));
        // A schema that leads back to itself asks nothing more than it already does.
        if node.cyclic && self.active.contains(&place) {
            return true;
        }
        let key = (id, place.1, CLEAN);
        let known = match &marks {
            None => self.memo.get(&key).map(|fits| (*fits, None)),
            Some(_) => self.marked.get(&key).map(|(fits, own)| (*fits, Some(own.clone()))),
        };
        let (fits, own) = known.unwrap_or_else(|| {
            self.active.push(place);
            let mut own = marks.is_some().then(Marks::default);
            let fits = self.apply_node::<CLEAN>(node, value, own.as_mut());
            self.active.pop();
            match &own {
                None => _ = self.memo.insert(key, fits),
                Some(own) => _ = self.marked.insert(key, (fits, own.clone())),
            }
            (fits, own)
        });
        if let (Some(marks), Some(own), true) = (marks, own, fits) {
            marks.merge(&own);
        }
        fits
    }

    fn apply_node<const CLEAN: bool>(
        &mut self,
        node: &'p Node,
        value: &Value,
        marks: Option<&mut Marks>,
    ) -> bool {
        if node.literals.is_some() && !self.admits_literal(node, value) {
            return false;
        }
        let unevaluated = node.logic.as_deref().and_then(|logic| match value {
            Value::Object(_) => logic.unevaluated_properties,
            Value::Array(_) => logic.unevaluated_items,
            _ => None,
        });
        let Some(rest) = unevaluated else {
            return self.apply_parts::<CLEAN>(node, value, marks);
        };
        // The keyword sees what this schema evaluates, not what its neighbors do.
        let mut own = Marks::default();
        if !self.apply_parts::<CLEAN>(node, value, Some(&mut own)) {
            return false;
        }
        let fits = self.unevaluated::<CLEAN>(rest, value, &mut own);
        if let Some(marks) = marks {
            marks.merge(&own);
        }
        fits
    }

    fn apply_parts<const CLEAN: bool>(
        &mut self,
        node: &'p Node,
        value: &Value,
        mut marks: Option<&mut Marks>,
    ) -> bool {
        let fits = match value {
            Value::Object(map) => node
                .object
                .as_deref()
                .is_none_or(|rules| self.object::<CLEAN>(rules, map, marks.as_deref_mut())),
            Value::Array(items) => node
                .array
                .as_deref()
                .is_none_or(|rules| self.array::<CLEAN>(rules, items, marks.as_deref_mut())),
            _ => admits_scalar(node, value),
        };
        fits && node.logic.as_deref().is_none_or(|logic| self.logic::<CLEAN>(logic, value, marks))
    }

    /// Comparing containers recurses into them, so what is too deep is refused first.
    pub(super) fn admits_literal(&mut self, node: &Node, value: &Value) -> bool {
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
pub(super) fn admits_scalar(node: &Node, value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            node.number.as_deref().is_none_or(|rules| rules.admit(value, number))
        }
        Value::String(text) => node.text.as_deref().is_none_or(|rules| rules.admit(value, text)),
        _ => true,
    }
}
