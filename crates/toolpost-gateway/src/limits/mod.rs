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
mod places;
mod settings;
mod source;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::Instant;
use toolpost::hub::RESERVED_NAMES;
use toolpost::{CallError, CallView, Health, Issue, Kind, Limits, Permit, Step};

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

    /// Other numbers from now on. Sources and callers whose numbers are the same keep their state.
    pub fn replace(&self, settings: LimitsSettings) {
        let settings = Arc::new(settings);
        // First, so that whoever is new meanwhile has them already.
        let before = self.settings.swap(Arc::clone(&settings));
        self.sources.change(|name, gate| gate.with(settings.of(name)));
        if before.caller() != settings.caller() {
            self.callers.change(&settings);
        }
    }

    /// The sources that were called, and how they are.
    pub(crate) fn sources(&self) -> Arc<named::Table<SourceGate>> {
        self.sources.all()
    }

    /// Whether a source is left alone for now.
    pub(crate) fn leaves_alone(&self, source: &str) -> bool {
        self.sources.all().get(source).is_some_and(|gate| gate.is_left_alone())
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
        Some(self.callers.get(&call.identity?.id, &self.settings))
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
        places.try_take().map(Permit::from).ok_or_else(|| {
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
        }
        if !before.limits.calls.agrees_with(&now.limits.calls) {
            report.notes.push("other limits hold from now on".to_owned());
        }
    }

    fn restart_needed(&self, began: &Config, now: &Config) -> Vec<String> {
        let mut needed: Vec<_> = began.limits.fixed_changes(&now.limits).into_iter().collect();
        if began.telemetry != now.telemetry {
            needed.push("telemetry".to_owned());
        }
        if began.cors != now.cors {
            needed.push("http.cors".to_owned());
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
