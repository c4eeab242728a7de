//! Everything about the library that is tested from outside, in one binary.
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and its rows are tuples"
)]

mod envelope_properties;
mod examples;
mod tool_envelope;
mod walls;
