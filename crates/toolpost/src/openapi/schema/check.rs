//! Checks each schema of a document once for keywords that are omitted when the schema is written.

use std::collections::{HashSet, VecDeque};

use super::super::document::{Node, NodeRef};
use super::context::SchemaContext;
use super::input::parameter_schema;
use super::keyword::{
    KeywordRule, is_annotation, is_nullable, is_schema, keyword_error, keyword_rule,
};
use super::schema_writer::{dialect_ignores_ref_siblings, resolve_schema};
use crate::json::ValuePath;

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

/// Checks schemas and collects warnings. Visited schemas are skipped.
#[derive(Debug, Default)]
pub(crate) struct SchemaChecker {
    visited: HashSet<NodeRef>,
    pub(crate) warnings: Vec<DocumentWarning>,
}

impl SchemaChecker {
    pub(crate) fn warn(&mut self, path: &ValuePath<'_>, message: impl Into<String>) {
        self.warnings.push(DocumentWarning::new(path.to_string(), message));
    }

    /// Checks a schema and all schemas that it refers to.
    pub(crate) fn check_schema(
        &mut self,
        context: &SchemaContext,
        schema: Node<'_>,
        path: &ValuePath<'_>,
    ) {
        if !self.visited.insert(schema.node_ref()) {
            return;
        }
        let ignores = context.ignores_ref_siblings;
        let mut walk = CheckWalk { context, checker: self, queue: VecDeque::new() };
        walk.check_schema(schema, path, ignores);
        while let Some((schema, reference)) = walk.queue.pop_front() {
            let base = reference.strip_prefix('#').unwrap_or(reference);
            walk.check_schema(schema, &ValuePath::Base(base), ignores);
        }
    }

    /// Checks the schema of a parameter, or the parameter as a schema.
    pub(crate) fn check_parameter(
        &mut self,
        context: &SchemaContext,
        parameter: Node<'_>,
        path: &ValuePath<'_>,
    ) {
        match parameter_schema(parameter) {
            Some(schema) => self.check_schema(context, schema, &path.member("schema")),
            None => self.check_schema(context, parameter, path),
        }
    }
}

struct CheckWalk<'c, 'd, 'w> {
    context: &'c SchemaContext,
    checker: &'w mut SchemaChecker,
    /// Schemas to check, with the references to them.
    queue: VecDeque<(Node<'d>, &'d str)>,
}

impl<'d> CheckWalk<'_, 'd, '_> {
    fn check_schema(&mut self, schema: Node<'d>, path: &ValuePath<'_>, ignores: bool) {
        let dialect = schema.text("$schema");
        let ignores_ref_siblings = dialect.map_or(ignores, dialect_ignores_ref_siblings);
        if let Some(reference) = schema.text("$ref").filter(|_| ignores_ref_siblings) {
            return self.check_reference(schema, reference, path);
        }
        for (keyword, value) in schema.members() {
            let keyword_path = path.member(keyword);
            match keyword_error(self.context, keyword, value, schema) {
                Some(message) if is_worth_warning(keyword, value, schema) => {
                    self.checker.warn(&keyword_path, message);
                }
                Some(_) => {}
                None => match keyword_rule(keyword) {
                    KeywordRule::Reference | KeywordRule::DynamicReference => {
                        self.check_reference(schema, value.as_str().unwrap_or_default(), path);
                    }
                    rule => self.check_value(rule, value, &keyword_path, ignores_ref_siblings),
                },
            }
        }
    }

    /// Checks the schemas in the value of a keyword.
    fn check_value(
        &mut self,
        rule: KeywordRule,
        value: Node<'d>,
        path: &ValuePath<'_>,
        ignores: bool,
    ) {
        match rule {
            KeywordRule::Schema => self.check_subschema(value, path, ignores),
            KeywordRule::Items if !value.is_array() => self.check_subschema(value, path, ignores),
            KeywordRule::Schemas | KeywordRule::Items => {
                for (index, item) in value.items().enumerate() {
                    self.check_subschema(item, &path.item(index), ignores);
                }
            }
            KeywordRule::SchemaMap | KeywordRule::PatternMap => {
                let is_pattern_map = rule == KeywordRule::PatternMap;
                for (name, _) in value.members().filter(|_| is_pattern_map) {
                    if !self.context.is_valid_pattern(name) {
                        let message = "is not a valid regular expression; it is ignored";
                        self.checker.warn(&path.member(name), message);
                    }
                }
                for (name, member) in value.members() {
                    self.check_subschema(member, &path.member(name), ignores);
                }
            }
            _ => {}
        }
    }

    fn check_subschema(&mut self, node: Node<'d>, path: &ValuePath<'_>, ignores: bool) {
        if is_schema(node) {
            return self.check_schema(node, path, ignores);
        }
        let found = node.type_name();
        let message = format!("a schema must be an object, found {found}; any value is accepted");
        self.checker.warn(path, message);
    }

    fn check_reference(&mut self, schema: Node<'d>, reference: &'d str, path: &ValuePath<'_>) {
        match resolve_schema(schema, reference) {
            Ok(target) if self.checker.visited.insert(target.node_ref()) => {
                self.queue.push_back((target, reference));
            }
            Ok(_) => {}
            Err(message) => self.checker.warn(&path.member("$ref"), message),
        }
    }
}

/// Whether omitting a keyword needs a warning. A null default usually means no default, and
/// `required: true` belongs to the parameter if a parameter is read as a schema.
fn is_worth_warning(keyword: &str, value: Node<'_>, schema: Node<'_>) -> bool {
    match keyword {
        "default" => !value.is_null() || is_nullable(schema),
        "required" => !(schema.get("in").is_some() && schema.get("name").is_some()),
        keyword => !is_annotation(keyword),
    }
}
