//! The schemas that are applied to the same place.

use serde_json::Value;

use super::super::program::{Condition, Logic, NodeId, Union};
use super::{Judge, Marks};

impl<'p> Judge<'p> {
    pub(super) fn logic<const CLEAN: bool>(
        &mut self,
        logic: &'p Logic,
        value: &Value,
        mut marks: Option<&mut Marks>,
    ) -> bool {
        for part in &logic.all {
            if !self.apply::<CLEAN>(*part, value, marks.as_deref_mut()) {
                return false;
            }
        }
        for union in &logic.unions {
            if !self.union::<CLEAN>(union, value, marks.as_deref_mut()) {
                return false;
            }
        }
        if let Some(not) = logic.not
            && self.apply::<false>(not, value, None)
        {
            return false;
        }
        if let Some(condition) = &logic.condition
            && !self.condition::<CLEAN>(condition, value, marks.as_deref_mut())
        {
            return false;
        }
        let Value::Object(map) = value else {
            return true;
        };
        logic.dependents.iter().all(|(trigger, node)| {
            !map.contains_key(&**trigger) || self.apply::<CLEAN>(*node, value, marks.as_deref_mut())
        })
    }

    fn union<const CLEAN: bool>(
        &mut self,
        union: &'p Union,
        value: &Value,
        mut marks: Option<&mut Marks>,
    ) -> bool {
        let mut found = 0;
        for variant in &union.variants {
            if self.attempt::<CLEAN>(*variant, value, marks.as_deref_mut()) {
                found += 1;
                // Every variant that fits says which properties it has evaluated, so with marks
                // to fill the rest is tried as well.
                if !union.exactly_one && marks.is_none() {
                    return true;
                }
            } else if CLEAN && union.exactly_one && self.apply::<false>(*variant, value, None) {
                found += 1;
            }
            if union.exactly_one && found > 1 {
                return false;
            }
        }
        found > 0
    }

    fn condition<const CLEAN: bool>(
        &mut self,
        condition: &'p Condition,
        value: &Value,
        mut marks: Option<&mut Marks>,
    ) -> bool {
        let holds = self.attempt::<false>(condition.test, value, marks.as_deref_mut());
        let branch = if holds { condition.then } else { condition.otherwise };
        branch.is_none_or(|branch| self.apply::<CLEAN>(branch, value, marks))
    }

    /// Applies a schema that may fail without the whole failing; then it has marked nothing.
    fn attempt<const CLEAN: bool>(
        &mut self,
        id: NodeId,
        value: &Value,
        marks: Option<&mut Marks>,
    ) -> bool {
        let Some(marks) = marks else {
            return self.apply::<CLEAN>(id, value, None);
        };
        let before = marks.clone();
        let fits = self.apply::<CLEAN>(id, value, Some(marks));
        if !fits {
            *marks = before;
        }
        fits
    }

    /// Applies `unevaluatedProperties` or `unevaluatedItems` to what is not marked yet.
    pub(super) fn unevaluated<const CLEAN: bool>(
        &mut self,
        rest: NodeId,
        value: &Value,
        own: &mut Marks,
    ) -> bool {
        own.closed_set = true;
        let mut judge = |at: usize, child: &Value| {
            let fits = own.has(at) || self.place::<CLEAN>(rest, child);
            own.set(at);
            fits
        };
        match value {
            Value::Object(map) => map.values().enumerate().all(|(at, child)| judge(at, child)),
            Value::Array(items) => items.iter().enumerate().all(|(at, item)| judge(at, item)),
            _ => true,
        }
    }
}
