#![no_main]

#[path = "../checks/tool_envelope.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::check(bytes));
