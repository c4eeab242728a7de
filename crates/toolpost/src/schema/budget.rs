//! Limits on the work that a schema or a value causes. Work is counted, not timed.

use std::cell::Cell;

use serde_json::Value;

use super::{Issue, SchemaError, explain};

/// Limits on the work for one schema or one value.
///
/// A step is about one keyword applied to one value. Memory counts what the work retains: results
/// of subschemas, repairs, paths, messages and compiled patterns.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct WorkLimits<'a> {
    /// Maximum number of steps.
    pub max_steps: u64,
    /// Maximum number of bytes.
    pub max_memory: u64,
    /// Called from time to time; if it returns `true`, the work stops.
    pub(crate) is_canceled: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl WorkLimits<'static> {
    /// Limits for compiling a schema, including its defaults and patterns.
    pub const SCHEMA: Self = Self::new(4_000_000, 64 << 20);
    /// Limits for validating, repairing or masking a value.
    pub const VALUE: Self = Self::new(10_000_000, 64 << 20);
    /// Limits for work on an async worker thread: one to two milliseconds.
    pub(crate) const INLINE: Self = Self::new(40_000, 4 << 20);

    const fn new(max_steps: u64, max_memory: u64) -> Self {
        Self { max_steps, max_memory, is_canceled: None }
    }
}

impl<'a> WorkLimits<'a> {
    /// Limits for describing the errors of a value that was checked within these limits.
    pub(super) fn for_errors(self) -> Self {
        let max_steps = self.max_steps.saturating_mul(4).min(WorkLimits::VALUE.max_steps);
        Self { max_steps, ..self }
    }

    /// Adds a check that stops the work.
    pub(crate) fn until(self, is_canceled: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { is_canceled: Some(is_canceled), ..self }
    }
}

/// Why work was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exceeded {
    /// The value and the schema nest too deeply together.
    Depth,
    Steps(u64),
    Memory(u64),
    Canceled,
}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Depth => f.write_str("more levels than supported"),
            Self::Steps(max) => write!(f, "more than {max} steps"),
            Self::Memory(max) => write!(f, "more than {} MiB", max >> 20),
            Self::Canceled => f.write_str("longer than the call"),
        }
    }
}

impl Exceeded {
    /// Returns the error of a value whose validity is not known.
    pub(crate) fn issue(self, value: &Value) -> Issue {
        match self {
            Self::Depth => explain::depth_issue(value),
            _ => Issue::new("", format!("validating the value takes {self}; send a smaller value")),
        }
    }
}

/// Why a value was not repaired.
#[derive(Debug)]
pub(crate) enum RepairError {
    Schema(SchemaError),
    Exceeded(Exceeded),
}

impl From<SchemaError> for RepairError {
    fn from(error: SchemaError) -> Self {
        Self::Schema(error)
    }
}

impl From<Exceeded> for RepairError {
    fn from(exceeded: Exceeded) -> Self {
        Self::Exceeded(exceeded)
    }
}

/// Work that was counted, for tests.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Work {
    /// The highest number of steps of one budget.
    pub steps: u64,
    /// The highest number of bytes of one budget.
    pub memory: u64,
    /// Number of errors reported.
    pub issues: usize,
    /// Whether a budget was exceeded.
    pub is_exceeded: bool,
}

impl Work {
    pub(super) fn add(&mut self, budget: &Budget<'_>) {
        self.steps = self.steps.max(budget.steps());
        self.memory = self.memory.max(budget.memory());
        self.is_exceeded |= budget.is_exceeded();
    }
}

/// The work used, counted against its limits.
pub(crate) struct Budget<'a> {
    limits: WorkLimits<'a>,
    steps: Cell<u64>,
    memory: Cell<u64>,
    /// Number of steps at which the limits are checked next.
    next_check: Cell<u64>,
    exceeded: Cell<Option<Exceeded>>,
}

/// Number of steps between checks whether the work was canceled.
const CHECK_INTERVAL: u64 = 1 << 14;

impl<'a> Budget<'a> {
    pub(crate) fn new(limits: WorkLimits<'a>) -> Self {
        let next_check = Cell::new(limits.max_steps.min(CHECK_INTERVAL));
        Self {
            limits,
            next_check,
            steps: Cell::default(),
            memory: Cell::default(),
            exceeded: Cell::default(),
        }
    }

    /// Counts `steps`, and returns whether work can go on.
    #[inline]
    pub(crate) fn spend(&self, steps: usize) -> bool {
        let total = self.steps.get().saturating_add(steps as u64);
        self.steps.set(total);
        total <= self.next_check.get() || self.check(total)
    }

    /// Counts memory, and returns whether work can go on.
    #[inline]
    pub(crate) fn allocate(&self, bytes: usize) -> bool {
        let total = self.memory.get().saturating_add(bytes as u64);
        self.memory.set(total);
        if total > self.limits.max_memory {
            self.stop(Exceeded::Memory(self.limits.max_memory));
        }
        self.exceeded.get().is_none()
    }

    /// Returns memory that was counted before.
    pub(crate) fn release(&self, bytes: usize) {
        self.memory.set(self.memory.get().saturating_sub(bytes as u64));
    }

    /// Stops the work. The first reason is kept.
    #[cold]
    pub(crate) fn stop(&self, reason: Exceeded) {
        self.exceeded.set(Some(self.exceeded.get().unwrap_or(reason)));
        self.next_check.set(0);
    }

    /// Continues after a reason that was handled. The steps and the memory stay counted.
    pub(crate) fn resume(&self) {
        self.exceeded.set(None);
        self.next_check.set(self.steps.get());
    }

    #[inline]
    pub(crate) fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded.get()
    }

    #[inline]
    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded.get().is_some()
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.get()
    }

    pub(crate) fn memory(&self) -> u64 {
        self.memory.get()
    }

    #[cold]
    fn check(&self, total: u64) -> bool {
        if self.is_exceeded() {
            return false;
        }
        if total > self.limits.max_steps {
            self.stop(Exceeded::Steps(self.limits.max_steps));
        } else if self.limits.is_canceled.is_some_and(|is_canceled| is_canceled()) {
            self.stop(Exceeded::Canceled);
        } else {
            self.next_check.set(self.limits.max_steps.min(total + CHECK_INTERVAL));
        }
        !self.is_exceeded()
    }
}

/// The size of a value: the number of nodes, and the bytes that a copy allocates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ValueSize {
    pub(crate) nodes: usize,
    pub(crate) bytes: usize,
}

impl ValueSize {
    /// Measures a value without recursion.
    pub(crate) fn of(value: &Value) -> Self {
        let mut size = Self::default();
        let mut pending = vec![value];
        while let Some(value) = pending.pop() {
            size.nodes += 1;
            size.bytes += size_of::<Value>();
            match value {
                Value::String(text) => size.bytes += text.len(),
                Value::Array(items) => pending.extend(items),
                Value::Object(members) => {
                    for (name, member) in members {
                        size.bytes += 2 * size_of::<Value>() + name.len();
                        pending.push(member);
                    }
                }
                _ => {}
            }
        }
        size
    }
}
