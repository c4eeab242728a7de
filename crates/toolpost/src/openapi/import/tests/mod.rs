//! What becomes of documents.

mod bodies;
mod golden;
mod hostile;
mod inputs;
mod names;
mod natives;
mod real;
mod reports;
mod responses;
mod schemas;
mod surroundings;

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::document::{File, Library, read};
use super::super::settings::Namespaces;
use super::{Import, ImportError, Imported};

/// A document of one file.
fn library(document: &Value) -> Arc<Library> {
    files(&[("https://example.test/api/openapi.json", document.to_string().as_bytes())])
}

fn files(files: &[(&str, &[u8])]) -> Arc<Library> {
    let file = |(address, bytes): &(&str, &[u8])| File {
        address: address.parse().unwrap(),
        tree: read(bytes).unwrap().tree,
    };
    Arc::new(Library::new(files.iter().map(file).collect()))
}

fn import(library: &Arc<Library>, namespace: &str) -> Result<Import, ImportError> {
    super::import(library, namespace, Namespaces::Below)
}

fn imported(document: &Value) -> Import {
    import(&library(document), "api").unwrap()
}

/// A document of that version with these members.
fn document(version: &str, members: &Value) -> Value {
    let name = if version.starts_with('2') { "swagger" } else { "openapi" };
    let mut document = json!({ name: version, "info": {"title": "t", "version": "1"} });
    for (name, value) in members.as_object().unwrap() {
        document[name] = value.clone();
    }
    document
}

/// The only operation of a document, which has nothing odd about it.
fn only(document: &Value) -> Imported {
    let (operation, warnings) = with_warnings(document);
    assert_eq!(warnings, [""; 0], "{document}");
    operation
}

/// The only operation of a document, and the warnings as `at: message`.
fn with_warnings(document: &Value) -> (Imported, Vec<String>) {
    let mut import = imported(document);
    assert_eq!(import.skipped, [], "{document}");
    assert_eq!(import.operations.len(), 1, "{document}");
    let operation = import.operations.remove(0);
    for schema in schemas_of(&operation) {
        schema.compile().unwrap_or_else(|error| panic!("{error} in {:#}", schema.json()));
    }
    let line = |warning: super::Warning| format!("{}: {}", warning.at, warning.message);
    (operation, import.warnings.into_iter().map(line).collect())
}

/// Every schema that an operation has.
fn schemas_of(imported: &Imported) -> Vec<&crate::schema::Schema> {
    let spec = &imported.spec;
    let answers = imported.plan.responses.iter().flat_map(|response| &response.contents);
    [&spec.input_schema, &spec.output_schema]
        .into_iter()
        .chain(spec.error_schemas.iter().map(|error| &error.schema))
        .chain(answers.map(|answer| &answer.schema))
        .collect()
}
