//! `normalize` against recorded vectors of schemas and values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use toolpost::{Extras, Schema};

/// A normalized value without issues equals the expected result of its vector, except for the
/// listed differences. Unlisted differences and stale entries both fail.
#[test]
fn normalize_matches_recorded_vectors() {
    let allowed = allowed_differences();
    let mut found = BTreeSet::new();
    let (mut compared, mut rejected, mut mismatches) = (0, 0, 0);
    for vector in vectors() {
        let name = vector["name"].as_str().unwrap().to_owned();
        let schema = Schema::new(vector["schema"].clone());
        let mut value = vector["input"].clone();
        let Ok(done) = schema.and_then(|schema| schema.normalize(&mut value, Extras::Strip)) else {
            rejected += 1;
            continue;
        };
        if !done.issues.is_empty() {
            mismatches += 1;
            continue;
        }
        compared += 1;
        let expected = vector.get("intent").unwrap_or(&vector).get("cast");
        if !expected.is_some_and(|expected| json_eq(expected, &value)) {
            if !allowed.contains_key(&name) {
                eprintln!(
                    "{name}\n  schema   {}\n  input    {}\n  expected {}\n  found    {value}",
                    vector["schema"],
                    vector["input"],
                    expected.map_or("an exception".to_owned(), Value::to_string),
                );
            }
            found.insert(name);
        }
    }
    println!("{compared} compared, {mismatches} with errors left, {rejected} schemas rejected");
    let allowed: BTreeSet<String> = allowed.into_keys().collect();
    let new: Vec<_> = found.difference(&allowed).collect();
    let stale: Vec<_> = allowed.difference(&found).collect();
    assert!(new.is_empty() && stale.is_empty(), "new: {new:?}\nstale: {stale:?}");
    assert!(compared > 800, "only {compared} vectors left no error");
    assert!(rejected < 20, "{rejected} schemas do not compile");
}

fn vectors() -> Vec<Value> {
    let text =
        std::fs::read_to_string(data("../../../typebox-cast/tests/data/cast.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the names of vectors that differ intentionally, each with the reason of its group.
fn allowed_differences() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(data("cast-differences.json")).unwrap();
    let groups: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut allowed = BTreeMap::new();
    for group in groups {
        for name in group["vectors"].as_array().unwrap() {
            let reason = group["reason"].as_str().unwrap().to_owned();
            let before = allowed.insert(name.as_str().unwrap().to_owned(), reason);
            assert!(before.is_none(), "{name} is listed twice");
        }
    }
    allowed
}

fn data(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)
}

/// Compares JSON values: members in any order, numbers as `f64`.
fn json_eq(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| json_eq(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, left)| right.get(name).is_some_and(|right| json_eq(left, right)))
        }
        _ => left == right,
    }
}
