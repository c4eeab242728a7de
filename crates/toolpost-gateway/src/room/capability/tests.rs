//! The cases that everybody shares, hostile ones, and what holds for any.

mod covers;
mod hostile;
mod reasons;
mod rules;
mod vectors;

use serde_json::Value;
use serde_json::value::to_raw_value;

use super::{Capabilities, Capability, Decision, Subject};

fn capability(value: &Value) -> Capability {
    Capability::compile(value).unwrap_or_else(|error| panic!("{value}: {error}"))
}

/// Whether a message with this kind and payload is allowed by this capability alone.
fn allows(own: &Value, kind: &str, payload: Option<&Value>) -> bool {
    decide(own, kind, payload, |decision| {
        if let Decision::Refused { reason } = decision {
            assert!(reason.to_string().chars().count() < 1_000, "{reason}");
        }
    })
}

fn decide(own: &Value, kind: &str, payload: Option<&Value>, look: impl Fn(&Decision<'_>)) -> bool {
    let payload = payload.map(|payload| to_raw_value(payload).unwrap());
    let capabilities = Capabilities::new([capability(own)]);
    let subject = Subject::new(kind, payload.as_deref());
    let decision = capabilities.decide(&subject);
    look(&decision);
    decision.is_allowed()
}
