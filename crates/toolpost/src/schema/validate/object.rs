//! Objects.

use serde_json::Value;

use super::super::program::{AdditionalProperties, ObjectRules};
use super::super::repair::Extras;
use super::{EvaluatedSet, Evaluator};
use crate::json::JsonObject;

impl<'p> Evaluator<'p> {
    pub(super) fn apply_object<const CLEAN: bool>(
        &mut self,
        rules: &'p ObjectRules,
        map: &JsonObject,
        mut evaluated: Option<&mut EvaluatedSet>,
    ) -> bool {
        let steps = map.len() + rules.dependent_steps;
        if !rules.admits_size(map.len()) || !self.budget.spend(steps) {
            return false;
        }
        // Without an evaluated set no other schema applies, so undeclared properties are extra.
        let strict = CLEAN
            && evaluated.is_none()
            && rules.declares_properties
            && self.extras == Extras::Strip;
        let (mut cursor, mut required, mut defaults) = (0, 0, 0);
        for (at, (name, child)) in map.iter().enumerate() {
            let mut known = false;
            let mut is_required = false;
            if let Some(property) = rules.properties.find(name, &mut cursor) {
                is_required = property.required;
                required += usize::from(property.required);
                defaults += usize::from(property.default.is_some());
                if let Some(node) = property.node {
                    known = true;
                    if !self.evaluate::<CLEAN>(node, child) {
                        return false;
                    }
                }
            }
            for (pattern, node) in &rules.patterns {
                if pattern.matches(name, self.budget) {
                    known = true;
                    if !self.evaluate::<CLEAN>(*node, child) {
                        return false;
                    }
                }
            }
            if !known {
                known = match rules.additional {
                    AdditionalProperties::Unspecified if strict && !is_required => return false,
                    AdditionalProperties::Unspecified => false,
                    AdditionalProperties::Allowed => true,
                    AdditionalProperties::Forbidden => return false,
                    AdditionalProperties::Schema(node) if !self.evaluate::<CLEAN>(node, child) => {
                        return false;
                    }
                    AdditionalProperties::Schema(_) => true,
                };
            }
            if known && let Some(evaluated) = evaluated.as_deref_mut() {
                evaluated.insert(at);
            }
        }
        if let Some(evaluated) = evaluated {
            evaluated.declares_properties |= rules.declares_properties;
        }
        required == rules.required
            && (!CLEAN || defaults == rules.defaults)
            && self.admits_property_names(rules, map)
            && rules.admits_dependencies(map)
    }

    /// Checks `propertyNames`, which validates names as string values.
    pub(crate) fn admits_property_names(&mut self, rules: &ObjectRules, map: &JsonObject) -> bool {
        let Some(node) = rules.property_names else {
            return true;
        };
        // Names are temporary values, so their results must not be memoized.
        map.keys().all(|name| self.check_valid_detached(node, &Value::String(name.clone())))
    }
}
