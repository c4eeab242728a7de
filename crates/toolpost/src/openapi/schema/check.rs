//! Checks each schema of a document once for keywords that are omitted when the schema is written.

use std::collections::{HashSet, VecDeque};

use super::super::document::{NodeRef, TreeNode};
use super::context::SchemaContext;
use super::document_path::DocumentPath;
use super::input::parameter_schema;
use super::keyword::{
    KeywordRule, is_annotation, is_nullable, is_schema, keyword_error, keyword_rule,
};
use super::schema_writer::{dialect_ignores_ref_siblings, resolve_schema};

/// A problem in a document that does not prevent the import.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct DocumentWarning {
    /// JSON Pointer into the document, after the file name if it is another file.
    pub at: String,
    /// The problem and its effect.
    pub message: String,
}

impl DocumentWarning {
    /// Creates a warning. An empty path means the whole document.
    pub fn new(at: impl Into<String>, message: impl Into<String>) -> Self {
        Self { at: at.into(), message: message.into() }
    }
}

/// Checks schemas and collects warnings. Visited schemas are skipped, because most are used many
/// times.
#[derive(Debug, Default)]
pub(crate) struct SchemaChecker {
    visited: HashSet<NodeRef>,
    pub(crate) warnings: Vec<DocumentWarning>,
}

impl SchemaChecker {
    pub(crate) fn warn(&mut self, doc_path: &DocumentPath<'_>, message: impl Into<String>) {
        self.warnings.push(DocumentWarning { at: doc_path.to_string(), message: message.into() });
    }

    /// Checks a schema and all schemas that it refers to.
    pub(crate) fn check_schema(
        &mut self,
        context: &SchemaContext,
        node_ref: NodeRef,
        doc_path: &DocumentPath<'_>,
    ) {
        if !self.visited.insert(node_ref) {
            return;
        }
        let mut walk = CheckWalk { context, checker: self, queue: VecDeque::new() };
        walk.check_schema(node_ref, doc_path, context.ignores_ref_siblings);
        while let Some((node_ref, reference)) = walk.queue.pop_front() {
            walk.check_schema(
                node_ref,
                &DocumentPath::Reference(&reference),
                context.ignores_ref_siblings,
            );
        }
    }

    /// Checks the schema of a parameter. A parameter without a schema is checked as a schema
    /// itself.
    pub(crate) fn check_parameter(
        &mut self,
        context: &SchemaContext,
        node_ref: NodeRef,
        doc_path: &DocumentPath<'_>,
    ) {
        match parameter_schema(context, node_ref) {
            Some(schema) => self.check_schema(context, schema, &doc_path.member("schema")),
            None => self.check_schema(context, node_ref, doc_path),
        }
    }
}

struct CheckWalk<'c, 'w> {
    context: &'c SchemaContext,
    checker: &'w mut SchemaChecker,
    queue: VecDeque<(NodeRef, String)>,
}

impl<'c> CheckWalk<'c, '_> {
    fn check_schema(
        &mut self,
        node_ref: NodeRef,
        doc_path: &DocumentPath<'_>,
        ignores_ref_siblings: bool,
    ) {
        let node = self.context.documents.node(node_ref);
        let dialect = node.get("$schema").and_then(TreeNode::as_str);
        let ignores_ref_siblings =
            dialect.map_or(ignores_ref_siblings, dialect_ignores_ref_siblings);
        let reference = node.get("$ref").and_then(TreeNode::as_str);
        if let Some(reference) = reference.filter(|_| ignores_ref_siblings) {
            return self.check_reference(node_ref, reference, doc_path);
        }
        for (keyword, value) in node.members() {
            match keyword_error(self.context, keyword, value, node) {
                Some(message) if is_worth_warning(keyword, value, node) => {
                    self.checker.warn(&doc_path.member(keyword), message);
                }
                Some(_) => {}
                None => {
                    self.check_keyword(node_ref, keyword, value, doc_path, ignores_ref_siblings);
                }
            }
        }
    }

    fn check_keyword(
        &mut self,
        node_ref: NodeRef,
        keyword: &str,
        value: TreeNode<'c>,
        doc_path: &DocumentPath<'_>,
        ignores_ref_siblings: bool,
    ) {
        let keyword_path = doc_path.member(keyword);
        match keyword_rule(keyword) {
            KeywordRule::Reference | KeywordRule::DynamicReference => {
                self.check_reference(node_ref, value.as_str().unwrap_or_default(), doc_path);
            }
            KeywordRule::Items if value.is_array() => {
                self.check_list(node_ref, value, &keyword_path, ignores_ref_siblings);
            }
            KeywordRule::Schema | KeywordRule::Items => {
                self.check_subschema(node_ref, value, &keyword_path, ignores_ref_siblings);
            }
            KeywordRule::Schemas => {
                self.check_list(node_ref, value, &keyword_path, ignores_ref_siblings);
            }
            KeywordRule::SchemaMap => {
                self.check_map(node_ref, value, &keyword_path, ignores_ref_siblings);
            }
            KeywordRule::PatternMap => {
                for (pattern, _) in value.members() {
                    if !self.context.is_valid_pattern(pattern) {
                        let message = "is no regular expression; it is left out";
                        self.checker.warn(&keyword_path.member(pattern), message);
                    }
                }
                self.check_map(node_ref, value, &keyword_path, ignores_ref_siblings);
            }
            _ => {}
        }
    }

    fn check_list(
        &mut self,
        node_ref: NodeRef,
        value: TreeNode<'c>,
        doc_path: &DocumentPath<'_>,
        ignores_ref_siblings: bool,
    ) {
        for (index, item) in value.items().enumerate() {
            self.check_subschema(node_ref, item, &doc_path.item(index), ignores_ref_siblings);
        }
    }

    fn check_map(
        &mut self,
        node_ref: NodeRef,
        value: TreeNode<'c>,
        doc_path: &DocumentPath<'_>,
        ignores_ref_siblings: bool,
    ) {
        for (name, node) in value.members() {
            self.check_subschema(node_ref, node, &doc_path.member(name), ignores_ref_siblings);
        }
    }

    fn check_subschema(
        &mut self,
        node_ref: NodeRef,
        node: TreeNode<'c>,
        doc_path: &DocumentPath<'_>,
        ignores_ref_siblings: bool,
    ) {
        if is_schema(node) {
            return self.check_schema(
                self.context.documents.node_ref(node_ref, node),
                doc_path,
                ignores_ref_siblings,
            );
        }
        let message =
            format!("a schema must be an object, found {}; anything fits", node.type_name());
        self.checker.warn(doc_path, message);
    }

    fn check_reference(&mut self, node_ref: NodeRef, reference: &str, doc_path: &DocumentPath<'_>) {
        match resolve_schema(self.context, node_ref, reference) {
            Ok(target) if self.checker.visited.insert(target) => {
                self.queue.push_back((target, reference.to_owned()));
            }
            Ok(_) => {}
            Err(message) => self.checker.warn(&doc_path.member("$ref"), message),
        }
    }
}

/// Whether omitting a keyword needs a warning. A null default usually means no default, and
/// `required: true` belongs to the parameter if a parameter is read as a schema.
fn is_worth_warning(keyword: &str, value: TreeNode<'_>, schema: TreeNode<'_>) -> bool {
    match keyword {
        "default" => !value.is_null() || is_nullable(schema),
        "required" => !(schema.get("in").is_some() && schema.get("name").is_some()),
        keyword => !is_annotation(keyword),
    }
}
