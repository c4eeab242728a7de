//! The work of schemas and values stays within its budget. Shared by the fuzz target and the tests.

use serde_json::Value;
use toolpost::{Extras, Schema, WorkLimits};

/// The input is a schema and a value, separated by the first newline or NUL.
pub(crate) fn check(input: &[u8]) {
    let Some(at) = input.iter().position(|byte| matches!(byte, b'\n' | 0)) else { return };
    let (Ok(schema), Ok(value)) = (
        serde_json::from_slice::<Value>(&input[..at]),
        serde_json::from_slice::<Value>(&input[at + 1..]),
    ) else {
        return;
    };
    assert_within_budget(&schema, &value);
}

/// Asserts that the work is within its budget, except for the one charge that exceeds it.
pub(crate) fn assert_within_budget(json: &Value, value: &Value) {
    const MAX_CHARGE: u64 = 1 << 20;
    let Ok(schema) = Schema::new(json.clone()) else { return };
    for extras in [Extras::Strip, Extras::Keep] {
        let mut repaired = value.clone();
        let work = schema.measure(&mut repaired, extras);
        let max_steps = WorkLimits::VALUE.max_steps.max(WorkLimits::SCHEMA.max_steps);
        assert!(work.steps <= max_steps + MAX_CHARGE, "{json}: {work:?}");
        assert!(work.memory <= WorkLimits::VALUE.max_memory + MAX_CHARGE, "{json}: {work:?}");
        assert!(work.issues <= 20, "{json}: {work:?}");
        assert!(!work.is_exceeded || repaired == *value, "{json}: changed over budget");
    }
}
