//! Property name checks that TypeBox derives from the schema alone.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::check::CastRun;
use super::error::{CastCode, CastError, CastResult};
use super::js::MAX_DEPTH;
use super::node::{CastKind, CastNodeId};
use super::scalar::matches_pattern;

type KeyMemo = HashMap<CastNodeId, bool, RandomState>;

impl CastRun<'_> {
    /// Whether any part of an intersection declares the property, for `unevaluatedProperties`.
    pub(super) fn declares_key(&self, id: CastNodeId, key: &str) -> CastResult<bool> {
        self.declares_key_memoized(id, key, &mut KeyMemo::default(), self.depth)
    }

    fn declares_key_memoized(
        &self,
        id: CastNodeId,
        key: &str,
        memo: &mut KeyMemo,
        depth: usize,
    ) -> CastResult<bool> {
        if depth > MAX_DEPTH {
            return Err(CastError::new(CastCode::Stack));
        }
        let id = self.resolve(id)?;
        if let Some(declared) = memo.get(&id) {
            return Ok(*declared);
        }
        let declared = match &self.program[id].kind {
            CastKind::Intersect { parts, .. } => {
                self.declares_until(true, parts, key, memo, depth + 1)?
            }
            CastKind::Union(variants) => {
                !self.declares_until(false, variants, key, memo, depth + 1)?
            }
            CastKind::Object(rules) => rules.properties.contains_key(key),
            CastKind::Record(rules) => matches_pattern(&rules.pattern, key)?,
            _ => false,
        };
        memo.insert(id, declared);
        Ok(declared)
    }

    /// Tests the nodes in order until a result equals `end`. Returns whether one did.
    fn declares_until(
        &self,
        end: bool,
        nodes: &[CastNodeId],
        key: &str,
        memo: &mut KeyMemo,
        depth: usize,
    ) -> CastResult<bool> {
        for node in nodes {
            if self.declares_key_memoized(*node, key, memo, depth)? == end {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a required key must be present even though its node accepts a missing value.
    pub(super) fn must_be_present(&self, id: CastNodeId) -> bool {
        matches!(self.program[id].kind, CastKind::Unknown) || self.extends_undefined(id)
    }

    /// TypeBox's static test for `undefined`, without references and unknown variants.
    fn extends_undefined(&self, id: CastNodeId) -> bool {
        match &self.program[id].kind {
            CastKind::Intersect { parts, .. } => {
                parts.iter().all(|part| self.extends_undefined(*part))
            }
            CastKind::Union(variants) => variants.iter().any(|part| self.extends_undefined(*part)),
            CastKind::Not(inner) => !self.extends_undefined(*inner),
            _ => false,
        }
    }
}
