//! 2,938 vectors with the results of TypeBox.

use serde_json::Value;
use typebox_cast::CastSchema;

use super::{assert_repairs_explain, json_eq};

#[test]
fn cast_matches_typebox_vectors() {
    let mut wrong = Vec::new();
    let mut lines = 0;
    for line in include_str!("../data/cast.jsonl").lines() {
        lines += 1;
        let case: Value = serde_json::from_str(line).unwrap();
        if let Err(problem) = run(&case) {
            wrong.push(format!("{}: {problem}\n  {line}", case["name"]));
        }
    }
    assert!(wrong.is_empty(), "{} lines differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(lines, 2938);
}

fn run(case: &Value) -> Result<(), String> {
    // For JavaScript quirks, `noQuirk` has the expected result.
    let expected = case.get("noQuirk").unwrap_or(case);
    let input = &case["input"];
    let mut value = input.clone();
    let found = CastSchema::new(&case["schema"]).cast(&mut value);
    match (expected.get("throws"), found) {
        (Some(code), Err(error)) if code == error.code.as_str() => {
            assert_eq!(value, *input, "a failed cast does not change the value");
            Ok(())
        }
        (None, Ok(repairs)) if json_eq(&value, &expected["cast"]) => {
            assert_repairs_explain(input, &value, &repairs);
            let valid = expected["validBefore"] == true;
            assert!(!valid || (value == *input && repairs.is_empty()), "{}", case["name"]);
            Ok(())
        }
        (_, found) => Err(format!("found {found:?}, {value}")),
    }
}
