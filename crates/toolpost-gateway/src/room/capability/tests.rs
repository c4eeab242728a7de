//! Shared test vectors, hostile inputs and property tests.

mod denial_reasons;
mod hostile;
mod matching;
mod subsumption;
mod vectors;

use serde_json::Value;
use serde_json::value::to_raw_value;

use super::{Capabilities, Capability, CapabilityRequest, Decision};

fn capability(value: &Value) -> Capability {
    Capability::compile(value).unwrap_or_else(|error| panic!("{value}: {error}"))
}

/// Whether this capability alone allows a message with this kind and payload.
fn allows(own: &Value, kind: &str, payload: Option<&Value>) -> bool {
    decide(own, kind, payload, |decision| {
        if let Decision::Denied { reason } = decision {
            assert!(reason.to_string().chars().count() < 1_000, "{reason}");
        }
    })
}

fn decide(
    own: &Value,
    kind: &str,
    payload: Option<&Value>,
    inspect: impl Fn(&Decision<'_>),
) -> bool {
    let payload = payload.map(|payload| to_raw_value(payload).unwrap());
    let capabilities = Capabilities::new([capability(own)]);
    let request = CapabilityRequest::new(kind, payload.as_deref());
    let decision = capabilities.decide(&request);
    inspect(&decision);
    decision.is_allowed()
}
