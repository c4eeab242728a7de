//! The input is a schema and a value, separated by the first newline or NUL. Nothing panics,
//! validity agrees with the `jsonschema` crate, and normalizing is idempotent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolpost::{Extras, Schema};
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let Some(at) = input.iter().position(|byte| matches!(byte, b'\n' | 0)) else { return };
    let (Ok(json), Ok(value)) = (
        serde_json::from_slice::<Value>(&input[..at]),
        serde_json::from_slice::<Value>(&input[at + 1..]),
    ) else {
        return;
    };
    let Ok(schema) = Schema::new(json) else { return };
    for extras in [Extras::Strip, Extras::Keep] {
        check(&schema, &value, extras);
    }
});

fn check(schema: &Schema, value: &Value, extras: Extras) {
    let mut output = value.clone();
    let Ok(done) = schema.normalize(&mut output, extras) else { return };
    let mut again = output.clone();
    let second = schema.normalize(&mut again, extras).expect("it compiled before");
    assert!(second.repairs.is_empty(), "not idempotent: {:?}", second.repairs);
    assert_eq!(again, output);
    assert_eq!(done.issues.is_empty(), schema.is_valid(&output).expect("it compiled before"));
    // The crate rejects or ignores some notations; such schemas are not compared.
    if let Ok(validator) = jsonschema::options().should_validate_formats(false).build(&schema.json())
        && !schema.json().to_string().contains("nullable")
        && !schema.is_cyclic().expect("it compiled before")
    {
        assert_eq!(done.issues.is_empty(), validator.is_valid(&output), "validation results differ");
    }
}
