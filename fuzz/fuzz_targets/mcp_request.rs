#![no_main]

#[path = "../checks/mcp_request.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::check(bytes));
