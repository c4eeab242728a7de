//! Inputs: parameters and a body as the properties of one object.

use serde_json::{Map, Value, json};

use super::super::document::{Node, Place};
use super::context::Context;
use super::keyword::{is_schema, nests_deeper};
use super::shape::{Member, Source, View};
use super::writer::Writer;

/// How many examples of a parameter are carried along.
const MAX_EXAMPLES: usize = 3;

impl Writer<'_, '_> {
    pub(super) fn input(&mut self, members: &[Member]) -> Value {
        let required = members.iter().filter(|member| member.required);
        let required: Vec<&str> = required.map(|member| &*member.name).collect();
        let properties: Map<String, Value> = members
            .iter()
            .map(|member| (member.name.to_string(), self.source(&member.source)))
            .collect();
        let mut root = Map::new();
        root.insert("type".to_owned(), "object".into());
        root.insert("properties".to_owned(), properties.into());
        if !required.is_empty() {
            root.insert("required".to_owned(), required.into());
        }
        root.insert("additionalProperties".to_owned(), false.into());
        root.into()
    }

    fn source(&mut self, source: &Source) -> Value {
        match source {
            Source::Parameter(place) => self.parameter(*place, View::Request),
            Source::Undeclared => json!({"type": "string"}),
            Source::Body(shape, described) => {
                let schema = self.shape(shape);
                let node = described.map(|place| self.context.library.node(place));
                match node.and_then(|node| node.get("description")).and_then(Node::as_str) {
                    Some(description) if schema.get("description").is_none() => {
                        with(schema, "description", description.into())
                    }
                    _ => schema,
                }
            }
        }
    }

    pub(super) fn form(&mut self, parameters: &[Place]) -> Value {
        let library = &self.context.library;
        let mut properties = Map::new();
        let mut required = Vec::new();
        for place in parameters {
            let node = library.node(*place);
            let Some(name) = node.get("name").and_then(Node::as_str) else { continue };
            properties.insert(name.to_owned(), self.parameter(*place, View::Form));
            if node.get("required").and_then(Node::as_bool) == Some(true) {
                required.push(name);
            }
        }
        let mut form = Map::new();
        form.insert("type".to_owned(), "object".into());
        form.insert("properties".to_owned(), properties.into());
        if !required.is_empty() {
            form.insert("required".to_owned(), required.into());
        }
        form.into()
    }

    /// The schema of a parameter, with what the parameter says about itself. One without a schema
    /// is read as one, as Swagger 2.0 has it.
    fn parameter(&mut self, place: Place, view: View) -> Value {
        let library = &self.context.library;
        let schema = match parameter_schema(self.context, place) {
            Some(schema) => self.schema(self.at(schema, view)),
            None => self.schema(self.at(place, view)),
        };
        let node = library.node(place);
        let mut schema = schema;
        if let Some(description) = node.get("description").and_then(Node::as_str) {
            schema = with(schema, "description", description.into());
        }
        if node.get("deprecated").and_then(Node::as_bool) == Some(true) {
            schema = with(schema, "deprecated", true.into());
        }
        match examples(self.context, place) {
            Some(examples) => with(schema, "examples", examples),
            None => schema,
        }
    }
}

/// Where the schema of a parameter stands, if it has one.
pub(super) fn parameter_schema(context: &Context, parameter: Place) -> Option<Place> {
    let library = &context.library;
    let schema = library.get(parameter, "schema").filter(|place| is_schema(library.node(*place)));
    schema.or_else(|| {
        let content = library.get(parameter, "content")?;
        let (_, media) = library.node(content).members().next()?;
        let media = library.follow(library.beside(content, media)).ok()?;
        library.get(media, "schema").filter(|place| is_schema(library.node(*place)))
    })
}

fn examples(context: &Context, parameter: Place) -> Option<Value> {
    let library = &context.library;
    let node = library.node(parameter);
    let fits = |value: &Node<'_>| !nests_deeper(*value, 32);
    if parameter_schema(context, parameter).is_some()
        && let Some(example) = node.get("example").filter(fits)
    {
        return Some(json!([example.to_value()]));
    }
    let listed = library.get(parameter, "examples")?;
    let values = library.node(listed).members().filter_map(|(_, example)| {
        let example = library.follow(library.beside(listed, example)).ok()?;
        library.node(example).get("value").filter(fits).map(Node::to_value)
    });
    let values: Vec<Value> = values.take(MAX_EXAMPLES).collect();
    (!values.is_empty()).then(|| values.into())
}

/// The schema with one more keyword.
fn with(schema: Value, keyword: &str, value: Value) -> Value {
    match schema {
        Value::Object(mut members) => {
            members.insert(keyword.to_owned(), value);
            members.into()
        }
        Value::Bool(true) => json!({ keyword: value }),
        other => other,
    }
}
