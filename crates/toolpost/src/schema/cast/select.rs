//! Which variant of a union a value comes closest to.

use serde_json::Value;

use super::check::{Outcome, Run, identity};
use super::js;
use super::node::{Kind, NodeId, ObjectRules};

/// For a property that is a literal and equals the value's.
const LITERAL: u64 = 100;
/// For a property whose value, or absence, fits.
const FITS: u64 = 10;
/// For a property that is there at all.
const PRESENT: u64 = 1;

impl<'p> Run<'p> {
    /// The first variant with the highest score, dereferenced.
    pub(super) fn best(
        &mut self,
        variants: &[NodeId],
        value: Option<&Value>,
    ) -> Outcome<'p, NodeId> {
        let resolved: Vec<_> =
            variants.iter().map(|variant| self.resolved(*variant)).collect::<Result<_, _>>()?;
        let mut best = (0, resolved[0]);
        for variant in resolved {
            let score = self.score(variant, value)?;
            if score > best.0 {
                best = (score, variant);
            }
        }
        Ok(best.1)
    }

    fn score(&mut self, id: NodeId, value: Option<&Value>) -> Outcome<'p, u64> {
        let program = self.program;
        match (&program[id].kind, value) {
            (Kind::Object(rules), Some(value @ (Value::Object(_) | Value::Array(_)))) => {
                self.score_object(rules, value)
            }
            (Kind::Union(variants), _) => self.score_union(id, variants, value),
            _ => Ok(u64::from(self.check(id, value)?)),
        }
    }

    fn score_union(
        &mut self,
        id: NodeId,
        variants: &[NodeId],
        value: Option<&Value>,
    ) -> Outcome<'p, u64> {
        let key = (id, identity(value));
        if let Some(known) = self.memory.scores.get(&key) {
            return Ok(*known);
        }
        let mut best = 0;
        for variant in variants {
            let variant = self.resolved(*variant)?;
            best = best.max(self.score(variant, value)?);
        }
        self.memory.scores.insert(key, best);
        Ok(best)
    }

    fn score_object(&mut self, rules: &ObjectRules, value: &Value) -> Outcome<'p, u64> {
        let mut score = 0;
        for property in rules.properties.iter() {
            // An array has no members, so every property counts as missing.
            let member = value.as_object().and_then(|map| map.get(&property.key));
            if self.is_scalar_literal(property.node, member) {
                score += LITERAL;
            }
            if self.check(property.node, member)? {
                score += FITS;
            }
            if member.is_some() {
                score += PRESENT;
            }
        }
        Ok(score)
    }

    /// Objects and arrays never count, since JavaScript compares them by reference.
    fn is_scalar_literal(&self, id: NodeId, member: Option<&Value>) -> bool {
        match (&self.program[id].kind, member) {
            (Kind::Literal(Value::Array(_) | Value::Object(_)), _) => false,
            (Kind::Literal(literal), Some(member)) => js::same(literal, member),
            _ => false,
        }
    }
}
