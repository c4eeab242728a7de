//! Invariants that hold for any input; shared by the fuzz target and the corpus replay.

use serde_json::value::RawValue;
use toolpost_gateway::room::capability::{Capabilities, Capability, CapabilityRequest};

/// Maximum length of a denial reason with every character escaped.
const MAX_REASON_LEN: usize = 8_000;

/// Parses the lines of `bytes` as two capabilities, a message kind and a payload.
pub(crate) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.splitn(4, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (own, other, kind, payload) = (line(), line(), line(), line());
    let Ok(own) = Capability::parse(own) else { return };
    check_round_trip(&own);
    let payload: Option<Box<RawValue>> = serde_json::from_str(payload).ok();
    let subject = CapabilityRequest::new(kind, payload.as_deref());
    check_decision(&own, &subject);
    if let Ok(other) = Capability::parse(other) {
        check_decision(&other, &subject);
        // Neither direction panics, whatever the result.
        let _: (bool, bool) = (own.covers(&other), other.covers(&own));
    }
}

/// A capability round-trips.
fn check_round_trip(own: &Capability) {
    let again = Capability::parse(&own.to_string()).expect("what was read can be read again");
    assert_eq!(own, &again);
    assert!(own.covers(&again));
}

fn check_decision(own: &Capability, subject: &CapabilityRequest<'_>) {
    let capabilities = Capabilities::new([own.clone()]);
    match capabilities.check(subject) {
        Ok(by) => {
            assert_eq!(by, own);
            let first = subject.kind().split('/').next().unwrap_or_default();
            assert_ne!(first, "system", "{own} reaches what is the gateway's own");
        }
        Err(reason) => {
            let message = reason.to_string();
            assert!(!message.is_empty() && message.len() < MAX_REASON_LEN, "{message}");
        }
    }
}
