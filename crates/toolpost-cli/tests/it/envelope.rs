//! `decode` and `encode`.

use super::{json, run_with_stdin, stderr, stdout};

const READABLE: &str = r#"{"payload":{"b":1,"a":[]},"meta":{"tool":"t","ts":"2025-06-17T18:30:00.000Z","version":1},"summary":"Done."}"#;

#[test]
fn encode_decode_round_trips() {
    let encoded = run_with_stdin(&["encode"], READABLE);
    assert!(encoded.status.success(), "{}", stderr(&encoded));
    let result = json(&encoded);
    assert_eq!(result["content"][0]["text"], "Done.");
    let block = result["content"][1]["text"].as_str().unwrap();
    assert!(block.starts_with("__ENVELOPE_V1__:"));

    let decoded = run_with_stdin(&["decode"], &stdout(&encoded));
    assert_eq!(stdout(&decoded).trim(), READABLE, "the order of keys is preserved");
    let from_block = run_with_stdin(&["decode", "-"], block);
    assert_eq!(json(&from_block)["payload"], json(&decoded)["payload"]);
}

#[test]
fn decode_handles_lines_and_plain_text_results() {
    let result = stdout(&run_with_stdin(&["encode"], READABLE));
    let plain = r#"{"content":[{"type":"text","text":"just words"}]}"#;
    let output = run_with_stdin(&["decode"], &format!("{result}{plain}\n{result}"));
    assert_eq!(output.status.code(), Some(1));
    let lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    assert_eq!(lines, [READABLE, "just words", READABLE]);
    assert!(stderr(&output).contains("line 2: not an envelope block"), "{}", stderr(&output));
}

#[test]
fn encode_invalid_input_is_reported() {
    for (input, message) in [
        ("{", "not JSON"),
        ("[]", "found array"),
        (r#"{"payload":1,"summary":""}"#, "`meta` is missing"),
        (&READABLE.replace("\"version\":1", "\"version\":2"), "version 2"),
    ] {
        let output = run_with_stdin(&["encode"], input);
        assert_eq!(output.status.code(), Some(1), "{input}");
        assert!(stderr(&output).contains(message), "{input}: {}", stderr(&output));
    }
}
