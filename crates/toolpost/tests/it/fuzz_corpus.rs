//! Runs the checks of the fuzz targets on their corpora.

#[path = "../../../../fuzz/checks/call_frame.rs"]
pub(crate) mod call_frame;
#[path = "../../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/envelope_detection.rs"]
pub(crate) mod envelope_detection;
#[cfg(feature = "mcp")]
#[path = "../../../../fuzz/checks/mcp_message.rs"]
pub(crate) mod mcp_message;
#[cfg(feature = "openapi")]
#[path = "../../../../fuzz/checks/openapi_document.rs"]
pub(crate) mod openapi_document;
#[path = "../../../../fuzz/checks/schema_budget.rs"]
pub(crate) mod schema_budget;
#[cfg(feature = "sse")]
#[path = "../../../../fuzz/checks/sse.rs"]
pub(crate) mod sse;
#[path = "../../../../fuzz/checks/tool_envelope.rs"]
pub(crate) mod tool_envelope;

use corpus::check_corpus;

#[test]
fn call_frame_corpus_passes_checks() {
    check_corpus("call_frame", 20, call_frame::check);
}

#[test]
fn envelope_detection_corpus_passes_checks() {
    check_corpus("envelope_detection", 10, envelope_detection::check);
}

#[cfg(feature = "mcp")]
#[test]
fn mcp_message_corpus_passes_checks() {
    check_corpus("mcp_message", 20, mcp_message::check);
}

#[cfg(feature = "openapi")]
#[test]
fn openapi_document_corpus_passes_checks() {
    check_corpus("openapi_document", 20, openapi_document::check);
}

#[test]
fn schema_budget_corpus_passes_checks() {
    check_corpus("schema_budget", 10, schema_budget::check);
}

#[cfg(feature = "sse")]
#[test]
fn sse_corpus_passes_checks() {
    check_corpus("sse", 20, sse::check);
}

#[test]
fn tool_envelope_corpus_passes_checks() {
    check_corpus("tool_envelope", 10, tool_envelope::check);
}
