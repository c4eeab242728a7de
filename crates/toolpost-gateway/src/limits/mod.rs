//! Admission control: limits per caller, limits per source, and circuit breakers.
//!
//! Every decision is a pure function of a state and a time; the pipeline calls `Limiter`. A
//! rejected call reports the limit (`details.limit`) and when to retry (`details.retryAfterMs`).

mod caller;
mod circuit_breaker;
mod concurrent_map;
mod depth;
mod resizable_semaphore;
mod settings;
mod source;
mod token_bucket;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use toolpost::hub::RESERVED_NAMES;
use toolpost::shares::{Holder, ShareLimits, SharePermit, Shares};
use toolpost::{
    BreakerState, CallError, CallView, HookResult, Identity, Issue, Limit, Limits, OperationKind,
    Permit, SourceSignal,
};

pub use settings::{BreakerLimits, LimitsSettings, SourceLimits};

pub(crate) use concurrent_map::ConcurrentMap;
pub(crate) use source::SourceLimiter;
pub(crate) use token_bucket::TokenBucket;

use caller::CallerTable;

/// Retry delay where the actual wait is unknown.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Memory of an input that is not counted.
const MIN_INPUT_BYTES: usize = 4 * 1024;

/// Admission control of a pipeline. The limits can be replaced at runtime; permits in use stay
/// valid and count toward the new limits.
pub struct Limiter {
    settings: ArcSwap<LimitsSettings>,
    callers: CallerTable,
    /// Memory of the inputs of calls in flight.
    input_bytes: Shares,
    sources: ConcurrentMap<SourceLimiter>,
}

impl Limiter {
    /// Creates a limiter with these settings.
    pub fn new(settings: LimitsSettings) -> Self {
        let input_bytes = ShareLimits::new(
            "bytes of inputs",
            (Limit::InputBytes, settings.input_bytes),
            (Limit::CallerInputBytes, settings.caller_input_bytes),
        );
        Self {
            settings: ArcSwap::from_pointee(settings),
            callers: CallerTable::default(),
            input_bytes: Shares::new(input_bytes),
            sources: ConcurrentMap::default(),
        }
    }

    /// Replaces the limits. Sources whose limits are the same keep their state.
    pub fn configure(&self, settings: LimitsSettings) {
        let settings = Arc::new(settings);
        // Stored first, so that sources added meanwhile get the new limits.
        self.settings.store(Arc::clone(&settings));
        self.sources.update_each(|name, gate| gate.with_settings(settings.for_source(name)));
    }

    /// Returns the limiters of the sources that were called.
    pub(crate) fn sources(&self) -> Arc<concurrent_map::MapSnapshot<SourceLimiter>> {
        self.sources.all()
    }

    /// Returns the state of the circuit breaker of a source.
    pub(crate) fn breaker_state(&self, source: &str) -> BreakerState {
        self.sources.all().get(source).map_or(BreakerState::Closed, |gate| gate.breaker_state())
    }

    /// Returns the limiter of a source; `None` for the gateway's own operations.
    fn source_limiter(&self, namespace: &str) -> Option<Arc<SourceLimiter>> {
        if RESERVED_NAMES.contains(&namespace) {
            return None;
        }
        let new =
            || SourceLimiter::new(namespace, self.settings.load().for_source(namespace).clone());
        Some(self.sources.get_or_insert(namespace, new))
    }

    fn admit_caller(&self, call: &CallView<'_>) -> Result<Permit, CallError> {
        let settings = self.settings.load();
        check_depth(call, settings.json_depth)?;
        // A nested call is part of a call that was already admitted.
        let is_limited = call.depth() == 0 && settings.limits_callers();
        let Some(identity) = call.identity.filter(|_| is_limited) else {
            return Ok(Permit::default());
        };
        let caller = self.callers.get(&identity.key());
        if let Some(max) = settings.calls_per_minute {
            caller.take_token(max, self.callers.now()).map_err(|wait| {
                let message = format!("rate limit reached: {max} calls per minute per caller");
                limit_error(Limit::CallsPerMinute, message, wait)
            })?;
        }
        let is_stream =
            call.operation.is_some_and(|op| op.spec().kind == OperationKind::Subscription);
        let (in_flight, limit, max, what) = match is_stream {
            true => {
                let max = settings.caller_subscriptions;
                (&caller.subscriptions, Limit::CallerSubscriptions, max, "subscriptions")
            }
            false => (&caller.calls, Limit::CallerCalls, settings.caller_calls, "calls"),
        };
        let permit = in_flight.try_acquire(max).map(Permit::from).ok_or_else(|| {
            let message = format!("caller limit reached: {max} {what} in flight");
            limit_error(limit, message, DEFAULT_RETRY_AFTER)
        })?;
        Ok(match self.acquire_input(call, identity)? {
            Some(input) => permit.with_guard(input),
            None => permit,
        })
    }

    /// Takes the memory of an input, unless it is small. An input without a schema is not parsed.
    fn acquire_input(
        &self,
        call: &CallView<'_>,
        identity: &Identity,
    ) -> Result<Option<SharePermit>, CallError> {
        let is_parsed =
            call.operation.is_none_or(|operation| !operation.spec().input_schema.is_unknown());
        let bytes = call.input.map_or(0, |input| match input.as_raw() {
            Some(raw) if !is_parsed => raw.get().len(),
            _ => input.memory_bytes(),
        });
        if bytes < MIN_INPUT_BYTES {
            return Ok(None);
        }
        let permit = self.input_bytes.try_acquire(&Holder::from(identity), bytes);
        permit.map(Some).map_err(|error| {
            let message = format!("the input needs {bytes} bytes of memory; {error}");
            limit_error(error.limit, message, DEFAULT_RETRY_AFTER)
        })
    }
}

impl Limits for Limiter {
    fn admit(&self, call: &CallView<'_>) -> HookResult<Permit> {
        HookResult::Ready(self.admit_caller(call))
    }

    fn acquire_source(&self, call: &CallView<'_>) -> HookResult<Permit> {
        match call.operation.and_then(|operation| self.source_limiter(operation.id().namespace())) {
            Some(gate) => gate.acquire(call),
            None => HookResult::Ready(Ok(Permit::default())),
        }
    }

    fn record_result(&self, call: &CallView<'_>, signal: SourceSignal, took: Duration) {
        if let Some(gate) = call.operation.and_then(|op| self.source_limiter(op.id().namespace())) {
            gate.record(signal, took);
        }
    }
}

toolpost::debug_fields!(limiter: Limiter, settings = **limiter.settings.load());

/// Maximum depth that the JSON parser accepts. Checking for a higher limit has no effect.
const MAX_PARSED_DEPTH: usize = 127;

fn check_depth(call: &CallView<'_>, max: usize) -> Result<(), CallError> {
    let Some(input) = call.input.filter(|_| max < MAX_PARSED_DEPTH && call.depth() == 0) else {
        return Ok(());
    };
    if !depth::exceeds_depth(input, max) {
        return Ok(());
    }
    let issue = Issue::new("", format!("nested deeper than {max} levels"));
    Err(CallError::validation(format!("the input nests deeper than {max} levels"), &[issue]))
}

/// Creates the error of a rejected call, with the limit and the retry delay.
fn limit_error(limit: Limit, message: String, retry_after: Duration) -> CallError {
    CallError::overloaded(message).with_limit(limit).with_retry_after(retry_after)
}
