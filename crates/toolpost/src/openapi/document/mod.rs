//! Parsed API documents: JSON or YAML files that may refer to each other.

mod document_set;
mod duplicate_keys;
mod interner;
mod json;
mod large_objects;
mod parse;
mod reference;
mod reference_index;
mod tree;
mod tree_builder;
mod yaml;

pub(crate) use document_set::{DocumentFile, DocumentSet, Node, NodeRef};
pub(crate) use parse::{DocumentParseError, ParsedFile, parse};
pub(crate) use reference::redact_reference;
pub(crate) use tree::{CompactValue, Tree, TreeNode};
pub(crate) use yaml::parse_with_both_readers;
