//! Shared test vectors, hostile inputs and property tests.

mod denial_reasons;
mod hostile;
mod matching;
mod subsumption;
mod vectors;

use serde_json::Value;
use serde_json::value::to_raw_value;

use super::{Capabilities, Capability, CapabilityRequest, DenialReason};

fn capability(value: &Value) -> Capability {
    Capability::compile(value).unwrap_or_else(|error| panic!("{value}: {error}"))
}

/// Whether this capability alone allows a message with this kind and payload.
fn allows(own: &Value, kind: &str, payload: Option<&Value>) -> bool {
    check(own, kind, payload, |result| {
        if let Err(reason) = result {
            assert!(reason.to_string().chars().count() < 1_000, "{reason}");
        }
    })
}

/// Whether this capability alone allows a message without payload to these participants.
fn allows_to(own: &Value, kind: &str, to: &[&str]) -> bool {
    let to: Vec<Box<str>> = to.iter().map(|name| Box::from(*name)).collect();
    let capabilities = Capabilities::new([capability(own)]);
    capabilities.check(&CapabilityRequest::new(kind, None).with_addressees(&to)).is_ok()
}

fn check(
    own: &Value,
    kind: &str,
    payload: Option<&Value>,
    inspect: impl Fn(&Result<&Capability, DenialReason<'_>>),
) -> bool {
    let payload = payload.map(|payload| to_raw_value(payload).unwrap());
    let capabilities = Capabilities::new([capability(own)]);
    let request = CapabilityRequest::new(kind, payload.as_deref());
    let result = capabilities.check(&request);
    inspect(&result);
    result.is_ok()
}
