//! The changes to a value, computed before the value is modified.

use serde_json::{Map, Value};

use super::error::push_segment;
use super::repair::{CastAction, CastRepair};
use super::unique::UndefinedValues;

/// The change to one value. Parts without an entry are kept.
#[derive(Debug, Clone)]
pub(super) enum CastPlan {
    Keep,
    /// The value stays absent, although JavaScript would keep its key with `undefined`.
    Undefined,
    /// A new value. The action is recorded if there was no value before.
    Set(Value, CastAction),
    /// A new value to which a further plan is applied first.
    SetAndPatch(Value, Box<CastPlan>, CastAction),
    Object(ObjectPlan),
    Array(ArrayPlan),
}

#[derive(Debug, Clone, Default)]
pub(super) struct ObjectPlan {
    /// Changed and new members.
    pub(super) changes: Vec<(String, CastPlan)>,
    /// Removed members and the action to record for each.
    pub(super) removals: Vec<(String, CastAction)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ArrayPlan {
    /// Changed items, by index.
    pub(super) changes: Vec<(usize, CastPlan)>,
    /// Number of items to keep.
    pub(super) retained: usize,
    /// Items to append after the retained ones.
    pub(super) appended: Vec<CastPlan>,
}

impl ObjectPlan {
    pub(super) fn change(&mut self, key: &str, plan: CastPlan) {
        if !matches!(plan, CastPlan::Keep) {
            self.changes.push((key.to_owned(), plan));
        }
    }

    pub(super) fn into_plan(self) -> CastPlan {
        if self.changes.is_empty() && self.removals.is_empty() {
            CastPlan::Keep
        } else {
            CastPlan::Object(self)
        }
    }
}

impl ArrayPlan {
    pub(super) fn into_plan(self, length: usize) -> CastPlan {
        let unchanged =
            self.changes.is_empty() && self.appended.is_empty() && self.retained == length;
        if unchanged { CastPlan::Keep } else { CastPlan::Array(self) }
    }
}

/// Applies the plan to the value and returns the repairs.
pub(super) fn apply_plan(plan: CastPlan, value: &mut Value) -> Vec<CastRepair> {
    let mut applier = PlanApplier { repairs: Some(Vec::new()), ..PlanApplier::default() };
    applier.apply(plan, value);
    applier.repairs.unwrap_or_default()
}

/// Applies the plan to a copy. Undefined members become null; returns their addresses.
pub(super) fn apply_to_copy(plan: &CastPlan, copy: &mut Value) -> UndefinedValues {
    let mut applier = PlanApplier { keep_undefined: true, ..PlanApplier::default() };
    applier.apply(plan.clone(), copy);
    let mut undefined = UndefinedValues::default();
    collect_undefined(plan, copy, &mut undefined);
    undefined
}

fn collect_undefined(plan: &CastPlan, value: &Value, undefined: &mut UndefinedValues) {
    match (plan, value) {
        (CastPlan::Undefined, hole) => undefined.insert(hole),
        (CastPlan::SetAndPatch(_, plan, _), value) => collect_undefined(plan, value, undefined),
        (CastPlan::Object(plan), Value::Object(map)) => {
            for (key, plan) in &plan.changes {
                map.get(key)
                    .into_iter()
                    .for_each(|member| collect_undefined(plan, member, undefined));
            }
        }
        (CastPlan::Array(plan), Value::Array(items)) => {
            let pushes =
                plan.appended.iter().enumerate().map(|(at, push)| (plan.retained + at, push));
            for (at, plan) in plan.changes.iter().map(|(at, plan)| (*at, plan)).chain(pushes) {
                items.get(at).into_iter().for_each(|item| collect_undefined(plan, item, undefined));
            }
        }
        _ => {}
    }
}

#[derive(Default)]
struct PlanApplier {
    /// JSON Pointer to the current value.
    path: String,
    /// The changes, if they are recorded.
    repairs: Option<Vec<CastRepair>>,
    keep_undefined: bool,
}

impl PlanApplier {
    fn apply(&mut self, plan: CastPlan, value: &mut Value) {
        match plan {
            CastPlan::Keep | CastPlan::Undefined => {}
            CastPlan::Set(..) | CastPlan::SetAndPatch(..) => self.replace(plan, value),
            CastPlan::Object(plan) => {
                if let Value::Object(map) = value {
                    self.apply_object(plan, map);
                }
            }
            CastPlan::Array(plan) => {
                if let Value::Array(items) = value {
                    self.apply_array(plan, items);
                }
            }
        }
    }

    fn replace(&mut self, plan: CastPlan, value: &mut Value) {
        let Some((new, _)) = self.created_value(plan) else { return };
        let old = std::mem::replace(value, new);
        self.record(CastAction::Replaced, Some(old), Some(value));
    }

    /// Returns the value that a plan creates where there was none, and its action.
    fn created_value(&self, plan: CastPlan) -> Option<(Value, CastAction)> {
        match plan {
            CastPlan::Set(value, action) => Some((value, action)),
            CastPlan::SetAndPatch(mut value, plan, action) => {
                let keep_undefined = self.keep_undefined;
                Self { keep_undefined, ..Self::default() }.apply(*plan, &mut value);
                Some((value, action))
            }
            CastPlan::Undefined if self.keep_undefined => Some((Value::Null, CastAction::Invented)),
            _ => None,
        }
    }

    fn apply_object(&mut self, plan: ObjectPlan, map: &mut Map<String, Value>) {
        self.remove_members(plan.removals, map);
        for (key, plan) in plan.changes {
            self.with_segment(&key, |applier| match map.get_mut(&key) {
                Some(member) => applier.apply(plan, member),
                None => {
                    if let Some((created, action)) = applier.created_value(plan) {
                        applier.record(action, None, Some(&created));
                        map.insert(key.clone(), created);
                    }
                }
            });
        }
    }

    fn remove_members(
        &mut self,
        removals: Vec<(String, CastAction)>,
        map: &mut Map<String, Value>,
    ) {
        if removals.is_empty() {
            return;
        }
        let mut dropped = Vec::with_capacity(removals.len());
        for (key, action) in removals {
            // Take the value now; the keys are removed below in one pass over all members.
            let value = map.get_mut(&key).map(Value::take);
            dropped.push((key, action, value));
        }
        let removed_keys: std::collections::HashSet<&str> =
            dropped.iter().map(|(key, ..)| key.as_str()).collect();
        map.retain(|key, _| !removed_keys.contains(key.as_str()));
        for (key, action, value) in dropped {
            self.with_segment(&key, |applier| applier.record(action, value, None));
        }
    }

    fn apply_array(&mut self, plan: ArrayPlan, items: &mut Vec<Value>) {
        for (index, plan) in plan.changes {
            if let Some(item) = items.get_mut(index) {
                self.with_segment(&index.to_string(), |applier| applier.apply(plan, item));
            }
        }
        let cut = items.split_off(plan.retained.min(items.len()));
        for (index, item) in (plan.retained..).zip(cut) {
            self.with_segment(&index.to_string(), |applier| {
                applier.record(CastAction::Replaced, Some(item), None);
            });
        }
        for plan in plan.appended {
            // JSON arrays cannot hold `undefined`, so it becomes null.
            let (created, action) =
                self.created_value(plan).unwrap_or((Value::Null, CastAction::Invented));
            let index = items.len().to_string();
            self.with_segment(&index, |applier| applier.record(action, None, Some(&created)));
            items.push(created);
        }
    }

    fn with_segment(&mut self, segment: &str, work: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        push_segment(&mut self.path, segment);
        work(self);
        self.path.truncate(length);
    }

    fn record(&mut self, action: CastAction, from: Option<Value>, to: Option<&Value>) {
        if let Some(repairs) = &mut self.repairs {
            let path = self.path.clone();
            repairs.push(CastRepair { path, action, from, to: to.cloned() });
        }
    }
}
