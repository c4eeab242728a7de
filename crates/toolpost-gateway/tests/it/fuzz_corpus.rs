//! Runs the checks of the fuzz targets on their corpora.

#[path = "../../../../fuzz/checks/capability.rs"]
pub(crate) mod capability;
#[path = "../../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/mcp_request.rs"]
pub(crate) mod mcp_request;
#[path = "../../../../fuzz/checks/room_message.rs"]
pub(crate) mod room_message;

use corpus::check_corpus;

#[test]
fn capability_corpus_passes_checks() {
    check_corpus("capability", 20, capability::check);
}

#[test]
fn mcp_request_corpus_passes_checks() {
    check_corpus("mcp_request", 20, mcp_request::check);
}

#[test]
fn room_message_corpus_passes_checks() {
    check_corpus("room_message", 20, room_message::check);
}
