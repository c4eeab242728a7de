//! Looks at the schemas of a document once, for what will be left out when they are written.

use std::collections::{HashSet, VecDeque};

use super::super::document::{Node, Place};
use super::context::Context;
use super::input::parameter_schema;
use super::keyword::{Rule, fault, is_annotation, is_nullable, is_schema, rule};
use super::spot::Spot;
use super::writer::{hides_siblings, target};

/// Something about a document that a person may want to know.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Warning {
    /// A JSON Pointer into the document, behind the name of the file if that is another.
    pub at: String,
    /// What is odd there, and what became of it.
    pub message: String,
}

impl Warning {
    /// What is odd at a place, which is empty where it is about the whole.
    pub fn new(at: impl Into<String>, message: impl Into<String>) -> Self {
        Self { at: at.into(), message: message.into() }
    }
}

/// Remembers what was looked at, since most schemas are used many times.
#[derive(Debug, Default)]
pub(crate) struct Check {
    seen: HashSet<Place>,
    pub(crate) warnings: Vec<Warning>,
}

impl Check {
    pub(crate) fn warn(&mut self, spot: &Spot<'_>, message: impl Into<String>) {
        self.warnings.push(Warning { at: spot.to_string(), message: message.into() });
    }

    /// Looks at a schema and at everything that it refers to.
    pub(crate) fn schema(&mut self, context: &Context, place: Place, spot: &Spot<'_>) {
        if !self.seen.insert(place) {
            return;
        }
        let mut walk = Walk { context, check: self, waiting: VecDeque::new() };
        walk.schema(place, spot, context.ref_hides_siblings);
        while let Some((place, reference)) = walk.waiting.pop_front() {
            walk.schema(place, &Spot::Reference(&reference), context.ref_hides_siblings);
        }
    }

    /// Looks at the schema of a parameter, which may be the parameter itself.
    pub(crate) fn parameter(&mut self, context: &Context, place: Place, spot: &Spot<'_>) {
        match parameter_schema(context, place) {
            Some(schema) => self.schema(context, schema, &spot.member("schema")),
            None => self.schema(context, place, spot),
        }
    }
}

struct Walk<'c, 'w> {
    context: &'c Context,
    check: &'w mut Check,
    waiting: VecDeque<(Place, String)>,
}

impl<'c> Walk<'c, '_> {
    fn schema(&mut self, place: Place, spot: &Spot<'_>, hides: bool) {
        let node = self.context.library.node(place);
        let dialect = node.get("$schema").and_then(Node::as_str);
        let hides = dialect.map_or(hides, hides_siblings);
        let reference = node.get("$ref").and_then(Node::as_str);
        if let Some(reference) = reference.filter(|_| hides) {
            return self.reference(place, reference, spot);
        }
        for (keyword, value) in node.members() {
            match fault(self.context, keyword, value, node) {
                Some(message) if is_worth_telling(keyword, value, node) => {
                    self.check.warn(&spot.member(keyword), message);
                }
                Some(_) => {}
                None => self.keyword(place, keyword, value, spot, hides),
            }
        }
    }

    fn keyword(
        &mut self,
        place: Place,
        keyword: &str,
        value: Node<'c>,
        spot: &Spot<'_>,
        hides: bool,
    ) {
        let here = spot.member(keyword);
        match rule(keyword) {
            Rule::Reference | Rule::DynamicReference => {
                self.reference(place, value.as_str().unwrap_or_default(), spot);
            }
            Rule::Items if value.is_array() => self.list(place, value, &here, hides),
            Rule::Schema | Rule::Items => self.inner(place, value, &here, hides),
            Rule::Schemas => self.list(place, value, &here, hides),
            Rule::SchemaMap => self.map(place, value, &here, hides),
            Rule::PatternMap => {
                for (pattern, _) in value.members() {
                    if !self.context.is_pattern(pattern) {
                        let message = "is no regular expression; it is left out";
                        self.check.warn(&here.member(pattern), message);
                    }
                }
                self.map(place, value, &here, hides);
            }
            _ => {}
        }
    }

    fn list(&mut self, place: Place, value: Node<'c>, spot: &Spot<'_>, hides: bool) {
        for (index, item) in value.items().enumerate() {
            self.inner(place, item, &spot.item(index), hides);
        }
    }

    fn map(&mut self, place: Place, value: Node<'c>, spot: &Spot<'_>, hides: bool) {
        for (name, node) in value.members() {
            self.inner(place, node, &spot.member(name), hides);
        }
    }

    fn inner(&mut self, place: Place, node: Node<'c>, spot: &Spot<'_>, hides: bool) {
        if is_schema(node) {
            return self.schema(self.context.library.beside(place, node), spot, hides);
        }
        let message =
            format!("a schema must be an object, found {}; anything fits", node.type_name());
        self.check.warn(spot, message);
    }

    fn reference(&mut self, place: Place, reference: &str, spot: &Spot<'_>) {
        match target(self.context, place, reference) {
            Ok(target) if self.check.seen.insert(target) => {
                self.waiting.push_back((target, reference.to_owned()));
            }
            Ok(_) => {}
            Err(message) => self.check.warn(&spot.member("$ref"), message),
        }
    }
}

/// Not everything that is left out is missed: a default of null is how many say that there is none,
/// and `required: true` belongs to the parameter when a parameter is read as a schema.
fn is_worth_telling(keyword: &str, value: Node<'_>, schema: Node<'_>) -> bool {
    match keyword {
        "default" => !value.is_null() || is_nullable(schema),
        "required" => !(schema.get("in").is_some() && schema.get("name").is_some()),
        keyword => !is_annotation(keyword),
    }
}
