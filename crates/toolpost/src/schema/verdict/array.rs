//! Arrays.

use serde_json::Value;

use super::super::dialect::nests_deeper;
use super::super::program::{ArrayRules, Contains, MAX_DEPTH};
use super::{Judge, Marks};

impl<'p> Judge<'p> {
    pub(super) fn array<const CLEAN: bool>(
        &mut self,
        rules: &'p ArrayRules,
        items: &[Value],
        mut marks: Option<&mut Marks>,
    ) -> bool {
        if !rules.admits_length(items.len()) {
            return false;
        }
        for (at, item) in items.iter().enumerate() {
            let Some(node) = rules.item(at) else { break };
            if !self.place::<CLEAN>(node, item) {
                return false;
            }
            if let Some(marks) = marks.as_deref_mut() {
                marks.set(at);
            }
        }
        self.admits_items(rules, items, marks)
    }

    /// What is asked of the items together.
    pub(in crate::schema) fn admits_items(
        &mut self,
        rules: &ArrayRules,
        items: &[Value],
        marks: Option<&mut Marks>,
    ) -> bool {
        rules.contains.as_ref().is_none_or(|contains| self.contains(contains, items, marks))
            && (!rules.unique || self.are_unique(items))
    }

    fn contains(
        &mut self,
        contains: &Contains,
        items: &[Value],
        mut marks: Option<&mut Marks>,
    ) -> bool {
        let mut found = 0;
        for (at, item) in items.iter().enumerate() {
            if self.fits(contains.node, item) {
                found += 1;
                if contains.evaluates
                    && let Some(marks) = marks.as_deref_mut()
                {
                    marks.set(at);
                }
            }
        }
        found >= contains.min && contains.max.is_none_or(|max| found <= max)
    }

    fn are_unique(&mut self, items: &[Value]) -> bool {
        if items.iter().any(|item| nests_deeper(item, MAX_DEPTH)) {
            self.overflow = true;
            return false;
        }
        jsonschema::json::unique::is_unique(items)
    }
}
