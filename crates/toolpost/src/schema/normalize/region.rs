//! Places with several schemas, and everything below them: rounds until nothing moves.

use serde_json::Value;

use super::super::program::NodeId;
use super::super::repair::Extras;
use super::{Normalizer, Step};

/// How many rounds a region gets. Two are usual; each choice that waits for another takes one.
const ROUNDS: usize = 24;

impl Normalizer<'_> {
    /// Normalizes a place under several schemas, and says whether it fits now.
    ///
    /// What comes out is a fixed point: a further round would change nothing. Schemas under which
    /// the repairs would chase each other for ever get none at all.
    pub(super) fn region(&mut self, set: &[NodeId], value: &mut Value, at: &Step<'_>) -> bool {
        let start = self.log.len();
        if !self.reach_fixed_point(set, value, at) {
            self.log.undo_below(value, &at.pointer(), start);
        }
        self.forget();
        set.iter().all(|id| self.judge.fits(*id, value))
    }

    fn reach_fixed_point(&mut self, set: &[NodeId], value: &mut Value, at: &Step<'_>) -> bool {
        self.hasty = false;
        for _ in 0..ROUNDS {
            let before = self.log.len();
            self.postponed = false;
            self.forget();
            self.settle(set, value, at);
            if self.judge.overflow {
                return false;
            }
            if self.log.len() > before {
                self.hasty = false;
                continue;
            }
            if self.postponed {
                self.hasty = true;
                continue;
            }
            if self.judge.extras == Extras::Strip {
                self.forget();
                self.strip(set, value, at);
            }
            if self.log.len() == before {
                return true;
            }
        }
        false
    }
}
