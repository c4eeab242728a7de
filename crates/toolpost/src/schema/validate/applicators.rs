//! Schemas that are applied to the same value.

use serde_json::Value;

use super::super::program::{Applicators, Condition, NodeId, Union};
use super::{EvaluatedSet, Evaluator};
use crate::json::JsonObject;

impl<'p> Evaluator<'p> {
    pub(super) fn apply_in_place<const CLEAN: bool>(
        &mut self,
        applicators: &'p Applicators,
        value: &Value,
        mut evaluated: Option<&mut EvaluatedSet>,
    ) -> bool {
        for part in &applicators.all {
            if !self.apply::<CLEAN>(*part, value, evaluated.as_deref_mut()) {
                return false;
            }
        }
        for union in &applicators.unions {
            if !self.apply_union::<CLEAN>(union, value, evaluated.as_deref_mut()) {
                return false;
            }
        }
        if let Some(not) = applicators.not
            && self.apply::<false>(not, value, None)
        {
            return false;
        }
        if let Some(condition) = &applicators.condition
            && !self.apply_condition::<CLEAN>(condition, value, evaluated.as_deref_mut())
        {
            return false;
        }
        let Value::Object(map) = value else {
            return true;
        };
        applicators.dependents.iter().all(|(trigger, node)| {
            !map.contains_key(&**trigger)
                || self.apply::<CLEAN>(*node, value, evaluated.as_deref_mut())
        })
    }

    fn apply_union<const CLEAN: bool>(
        &mut self,
        union: &'p Union,
        value: &Value,
        mut evaluated: Option<&mut EvaluatedSet>,
    ) -> bool {
        let mut found = 0;
        if !self.budget.spend(union.variants.len()) {
            return false;
        }
        for variant in &union.variants {
            if self.try_apply::<CLEAN>(*variant, value, evaluated.as_deref_mut()) {
                found += 1;
                // Every valid variant contributes its evaluated properties, so when these are
                // tracked the remaining variants are tried as well.
                if !union.exactly_one && evaluated.is_none() {
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

    fn apply_condition<const CLEAN: bool>(
        &mut self,
        condition: &'p Condition,
        value: &Value,
        mut evaluated: Option<&mut EvaluatedSet>,
    ) -> bool {
        let holds = self.try_apply::<false>(condition.test, value, evaluated.as_deref_mut());
        let branch = if holds { condition.then } else { condition.otherwise };
        branch.is_none_or(|branch| self.apply::<CLEAN>(branch, value, evaluated))
    }

    /// Applies a schema that is allowed to fail. On failure, `evaluated` is unchanged.
    fn try_apply<const CLEAN: bool>(
        &mut self,
        id: NodeId,
        value: &Value,
        evaluated: Option<&mut EvaluatedSet>,
    ) -> bool {
        let Some(evaluated) = evaluated else {
            return self.apply::<CLEAN>(id, value, None);
        };
        self.budget.spend(evaluated.memory() / 64);
        let before = evaluated.clone();
        let fits = self.apply::<CLEAN>(id, value, Some(evaluated));
        if !fits {
            *evaluated = before;
        }
        fits
    }

    /// Applies `unevaluatedProperties` or `unevaluatedItems` to children not evaluated yet.
    pub(super) fn apply_unevaluated<const CLEAN: bool>(
        &mut self,
        rest: NodeId,
        value: &Value,
        own: &mut EvaluatedSet,
    ) -> bool {
        own.declares_properties = true;
        let size = value.as_object().map_or(0, JsonObject::len);
        if !self.budget.spend(size + value.as_array().map_or(0, Vec::len)) {
            return false;
        }
        let mut judge = |at: usize, child: &Value| {
            let fits = own.contains(at) || self.evaluate::<CLEAN>(rest, child);
            own.insert(at);
            fits
        };
        match value {
            Value::Object(map) => map.values().enumerate().all(|(at, child)| judge(at, child)),
            Value::Array(items) => items.iter().enumerate().all(|(at, item)| judge(at, item)),
            _ => true,
        }
    }
}
