//! Decides, kind by kind, how a value is made to fit.

use serde_json::{Map, Value};

use super::super::RepairAction;
use super::check::Run;
use super::error::{CastCode, Fault, Located};
use super::js::{self, MAX_DEPTH};
use super::node::{ArrayRules, Kind, NodeId, ObjectRules, RecordRules, Rest};
use super::plan::{ArrayPlan, ObjectPlan, Plan, rehearse};
use super::unique::{self, Holes};

pub(super) type Planned<'p> = Result<Plan, Located<'p>>;

static NULL: Value = Value::Null;

impl<'p> Run<'p> {
    pub(super) fn plan(&mut self, id: NodeId, value: Option<&Value>) -> Planned<'p> {
        self.enter()?;
        let plan = self.plan_kind(id, value)?;
        self.leave();
        Ok(plan)
    }

    fn plan_kind(&mut self, id: NodeId, value: Option<&Value>) -> Planned<'p> {
        let program = self.program;
        match &program[id].kind {
            Kind::Reference(reference) => {
                let target = self.target(reference)?;
                return self.plan(target, value);
            }
            Kind::Never => return Err(Fault::new(CastCode::CastNever).into()),
            _ => {}
        }
        if self.check(id, value)? {
            return Ok(if value.is_some() { Plan::Keep } else { Plan::Hole });
        }
        match (&program[id].kind, value) {
            (Kind::Union(variants), _) => self.plan_union(id, variants, value),
            (Kind::Intersect { .. }, _) => self.plan_intersect(id, value),
            (Kind::Object(rules), Some(Value::Object(map))) => self.plan_object(rules, map),
            (Kind::Object(rules), Some(Value::Array(_))) => self.plan_new_object(rules),
            (Kind::Record(rules), Some(Value::Object(map))) => self.plan_record(rules, map),
            (Kind::Array(rules), Some(Value::Array(items))) => self.plan_array(id, rules, items),
            (Kind::Array(rules), _) => self.plan_new_array(id, rules),
            (Kind::Tuple(nodes), Some(Value::Array(items))) => self.plan_tuple(nodes, items),
            _ => self.plan_new(id, value),
        }
    }

    /// Whether a made-up value is the schema's own word or an invention.
    pub(super) fn origin(&self, id: NodeId) -> RepairAction {
        match self.program[id].default {
            Some(_) => RepairAction::Defaulted,
            None => RepairAction::Invented,
        }
    }

    fn plan_new(&mut self, id: NodeId, value: Option<&Value>) -> Planned<'p> {
        let made = self.create(id)?;
        Ok(put(made, value, self.origin(id)))
    }

    fn plan_union(
        &mut self,
        id: NodeId,
        variants: &[NodeId],
        value: Option<&Value>,
    ) -> Planned<'p> {
        if let Some(default) = &self.program[id].default {
            let made = self.copy_of(default)?;
            return Ok(put(made, value, RepairAction::Defaulted));
        }
        let best = self.best(variants, value)?;
        self.plan(best, value)
    }

    fn plan_object(&mut self, rules: &ObjectRules, map: &Map<String, Value>) -> Planned<'p> {
        let mut plan = ObjectPlan::default();
        for property in rules.properties.iter() {
            let member = map.get(&property.key);
            if member.is_none() && !property.required {
                continue;
            }
            let change = self.plan(property.node, member);
            plan.change(&property.key, change.map_err(|error| error.under(&property.key))?);
        }
        for (key, member) in js::entries(map).filter(|(key, _)| !rules.properties.contains(key)) {
            if let Rest::Schema(node) = rules.additional {
                let change = self.plan(node, Some(member)).map_err(|error| error.under(key))?;
                plan.change(key, change);
            } else {
                plan.drops.push((key.clone(), RepairAction::Stripped));
            }
        }
        Ok(plan.into_plan())
    }

    /// An object in place of an array, which to JavaScript is an object without these members.
    fn plan_new_object(&mut self, rules: &ObjectRules) -> Planned<'p> {
        let plan = self.plan_object(rules, &Map::new())?;
        Ok(Plan::Grow(Value::Object(Map::new()), Box::new(plan), RepairAction::Invented))
    }

    fn plan_record(&mut self, rules: &RecordRules, map: &Map<String, Value>) -> Planned<'p> {
        let mut plan = ObjectPlan::default();
        for (key, member) in js::entries(map) {
            let change = self.plan(rules.value, Some(member)).map_err(|error| error.under(key))?;
            plan.change(key, change);
        }
        Ok(plan.into_plan())
    }

    fn plan_tuple(&mut self, nodes: &[NodeId], items: &[Value]) -> Planned<'p> {
        let mut plan = ArrayPlan { keep: items.len().min(nodes.len()), ..ArrayPlan::default() };
        for (index, node) in nodes.iter().enumerate() {
            let item = items.get(index);
            let change = self.plan(*node, item).map_err(|error| error.under(&index))?;
            match (item, change) {
                (Some(_), Plan::Keep) => {}
                (Some(_), change) => plan.changes.push((index, change)),
                (None, push) => plan.pushes.push(push),
            }
        }
        Ok(plan.into_plan(items.len()))
    }

    /// An array in place of something else, whose items are then cast like any others.
    fn plan_new_array(&mut self, id: NodeId, rules: &ArrayRules) -> Planned<'p> {
        let seed = self.create(id)?;
        let Value::Array(items) = &seed else {
            return Err(Fault::new(CastCode::TypeError).into());
        };
        let plan = self.apart(Holes::default(), |run| run.plan_array(id, rules, items))?;
        let origin = self.origin(id);
        Ok(Plan::Grow(seed, Box::new(plan), origin))
    }

    fn plan_array(&mut self, id: NodeId, rules: &ArrayRules, items: &[Value]) -> Planned<'p> {
        let length = final_length(rules, items.len());
        self.spend(length.saturating_sub(items.len()))?;
        let mut plan = ArrayPlan { keep: length.min(items.len()), ..ArrayPlan::default() };
        for index in 0..length {
            let item = items.get(index);
            let change = self.plan(rules.items, item.or(Some(&NULL)));
            match (item, change.map_err(|error| error.under(&index))?) {
                (Some(_), Plan::Keep) => {}
                (Some(_), change) => plan.changes.push((index, change)),
                (None, Plan::Keep) => {
                    plan.pushes.push(Plan::Put(Value::Null, RepairAction::Invented));
                }
                (None, push) => plan.pushes.push(push),
            }
        }
        let plan = plan.into_plan(items.len());
        if rules.unique { self.plan_unique(id, plan, items) } else { Ok(plan) }
    }

    /// Drops repeated scalars from what the array would become, which must then fit.
    fn plan_unique(&mut self, id: NodeId, plan: Plan, items: &[Value]) -> Planned<'p> {
        let levels = MAX_DEPTH.saturating_sub(self.depth);
        let Some(copies) = js::copy_items(items, levels) else {
            return Err(Fault::new(CastCode::Stack).into());
        };
        let mut whole = Value::Array(copies);
        let holes = rehearse(&plan, &mut whole);
        let Value::Array(copies) = &mut whole else {
            return Ok(plan);
        };
        let length = copies.len();
        unique::drop_repeated_scalars(copies);
        let repeated = copies.len() < length;
        if !self.apart(holes, |run| run.check(id, Some(&whole)))? {
            return Err(Fault::new(CastCode::CastUniqueItems).into());
        }
        // Dropping moves the items that follow, so the array is replaced as a whole.
        Ok(if repeated { Plan::Put(whole, RepairAction::Invented) } else { plan })
    }
}

/// A made-up value, unless it is what was there before.
pub(super) fn put(made: Value, value: Option<&Value>, origin: RepairAction) -> Plan {
    match value {
        Some(value) if js::same(&made, value) => Plan::Keep,
        _ => Plan::Put(made, origin),
    }
}

/// The length after padding to `minItems` and then cutting to `maxItems`.
fn final_length(rules: &ArrayRules, length: usize) -> usize {
    let limit =
        |limit: &Option<super::node::Limit>| limit.as_ref().and_then(|limit| limit.literal());
    let padded = limit(&rules.min_items).map_or(length, |min| length.max(min.ceil() as usize));
    match limit(&rules.max_items) {
        // JavaScript counts a negative end from the back.
        Some(max) if max.trunc() < 0.0 => padded.saturating_sub(-max.trunc() as usize),
        Some(max) => padded.min(max.trunc() as usize),
        None => padded,
    }
}
