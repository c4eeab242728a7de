//! Casts compared with TypeBox's results, their documented properties, and hostile input.

mod hostile;
mod properties;
mod vectors;

use serde_json::Value;
use typebox_cast::CastRepair;

/// Compares JSON values: members in any order, numbers as `f64`.
fn json_eq(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| json_eq(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| json_eq(a, b)))
        }
        _ => left == right,
    }
}

/// Asserts that the repairs are correct and account for every difference.
fn assert_repairs_explain(before: &Value, after: &Value, repairs: &[CastRepair]) {
    for repair in repairs {
        assert_eq!(repair.from.as_ref(), before.pointer(&repair.path), "{repair:?} in {before}");
        assert_eq!(repair.to.as_ref(), after.pointer(&repair.path), "{repair:?} in {after}");
        assert_ne!(repair.from, repair.to, "a repair changes something");
    }
    let mut differences = Vec::new();
    collect_differences(Some(before), Some(after), "", &mut differences);
    for difference in differences {
        let covers = |repair: &CastRepair| {
            difference
                .strip_prefix(repair.path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        assert!(
            repairs.iter().any(covers),
            "`{difference}` is not explained: {before} {after} {repairs:?}"
        );
    }
}

fn collect_differences(
    before: Option<&Value>,
    after: Option<&Value>,
    path: &str,
    found: &mut Vec<String>,
) {
    let step = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
    match (before, after) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                collect_differences(a.get(key), b.get(key), &step(key), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                collect_differences(a.get(index), b.get(index), &step(&index.to_string()), found);
            }
        }
        (a, b) if a == b => {}
        _ => found.push(path.to_owned()),
    }
}
