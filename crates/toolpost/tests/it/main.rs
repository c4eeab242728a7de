//! Integration tests of the library, in one binary.
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and its rows are tuples"
)]

mod envelope_properties;
mod errors;
mod examples;
mod fuzz_corpus;
mod hub;
mod json_strategy;
mod layers;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_conformance;
#[cfg(feature = "mcp")]
mod mcp_oauth;
#[cfg(feature = "openapi")]
mod openapi;
#[cfg(feature = "openapi")]
mod openapi_documents;
#[cfg(feature = "openapi")]
mod openapi_properties;
mod schema_attacks;
mod schema_budget;
#[cfg(feature = "typebox-cast")]
mod schema_cast;
mod schema_corpus;
mod schema_generators;
mod schema_hostile;
mod schema_normalize;
mod schema_normalize_vectors;
mod schema_properties;
mod schema_test_suite;
#[cfg(feature = "sse")]
mod sse;
mod tool_envelope;
mod transports;
#[cfg(feature = "mcp")]
mod view;
