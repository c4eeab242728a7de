//! Arrays.

use serde_json::Value;

use super::super::equality::are_unique;
use super::super::program::{ArrayRules, Contains};
use super::{EvaluatedSet, Evaluator};

impl<'p> Evaluator<'p> {
    pub(super) fn apply_array<const CLEAN: bool>(
        &mut self,
        rules: &'p ArrayRules,
        items: &[Value],
        mut evaluated: Option<&mut EvaluatedSet>,
    ) -> bool {
        if !rules.admits_length(items.len()) || !self.budget.spend(items.len()) {
            return false;
        }
        for (at, item) in items.iter().enumerate() {
            let Some(node) = rules.item(at) else { break };
            if !self.evaluate::<CLEAN>(node, item) {
                return false;
            }
            if let Some(evaluated) = evaluated.as_deref_mut() {
                evaluated.insert(at);
            }
        }
        self.admits_items(rules, items, evaluated)
    }

    /// Checks `contains` and `uniqueItems`.
    pub(crate) fn admits_items(
        &mut self,
        rules: &ArrayRules,
        items: &[Value],
        evaluated: Option<&mut EvaluatedSet>,
    ) -> bool {
        rules
            .contains
            .as_ref()
            .is_none_or(|contains| self.apply_contains(contains, items, evaluated))
            && (!rules.unique || are_unique(items, self.budget))
    }

    fn apply_contains(
        &mut self,
        contains: &Contains,
        items: &[Value],
        mut evaluated: Option<&mut EvaluatedSet>,
    ) -> bool {
        let mut found = 0;
        if !self.budget.spend(items.len()) {
            return false;
        }
        for (at, item) in items.iter().enumerate() {
            if self.check_valid(contains.node, item) {
                found += 1;
                if contains.evaluates
                    && let Some(evaluated) = evaluated.as_deref_mut()
                {
                    evaluated.insert(at);
                }
            }
        }
        found >= contains.min && contains.max.is_none_or(|max| found <= max)
    }
}
