//! The duration of a capability check of a message, with fifty capabilities.
//!
//! Each row is a message that the last capability allows, or one that none allows. Patterns on the
//! payload are measured with a payload of one kilobyte that is already parsed; the cost of parsing is
//! printed separately. Run it with `cargo bench -p toolpost-gateway --bench capability`.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "harness/claim.rs"]
mod claim;
#[path = "harness/stats.rs"]
mod stats;

use std::hint::black_box;
use std::time::Instant;

use claim::claim;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use stats::median;
use toolpost_gateway::room::capability::{Capabilities, Capability, CapabilityRequest};

/// Maximum duration of a decision in nanoseconds.
const MAX_NANOSECONDS: f64 = 2_000.0;

const CAPABILITIES: usize = 50;
const ROUNDS: usize = 21;
const DECISIONS: u32 = 20_000;

const ALLOWED: &str = "mcp/request:tools/call:read_file";
const DENIED: &str = "mcp/request:tools/call:delete_file";

fn main() {
    let sets = [
        ("strings", capability_set(string)),
        ("patterns on the kind", capability_set(kind_pattern)),
        ("patterns on the payload", capability_set(payload_pattern)),
        ("all of them", capability_set(mixed)),
    ];
    let (allowed, denied) = (payload("read_file"), payload("delete_file"));
    for (name, capabilities) in &sets {
        measure(&format!("{name}, the last allows"), capabilities, ALLOWED, &allowed, true);
        measure(&format!("{name}, none allows"), capabilities, DENIED, &denied, false);
    }
    measure_payload_parse(&allowed);
}

/// Forty-nine similar capabilities and one that allows the call.
fn capability_set(make: fn(usize) -> Value) -> Capabilities {
    let values = (1..=CAPABILITIES).map(make);
    Capabilities::new(values.map(|value| Capability::compile(&value).unwrap()))
}

fn tool(number: usize) -> String {
    match number {
        CAPABILITIES => "read_*".to_owned(),
        number if number % 5 == 0 => format!("*_thing_{number}"),
        number if number % 5 == 1 => format!("w*_{number}_*"),
        number if number % 5 == 2 => format!("write_{number}_*"),
        number => format!("write_thing_{number}"),
    }
}

fn string(number: usize) -> Value {
    json!(format!("mcp/request:tools/call:{}", tool(number)))
}

fn kind_pattern(number: usize) -> Value {
    match number {
        CAPABILITIES => json!({"kind": ["chat", "mcp/request:tools/call:read_*"]}),
        number if number % 3 == 0 => json!({"kind": format!("thing/{number}/*")}),
        number if number % 3 == 1 => json!({"kind": [format!("stream/{number}"), "chat"]}),
        number => json!({"kind": format!("mcp/request:tools/call:{}", tool(number))}),
    }
}

fn payload_pattern(number: usize) -> Value {
    let params = json!({"name": tool(number)});
    json!({"kind": "mcp/request", "payload": {"method": "tools/call", "params": params}})
}

fn mixed(number: usize) -> Value {
    match number % 3 {
        0 => string(number),
        1 => kind_pattern(number),
        _ => payload_pattern(number),
    }
}

fn payload(name: &str) -> Box<RawValue> {
    let arguments = json!({"path": "/public/a", "note": "x".repeat(880)});
    let params = json!({"name": name, "arguments": arguments});
    to_raw_value(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
        .unwrap()
}

fn measure(
    what: &str,
    capabilities: &Capabilities,
    kind: &str,
    payload: &RawValue,
    expected: bool,
) {
    let request = CapabilityRequest::new(kind, Some(payload));
    assert_eq!(capabilities.check(&request).is_ok(), expected, "{what}");
    let nanoseconds = nanoseconds(|| {
        black_box(black_box(capabilities).check(black_box(&request)).is_ok());
    });
    claim(what, nanoseconds, "ns", MAX_NANOSECONDS);
}

/// Measures the additional cost of the first decision that reads the payload.
fn measure_payload_parse(payload: &RawValue) {
    let nanoseconds = nanoseconds(|| {
        black_box(serde_json::from_str::<Value>(black_box(payload.get())).unwrap());
    });
    println!("parsing a payload of {} bytes: {nanoseconds:.0} ns", payload.get().len());
}

fn nanoseconds(once: impl Fn()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        (0..DECISIONS).for_each(|_| once());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(DECISIONS)
    };
    median((0..ROUNDS).map(round).collect())
}
