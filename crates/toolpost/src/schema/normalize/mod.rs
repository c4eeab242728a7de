//! Making a value fit without making anything up: defaults, lossless conversions, stripping.
//!
//! Where one schema speaks about a place, a single walk validates and repairs at once (`single_schema`).
//! Where several do (unions, `allOf`, conditions), a place that needs nothing is left after one
//! look; any other is repaired in rounds (`multi_schema`): the schemas that apply are
//! determined (`applicable`), variants are compared by a dry run (`dry_run`), then defaults and
//! conversions are made (`defaults`), and once nothing changes, extras are removed (`strip`).

mod applicable;
mod choose;
mod convert;
mod defaults;
mod dry_run;
mod multi_schema;
mod path;
mod repair_log;
mod single_schema;
mod strip;

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::pointer::JsonPointer;
use super::program::{NodeId, SchemaProgram};
use super::repair::{Extras, Repair};
use super::validate::{Evaluator, address};
use dry_run::RepairCost;
use path::ValuePath;
pub(super) use path::push_token;
use repair_log::RepairLog;

/// What one run did.
pub(super) struct NormalizeResult {
    pub(super) repairs: Vec<Repair>,
    pub(super) is_valid: bool,
    /// The value nests too deeply to be walked; it is as it was.
    pub(super) overflow: bool,
    /// Where the value does not fit, and under which node; `None` where that is not known exactly.
    pub(super) mismatches: Option<Vec<Mismatch>>,
    /// How much work it was.
    pub(super) steps: u64,
}

/// How often a run may start over without the defaults that it found to have no end.
const MAX_RESTARTS: usize = 16;

/// Normalizes in place.
pub(super) fn normalize(
    program: &SchemaProgram,
    value: &mut Value,
    extras: Extras,
) -> NormalizeResult {
    let mut run = Normalizer::new(program, extras);
    for _ in 0..MAX_RESTARTS {
        let fits = run.normalize_value(program.root, value, &ValuePath::ROOT);
        let overflow = run.evaluator.overflow;
        let recursive = run.recursive_defaults.len();
        if overflow {
            run.repair_log.undo(value, 0);
        }
        if !overflow || recursive == run.initial_recursive_defaults {
            let steps = run.evaluator.steps;
            let mismatches = (!run.mismatches_incomplete && !overflow).then_some(run.mismatches);
            return NormalizeResult {
                repairs: run.repair_log.into_repairs(),
                is_valid: fits,
                overflow,
                mismatches,
                steps,
            };
        }
        run.restart();
    }
    NormalizeResult {
        mismatches: None,
        repairs: Vec::new(),
        is_valid: false,
        overflow: true,
        steps: run.evaluator.steps,
    }
}

/// A place that does not fit, apart from what is below it.
pub(super) struct Mismatch {
    pub(super) path: JsonPointer,
    pub(super) node: NodeId,
}

struct Normalizer<'p> {
    program: &'p SchemaProgram,
    evaluator: Evaluator<'p>,
    repair_log: RepairLog,
    /// What the dry runs found, by schemas and place, until something changes.
    dry_runs: HashMap<(Box<[NodeId]>, usize), RepairCost, foldhash::fast::FixedState>,
    /// The unions being decided, where one may lead back to itself.
    active_unions: Vec<(usize, usize)>,
    /// A choice was put off in this round, because the value it depends on was about to change.
    postponed: bool,
    /// Choices are not put off any more.
    decide_now: bool,
    /// The misfits so far.
    mismatches: Vec<Mismatch>,
    /// Some misfit is not in that list, because its place has several schemas.
    mismatches_incomplete: bool,
    /// How many properties were stripped from objects that do not fit with them.
    forbidden_strips: usize,
    /// The defaults that the walk is inside of, by address.
    open_defaults: Vec<usize>,
    /// The defaults that would be filled in again inside themselves, for ever, and so are not
    /// filled in at all.
    recursive_defaults: HashSet<usize, foldhash::fast::FixedState>,
    /// How many of those this attempt began with.
    initial_recursive_defaults: usize,
}

impl<'p> Normalizer<'p> {
    fn new(program: &'p SchemaProgram, extras: Extras) -> Self {
        Self {
            program,
            evaluator: Evaluator::new(program, extras),
            repair_log: RepairLog::default(),
            dry_runs: HashMap::default(),
            active_unions: Vec::new(),
            postponed: false,
            decide_now: false,
            mismatches: Vec::new(),
            mismatches_incomplete: false,
            forbidden_strips: 0,
            open_defaults: Vec::new(),
            recursive_defaults: HashSet::default(),
            initial_recursive_defaults: 0,
        }
    }

    /// Begins again with what is known about endless defaults.
    fn restart(&mut self) {
        let steps = self.evaluator.steps;
        self.evaluator = Evaluator::new(self.program, self.evaluator.extras);
        self.evaluator.steps = steps;
        self.dry_runs = HashMap::default();
        self.active_unions.clear();
        self.mismatches.clear();
        self.mismatches_incomplete = false;
        self.open_defaults.clear();
        self.initial_recursive_defaults = self.recursive_defaults.len();
    }

    /// Notes that a place does not fit, whatever is below it.
    fn record_mismatch(&mut self, node: NodeId, at: &ValuePath<'_>) {
        if self.program.node(node).shallow.is_some() {
            self.mismatches.push(Mismatch { path: at.pointer(), node });
        } else {
            self.mismatches_incomplete = true;
        }
    }

    /// Whether a default may be filled in here; one that has no end stops the attempt.
    fn admit_default(&mut self, default: &Value) -> bool {
        let default = address(default);
        if self.evaluator.overflow || self.recursive_defaults.contains(&default) {
            return false;
        }
        if self.open_defaults.contains(&default) {
            self.recursive_defaults.insert(default);
            self.evaluator.overflow = true;
            return false;
        }
        true
    }

    /// Forgets what was learnt about places, because one has changed.
    #[inline]
    fn clear_caches(&mut self) {
        self.evaluator.clear_memo();
        if !self.dry_runs.is_empty() {
            self.dry_runs = HashMap::default();
        }
    }
}
