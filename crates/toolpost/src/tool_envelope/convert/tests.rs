use serde_json::json;

use super::*;
use crate::tool_envelope::PREFIX;

fn workflow() -> Value {
    let envelope = ToolEnvelope::new(json!({"z": 1, "a": [2]}), ToolEnvelopeMeta::new("plan", 0));
    envelope.to_result("## Plan").unwrap()
}

fn failure() -> Value {
    let payload = ErrorPayload::from_call_error("TIMEOUT", "too late", None);
    crate::tool_envelope::error_result(&payload, 0).unwrap()
}

fn with(mut result: Value, member: &str, value: Value) -> Value {
    result[member] = value;
    result
}

#[test]
fn decode_result_block_and_text_are_equal() {
    let result = workflow();
    let block = &result["content"][1];
    let text = block["text"].as_str().unwrap();
    let expected = |summary: &str| {
        format!(
            r#"{{"payload":{{"z":1,"a":[2]}},"meta":{{"tool":"plan","ts":"1970-01-01T00:00:00.000Z","version":1}},"summary":"{summary}"}}"#
        )
    };
    let cases = [
        (result.to_string(), "## Plan"),
        (format!("\n{result:#}\n"), "## Plan"),
        (block.to_string(), ""),
        (block["text"].to_string(), ""),
        (text.to_owned(), ""),
        (format!("{text}\n"), ""),
    ];
    for (input, summary) in cases {
        let decoded = decode(&EnvelopeReader::default(), &input).unwrap();
        assert_eq!(decoded.to_string(), expected(summary), "{input}");
    }
}

#[test]
fn encode_reproduces_decoded_bytes() {
    let extra = {
        let mut envelope = ToolEnvelope::new(json!(null), ToolEnvelopeMeta::new("x", 0));
        envelope.extra.insert("sig".to_owned(), json!({"a": 1}));
        envelope.to_result("s").unwrap()
    };
    let cases = [
        (workflow(), vec!["payload", "meta", "summary"]),
        (failure(), vec!["payload", "meta", "summary"]),
        (extra, vec!["payload", "meta", "summary", "extra"]),
        (with(workflow(), "isError", json!(true)), vec!["payload", "meta", "summary", "isError"]),
        (with(workflow(), "isError", json!(false)), vec!["payload", "meta", "summary", "isError"]),
        (with(failure(), "isError", json!(false)), vec!["payload", "meta", "summary", "isError"]),
    ];
    for (result, keys) in cases {
        let input = result.to_string();
        let decoded = decode(&EnvelopeReader::default(), &input).unwrap();
        assert_eq!(decoded.as_object().unwrap().keys().collect::<Vec<_>>(), keys, "{input}");
        assert_eq!(encode(decoded).unwrap().to_string(), input);
    }
}

#[test]
fn encode_error_block_sets_is_error() {
    let block = failure()["content"][1].to_string();
    let encoded = encode(decode(&EnvelopeReader::default(), &block).unwrap()).unwrap();
    assert_eq!(encoded["isError"], true);
    assert_eq!(encoded["content"][0]["text"], "");
}

#[test]
fn decode_without_envelope_returns_text() {
    let one = r#"{"content":[{"type":"text","text":"only"}],"isError":true}"#;
    let cases = [
        ("plain text", Some("plain text"), "not an envelope block"),
        ("", Some(""), "not an envelope block"),
        (r#"{"type":"text","text":"words"}"#, Some("words"), "not an envelope block"),
        (r#""words""#, Some("words"), "not an envelope block"),
        (
            one,
            Some("only"),
            "not an envelope block: a tool result with an envelope has 2 blocks, found 1",
        ),
        (
            r#"{"a":1}"#,
            None,
            "not an envelope block: neither a tool result with a `content` array nor a text block",
        ),
        (
            "{oops",
            Some("{oops"),
            "not an envelope block: tool result is not JSON: key must be a string at line 1 column 2",
        ),
        (
            "__ENVELOPE_V3__:e30=",
            Some("__ENVELOPE_V3__:e30="),
            "not an envelope block: unsupported envelope version 3 in the prefix, \
             only version 1 is read",
        ),
    ];
    for (input, text, reason) in cases {
        let fallback = decode(&EnvelopeReader::default(), input).unwrap_err();
        assert_eq!(fallback.text.as_deref(), text, "{input}");
        assert_eq!(fallback.to_string(), reason, "{input}");
    }
}

#[test]
fn decode_enforces_reader_limit() {
    let input = workflow().to_string();
    let fallback = decode(&EnvelopeReader::with_max_bytes(10), &input).unwrap_err();
    assert_eq!(fallback.text.as_deref(), Some("## Plan"));
    assert!(matches!(fallback.reason, EnvelopeError::TooLarge { limit: 10, .. }));
}

#[test]
fn encode_rejects_invalid_shapes() {
    let meta = json!({"tool": "t", "ts": "", "version": 1});
    let deep = (0..200).fold(json!(0), |inner, _| json!([inner]));
    let cases = [
        (json!([]), "expected an object with `payload`, `meta` and `summary`, found array"),
        (json!({"meta": meta, "summary": ""}), "`payload` is missing"),
        (json!({"payload": 0, "summary": ""}), "`meta` is missing"),
        (json!({"payload": 0, "meta": meta}), "`summary` is missing"),
        (
            json!({"payload": 0, "meta": meta, "summary": null}),
            "`summary` must be a string, found null",
        ),
        (json!({"payload": 0, "meta": [], "summary": ""}), "`meta` must be an object, found array"),
        (
            json!({"payload": 0, "meta": {"tool": "t", "ts": "", "version": 2}, "summary": ""}),
            "unsupported envelope version 2 in `meta.version`, only version 1 is read",
        ),
        (
            json!({"payload": 0, "meta": meta, "summary": "", "isError": 1}),
            "`isError` must be a boolean, found number",
        ),
        (
            json!({"payload": 0, "meta": meta, "summary": "", "extra": []}),
            "`extra` must be an object, found array",
        ),
        (
            json!({"payload": 0, "meta": meta, "summary": "", "extra": {"meta": 1}}),
            "`extra.meta` is a member of the envelope itself",
        ),
        (
            json!({"payload": 0, "meta": meta, "summary": "", "sumary": ""}),
            "unknown member `sumary`",
        ),
        (
            json!({"payload": deep, "meta": meta, "summary": ""}),
            "envelope nests deeper than 127 levels",
        ),
    ];
    for (json, expected) in cases {
        let input_text = json.to_string();
        assert_eq!(encode(json).unwrap_err().to_string(), expected, "{input_text}");
    }
}

#[test]
fn encode_writes_canonical_base64() {
    let encoded =
        encode(decode(&EnvelopeReader::default(), &workflow().to_string()).unwrap()).unwrap();
    let block = encoded["content"][1]["text"].as_str().unwrap();
    assert!(block.starts_with(PREFIX) && block.len().is_multiple_of(4), "{block}");
}
