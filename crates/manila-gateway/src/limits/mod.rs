//! How much is too much: calls of one caller, calls of one source, and sources that are left alone.
//!
//! Every decision is a pure function of a state and a time; `Limiter` is where a pipeline asks. What
//! is refused says which limit it was (`details.limit`) and when to come again
//! (`details.retryAfterMs`).

mod breaker;
mod bucket;
mod caller;
mod depth;
mod named;
mod settings;
mod source;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use manila::hub::RESERVED_NAMES;
use manila::{CallError, CallView, Health, Issue, Kind, Limits, Permit, Step};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::config::Config;
use crate::run::{Part, Reloaded};

pub use settings::{BreakerLimits, LimitsSettings, SourceLimits};

pub(crate) use named::Named;
pub(crate) use source::SourceGate;

use caller::{Caller, Callers};

/// When to come again where nobody can know it.
const SOON: Duration = Duration::from_secs(1);

/// Decides for a pipeline. It can be given other numbers while it runs: what is held stays held, and
/// counts for as long as it is.
pub struct Limiter {
    settings: ArcSwap<LimitsSettings>,
    callers: Callers,
    sources: Named<SourceGate>,
}

impl Limiter {
    /// A limiter with these numbers.
    pub fn new(settings: LimitsSettings) -> Self {
        Self {
            settings: ArcSwap::from_pointee(settings),
            callers: Callers::default(),
            sources: Named::default(),
        }
    }

    /// Other numbers from now on. Sources whose numbers are the same keep their places and their
    /// state.
    pub fn replace(&self, settings: LimitsSettings) {
        self.sources.retain(|name, gate| gate.has(settings.of(name)));
        if self.settings.load().caller() != settings.caller() {
            self.callers.forget();
        }
        self.settings.store(Arc::new(settings));
    }

    /// The sources that were called, and how they are.
    pub(crate) fn sources(&self) -> Arc<named::Table<SourceGate>> {
        self.sources.all()
    }

    /// The sources that the configuration names.
    pub(crate) fn configured(&self) -> Vec<String> {
        self.settings.load().sources.keys().cloned().collect()
    }

    /// The source of an operation, unless the gateway answers itself.
    fn gate(&self, namespace: &str) -> Option<Arc<SourceGate>> {
        if RESERVED_NAMES.contains(&namespace) {
            return None;
        }
        let new = || SourceGate::new(namespace, self.settings.load().of(namespace).clone());
        Some(self.sources.get_or_insert(namespace, new))
    }

    fn caller(&self, call: &CallView<'_>, settings: &LimitsSettings) -> Option<Arc<Caller>> {
        // What is called from inside a call belongs to a call that was let in.
        if call.depth() > 0 || !settings.bounds_callers() {
            return None;
        }
        Some(self.callers.get(&call.identity?.id, settings))
    }

    fn let_in(&self, call: &CallView<'_>) -> Result<Permit, CallError> {
        let settings = self.settings.load();
        check_depth(call, settings.json_depth)?;
        let Some(caller) = self.caller(call, &settings) else { return Ok(Permit::default()) };
        if let Some(bucket) = &caller.bucket {
            bucket.take(self.callers.since_start(Instant::now())).map_err(|wait| {
                let most = settings.calls_per_minute.unwrap_or_default();
                let message = format!("{most} calls a minute is the limit of one caller");
                refused("calls_per_minute", message, wait)
            })?;
        }
        let is_stream = call.operation.is_some_and(|op| op.spec().kind == Kind::Subscription);
        let (places, limit, most, what) = match is_stream {
            true => {
                let most = settings.caller_subscriptions;
                (&caller.subscriptions, "caller_subscriptions", most, "subscriptions")
            }
            false => (&caller.calls, "caller_calls", settings.caller_calls, "calls"),
        };
        Arc::clone(places).try_acquire_owned().map(Permit::from).map_err(|_| {
            let message = format!("{most} {what} of one caller are in flight, which is the limit");
            refused(limit, message, SOON)
        })
    }
}

impl Limits for Limiter {
    fn admit(&self, call: &CallView<'_>) -> Step<Permit> {
        Step::Now(self.let_in(call))
    }

    fn place(&self, call: &CallView<'_>) -> Step<Permit> {
        match call.operation.and_then(|operation| self.gate(operation.id().namespace())) {
            Some(gate) => gate.place(call),
            None => Step::Now(Ok(Permit::default())),
        }
    }

    fn ended(&self, call: &CallView<'_>, health: Health, took: Duration) {
        if let Some(gate) = call.operation.and_then(|op| self.gate(op.id().namespace())) {
            gate.note(health, took);
        }
    }
}

/// Takes part in changes of the configuration.
impl Part for Limiter {
    fn change(&self, before: &Config, now: &Config, report: &mut Reloaded) {
        if before.limits.calls != now.limits.calls {
            self.replace(now.limits.calls.clone());
            report.notes.push("other limits hold from now on".to_owned());
        }
    }

    fn restart_needed(&self, began: &Config, now: &Config) -> Vec<String> {
        let mut needed: Vec<_> = began.limits.fixed_changes(&now.limits).into_iter().collect();
        if began.telemetry != now.telemetry {
            needed.push("telemetry".to_owned());
        }
        needed
    }
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limiter").field("settings", &**self.settings.load()).finish_non_exhaustive()
    }
}

/// The deepest that is read anyway; looking for more than this would be in vain.
const DEEPEST: usize = 127;

fn check_depth(call: &CallView<'_>, most: usize) -> Result<(), CallError> {
    let Some(input) = call.input.filter(|_| most < DEEPEST && call.depth() == 0) else {
        return Ok(());
    };
    if !depth::is_deeper(input, most) {
        return Ok(());
    }
    let issue = Issue::new("", format!("nested deeper than {most} levels"));
    Err(CallError::validation(format!("an input has at most {most} levels"), &[issue]))
}

/// A refusal by a limit, which says when to come again.
fn refused(limit: &'static str, message: String, again: Duration) -> CallError {
    CallError::overloaded(message).with_limit(limit).with_retry_after(again)
}

/// A semaphore takes no more places than this.
fn places(most: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))
}
