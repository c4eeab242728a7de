//! The repair of an intersection: what can be kept of a value inside a made-up one.

use std::borrow::Cow;
use std::collections::HashSet;

use foldhash::fast::RandomState;
use serde_json::Value;

use super::super::RepairAction;
use super::check::Run;
use super::js;
use super::node::{Kind, NodeId};
use super::plan::{ObjectPlan, Plan};
use super::planner::{Planned, put};
use super::unique::Holes;

impl<'p> Run<'p> {
    pub(super) fn plan_intersect(&mut self, id: NodeId, value: Option<&Value>) -> Planned<'p> {
        let correct = self.create(id)?;
        let origin = self.origin(id);
        let Some(value) = value else {
            return Ok(Plan::Put(correct, origin));
        };
        let merged = merge(&correct, value);
        let fits = self.apart(Holes::default(), |run| run.check(id, Some(&merged)))?;
        if fits {
            return Ok(self.difference(&[id], origin, value, merged));
        }
        Ok(put(correct, Some(value), origin))
    }

    /// The plan that turns a value into what it was merged to.
    ///
    /// The nodes that describe the place only tell what to call each change.
    fn difference(&self, nodes: &[NodeId], origin: RepairAction, old: &Value, new: Value) -> Plan {
        let (old, new) = match (old, new) {
            (Value::Object(old), Value::Object(new)) => (old, new),
            (old, new) => return put(new, Some(old), origin),
        };
        let objects = self.objects(nodes);
        let mut plan = ObjectPlan::default();
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            let undeclared = self.members(&objects, key).is_empty();
            let action = if undeclared { RepairAction::Stripped } else { RepairAction::Replaced };
            plan.drops.push((key.clone(), action));
        }
        for (key, new) in new {
            let members = self.members(&objects, &key);
            let origin =
                members.last().map_or(origin, |member| origin_below(origin, self.origin(*member)));
            let change = match old.get(&key) {
                Some(old) => self.difference(&members, origin, old, new),
                None => Plan::Put(new, origin),
            };
            plan.change(&key, change);
        }
        plan.into_plan()
    }

    /// The object nodes among the parts and variants of some nodes, in the order of the schema.
    fn objects(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let mut seen: HashSet<NodeId, RandomState> = HashSet::default();
        let mut waiting: Vec<NodeId> = nodes.iter().rev().copied().collect();
        let mut objects = Vec::new();
        while let Some(id) = waiting.pop() {
            if !seen.insert(id) {
                continue;
            }
            match &self.program[id].kind {
                Kind::Reference(reference) => waiting.extend(reference.target.ok()),
                Kind::Intersect { parts, .. } => waiting.extend(parts.iter().rev()),
                Kind::Union(variants) => waiting.extend(variants.iter().rev()),
                Kind::Object(_) => objects.push(id),
                _ => {}
            }
        }
        objects
    }

    /// The nodes that objects declare for one of their members.
    fn members(&self, objects: &[NodeId], key: &str) -> Vec<NodeId> {
        let declared = objects.iter().filter_map(|id| match &self.program[*id].kind {
            Kind::Object(rules) => rules.properties.get(key),
            _ => None,
        });
        declared.map(|property| property.node).collect()
    }
}

/// Whatever lies inside a default is part of it.
fn origin_below(above: RepairAction, own: RepairAction) -> RepairAction {
    if above == RepairAction::Defaulted { above } else { own }
}

/// The made-up value with the scalars of the real one at the places that both have.
///
/// Neither is checked on the way, and an array on both sides comes out as an object with its
/// indices and its `length`: that is how TypeBox walks it.
fn merge(correct: &Value, value: &Value) -> Value {
    match (is_composite(correct), is_composite(value)) {
        (false, false) => value.clone(),
        (true, true) => {
            let members = own_members(correct).into_iter().map(|(key, correct)| {
                let merged = match own_member(value, &key) {
                    Some(value) => merge(&correct, &value),
                    None => correct.into_owned(),
                };
                (key, merged)
            });
            Value::Object(members.collect())
        }
        _ => correct.clone(),
    }
}

fn is_composite(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

/// The own properties of a value as JavaScript lists them.
fn own_members(value: &Value) -> Vec<(String, Cow<'_, Value>)> {
    match value {
        Value::Object(map) => {
            map.iter().map(|(key, member)| (key.clone(), Cow::Borrowed(member))).collect()
        }
        Value::Array(items) => {
            let indexed = items.iter().enumerate();
            let length = ("length".to_owned(), Cow::Owned(items.len().into()));
            indexed
                .map(|(at, item)| (at.to_string(), Cow::Borrowed(item)))
                .chain([length])
                .collect()
        }
        _ => Vec::new(),
    }
}

fn own_member<'v>(value: &'v Value, key: &str) -> Option<Cow<'v, Value>> {
    match value {
        Value::Object(map) => map.get(key).map(Cow::Borrowed),
        Value::Array(items) if key == "length" => Some(Cow::Owned(items.len().into())),
        Value::Array(items) => items.get(js::index_of(key)? as usize).map(Cow::Borrowed),
        _ => None,
    }
}
