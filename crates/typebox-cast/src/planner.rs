//! Plans, for each node kind, how to make a value valid.

use serde_json::{Map, Value};

use super::check::CastRun;
use super::error::{CastCode, CastError, CastResult};
use super::js::{self, MAX_DEPTH};
use super::node::{
    ArrayRules, CastKind, CastNodeId, NumericLimit, ObjectRules, RecordRules, UndeclaredRule,
};
use super::plan::{ArrayPlan, CastPlan, ObjectPlan, apply_to_copy};
use super::repair::CastAction;
use super::unique::{self, UndefinedValues};

static NULL: Value = Value::Null;

impl CastRun<'_> {
    pub(super) fn plan(&mut self, id: CastNodeId, value: Option<&Value>) -> CastResult<CastPlan> {
        self.enter()?;
        let plan = self.plan_kind(id, value)?;
        self.leave();
        Ok(plan)
    }

    /// Plans a member or an item, whose errors carry its key or index.
    fn plan_at(
        &mut self,
        segment: &impl ToString,
        id: CastNodeId,
        value: Option<&Value>,
    ) -> CastResult<CastPlan> {
        self.plan(id, value).map_err(|error| error.at_segment(segment))
    }

    fn plan_kind(&mut self, id: CastNodeId, value: Option<&Value>) -> CastResult<CastPlan> {
        let program = self.program;
        match &program[id].kind {
            CastKind::Reference(reference) => {
                let target = self.ref_target(reference)?;
                return self.plan(target, value);
            }
            CastKind::Never => return Err(CastError::new(CastCode::CastNever)),
            _ => {}
        }
        if self.check(id, value)? {
            return Ok(if value.is_some() { CastPlan::Keep } else { CastPlan::Undefined });
        }
        match (&program[id].kind, value) {
            (CastKind::Union(variants), _) => self.plan_union(id, variants, value),
            (CastKind::Intersect { .. }, _) => self.plan_intersect(id, value),
            (CastKind::Object(rules), Some(Value::Object(map))) => self.plan_object(rules, map),
            (CastKind::Object(rules), Some(Value::Array(_))) => self.plan_new_object(rules),
            (CastKind::Record(rules), Some(Value::Object(map))) => self.plan_record(rules, map),
            (CastKind::Array(rules), Some(Value::Array(items))) => {
                self.plan_array(id, rules, items)
            }
            (CastKind::Array(rules), _) => self.plan_new_array(id, rules),
            (CastKind::Tuple(nodes), Some(Value::Array(items))) => self.plan_tuple(nodes, items),
            _ => self.plan_new(id, value),
        }
    }

    /// Returns the action for a created value.
    pub(super) fn created_action(&self, id: CastNodeId) -> CastAction {
        match self.program[id].default {
            Some(_) => CastAction::Defaulted,
            None => CastAction::Invented,
        }
    }

    fn plan_new(&mut self, id: CastNodeId, value: Option<&Value>) -> CastResult<CastPlan> {
        let created = self.create(id)?;
        Ok(set_if_changed(created, value, self.created_action(id)))
    }

    fn plan_union(
        &mut self,
        id: CastNodeId,
        variants: &[CastNodeId],
        value: Option<&Value>,
    ) -> CastResult<CastPlan> {
        if let Some(default) = &self.program[id].default {
            let created = self.copy_literal(default)?;
            return Ok(set_if_changed(created, value, CastAction::Defaulted));
        }
        let best = self.best_variant(variants, value)?;
        self.plan(best, value)
    }

    fn plan_object(
        &mut self,
        rules: &ObjectRules,
        map: &Map<String, Value>,
    ) -> CastResult<CastPlan> {
        let mut plan = ObjectPlan::default();
        for (key, property) in &rules.properties {
            let member = map.get(key);
            if member.is_none() && !property.required {
                continue;
            }
            plan.change(key, self.plan_at(key, property.node, member)?);
        }
        for (key, member) in
            js::entries(map).filter(|(key, _)| !rules.properties.contains_key(*key))
        {
            if let UndeclaredRule::Schema(node) = rules.additional {
                plan.change(key, self.plan_at(key, node, Some(member))?);
            } else {
                plan.removals.push((key.clone(), CastAction::Stripped));
            }
        }
        Ok(plan.into_plan())
    }

    /// Replaces an array, which JavaScript treats as an object without the declared members.
    fn plan_new_object(&mut self, rules: &ObjectRules) -> CastResult<CastPlan> {
        let plan = self.plan_object(rules, &Map::new())?;
        Ok(CastPlan::SetAndPatch(Value::Object(Map::new()), Box::new(plan), CastAction::Invented))
    }

    fn plan_record(
        &mut self,
        rules: &RecordRules,
        map: &Map<String, Value>,
    ) -> CastResult<CastPlan> {
        let mut plan = ObjectPlan::default();
        for (key, member) in js::entries(map) {
            plan.change(key, self.plan_at(key, rules.value, Some(member))?);
        }
        Ok(plan.into_plan())
    }

    fn plan_tuple(&mut self, nodes: &[CastNodeId], items: &[Value]) -> CastResult<CastPlan> {
        let mut plan = ArrayPlan { retained: items.len().min(nodes.len()), ..ArrayPlan::default() };
        for (index, node) in nodes.iter().enumerate() {
            let item = items.get(index);
            match (item, self.plan_at(&index, *node, item)?) {
                (Some(_), CastPlan::Keep) => {}
                (Some(_), change) => plan.changes.push((index, change)),
                (None, push) => plan.appended.push(push),
            }
        }
        Ok(plan.into_plan(items.len()))
    }

    /// Replaces a value that is not an array by an array, whose items are then cast as usual.
    fn plan_new_array(&mut self, id: CastNodeId, rules: &ArrayRules) -> CastResult<CastPlan> {
        let seed = self.create(id)?;
        let Value::Array(items) = &seed else {
            return Err(CastError::new(CastCode::TypeError));
        };
        let plan = self
            .with_fresh_memo(UndefinedValues::default(), |run| run.plan_array(id, rules, items))?;
        let action = self.created_action(id);
        Ok(CastPlan::SetAndPatch(seed, Box::new(plan), action))
    }

    fn plan_array(
        &mut self,
        id: CastNodeId,
        rules: &ArrayRules,
        items: &[Value],
    ) -> CastResult<CastPlan> {
        let length = final_length(rules, items.len());
        self.charge(length.saturating_sub(items.len()))?;
        let mut plan = ArrayPlan { retained: length.min(items.len()), ..ArrayPlan::default() };
        for index in 0..length {
            let item = items.get(index);
            match (item, self.plan_at(&index, rules.items, item.or(Some(&NULL)))?) {
                (Some(_), CastPlan::Keep) => {}
                (Some(_), change) => plan.changes.push((index, change)),
                (None, CastPlan::Keep) => {
                    plan.appended.push(CastPlan::Set(Value::Null, CastAction::Invented));
                }
                (None, push) => plan.appended.push(push),
            }
        }
        let plan = plan.into_plan(items.len());
        if rules.unique { self.plan_unique(id, plan, items) } else { Ok(plan) }
    }

    /// Drops repeated scalars from the planned array. It must be valid afterwards.
    fn plan_unique(
        &mut self,
        id: CastNodeId,
        plan: CastPlan,
        items: &[Value],
    ) -> CastResult<CastPlan> {
        let levels = MAX_DEPTH.saturating_sub(self.depth);
        let Some(copies) = js::copy_items(items, levels) else {
            return Err(CastError::new(CastCode::Stack));
        };
        let mut array = Value::Array(copies);
        let undefined = apply_to_copy(&plan, &mut array);
        let Value::Array(copies) = &mut array else {
            return Ok(plan);
        };
        let length = copies.len();
        unique::dedup_scalars(copies);
        let repeated = copies.len() < length;
        if !self.with_fresh_memo(undefined, |run| run.check(id, Some(&array)))? {
            return Err(CastError::new(CastCode::CastUniqueItems));
        }
        // Dropping items shifts the following ones, so the whole array is replaced.
        Ok(if repeated { CastPlan::Set(array, CastAction::Invented) } else { plan })
    }
}

/// Plans to set the created value, unless it equals the present one.
pub(super) fn set_if_changed(
    created: Value,
    value: Option<&Value>,
    action: CastAction,
) -> CastPlan {
    match value {
        Some(value) if js::json_eq(&created, value) => CastPlan::Keep,
        _ => CastPlan::Set(created, action),
    }
}

/// Returns the length after padding to `minItems` and truncating to `maxItems`.
fn final_length(rules: &ArrayRules, length: usize) -> usize {
    let limit = |limit: &Option<NumericLimit>| limit.as_ref().and_then(NumericLimit::literal);
    let padded = limit(&rules.length.min).map_or(length, |min| length.max(min.ceil() as usize));
    match limit(&rules.length.max) {
        // A negative end counts from the back, as in JavaScript's `slice`.
        Some(max) if max.trunc() < 0.0 => padded.saturating_sub(-max.trunc() as usize),
        Some(max) => padded.min(max.trunc() as usize),
        None => padded,
    }
}
