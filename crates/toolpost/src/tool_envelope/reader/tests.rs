use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD};
use serde_json::json;

use super::*;
use crate::tool_envelope::PREFIX;

/// Its base64 contains padding and both symbols that differ between the two alphabets.
const VALID_JSON: &str = r#"{"payload":{"q":"?>?>~~ü"},"meta":{"tool":"t","ts":"25","version":1}}"#;

fn block(json: impl AsRef<[u8]>) -> String {
    format!("{PREFIX}{}", BASE64.encode(json.as_ref()))
}

fn assert_rejected(text: &str, expected: &str) {
    match EnvelopeReader::default().read_block(text) {
        Ok(envelope) => panic!("{text} was read as {envelope:?}"),
        Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
    }
}

#[test]
fn read_block_accepts_all_base64_variants() {
    let padded = BASE64.encode(VALID_JSON.as_bytes());
    assert!(padded.contains('+') && padded.contains('/') && padded.ends_with('='), "{padded}");
    let spaced: String = padded.chars().map(|symbol| format!("{symbol} \t\r\n")).collect();
    let cases = [
        padded,
        BASE64_NOPAD.encode(VALID_JSON.as_bytes()),
        BASE64URL.encode(VALID_JSON.as_bytes()),
        BASE64URL_NOPAD.encode(VALID_JSON.as_bytes()),
        spaced,
        BASE64.encode(format!(" {VALID_JSON}\n").as_bytes()),
    ];
    for encoded in cases {
        let envelope = EnvelopeReader::default().read_block(&format!("{PREFIX}{encoded}")).unwrap();
        assert_eq!(envelope.payload, json!({"q": "?>?>~~ü"}), "{encoded}");
        assert_eq!((envelope.meta.tool(), envelope.meta.ts()), ("t", "25"), "{encoded}");
        assert_eq!(envelope.to_block().unwrap(), block(VALID_JSON), "{encoded}");
    }
}

#[test]
fn read_block_rejects_other_prefixes() {
    let encoded = BASE64.encode(VALID_JSON.as_bytes());
    let unsupported = "unsupported envelope version 2 in the prefix, only version 1 is read";
    let cases = [
        ("__ENVELOPE_V2__:", unsupported),
        (
            "__ENVELOPE_V10__:",
            "unsupported envelope version 10 in the prefix, only version 1 is read",
        ),
        ("__ENVELOPE_V01__:", "not an envelope block"),
        ("__ENVELOPE_V0__:", "not an envelope block"),
        ("__ENVELOPE_V__:", "not an envelope block"),
        ("__ENVELOPE_V1.0__:", "not an envelope block"),
        ("__ENVELOPE_V+1__:", "not an envelope block"),
        ("__ENVELOPE_V99999999999999999999__:", "not an envelope block"),
        ("__ENVELOPE_V1__", "not an envelope block"),
        ("__ENVELOPE_V1_:", "not an envelope block"),
        ("__envelope_v1__:", "not an envelope block"),
        (" __ENVELOPE_V1__:", "not an envelope block"),
        ("Result: __ENVELOPE_V1__:", "not an envelope block"),
        ("", "not an envelope block"),
    ];
    for (prefix, expected) in cases {
        assert_rejected(&format!("{prefix}{encoded}"), expected);
    }
}

#[test]
fn read_block_rejects_invalid_base64() {
    let cases = [
        ("eyI$", "invalid base64 character '$' at byte 19"),
        ("eyJwYX%sb2Fk", "invalid base64 character '%' at byte 22"),
        ("e\u{a0}30", "invalid base64 character '\\u{a0}' at byte 17"),
        ("eyJwY", "invalid base64 length: 5 symbols, one more than a multiple of 4"),
        ("eyJw=Yg=", "invalid base64 padding at byte 20"),
        ("eyJwYQ=", "invalid base64 padding at byte 23"),
        ("eyJwYQ===", "invalid base64 padding at byte 24"),
    ];
    for (encoded, expected) in cases {
        assert_rejected(&format!("{PREFIX}{encoded}"), expected);
    }
}

#[test]
fn read_block_reports_trailing_text() {
    // Lengths of 0, 1 and 2 modulo 3, so that base64 ends in none, two and one `=`.
    for tool in ["t", "tt", "ttt"] {
        let json = format!(r#"{{"payload":0,"meta":{{"tool":"{tool}","ts":"","version":1}}}}"#);
        for encoded in [BASE64.encode(json.as_bytes()), BASE64_NOPAD.encode(json.as_bytes())] {
            for behind in ["See above.", "abcd", "abcdefgh", "x", "é", "...", "-- ", "=\"", "{}"] {
                for gap in ["", " ", "\n\n"] {
                    let before = format!("{PREFIX}{encoded}{gap}");
                    let at = before.len() + behind.len() - behind.trim_start_matches('=').len();
                    assert_rejected(
                        &format!("{before}{behind}"),
                        &format!("trailing text after the envelope at byte {at}"),
                    );
                }
            }
        }
    }
    let at = block(VALID_JSON).find('=').unwrap();
    assert_rejected(
        &block(format!("{VALID_JSON} {{}}")),
        &format!("trailing text after the envelope at byte {at}"),
    );
}

#[test]
fn read_block_rejects_non_envelopes() {
    let meta = r#""meta":{"tool":"t","ts":"","version":1}"#;
    let cases = [
        ("", "envelope is not JSON: EOF while parsing a value at line 1 column 0"),
        ("{'payload'", "envelope is not JSON: key must be a string at line 1 column 2"),
        ("{\"payload\":1e999}", "envelope is not JSON: number out of range at line 1 column 16"),
        ("[]", "envelope must be an object, found array"),
        ("null", "envelope must be an object, found null"),
        ("\"x\"", "envelope must be an object, found string"),
        ("7", "envelope must be an object, found number"),
        ("{}", "envelope has no `meta`"),
        ("{\"payload\":0}", "envelope has no `meta`"),
        (&format!("{{{meta}}}"), "envelope has no `payload`"),
        ("{\"meta\":[],\"payload\":0}", "`meta` must be an object, found array"),
        ("{\"meta\":null,\"payload\":0}", "`meta` must be an object, found null"),
    ];
    for (json, expected) in cases {
        assert_rejected(&block(json), expected);
    }
}

#[test]
fn read_block_checks_version_before_other_meta() {
    let cases = [
        (json!({"tool": "t", "ts": ""}), "`meta.version` is missing"),
        (json!({"version": 1, "ts": ""}), "`meta.tool` is missing"),
        (json!({"version": 1, "tool": ""}), "`meta.ts` is missing"),
        (json!({"version": "1"}), "`meta.version` must be a number, found string"),
        (json!({"version": null}), "`meta.version` must be a number, found null"),
        (json!({"version": true}), "`meta.version` must be a number, found boolean"),
        (json!({"version": 1, "tool": 5, "ts": ""}), "`meta.tool` must be a string, found number"),
        (json!({"version": 1, "tool": "", "ts": 0}), "`meta.ts` must be a string, found number"),
        (
            json!({"version": 2}),
            "unsupported envelope version 2 in `meta.version`, only version 1 is read",
        ),
        (
            json!({"version": 1.5}),
            "unsupported envelope version 1.5 in `meta.version`, only version 1 is read",
        ),
        (
            json!({"version": u64::MAX}),
            "unsupported envelope version 18446744073709551615 in `meta.version`, \
             only version 1 is read",
        ),
        (json!({"version": 0}), "`meta.version` is 0, but the prefix has version 1"),
        (json!({"version": -1}), "`meta.version` is -1, but the prefix has version 1"),
    ];
    for (meta, expected) in cases {
        // A later version may have a different payload or none; the version error is reported in
        // both cases.
        for json in [json!({"meta": meta, "payload": 0}), json!({"meta": meta})] {
            assert_rejected(&block(json.to_string()), expected);
        }
    }
}

#[test]
fn read_block_accepts_numeric_version_variants() {
    for version in ["1", "1.0", "1e0", "10e-1"] {
        let json = format!(r#"{{"payload":0,"meta":{{"tool":"","ts":"","version":{version}}}}}"#);
        let envelope = EnvelopeReader::default().read_block(&block(json)).unwrap();
        assert!(serde_json::to_string(&envelope).unwrap().ends_with("\"version\":1}}"));
    }
}

#[test]
fn read_block_rejects_invalid_utf8() {
    let cases: [(&[u8], usize); 4] = [
        (b"\xff\xfe", 0),
        (b"{\"payload\":\"\xc3\x28\",\"meta\":{}}", 12),
        (b"{\"payload\":\"\xed\xa0\x80\"}", 12),
        (b"{\"payload\":\"\xe2\x82", 12),
    ];
    for (bytes, at) in cases {
        let expected = format!("envelope is not valid UTF-8 at decoded byte {at}");
        assert_rejected(&block(bytes), &expected);
    }
}

#[test]
fn read_block_keeps_unknown_members() {
    let json = r#"{"payload":{},"meta":{"tool":"","ts":"","version":1,"host":{"a":1}},"sig":"x"}"#;
    let envelope = EnvelopeReader::default().read_block(&block(json)).unwrap();
    assert_eq!(envelope.meta.extra()["host"], json!({"a": 1}));
    assert_eq!(envelope.extra()["sig"], "x");
    assert_eq!(envelope.to_block().unwrap(), block(json));
}

#[test]
fn read_block_limits_decoded_size() {
    let text = block(VALID_JSON);
    let spaced = text.replace(PREFIX, &format!("{PREFIX}{}", " ".repeat(1000)));
    for text in [&text, &spaced] {
        assert!(EnvelopeReader::with_max_bytes(VALID_JSON.len()).read_block(text).is_ok());
        let error =
            EnvelopeReader::with_max_bytes(VALID_JSON.len() - 1).read_block(text).unwrap_err();
        let expected = format!(
            "envelope of {} bytes is over the limit of {}",
            VALID_JSON.len(),
            VALID_JSON.len() - 1
        );
        assert_eq!(error.to_string(), expected);
    }
    let huge = block(vec![b' '; DEFAULT_MAX_BYTES + 1]);
    assert_rejected(&huge, "envelope of 16777217 bytes is over the limit of 16777216");
}

#[test]
fn read_block_limits_depth_without_recursion() {
    let deep = |levels: usize, close: &str| {
        let nest = format!("{}{}", "[".repeat(levels - 1), close.repeat(levels - 1));
        block(format!(r#"{{"meta":{{"tool":"","ts":"","version":1}},"payload":{nest}}}"#))
    };
    assert!(EnvelopeReader::default().read_block(&deep(MAX_DEPTH, "]")).is_ok());
    let expected = "envelope nests deeper than 127 levels";
    let read = move || {
        assert_rejected(&deep(MAX_DEPTH + 1, "]"), expected);
        assert_rejected(&deep(300_000, "]"), expected);
        assert_rejected(&deep(300_000, ""), expected);
        assert_rejected(&block("{\"a\":".repeat(100_000)), expected);
    };
    let small = std::thread::Builder::new().stack_size(512 * 1024);
    small.spawn(read).unwrap().join().unwrap();
    // Brackets inside strings do not nest.
    let quoted = format!(r#"{{"payload":"\"{}", broken"#, "[".repeat(500));
    let error = EnvelopeReader::default().read_block(&block(quoted)).unwrap_err();
    assert!(matches!(error, EnvelopeError::NotJson { .. }), "{error}");
}

#[test]
fn read_result_requires_two_text_blocks() {
    for (is_error, expected) in [(None, None), (Some(false), Some(false)), (Some(true), Some(true))]
    {
        let mut result = json!({"content": [text("s"), text(&block(VALID_JSON))], "_meta": {}});
        if let Some(is_error) = is_error {
            result["isError"] = json!(is_error);
        }
        let read = EnvelopeReader::default().read_result(&result).unwrap();
        assert_eq!((read.summary, read.is_error), ("s", expected));
        assert_eq!(
            read.envelope,
            EnvelopeReader::default().read_block(&block(VALID_JSON)).unwrap()
        );
    }
}

#[test]
fn read_result_falls_back_to_summary_text() {
    let envelope = text(&block(VALID_JSON));
    let image = json!({"type": "image", "data": "", "mimeType": "image/png", "text": "no"});
    let bad = text("__ENVELOPE_V1__:e30");
    let cases = [
        (json!({"content": [text("s")]}), Some("s"), "2 blocks, found 1"),
        (json!({"content": []}), None, "2 blocks, found 0"),
        (json!({"content": [text("s"), envelope, envelope]}), Some("s"), "2 blocks, found 3"),
        (json!({"content": [envelope, text("s")]}), envelope["text"].as_str(), "envelope block"),
        (json!({"content": [text("s"), text("t")]}), Some("s"), "not an envelope block"),
        (json!({"content": [text("s"), bad]}), Some("s"), ": envelope has no `meta`"),
        (json!({"content": [image, envelope]}), None, "block 0 is not a text block"),
        (json!({"content": [text("s"), image]}), Some("s"), "block 1 is not a text block"),
        (json!({"content": [text("s"), "t"]}), Some("s"), "block 1 is not a text block"),
        (
            json!({"content": [text("s"), envelope], "isError": "true"}),
            Some("s"),
            "`isError` must be a boolean, found string",
        ),
        (json!({"content": "s"}), None, "nor a text block"),
        (json!({}), None, "nor a text block"),
        (json!([text("s")]), None, "nor a text block"),
        (json!(null), None, "nor a text block"),
    ];
    for (result, expected, reason) in cases {
        let fallback = EnvelopeReader::default().read_result(&result).unwrap_err();
        assert_eq!(fallback.text.as_deref(), expected, "{result}");
        let printed = fallback.to_string();
        assert!(printed.starts_with("not an envelope block"), "{printed}");
        assert!(printed.ends_with(reason), "{result}: {printed}");
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
