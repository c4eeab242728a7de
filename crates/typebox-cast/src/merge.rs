//! Repairs intersections: merges the original value into a created one.

use std::borrow::Cow;
use std::collections::HashSet;

use foldhash::fast::RandomState;
use serde_json::Value;

use super::check::CastRun;
use super::error::CastResult;
use super::js;
use super::node::{CastKind, CastNodeId};
use super::plan::{CastPlan, ObjectPlan};
use super::planner::set_if_changed;
use super::repair::CastAction;
use super::unique::UndefinedValues;

impl CastRun<'_> {
    pub(super) fn plan_intersect(
        &mut self,
        id: CastNodeId,
        value: Option<&Value>,
    ) -> CastResult<CastPlan> {
        let created = self.create(id)?;
        let action = self.created_action(id);
        let Some(value) = value else {
            return Ok(CastPlan::Set(created, action));
        };
        let merged = merge(&created, value);
        let fits =
            self.with_fresh_memo(UndefinedValues::default(), |run| run.check(id, Some(&merged)))?;
        if fits {
            return Ok(self.diff(&[id], action, value, merged));
        }
        Ok(set_if_changed(created, Some(value), action))
    }

    /// Returns the plan that turns the old value into the merged one.
    ///
    /// The nodes only determine the [`CastAction`] of each change.
    fn diff(
        &self,
        nodes: &[CastNodeId],
        default_action: CastAction,
        old: &Value,
        new: Value,
    ) -> CastPlan {
        let (old, new) = match (old, new) {
            (Value::Object(old), Value::Object(new)) => (old, new),
            (old, new) => return set_if_changed(new, Some(old), default_action),
        };
        let objects = self.object_nodes(nodes);
        let mut plan = ObjectPlan::default();
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            let undeclared = self.member_nodes(&objects, key).is_empty();
            let action = if undeclared { CastAction::Stripped } else { CastAction::Replaced };
            plan.removals.push((key.clone(), action));
        }
        for (key, new) in new {
            let members = self.member_nodes(&objects, &key);
            // Everything inside a default is `Defaulted`.
            let default_action = match members.last() {
                Some(member) if default_action != CastAction::Defaulted => {
                    self.created_action(*member)
                }
                _ => default_action,
            };
            let change = match old.get(&key) {
                Some(old) => self.diff(&members, default_action, old, new),
                None => CastPlan::Set(new, default_action),
            };
            plan.change(&key, change);
        }
        plan.into_plan()
    }

    /// Returns the object nodes among the parts and variants of the nodes, in schema order.
    fn object_nodes(&self, nodes: &[CastNodeId]) -> Vec<CastNodeId> {
        let mut seen: HashSet<CastNodeId, RandomState> = HashSet::default();
        let mut waiting: Vec<CastNodeId> = nodes.iter().rev().copied().collect();
        let mut objects = Vec::new();
        while let Some(id) = waiting.pop() {
            if !seen.insert(id) {
                continue;
            }
            match &self.program[id].kind {
                CastKind::Reference(reference) => waiting.extend(reference.target.ok()),
                CastKind::Intersect { parts, .. } => waiting.extend(parts.iter().rev()),
                CastKind::Union(variants) => waiting.extend(variants.iter().rev()),
                CastKind::Object(_) => objects.push(id),
                _ => {}
            }
        }
        objects
    }

    /// Returns the nodes that the object nodes declare for a member.
    fn member_nodes(&self, objects: &[CastNodeId], key: &str) -> Vec<CastNodeId> {
        let declared = objects.iter().filter_map(|id| match &self.program[*id].kind {
            CastKind::Object(rules) => rules.properties.get(key),
            _ => None,
        });
        declared.map(|property| property.node).collect()
    }
}

/// Returns the created value with the original scalars wherever both values have the same path.
///
/// Two arrays become an object with the indices and `length` as keys, as in TypeBox.
fn merge(created: &Value, value: &Value) -> Value {
    match (is_composite(created), is_composite(value)) {
        (false, false) => value.clone(),
        (true, true) => {
            let members = own_members(created).into_iter().map(|(key, created)| {
                let merged = match own_member(value, &key) {
                    Some(value) => merge(&created, &value),
                    None => created.into_owned(),
                };
                (key, merged)
            });
            Value::Object(members.collect())
        }
        _ => created.clone(),
    }
}

fn is_composite(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

/// Returns the own properties of a value, as JavaScript lists them.
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
        Value::Array(items) => items.get(js::array_index(key)? as usize).map(Cow::Borrowed),
        _ => None,
    }
}
