//! Which schemas apply to a place, and which of them speak about its children.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::super::program::{Additional, Logic, NodeId, ObjectRules, Program};
use super::Normalizer;

/// What the list of schemas is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Repairing: of a union, the variant that was chosen.
    Settle,
    /// A dry run: the same, without waiting for anything.
    Measure,
    /// Stripping: of a union, every variant that fits, since each names its properties.
    Strip,
}

/// The schemas that apply to one place.
pub(super) struct Applied {
    pub(super) nodes: Vec<NodeId>,
    /// Some union has no variant for the value, so what is below is not known.
    pub(super) undecided: bool,
}

/// A list without repetition.
#[derive(Default)]
struct NodeList {
    nodes: Vec<NodeId>,
    seen: HashSet<NodeId, foldhash::fast::FixedState>,
}

/// Up to this length a scan finds repetitions faster than a set.
const SCANNED: usize = 16;

impl NodeList {
    fn insert(&mut self, id: NodeId) {
        let fresh = if self.nodes.len() < SCANNED {
            !self.nodes.contains(&id)
        } else {
            if self.seen.is_empty() {
                self.seen.extend(&self.nodes);
            }
            self.seen.insert(id)
        };
        if fresh {
            self.nodes.push(id);
        }
    }

    /// Adds what applies without any choice, from the entry at `from` on.
    fn close(&mut self, program: &Program, value: &Value, from: usize) {
        let mut at = from;
        while let Some(id) = self.nodes.get(at) {
            at += 1;
            let Some(logic) = program.node(*id).logic.as_deref() else {
                continue;
            };
            logic.all.iter().for_each(|part| self.insert(*part));
            if let Value::Object(map) = value {
                let due = logic.dependents.iter().filter(|(name, _)| map.contains_key(&**name));
                due.for_each(|(_, node)| self.insert(*node));
            }
        }
    }
}

impl<'p> Normalizer<'p> {
    /// Works out the schemas that apply to a place.
    pub(super) fn applied(&mut self, set: &[NodeId], value: &Value, purpose: Purpose) -> Applied {
        let mut list = NodeList::default();
        set.iter().for_each(|id| list.insert(*id));
        list.close(self.program, value, 0);
        let mut applied = Applied { nodes: Vec::new(), undecided: false };
        if purpose == Purpose::Settle && self.must_wait(&list.nodes, value) {
            self.postponed = true;
            applied.nodes = list.nodes;
            return applied;
        }
        let mut at = 0;
        while let Some(id) = list.nodes.get(at) {
            at += 1;
            let end = list.nodes.len();
            if let Some(logic) = self.program.node(*id).logic.as_deref() {
                applied.undecided |= !self.decide(logic, value, purpose, &mut list);
                list.close(self.program, value, end);
            }
        }
        applied.nodes = list.nodes;
        applied
    }

    /// Whether a choice depends on a value that the other schemas are about to change.
    fn must_wait(&mut self, nodes: &[NodeId], value: &Value) -> bool {
        let decides =
            |id: &NodeId| self.program.node(*id).logic.as_deref().is_some_and(Logic::decides);
        !self.hasty
            && nodes.iter().any(decides)
            && nodes.iter().any(|id| self.program.node(*id).has_rules())
            && self.measure(nodes, value).changes > 0
    }

    /// Adds what the choices of one schema come to; `false` if a union has no answer.
    fn decide(
        &mut self,
        logic: &'p Logic,
        value: &Value,
        purpose: Purpose,
        list: &mut NodeList,
    ) -> bool {
        let mut decided = true;
        for union in &logic.unions {
            let chosen = if purpose == Purpose::Strip {
                self.fitting(union, value)
            } else {
                self.choose(union, value).into_iter().collect()
            };
            decided &= !chosen.is_empty();
            chosen.into_iter().for_each(|variant| list.insert(variant));
        }
        if let Some(condition) = &logic.condition {
            let holds = self.judge.fits(condition.test, value);
            let branch = if holds { condition.then } else { condition.otherwise };
            branch.into_iter().for_each(|branch| list.insert(branch));
            if holds && purpose == Purpose::Strip {
                list.insert(condition.test);
            }
        }
        decided
    }

    /// The schemas of one property, and whether it counts as named.
    pub(super) fn property_nodes(&self, nodes: &[NodeId], name: &str) -> (Vec<NodeId>, bool) {
        let (mut found, mut known) = (Vec::new(), false);
        for id in nodes {
            if let Some(rules) = self.program.node(*id).object.as_deref() {
                known |= rules.property_nodes(name, &mut found);
            }
        }
        if !known {
            let rest = nodes
                .iter()
                .filter_map(|id| self.program.node(*id).logic.as_deref()?.unevaluated_properties);
            for node in rest.filter(|node| !self.is_never(*node)) {
                known = true;
                push_new(&mut found, node);
            }
        }
        (found, known)
    }

    /// The schemas of one item.
    pub(super) fn item_nodes(&self, nodes: &[NodeId], index: usize) -> Vec<NodeId> {
        let mut found = Vec::new();
        let rules = nodes.iter().filter_map(|id| self.program.node(*id).array.as_deref());
        rules.filter_map(|rules| rules.item(index)).for_each(|node| push_new(&mut found, node));
        if found.is_empty() {
            let rest = nodes
                .iter()
                .filter_map(|id| self.program.node(*id).logic.as_deref()?.unevaluated_items);
            rest.for_each(|node| push_new(&mut found, node));
        }
        found
    }

    /// Whether some schema says which properties there are.
    pub(super) fn names_properties(&self, nodes: &[NodeId]) -> bool {
        nodes.iter().any(|id| {
            let node = self.program.node(*id);
            let rest = node.logic.as_deref().and_then(|logic| logic.unevaluated_properties);
            node.object.as_deref().is_some_and(|rules| rules.closed_set)
                || rest.is_some_and(|rest| self.is_never(rest))
        })
    }

    /// The defaults that are missing, each name once, in the order of the schemas.
    pub(super) fn missing_defaults(
        &self,
        nodes: &[NodeId],
        map: &Map<String, Value>,
    ) -> Vec<(&'p str, &'p Value)> {
        let mut missing: Vec<(&'p str, &'p Value)> = Vec::new();
        for id in nodes {
            let Some(rules) = self.program.node(*id).object.as_deref() else {
                continue;
            };
            if rules.defaults == 0 {
                continue;
            }
            for property in rules.names.entries() {
                if let Some(default) = &property.default
                    && !map.contains_key(&*property.name)
                    && !missing.iter().any(|(name, _)| *name == &*property.name)
                {
                    missing.push((&property.name, default));
                }
            }
        }
        missing
    }

    fn is_never(&self, id: NodeId) -> bool {
        let node = self.program.node(id);
        node.bare && node.types == super::super::program::Types::NONE
    }
}

impl ObjectRules {
    /// Adds the schemas of one property, and says whether they name it.
    fn property_nodes(&self, name: &str, found: &mut Vec<NodeId>) -> bool {
        let named = self.names.get(name);
        let matching = self.patterns.iter().filter(|(pattern, _)| pattern.matches(name));
        let direct = named.and_then(|property| property.node);
        let mut known = false;
        for node in direct.into_iter().chain(matching.map(|(_, node)| *node)) {
            known = true;
            push_new(found, node);
        }
        if known {
            return true;
        }
        match self.additional {
            Additional::Schema(node) => push_new(found, node),
            Additional::Allowed => {}
            // A required property is never extra: without it the object would not fit.
            _ => return named.is_some_and(|property| property.required),
        }
        true
    }
}

fn push_new(list: &mut Vec<NodeId>, id: NodeId) {
    if !list.contains(&id) {
        list.push(id);
    }
}
