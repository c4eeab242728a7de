//! Selects the union variant that best matches a value.

use serde_json::Value;

use super::check::{CastRun, address_or_zero};
use super::error::CastResult;
use super::js;
use super::node::{CastKind, CastNodeId, ObjectRules};

/// Score of a property whose schema is a literal equal to its value.
const LITERAL_SCORE: u64 = 100;
/// Score of a property whose value, or absence, is valid.
const VALID_SCORE: u64 = 10;
/// Score of a property that is present.
const PRESENT_SCORE: u64 = 1;

impl CastRun<'_> {
    /// Returns the first variant with the highest score, with references resolved.
    pub(super) fn best_variant(
        &mut self,
        variants: &[CastNodeId],
        value: Option<&Value>,
    ) -> CastResult<CastNodeId> {
        let resolved: Vec<_> =
            variants.iter().map(|variant| self.resolve(*variant)).collect::<Result<_, _>>()?;
        let mut best = (0, resolved[0]);
        for variant in resolved {
            let score = self.score(variant, value)?;
            if score > best.0 {
                best = (score, variant);
            }
        }
        Ok(best.1)
    }

    fn score(&mut self, id: CastNodeId, value: Option<&Value>) -> CastResult<u64> {
        let program = self.program;
        match (&program[id].kind, value) {
            (CastKind::Object(rules), Some(value @ (Value::Object(_) | Value::Array(_)))) => {
                self.score_object(rules, value)
            }
            (CastKind::Union(variants), _) => self.score_union(id, variants, value),
            _ => Ok(u64::from(self.check(id, value)?)),
        }
    }

    fn score_union(
        &mut self,
        id: CastNodeId,
        variants: &[CastNodeId],
        value: Option<&Value>,
    ) -> CastResult<u64> {
        let key = (id, address_or_zero(value));
        if let Some(known) = self.memo.scores.get(&key) {
            return Ok(*known);
        }
        let mut best = 0;
        for variant in variants {
            let variant = self.resolve(*variant)?;
            best = best.max(self.score(variant, value)?);
        }
        self.memo.scores.insert(key, best);
        Ok(best)
    }

    fn score_object(&mut self, rules: &ObjectRules, value: &Value) -> CastResult<u64> {
        let mut score = 0;
        for (key, property) in &rules.properties {
            // An array has no members, so every property counts as missing.
            let member = value.as_object().and_then(|map| map.get(key));
            if self.is_scalar_literal(property.node, member) {
                score += LITERAL_SCORE;
            }
            if self.check(property.node, member)? {
                score += VALID_SCORE;
            }
            if member.is_some() {
                score += PRESENT_SCORE;
            }
        }
        Ok(score)
    }

    /// Whether the node is a scalar literal equal to the member. Objects and arrays never match,
    /// because JavaScript compares them by reference.
    fn is_scalar_literal(&self, id: CastNodeId, member: Option<&Value>) -> bool {
        match (&self.program[id].kind, member) {
            (CastKind::Literal(Value::Array(_) | Value::Object(_)), _) => false,
            (CastKind::Literal(literal), Some(member)) => js::json_eq(literal, member),
            _ => false,
        }
    }
}
