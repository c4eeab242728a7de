//! Invariants that hold for any input; shared by the fuzz target and the corpus replay.

use serde_json::Value;
use toolpost::{ContentBlock, Envelope, Payload};

/// Parses `bytes` as an envelope and as a content block, from raw text and from a `Value`.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(payload) = Payload::from_json(text.to_owned()) else { return };
    let as_text = Envelope::detect_payload(payload);
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    check_block(&value);
    match Envelope::detect(value.clone()) {
        Ok(envelope) => {
            assert!(Envelope::is_envelope(&value));
            check_envelope(&envelope);
            // Duplicate names are lost in a `Value` but not in text; otherwise both agree.
            if let Ok(as_text) = as_text {
                assert_eq!(as_text.into_value().ok().as_ref(), Some(&envelope));
            }
        }
        Err(data) => {
            assert!(!Envelope::is_envelope(&value));
            assert_eq!(data, value, "plain data is unchanged");
        }
    }
}

/// A parsed envelope round-trips.
fn check_envelope(envelope: &Envelope) {
    let wire = serde_json::to_value(envelope).expect("an envelope is JSON");
    assert_eq!(Envelope::detect(wire).as_ref(), Ok(envelope));
    let _ = envelope.next_page();
    let _ = envelope.clone().into_result();
}

/// A block round-trips unchanged, or becomes a text block with its JSON.
fn check_block(value: &Value) {
    let block = ContentBlock::from_value(value.clone());
    let written = block.clone().into_value();
    assert_eq!(ContentBlock::from_value(written.clone()), block);
    if written != *value {
        let text = written["text"].as_str().expect("a block of text");
        assert_eq!(serde_json::from_str::<Value>(text).ok().as_ref(), Some(value));
    }
}
