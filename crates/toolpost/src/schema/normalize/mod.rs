//! Makes values valid without inventing data: fills in defaults, converts without loss, strips
//! extras.
//!
//! If one schema applies to a value, a single walk validates and repairs it (`single_schema`). If
//! several apply (unions, `allOf`, conditions), one validation detects whether any repair is
//! needed. If so, the value is repaired in rounds (`multi_schema`): determine the applicable
//! schemas (`applicable`), compare variants by dry run (`dry_run`), fill in defaults and convert
//! (`defaults`) and, once nothing changes, strip extras (`strip`).

mod applicable;
mod choose;
mod convert;
mod defaults;
mod dry_run;
mod multi_schema;
mod repair_log;
mod single_schema;
mod strip;

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::budget::{Budget, Exceeded};
use super::program::{NodeId, PropertyDefault, SchemaProgram};
use super::repair::{Extras, Repair};
use super::validate::{Evaluator, address};
use crate::json::ValuePath;
use dry_run::RepairCost;
use repair_log::RepairLog;

/// The repairs that normalization makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepairScope {
    /// Only defaults are filled in.
    Defaults,
    All(Extras),
}

/// The result of one normalization.
pub(super) struct NormalizeResult<'p> {
    repair_log: RepairLog<'p>,
    /// Valid defaults that are not filled in, because the value would be invalid.
    pub(super) rejected_defaults: Vec<&'p PropertyDefault>,
    pub(super) is_valid: bool,
}

impl NormalizeResult<'_> {
    pub(super) fn take_repairs(&mut self) -> Vec<Repair> {
        std::mem::take(&mut self.repair_log.repairs)
    }
}

/// Maximum number of restarts, each of which excludes the recursive defaults found so far.
const MAX_RESTARTS: usize = 16;

/// Normalizes a value in place. If the budget is exceeded, the value is unchanged.
pub(super) fn normalize<'p>(
    program: &'p SchemaProgram,
    value: &mut Value,
    scope: RepairScope,
    budget: &'p Budget<'p>,
) -> NormalizeResult<'p> {
    let mut run = Normalizer::new(program, scope, budget);
    for restarts in 0..=MAX_RESTARTS {
        let is_valid = run.normalize_value(program.root, value, &ValuePath::ROOT);
        let exceeded = budget.exceeded();
        if exceeded.is_some() {
            run.repair_log.undo(value, 0);
        }
        let found_recursive = run.recursive_defaults.len() > run.initial_recursive_defaults;
        if exceeded != Some(Exceeded::Depth) || !found_recursive || restarts == MAX_RESTARTS {
            return NormalizeResult {
                repair_log: run.repair_log,
                rejected_defaults: run.rejected_defaults,
                is_valid,
            };
        }
        run.restart();
    }
    unreachable!("the last round returns")
}

struct Normalizer<'p> {
    program: &'p SchemaProgram,
    evaluator: Evaluator<'p>,
    repair_log: RepairLog<'p>,
    /// Whether scalars are converted.
    converts: bool,
    rejected_defaults: Vec<&'p PropertyDefault>,
    /// Dry run results by schemas and value address; cleared on every change.
    dry_runs: HashMap<(Box<[NodeId]>, usize), RepairCost, foldhash::fast::FixedState>,
    /// Memory counted for `dry_runs`.
    dry_run_memory: usize,
    /// Unions being resolved, with the address of the value, to detect cycles.
    active_unions: Vec<(usize, usize)>,
    /// A choice was postponed in this round, because the value it depends on was about to change.
    postponed: bool,
    /// Choices are no longer postponed.
    decide_now: bool,
    /// Number of properties stripped from objects that forbid additional properties.
    forbidden_strips: usize,
    /// Addresses of the defaults that contain the current value.
    open_defaults: Vec<usize>,
    /// Defaults that contain themselves and are therefore not filled in.
    recursive_defaults: HashSet<usize, foldhash::fast::FixedState>,
    /// Number of recursive defaults known at the start of this attempt.
    initial_recursive_defaults: usize,
}

impl<'p> Normalizer<'p> {
    fn new(program: &'p SchemaProgram, scope: RepairScope, budget: &'p Budget<'p>) -> Self {
        let (converts, extras) = match scope {
            RepairScope::Defaults => (false, Extras::Keep),
            RepairScope::All(extras) => (true, extras),
        };
        Self {
            program,
            evaluator: Evaluator::with_budget(program, extras, budget),
            repair_log: RepairLog::new(budget),
            converts,
            rejected_defaults: Vec::new(),
            dry_runs: HashMap::default(),
            dry_run_memory: 0,
            active_unions: Vec::new(),
            postponed: false,
            decide_now: false,
            forbidden_strips: 0,
            open_defaults: Vec::new(),
            recursive_defaults: HashSet::default(),
            initial_recursive_defaults: 0,
        }
    }

    /// Resets the state for another attempt. Known recursive defaults are kept.
    fn restart(&mut self) {
        self.clear_caches();
        let budget = self.evaluator.budget;
        budget.resume();
        self.evaluator = Evaluator::with_budget(self.program, self.evaluator.extras, budget);
        self.active_unions.clear();
        self.open_defaults.clear();
        self.initial_recursive_defaults = self.recursive_defaults.len();
    }

    /// Whether a default can be filled in here. A recursive default aborts the attempt.
    fn admit_default(&mut self, default: &Value) -> bool {
        let default = address(default);
        if self.evaluator.budget.is_exceeded() || self.recursive_defaults.contains(&default) {
            return false;
        }
        if self.open_defaults.contains(&default) {
            self.recursive_defaults.insert(default);
            self.evaluator.budget.stop(Exceeded::Depth);
            return false;
        }
        true
    }

    /// Remembers a default that is not filled in.
    fn reject_default(&mut self, default: &'p PropertyDefault) {
        if !self.rejected_defaults.iter().any(|known| std::ptr::eq(*known, default)) {
            self.rejected_defaults.push(default);
        }
    }

    /// Whether the value is valid for every schema of the set.
    fn all_valid(&mut self, set: &[NodeId], value: &Value) -> bool {
        set.iter().all(|id| self.evaluator.check_valid(*id, value))
    }

    /// Undoes the repairs made since `start`, all of them at or below `at`.
    fn undo_repairs(&mut self, value: &mut Value, at: &ValuePath<'_>, start: usize) {
        self.repair_log.undo_below(value, &at.pointer(), start);
        self.clear_caches();
    }

    /// Undoes the repairs made since `start` if the value is valid without them, and returns whether
    /// it is. Otherwise they stay.
    fn restore_valid(
        &mut self,
        set: &[NodeId],
        value: &mut Value,
        at: &ValuePath<'_>,
        start: usize,
    ) -> bool {
        if self.repair_log.len() == start || self.evaluator.budget.is_exceeded() {
            return false;
        }
        let base = at.pointer();
        self.repair_log.revert(value, &base, start);
        self.clear_caches();
        let is_valid = self.all_valid(set, value);
        match is_valid {
            true => self.repair_log.forget(start),
            false => self.repair_log.reapply(value, &base, start),
        }
        self.clear_caches();
        is_valid
    }

    /// Clears cached results, because a value has changed.
    #[inline]
    fn clear_caches(&mut self) {
        self.evaluator.clear_memo();
        if !self.dry_runs.is_empty() {
            self.dry_runs = HashMap::default();
            self.evaluator.budget.release(std::mem::take(&mut self.dry_run_memory));
        }
    }
}
