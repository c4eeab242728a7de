//! The readers of documents, for those who try them with anything and those who measure them.

use std::sync::Arc;

use serde_json::Value;

use super::document::{self, File, Library, Tree};
use super::import::{self, Report};
use super::settings::Namespaces;

/// A document that was read.
#[derive(Debug)]
pub struct Document(Tree);

impl Document {
    /// Reads JSON or YAML, or says why not.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let reading = document::read(bytes).map_err(|error| error.to_string())?;
        Ok(Self(reading.tree))
    }

    /// Imports it as a document that stands alone, or says why it is none.
    pub fn import(self) -> Result<Report, String> {
        let address = "file:///document".parse().expect("it is an address");
        let library = Library::new(vec![File { address, tree: self.0 }]);
        let import = import::import(&Arc::new(library), "any", Namespaces::Below);
        import.map(Report::from).map_err(|error| error.to_string())
    }

    /// All of it, copied out.
    pub fn to_value(&self) -> Value {
        self.0.root().to_value()
    }
}

/// What each of the two readers of YAML makes of a text.
pub fn each_yaml(text: &str) -> [Option<Value>; 2] {
    document::each_yaml(text).map(|tree| tree.map(|tree| tree.root().to_value()))
}
