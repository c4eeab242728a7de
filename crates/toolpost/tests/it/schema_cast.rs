//! Checks the examples in `docs/cast.md`.

use serde_json::{Value, json};
use toolpost::Schema;

#[test]
fn docs_cast_examples_match() {
    let page = include_str!("../../../../docs/cast.md");
    let examples: Vec<Value> = page
        .split("```json\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap())
        .map(|example| serde_json::from_str(example).unwrap())
        .collect();
    assert!(examples.len() >= 5, "docs/cast.md has too few examples");
    for example in examples {
        let mut value = example["input"].clone();
        let found = match Schema::new(example["schema"].clone()).unwrap().cast(&mut value) {
            Ok(repairs) => json!({"output": value, "repairs": repairs}),
            Err(error) => json!({"error": error.code.as_str(), "path": error.path}),
        };
        for (key, found) in found.as_object().unwrap() {
            assert_eq!(found, &example[key], "{key} of {example}");
        }
    }
}
