//! What a pattern asks of the payload, held against it.
//!
//! Each part of a pattern is asked at most once about each part of a payload, so that the time is
//! that of the one times the other at most: what is looked for anywhere below inside of what is
//! looked for anywhere below is remembered.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use super::error::{Budget, CapabilityError, DEEPEST, MOST_BELOWS};
use super::glob::{Glob, Notation};
use super::path::{Step, steps};
use super::text::Text;

#[derive(Debug)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    Text(Text),
    /// One of these fits.
    AnyOf(Box<[Node]>),
    /// An object for which all of these hold.
    Object(Box<[Node]>),
    /// Something that is found so fits.
    Find(Find, Box<Node>),
}

#[derive(Debug)]
pub(super) enum Find {
    Key(Box<str>),
    Keys(Glob),
    Index(usize),
    Each,
    /// Here, and everywhere below; the number tells one such part of a pattern from another.
    Below(usize),
}

/// Compiles patterns; counts what they have.
#[derive(Debug)]
pub(super) struct Compiler {
    pub(super) budget: Budget,
    belows: usize,
}

impl Compiler {
    pub(super) fn new() -> Self {
        Self { budget: Budget::new(), belows: 0 }
    }

    pub(super) fn node(&mut self, value: &Value, depth: usize) -> Result<Node, CapabilityError> {
        if depth > DEEPEST {
            return Err(CapabilityError::Deep);
        }
        self.budget.part()?;
        Ok(match value {
            Value::Null => Node::Null,
            Value::Bool(value) => Node::Bool(*value),
            Value::Number(value) => Node::Number(value.clone()),
            Value::String(text) => Node::Text(Text::compile(&mut self.budget, text)?),
            Value::Array(alternatives) => Node::AnyOf(
                alternatives
                    .iter()
                    .map(|value| self.node(value, depth + 1))
                    .collect::<Result<_, _>>()?,
            ),
            Value::Object(members) => Node::Object(
                members
                    .iter()
                    .map(|(key, value)| self.member(key, value, depth + 1))
                    .collect::<Result<_, _>>()?,
            ),
        })
    }

    fn member(&mut self, key: &str, value: &Value, depth: usize) -> Result<Node, CapabilityError> {
        self.budget.text(key)?;
        if key.starts_with('$') {
            return self.path(&steps(key)?, value, depth);
        }
        let find = match key {
            "**" => self.below()?,
            _ if key.contains(['*', '?']) => Find::Keys(Glob::new(Notation::Segments, key)),
            _ => Find::Key(key.into()),
        };
        Ok(Node::Find(find, Box::new(self.node(value, depth)?)))
    }

    /// A path is the same as patterns inside each other: any of its results is to fit.
    pub(super) fn path(
        &mut self,
        steps: &[Step],
        value: &Value,
        depth: usize,
    ) -> Result<Node, CapabilityError> {
        let Some((step, rest)) = steps.split_first() else { return self.node(value, depth) };
        if depth > DEEPEST {
            return Err(CapabilityError::Deep);
        }
        self.budget.part()?;
        let find = match step {
            Step::Name(name) => Find::Key(name.as_str().into()),
            Step::Index(index) => Find::Index(*index),
            Step::Each => Find::Each,
            Step::Below => self.below()?,
        };
        Ok(Node::Find(find, Box::new(self.path(rest, value, depth + 1)?)))
    }

    fn below(&mut self) -> Result<Find, CapabilityError> {
        self.belows += 1;
        let allowed = self.belows <= MOST_BELOWS;
        allowed.then_some(Find::Below(self.belows)).ok_or(CapabilityError::Many)
    }
}

impl Node {
    pub(super) fn matches(&self, value: &Value) -> bool {
        Search::default().fits(self, value)
    }
}

type Known = HashMap<(usize, usize), bool, foldhash::fast::RandomState>;

/// One comparison, with what is known already about parts that are reached more than once.
#[derive(Default)]
struct Search {
    /// How many searches below are going on inside each other.
    inside: usize,
    /// Made when there is something to keep: nearly no search is inside of another one.
    known: Option<Known>,
}

impl Search {
    fn fits(&mut self, node: &Node, value: &Value) -> bool {
        match (node, value) {
            (Node::AnyOf(nodes), _) => nodes.iter().any(|node| self.fits(node, value)),
            (Node::Find(find, node), _) => self.finds(find, node, value),
            (Node::Null, Value::Null) => true,
            (Node::Bool(own), Value::Bool(other)) => own == other,
            (Node::Number(own), Value::Number(other)) => is_same_number(own, other),
            (Node::Text(text), Value::String(value)) => text.matches(value),
            (Node::Object(nodes), Value::Object(_)) => {
                nodes.iter().all(|node| self.fits(node, value))
            }
            _ => false,
        }
    }

    fn finds(&mut self, find: &Find, node: &Node, value: &Value) -> bool {
        match (find, value) {
            (Find::Below(number), _) => self.finds_below(*number, node, value),
            (Find::Key(key), Value::Object(members)) => {
                member(members, key).is_some_and(|value| self.fits(node, value))
            }
            (Find::Keys(glob), Value::Object(members)) => {
                members.iter().any(|(key, value)| glob.matches(key) && self.fits(node, value))
            }
            (Find::Index(index), Value::Array(items)) => {
                items.get(*index).is_some_and(|value| self.fits(node, value))
            }
            (Find::Each, value) => any_child(value, |value| self.fits(node, value)),
            _ => false,
        }
    }

    fn finds_below(&mut self, number: usize, node: &Node, value: &Value) -> bool {
        let place = (number, std::ptr::from_ref(value).addr());
        // A search that is in no other one comes to each place once, and at a place with nothing
        // below it there is nothing to save.
        let remembers = self.inside > 0 && any_child(value, |_| true);
        let known = self.known.as_ref().and_then(|known| known.get(&place));
        if let Some(known) = known.filter(|_| remembers) {
            return *known;
        }
        self.inside += 1;
        let found = self.fits(node, value);
        self.inside -= 1;
        let found = found || any_child(value, |value| self.finds_below(number, node, value));
        if remembers {
            self.known.get_or_insert_default().insert(place, found);
        }
        found
    }
}

fn any_child(value: &Value, mut fits: impl FnMut(&Value) -> bool) -> bool {
    match value {
        Value::Object(members) => members.values().any(&mut fits),
        Value::Array(items) => items.iter().any(&mut fits),
        _ => false,
    }
}

/// Few members are found faster by looking at them than by their hash.
pub(super) fn member<'a>(members: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    if members.len() > 8 {
        return members.get(key);
    }
    members.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// Numbers are the same by their value: `1` is `1.0`, and a large one is not its neighbor.
pub(super) fn is_same_number(own: &Number, other: &Number) -> bool {
    match (whole(own), whole(other)) {
        (Some(own), Some(other)) => own == other,
        (None, None) => own.as_f64() == other.as_f64(),
        _ => false,
    }
}

fn whole(number: &Number) -> Option<i128> {
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    let is_whole = |float: &f64| float.fract() == 0.0 && float.abs() < 1e38;
    // The bounds are those of the type, so that nothing is cut off.
    #[allow(clippy::cast_possible_truncation, reason = "it is a whole number within the type")]
    integer.or_else(|| number.as_f64().filter(is_whole).map(|float| float as i128))
}
