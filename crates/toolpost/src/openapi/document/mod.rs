//! API documents as they are read: files of JSON or YAML that may refer to each other.

mod builder;
mod duplicates;
mod index;
mod json;
mod large;
mod library;
mod read;
mod reference;
mod text;
mod tree;
mod yaml;

pub(crate) use library::{File, Library, Place};
pub(crate) use read::{ReadError, Reading, read};
pub(crate) use reference::{shown, shown_url};
pub(crate) use tree::{Cell, Node, Tree};
pub(crate) use yaml::each as each_yaml;
