//! Normalizes values to which several schemas apply, in rounds until nothing changes.

use serde_json::Value;

use super::super::program::NodeId;
use super::super::repair::Extras;
use super::{Normalizer, ValuePath};

/// Maximum number of rounds. Two are usual; each choice that depends on another adds one.
const MAX_ROUNDS: usize = 24;

impl Normalizer<'_> {
    /// Normalizes a value under several schemas, and returns whether it is valid afterwards.
    ///
    /// The result is a fixed point. If the repairs do not converge, or make a valid value invalid,
    /// all of them are undone.
    pub(super) fn normalize_multi(
        &mut self,
        set: &[NodeId],
        value: &mut Value,
        at: &ValuePath<'_>,
    ) -> bool {
        let start = self.repair_log.len();
        if !self.reach_fixed_point(set, value, at) {
            self.undo_repairs(value, at, start);
        }
        self.clear_caches();
        self.all_valid(set, value) || self.restore_valid(set, value, at, start)
    }

    fn reach_fixed_point(&mut self, set: &[NodeId], value: &mut Value, at: &ValuePath<'_>) -> bool {
        self.decide_now = false;
        for _ in 0..MAX_ROUNDS {
            let before = self.repair_log.len();
            self.postponed = false;
            self.clear_caches();
            self.fill_and_convert(set, value, at);
            if self.evaluator.budget.is_exceeded() {
                return false;
            }
            if self.repair_log.len() > before {
                self.decide_now = false;
                continue;
            }
            if self.postponed {
                self.decide_now = true;
                continue;
            }
            if self.evaluator.extras == Extras::Strip {
                self.clear_caches();
                self.strip(set, value, at);
            }
            if self.repair_log.len() == before {
                return true;
            }
        }
        false
    }
}
