//! The readers of documents, for those who try them with anything and those who measure them.

use std::sync::Arc;

use serde_json::Value;

use super::document::{self, DocumentFile, DocumentSet, Tree};
use super::import::{self, ImportReport};
use super::settings::Namespaces;

/// A document that was read.
#[derive(Debug)]
pub struct ParsedDocument(Tree);

impl ParsedDocument {
    /// Reads JSON or YAML, or says why not.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let reading = document::parse(bytes).map_err(|error| error.to_string())?;
        Ok(Self(reading.tree))
    }

    /// Imports it as a document that stands alone, or says why it is none.
    pub fn import(self) -> Result<ImportReport, String> {
        let url = "file:///document".parse().expect("it is an address");
        let documents = DocumentSet::new(vec![DocumentFile { url, tree: self.0 }]);
        let import = import::import(&Arc::new(documents), "any", Namespaces::Below);
        import.map(ImportReport::from).map_err(|error| error.to_string())
    }

    /// All of it, copied out.
    pub fn to_value(&self) -> Value {
        self.0.root().to_value()
    }
}

/// What each of the two readers of YAML makes of a text.
pub fn parse_yaml_with_both_readers(text: &str) -> [Option<Value>; 2] {
    document::parse_with_both_readers(text).map(|tree| tree.map(|tree| tree.root().to_value()))
}
