//! Runs the checks of the fuzz targets on their corpora.

#[path = "../../../../fuzz/checks/capability.rs"]
pub(crate) mod capability;
#[path = "../../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/journal_forgery.rs"]
pub(crate) mod journal_forgery;
#[path = "../../../../fuzz/checks/mcp_request.rs"]
pub(crate) mod mcp_request;
#[path = "../../../../fuzz/checks/room_message.rs"]
pub(crate) mod room_message;

use corpus::check_corpus;
use proptest::prelude::*;

#[test]
fn capability_corpus_passes_checks() {
    check_corpus("capability", 20, capability::check);
}

#[test]
fn journal_forgery_corpus_passes_checks() {
    check_corpus("journal_forgery", 40, journal_forgery::check);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn forged_journals_never_verify(changes in prop::collection::vec(any::<u8>(), 3..64)) {
        journal_forgery::check(&changes);
    }
}

#[test]
fn mcp_request_corpus_passes_checks() {
    check_corpus("mcp_request", 20, mcp_request::check);
}

#[test]
fn room_message_corpus_passes_checks() {
    check_corpus("room_message", 20, room_message::check);
}
