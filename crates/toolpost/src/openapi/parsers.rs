//! Document parsers for fuzz tests and benchmarks.

use std::sync::Arc;

use serde_json::Value;

use super::document::{self, DocumentFile, DocumentSet, Tree};
use super::import::{self, ImportReport};
use super::settings::Namespaces;

/// A parsed document.
#[derive(Debug)]
pub struct ParsedDocument(Tree);

impl ParsedDocument {
    /// Parses JSON or YAML. The error is a message.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let reading = document::parse(bytes).map_err(|error| error.to_string())?;
        Ok(Self(reading.tree))
    }

    /// Imports the document without external references. The error is a message.
    pub fn import(self) -> Result<ImportReport, String> {
        let url = "file:///document".parse().expect("a valid literal URL");
        let documents = DocumentSet::from_iter([DocumentFile { url, tree: self.0 }]);
        let import = import::import(&Arc::new(documents), "any", Namespaces::Below);
        import.map(ImportReport::from).map_err(|error| error.to_string())
    }

    /// Copies the document into a [`Value`].
    pub fn to_value(&self) -> Value {
        self.0.root().to_value()
    }
}

/// Parses a YAML text with each of the two readers. `None` if a reader rejects it.
pub fn parse_yaml_with_both_readers(text: &str) -> [Option<Value>; 2] {
    document::parse_with_both_readers(text).map(|tree| tree.map(|tree| tree.root().to_value()))
}
