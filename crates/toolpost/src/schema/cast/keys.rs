//! Questions about property names that TypeBox answers from the schema alone.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::check::{Outcome, Run};
use super::error::{CastCode, Fault};
use super::js::MAX_DEPTH;
use super::node::{Kind, NodeId};
use super::scalar::pattern_fits;

type Known = HashMap<NodeId, bool, RandomState>;

impl<'p> Run<'p> {
    /// Whether some part of an intersection names a property, for `unevaluatedProperties`.
    pub(super) fn knows(&self, id: NodeId, key: &str) -> Outcome<'p, bool> {
        self.knows_within(id, key, &mut Known::default(), self.depth)
    }

    fn knows_within(
        &self,
        id: NodeId,
        key: &str,
        seen: &mut Known,
        depth: usize,
    ) -> Outcome<'p, bool> {
        if depth > MAX_DEPTH {
            return Err(Fault::new(CastCode::Stack));
        }
        let id = self.resolved(id)?;
        if let Some(known) = seen.get(&id) {
            return Ok(*known);
        }
        let known = match &self.program[id].kind {
            Kind::Intersect { parts, .. } => self.some_knows(parts, key, seen, depth + 1)?,
            Kind::Union(variants) => self.all_know(variants, key, seen, depth + 1)?,
            Kind::Object(rules) => rules.properties.contains(key),
            Kind::Record(rules) => pattern_fits(&rules.pattern, key)?,
            _ => false,
        };
        seen.insert(id, known);
        Ok(known)
    }

    fn some_knows(
        &self,
        parts: &[NodeId],
        key: &str,
        seen: &mut Known,
        depth: usize,
    ) -> Outcome<'p, bool> {
        for part in parts {
            if self.knows_within(*part, key, seen, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn all_know(
        &self,
        variants: &[NodeId],
        key: &str,
        seen: &mut Known,
        depth: usize,
    ) -> Outcome<'p, bool> {
        for variant in variants {
            if !self.knows_within(*variant, key, seen, depth)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a required property must have its key although its node accepts a missing value.
    pub(super) fn must_be_present(&self, id: NodeId) -> bool {
        matches!(self.program[id].kind, Kind::Unknown) || self.extends_undefined(id)
    }

    /// TypeBox's static test, which looks through neither references nor unknown variants.
    fn extends_undefined(&self, id: NodeId) -> bool {
        match &self.program[id].kind {
            Kind::Intersect { parts, .. } => parts.iter().all(|part| self.extends_undefined(*part)),
            Kind::Union(variants) => variants.iter().any(|part| self.extends_undefined(*part)),
            Kind::Not(inner) => !self.extends_undefined(*inner),
            _ => false,
        }
    }
}
