//! Properties of `normalize` that hold for every schema and value.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value;
use toolpost::{Extras, Issue, Normalized, RepairAction, Schema};

use crate::schema_generators::{schema, schema_with_defaults, value};

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), rng_seed: seed(), ..ProptestConfig::default() })]

    #[test]
    fn is_valid_agrees_with_jsonschema_crate(schema in schema(), value in value()) {
        if let Some((schema, validator)) = compile_both(&schema) {
            prop_assert_eq!(schema.is_valid(&value).unwrap(), validator.is_valid(&value));
        }
    }

    #[test]
    fn normalize_invariants_hold_for_any_default(
        schema in schema_with_defaults(),
        value in value(),
        keep: bool,
    ) {
        if let Some((schema, validator)) = compile_both(&schema) {
            let extras = if keep { Extras::Keep } else { Extras::Strip };
            assert_normalize_invariants(&schema, &validator, &value, extras);
        }
    }

    #[test]
    fn normalize_invariants_hold(schema in schema(), value in value(), keep: bool) {
        if let Some((schema, validator)) = compile_both(&schema) {
            let extras = if keep { Extras::Keep } else { Extras::Strip };
            assert_normalize_invariants(&schema, &validator, &value, extras);
        }
    }
}

/// Returns the number of cases: `PROPTEST_CASES` if set, otherwise more in CI than locally.
fn cases() -> u32 {
    let configured = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    configured.unwrap_or(if std::env::var_os("CI").is_some() { 5_000 } else { 400 })
}

/// Fixed seed by default, so that a failure is caused by the current change; random if
/// `PROPTEST_CASES` is set.
fn seed() -> RngSeed {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => RngSeed::Random,
        None => RngSeed::Fixed(2026),
    }
}

/// An invalid default does not make a value invalid that matches a union without it.
#[test]
fn union_valid_without_invalid_default_stays_valid() {
    let json = serde_json::json!({"anyOf": [
        {"properties": {"x": {"type": "null", "default": {}}, "y": {}}},
        {"enum": [true]},
    ]});
    let (schema, validator) = compile_both(&json).unwrap();
    for extras in [Extras::Strip, Extras::Keep] {
        assert_normalize_invariants(
            &schema,
            &validator,
            &serde_json::json!({"b": 1, "a": []}),
            extras,
        );
    }
}

fn compile_both(json: &Value) -> Option<(Schema, jsonschema::Validator)> {
    let validator = jsonschema::options().should_validate_formats(false).build(json).ok()?;
    let schema = Schema::new(json.clone()).unwrap();
    // JSON Schema does not define the meaning of a schema that applies itself to the same value.
    (!schema.is_cyclic().unwrap()).then_some((schema, validator))
}

/// Checks the invariants for one schema and value. Also used for the fuzz corpus.
pub(crate) fn assert_normalize_invariants(
    schema: &Schema,
    validator: &jsonschema::Validator,
    input: &Value,
    extras: Extras,
) {
    let mut output = input.clone();
    let done = schema.normalize(&mut output, extras).unwrap();
    let is_valid = validator.is_valid(&output);
    assert!(is_valid || !validator.is_valid(input), "stays valid: {schema:?} {input} {output}");
    assert_eq!(done.issues.is_empty(), is_valid, "{schema:?} {input} {output}");
    assert_eq!(replay_repairs(input, &done), output, "applying the repairs gives the result");
    assert_eq!(replay_repairs(input, &done).to_string(), output.to_string(), "in the same order");
    for repair in &done.repairs {
        assert!(!repair.action.is_warning(), "nothing is invented or replaced: {repair:?}");
        assert!(extras == Extras::Strip || repair.action != RepairAction::Stripped);
    }
    assert_eq!(
        sorted(&done.issues),
        sorted(&schema.validate(&output).unwrap()),
        "{schema:?} {output}"
    );
    let mut again = output.clone();
    let second = schema.normalize(&mut again, extras).unwrap();
    assert_eq!(second.repairs, [], "idempotent: {schema:?} {input} {output}");
    assert_eq!(again, output);
    assert_eq!(second.issues, done.issues);
}

fn sorted(issues: &[Issue]) -> Vec<String> {
    let mut written: Vec<String> = issues.iter().map(ToString::to_string).collect();
    written.sort();
    written
}

/// Applies the repairs to the input one by one.
fn replay_repairs(input: &Value, done: &Normalized) -> Value {
    let mut value = input.clone();
    for repair in &done.repairs {
        if repair.action == RepairAction::Converted {
            let target = value.pointer_mut(&repair.path).unwrap();
            assert_eq!(Some(&*target), repair.from.as_ref());
            *target = repair.to.clone().unwrap();
            continue;
        }
        let (parent, token) = repair.path.rsplit_once('/').unwrap();
        let name = token.replace("~1", "/").replace("~0", "~");
        let parent = value.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
        match &repair.to {
            Some(to) => assert_eq!(parent.insert(name, to.clone()), None, "defaults fill gaps"),
            None => assert_eq!(parent.shift_remove(&name), repair.from, "extras were there"),
        }
    }
    value
}
