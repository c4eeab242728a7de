//! What is to be done to a value, decided before any of it is touched.

use serde_json::{Map, Value};

use super::super::{Repair, RepairAction};
use super::error::push_segment;
use super::unique::Holes;

/// The change of one place; what is not mentioned stays.
#[derive(Debug, Clone)]
pub(super) enum Plan {
    Keep,
    /// Nothing was there and nothing is put there, although the key would exist in JavaScript.
    Hole,
    /// A new value; the action says where it comes from if there was none before.
    Put(Value, RepairAction),
    /// A new value that is changed in turn before it is put there.
    Grow(Value, Box<Plan>, RepairAction),
    Object(ObjectPlan),
    Array(ArrayPlan),
}

#[derive(Debug, Clone, Default)]
pub(super) struct ObjectPlan {
    /// Members that change or are new.
    pub(super) changes: Vec<(String, Plan)>,
    /// Members that go, and as what.
    pub(super) drops: Vec<(String, RepairAction)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ArrayPlan {
    /// Items that change, by index.
    pub(super) changes: Vec<(usize, Plan)>,
    /// How many of the items stay.
    pub(super) keep: usize,
    /// What comes after them.
    pub(super) pushes: Vec<Plan>,
}

impl ObjectPlan {
    pub(super) fn change(&mut self, key: &str, plan: Plan) {
        if !matches!(plan, Plan::Keep) {
            self.changes.push((key.to_owned(), plan));
        }
    }

    pub(super) fn into_plan(self) -> Plan {
        if self.changes.is_empty() && self.drops.is_empty() {
            Plan::Keep
        } else {
            Plan::Object(self)
        }
    }
}

impl ArrayPlan {
    pub(super) fn into_plan(self, length: usize) -> Plan {
        let unchanged = self.changes.is_empty() && self.pushes.is_empty() && self.keep == length;
        if unchanged { Plan::Keep } else { Plan::Array(self) }
    }
}

/// Changes the value and says what was changed.
pub(super) fn carry_out(plan: Plan, value: &mut Value) -> Vec<Repair> {
    let mut repairs = Vec::new();
    Worker { path: String::new(), report: Some(&mut repairs), keep_holes: false }
        .change(plan, value);
    repairs
}

/// Changes a copy in silence, with a null for every hole, and says where those are.
pub(super) fn rehearse(plan: &Plan, copy: &mut Value) -> Holes {
    Worker { path: String::new(), report: None, keep_holes: true }.change(plan.clone(), copy);
    let mut holes = Holes::default();
    find_holes(plan, copy, &mut holes);
    holes
}

fn find_holes(plan: &Plan, value: &Value, holes: &mut Holes) {
    match (plan, value) {
        (Plan::Hole, hole) => holes.insert(hole),
        (Plan::Grow(_, plan, _), value) => find_holes(plan, value, holes),
        (Plan::Object(plan), Value::Object(map)) => {
            for (key, plan) in &plan.changes {
                map.get(key).into_iter().for_each(|member| find_holes(plan, member, holes));
            }
        }
        (Plan::Array(plan), Value::Array(items)) => {
            let pushes = plan.pushes.iter().enumerate().map(|(at, push)| (plan.keep + at, push));
            for (at, plan) in plan.changes.iter().map(|(at, plan)| (*at, plan)).chain(pushes) {
                items.get(at).into_iter().for_each(|item| find_holes(plan, item, holes));
            }
        }
        _ => {}
    }
}

struct Worker<'r> {
    /// JSON Pointer to the place at hand.
    path: String,
    report: Option<&'r mut Vec<Repair>>,
    keep_holes: bool,
}

impl Worker<'_> {
    fn change(&mut self, plan: Plan, value: &mut Value) {
        match plan {
            Plan::Keep | Plan::Hole => {}
            Plan::Put(..) | Plan::Grow(..) => self.replace(plan, value),
            Plan::Object(plan) => {
                if let Value::Object(map) = value {
                    self.change_object(plan, map);
                }
            }
            Plan::Array(plan) => {
                if let Value::Array(items) = value {
                    self.change_array(plan, items);
                }
            }
        }
    }

    fn replace(&mut self, plan: Plan, value: &mut Value) {
        let Some((new, _)) = self.made(plan) else {
            return;
        };
        let old = std::mem::replace(value, new);
        let new = &*value;
        self.note(RepairAction::Replaced, Some(old), Some(new));
    }

    /// The value that a plan puts where there is none, and where it comes from.
    fn made(&self, plan: Plan) -> Option<(Value, RepairAction)> {
        match plan {
            Plan::Put(value, action) => Some((value, action)),
            Plan::Grow(mut value, plan, action) => {
                let keep_holes = self.keep_holes;
                let mut silent = Worker { path: String::new(), report: None, keep_holes };
                silent.change(*plan, &mut value);
                Some((value, action))
            }
            Plan::Hole if self.keep_holes => Some((Value::Null, RepairAction::Invented)),
            _ => None,
        }
    }

    fn change_object(&mut self, plan: ObjectPlan, map: &mut Map<String, Value>) {
        self.drop_members(plan.drops, map);
        for (key, plan) in plan.changes {
            self.under(&key, |worker| match map.get_mut(&key) {
                Some(member) => worker.change(plan, member),
                None => {
                    if let Some((made, action)) = worker.made(plan) {
                        worker.note(action, None, Some(&made));
                        map.insert(key.clone(), made);
                    }
                }
            });
        }
    }

    fn drop_members(&mut self, drops: Vec<(String, RepairAction)>, map: &mut Map<String, Value>) {
        if drops.is_empty() {
            return;
        }
        let mut dropped = Vec::with_capacity(drops.len());
        for (key, action) in drops {
            // The value is taken now and its place removed below, in one pass over all members.
            let value = map.get_mut(&key).map(Value::take);
            dropped.push((key, action, value));
        }
        let gone: std::collections::HashSet<&str> =
            dropped.iter().map(|(key, ..)| key.as_str()).collect();
        map.retain(|key, _| !gone.contains(key.as_str()));
        for (key, action, value) in dropped {
            self.under(&key, |worker| worker.note(action, value, None));
        }
    }

    fn change_array(&mut self, plan: ArrayPlan, items: &mut Vec<Value>) {
        for (index, plan) in plan.changes {
            if let Some(item) = items.get_mut(index) {
                self.under(&index.to_string(), |worker| worker.change(plan, item));
            }
        }
        let cut = items.split_off(plan.keep.min(items.len()));
        for (index, item) in (plan.keep..).zip(cut) {
            self.under(&index.to_string(), |worker| {
                worker.note(RepairAction::Replaced, Some(item), None);
            });
        }
        for plan in plan.pushes {
            // JSON has no holes in arrays: what JavaScript leaves undefined is written as null.
            let (made, action) = self.made(plan).unwrap_or((Value::Null, RepairAction::Invented));
            let index = items.len().to_string();
            self.under(&index, |worker| worker.note(action, None, Some(&made)));
            items.push(made);
        }
    }

    fn under(&mut self, segment: &str, work: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        push_segment(&mut self.path, segment);
        work(self);
        self.path.truncate(length);
    }

    fn note(&mut self, action: RepairAction, from: Option<Value>, to: Option<&Value>) {
        if let Some(repairs) = &mut self.report {
            let path = self.path.as_str().into();
            repairs.push(Repair { path, action, from, to: to.cloned() });
        }
    }
}
