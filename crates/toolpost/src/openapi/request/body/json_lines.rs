//! Sequences of JSON values.

use serde_json::Value;

use super::super::media_type;

/// Encodes each item on its own line. `json-seq` adds a record separator before each item (RFC
/// 7464).
pub(super) fn encode(media_type: &str, value: &Value) -> Vec<u8> {
    let is_sequence = media_type::essence(media_type).to_ascii_lowercase().ends_with("json-seq");
    let mut out = Vec::new();
    for item in value.as_array().into_iter().flatten() {
        if is_sequence {
            out.push(0x1e);
        }
        serde_json::to_writer(&mut out, item).expect("a value is JSON already");
        out.push(b'\n');
    }
    out
}
