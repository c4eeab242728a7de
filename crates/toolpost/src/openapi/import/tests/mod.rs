//! Tests of the import.

mod bodies;
mod documents;
mod golden;
mod hostile;
mod names;
mod parameters;
mod peer_gateways;
mod reports;
mod responses;
mod schemas;
mod servers_and_security;

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::document::{DocumentFile, DocumentSet, parse};
use super::super::settings::Namespaces;
use super::{ImportError, ImportResult, ImportedOperation};

/// Returns a document set with one file.
fn document_set(document: &Value) -> Arc<DocumentSet> {
    document_set_of(&[("https://example.test/api/openapi.json", document.to_string().as_bytes())])
}

fn document_set_of(files: &[(&str, &[u8])]) -> Arc<DocumentSet> {
    let file = |(address, bytes): &(&str, &[u8])| DocumentFile {
        url: address.parse().unwrap(),
        tree: parse(bytes).unwrap().tree,
    };
    Arc::new(files.iter().map(file).collect())
}

fn import(documents: &Arc<DocumentSet>, namespace: &str) -> Result<ImportResult, ImportError> {
    super::import(documents, namespace, Namespaces::Below)
}

fn import_document(document: &Value) -> ImportResult {
    import(&document_set(document), "api").unwrap()
}

/// Returns a document of this version with these members.
fn document(version: &str, members: &Value) -> Value {
    let name = if version.starts_with('2') { "swagger" } else { "openapi" };
    let mut document = json!({ name: version, "info": {"title": "t", "version": "1"} });
    for (name, value) in members.as_object().unwrap() {
        document[name] = value.clone();
    }
    document
}

/// Imports a document with one operation and asserts that there are no warnings.
fn import_single(document: &Value) -> ImportedOperation {
    let (operation, warnings) = import_single_with_warnings(document);
    assert_eq!(warnings, [""; 0], "{document}");
    operation
}

/// Imports a document with one operation. Returns it with the warnings as `at: message`.
fn import_single_with_warnings(document: &Value) -> (ImportedOperation, Vec<String>) {
    let mut import = import_document(document);
    assert_eq!(import.skipped, [], "{document}");
    assert_eq!(import.operations.len(), 1, "{document}");
    let operation = import.operations.remove(0);
    for schema in schemas_of(&operation) {
        schema.compile().unwrap_or_else(|error| panic!("{error} in {:#}", schema.json()));
    }
    let line = |warning: super::DocumentWarning| format!("{}: {}", warning.at, warning.message);
    (operation, import.warnings.into_iter().map(line).collect())
}

/// Returns all schemas of an operation.
fn schemas_of(imported: &ImportedOperation) -> Vec<&crate::schema::Schema> {
    let spec = &imported.spec;
    let replies = imported.plan.responses.iter().flat_map(|response| &response.contents);
    [&spec.input_schema, &spec.output_schema]
        .into_iter()
        .chain(spec.error_schemas.iter().map(|error| &error.schema))
        .chain(replies.map(|reply| &reply.schema))
        .collect()
}
