//! Invariants that hold for any input; shared by the fuzz target and the corpus replay.

use serde_json::Value;
use toolpost::tool_envelope::{
    EnvelopeReader, ErrorPayload, PREFIX, ToolEnvelope, WorkflowPayload, decode, encode,
};

/// Parses `bytes` in every form that an envelope can have.
pub(crate) fn check(bytes: &[u8]) {
    let reader = EnvelopeReader::with_max_bytes(1 << 20);
    let text = String::from_utf8_lossy(bytes);
    let packed = format!("{PREFIX}{}", data_encoding::BASE64.encode(bytes));
    for block in [&*text, &format!("{PREFIX}{text}"), &packed] {
        if let Ok(envelope) = reader.read_block(block) {
            check_envelope(&reader, &envelope);
        }
        check_conversion(&reader, block);
    }
    if let Ok(result) = serde_json::from_slice::<Value>(bytes)
        && let Ok(read) = reader.read_result(&result)
    {
        check_envelope(&reader, &read.envelope);
    }
}

/// A parsed envelope can be written, and it round-trips unchanged from then on.
fn check_envelope(reader: &EnvelopeReader, envelope: &ToolEnvelope) {
    let written = envelope.to_block().expect("what was read can be written");
    let again = reader.read_block(&written).expect("what was written can be read");
    assert_eq!(&again, envelope);
    assert_eq!(again.to_block().as_ref(), Ok(&written));
    if let Ok(payload) = WorkflowPayload::read(&envelope.payload) {
        assert_eq!(serde_json::to_value(payload).expect("is JSON"), envelope.payload);
    }
    if let Ok(payload) = ErrorPayload::read(&envelope.payload) {
        assert!(!payload.to_string().is_empty());
        assert_eq!(serde_json::to_value(payload).expect("is JSON"), envelope.payload);
    }
}

/// Decoding to readable JSON and encoding to a tool result round-trip.
fn check_conversion(reader: &EnvelopeReader, input: &str) {
    match decode(reader, input) {
        Ok(readable) => {
            let result = encode(readable.clone()).expect("what was decoded can be encoded");
            let again = decode(reader, &result.to_string()).expect("and decoded again");
            assert_eq!(again, readable);
        }
        Err(fallback) => assert!(fallback.to_string().starts_with("not an envelope block")),
    }
}
