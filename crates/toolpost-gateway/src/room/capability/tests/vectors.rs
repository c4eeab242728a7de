//! Test vectors of both notations, read from files.

use serde_json::Value;

use super::allows;

#[test]
fn shared_capability_vectors_pass() {
    let files = [
        include_str!("../../../../tests/data/capabilities-strings.jsonl"),
        include_str!("../../../../tests/data/capabilities-patterns.jsonl"),
    ];
    let mut failures = Vec::new();
    for line in files.iter().flat_map(|file| file.lines()) {
        let case: Value = serde_json::from_str(line).unwrap();
        let kind = case["message"]["kind"].as_str().unwrap();
        let allowed = allows(&case["capability"], kind, case["message"].get("payload"));
        if allowed != case["allow"].as_bool().unwrap() {
            failures.push(line);
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
