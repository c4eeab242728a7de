//! Invariants that hold for any input; shared by the fuzz target and the corpus replay.

use serde_json::Value;
use toolpost::openapi::parsers::{ParsedDocument, parse_yaml_with_both_readers};

/// Parses and imports `bytes` as an OpenAPI document. JSON must parse to the same value as with
/// `serde_json`.
pub(crate) fn check(bytes: &[u8]) {
    let ours = ParsedDocument::parse(bytes).map(|document| document.to_value());
    import(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let readings = parse_yaml_with_both_readers(text);
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    if !value.is_array() && !value.is_object() {
        return;
    }
    match &ours {
        Ok(ours) => assert_eq!(*ours, value),
        Err(error) => assert!(error.contains("deep"), "{error}"),
    }
    // JSON is valid YAML: the reader returns the same value or rejects the document.
    let [first, _] = readings;
    assert!(first.is_none_or(|first| first == value), "YAML differs");
}

/// Asserts that all schemas of imported operations compile.
fn import(bytes: &[u8]) {
    let Ok(Ok(report)) = ParsedDocument::parse(bytes).map(ParsedDocument::import) else { return };
    for spec in &report.operations {
        let errors = spec.error_schemas.iter().map(|error| &error.schema);
        for schema in [&spec.input_schema, &spec.output_schema].into_iter().chain(errors) {
            schema.compile().expect("every schema compiles");
        }
    }
}
