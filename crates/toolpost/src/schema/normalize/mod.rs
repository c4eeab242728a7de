//! Making a value fit without making anything up: defaults, lossless conversions, stripping.
//!
//! Where one schema speaks about a place, a single walk judges and repairs at once (`place`).
//! Where several do (unions, `allOf`, conditions), a place that needs nothing is left after one
//! look; any other is a *region* with rounds of its own (`region`): the schemas that apply are
//! worked out (`applied`), variants are compared by a dry run (`trial`), then defaults and
//! conversions are made (`settle`), and once nothing moves any more, extras go (`strip`).

mod applied;
mod choose;
mod convert;
mod log;
mod place;
mod region;
mod settle;
mod step;
mod strip;
mod trial;

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::pointer::Pointer;
use super::program::{NodeId, Program};
use super::repair::{Extras, Repair};
use super::verdict::{Judge, address};
use log::Log;
use step::Step;
pub(super) use step::push_token;
use trial::Cost;

/// What one run did.
pub(super) struct Outcome {
    pub(super) repairs: Vec<Repair>,
    pub(super) fits: bool,
    /// The value nests too deeply to be walked; it is as it was.
    pub(super) overflow: bool,
    /// Where the value does not fit, and under which node; `None` where that is not known exactly.
    pub(super) misfits: Option<Vec<Misfit>>,
    /// How much work it was.
    pub(super) steps: u64,
}

/// How often a run may start over without the defaults that it found to have no end.
const RESTARTS: usize = 16;

/// Normalizes in place.
pub(super) fn normalize(program: &Program, value: &mut Value, extras: Extras) -> Outcome {
    let mut run = Normalizer::new(program, extras);
    for _ in 0..RESTARTS {
        let fits = run.place(program.root, value, &Step::ROOT);
        let overflow = run.judge.overflow;
        let endless = run.endless.len();
        if overflow {
            run.log.undo(value, 0);
        }
        if !overflow || endless == run.known_endless {
            let steps = run.judge.steps;
            let misfits = (!run.vague && !overflow).then_some(run.misfits);
            return Outcome { repairs: run.log.into_repairs(), fits, overflow, misfits, steps };
        }
        run.restart();
    }
    Outcome {
        misfits: None,
        repairs: Vec::new(),
        fits: false,
        overflow: true,
        steps: run.judge.steps,
    }
}

/// A place that does not fit, apart from what is below it.
pub(super) struct Misfit {
    pub(super) path: Pointer,
    pub(super) node: NodeId,
}

struct Normalizer<'p> {
    program: &'p Program,
    judge: Judge<'p>,
    log: Log,
    /// What the dry runs found, by schemas and place, until something changes.
    trials: HashMap<(Box<[NodeId]>, usize), Cost, foldhash::fast::FixedState>,
    /// The unions being decided, where one may lead back to itself.
    choosing: Vec<(usize, usize)>,
    /// A choice was put off in this round, because the value it depends on was about to change.
    postponed: bool,
    /// Choices are not put off any more.
    hasty: bool,
    /// The misfits so far.
    misfits: Vec<Misfit>,
    /// Some misfit is not in that list, because its place has several schemas.
    vague: bool,
    /// How many properties were stripped from objects that do not fit with them.
    closed_strips: usize,
    /// The defaults that the walk is inside of, by address.
    inside: Vec<usize>,
    /// The defaults that would be filled in again inside themselves, for ever, and so are not
    /// filled in at all.
    endless: HashSet<usize, foldhash::fast::FixedState>,
    /// How many of those this attempt began with.
    known_endless: usize,
}

impl<'p> Normalizer<'p> {
    fn new(program: &'p Program, extras: Extras) -> Self {
        Self {
            program,
            judge: Judge::new(program, extras),
            log: Log::default(),
            trials: HashMap::default(),
            choosing: Vec::new(),
            postponed: false,
            hasty: false,
            misfits: Vec::new(),
            vague: false,
            closed_strips: 0,
            inside: Vec::new(),
            endless: HashSet::default(),
            known_endless: 0,
        }
    }

    /// Begins again with what is known about endless defaults.
    fn restart(&mut self) {
        let steps = self.judge.steps;
        self.judge = Judge::new(self.program, self.judge.extras);
        self.judge.steps = steps;
        self.trials = HashMap::default();
        self.choosing.clear();
        self.misfits.clear();
        self.vague = false;
        self.inside.clear();
        self.known_endless = self.endless.len();
    }

    /// Notes that a place does not fit, whatever is below it.
    fn misfit(&mut self, node: NodeId, at: &Step<'_>) {
        if self.program.node(node).shallow.is_some() {
            self.misfits.push(Misfit { path: at.pointer(), node });
        } else {
            self.vague = true;
        }
    }

    /// Whether a default may be filled in here; one that has no end stops the attempt.
    fn may_fill(&mut self, default: &Value) -> bool {
        let default = address(default);
        if self.judge.overflow || self.endless.contains(&default) {
            return false;
        }
        if self.inside.contains(&default) {
            self.endless.insert(default);
            self.judge.overflow = true;
            return false;
        }
        true
    }

    /// Forgets what was learnt about places, because one has changed.
    #[inline]
    fn forget(&mut self) {
        self.judge.forget();
        if !self.trials.is_empty() {
            self.trials = HashMap::default();
        }
    }
}
