//! Input schemas: parameters and body as properties of one object.

use serde_json::{Map, Value, json};

use super::super::document::{Node, NodeRef};
use super::keyword::{is_schema, nests_deeper};
use super::schema_writer::SchemaWriter;
use super::shape::{InputProperty, PropertySource, SchemaUsage};
use crate::json::JsonObject;

/// Maximum number of examples per parameter.
const MAX_EXAMPLES: usize = 3;

impl<'c> SchemaWriter<'c, '_> {
    pub(super) fn write_input(&mut self, members: &[InputProperty]) -> Value {
        let properties: JsonObject = members
            .iter()
            .map(|member| (member.name.to_string(), self.write_source(&member.source)))
            .collect();
        let required = members.iter().filter(|member| member.required).map(|member| &*member.name);
        let mut root = object_schema(properties, required.collect());
        root.insert("additionalProperties".to_owned(), false.into());
        root.into()
    }

    fn write_source(&mut self, source: &PropertySource) -> Value {
        match source {
            PropertySource::Parameter(node_ref) => {
                let parameter = self.context.documents.node(*node_ref);
                self.write_parameter(parameter, parameter_usage(parameter))
            }
            PropertySource::Undeclared => json!({"type": "string"}),
            PropertySource::Body(shape, described) => {
                let schema = self.write_shape(shape);
                let node = described.map(|node_ref| self.context.documents.node(node_ref));
                match node.and_then(|node| node.text("description")) {
                    Some(description) if schema.get("description").is_none() => {
                        with_keyword(schema, "description", description.into())
                    }
                    _ => schema,
                }
            }
        }
    }

    pub(super) fn write_form(&mut self, parameters: &[NodeRef], usage: SchemaUsage) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for parameter in parameters.iter().map(|parameter| self.context.documents.node(*parameter))
        {
            let Some(name) = parameter.text("name") else { continue };
            properties.insert(name.to_owned(), self.write_parameter(parameter, usage));
            if parameter.flag("required") {
                required.push(name);
            }
        }
        object_schema(properties, required).into()
    }

    /// Writes the schema of a parameter, with the description, deprecation and examples of the
    /// parameter. A parameter without a schema is read as a schema itself, as in Swagger 2.0.
    fn write_parameter(&mut self, parameter: Node<'c>, usage: SchemaUsage) -> Value {
        let schema = parameter_schema(parameter).unwrap_or(parameter);
        let mut schema = self.write_schema(self.cursor(schema, usage));
        if let Some(description) = parameter.text("description") {
            schema = with_keyword(schema, "description", description.into());
        }
        if is_credential(parameter) {
            schema = with_keyword(schema, "writeOnly", true.into());
        }
        if parameter.flag("deprecated") {
            schema = with_keyword(schema, "deprecated", true.into());
        }
        match parameter_examples(parameter) {
            Some(examples) => with_keyword(schema, "examples", examples),
            None => schema,
        }
    }
}

/// Whether a parameter is a cookie, or a header whose name denotes a credential. Records mask it.
fn is_credential(parameter: Node<'_>) -> bool {
    const WORDS: [&str; 10] = [
        "apikey",
        "api-key",
        "api_key",
        "access-key",
        "auth",
        "credential",
        "password",
        "secret",
        "session",
        "token",
    ];
    match parameter.text("in") {
        Some("cookie") => true,
        Some("header") => {
            let name = parameter.text("name").unwrap_or_default().to_ascii_lowercase();
            WORDS.iter().any(|word| name.contains(word))
        }
        _ => false,
    }
}

/// A parameter that declares bytes is a `$binary` object, except in JSON.
fn parameter_usage(parameter: Node<'_>) -> SchemaUsage {
    let schema = parameter.get("schema").and_then(|schema| schema.target().ok());
    match schema.unwrap_or(parameter).text("format") {
        Some("binary") if parameter.get("content").is_none() => SchemaUsage::Field,
        _ => SchemaUsage::Request,
    }
}

fn object_schema(properties: JsonObject, required: Vec<&str>) -> JsonObject {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    schema
}

/// Returns the schema node of a parameter, if it has one.
pub(super) fn parameter_schema<'d>(parameter: Node<'d>) -> Option<Node<'d>> {
    let content = || parameter.members_of("content").next()?.1.target().ok()?.get("schema");
    let is_one = |schema: &Node<'d>| is_schema(*schema);
    parameter.get("schema").filter(is_one).or_else(|| content().filter(is_one))
}

fn parameter_examples(parameter: Node<'_>) -> Option<Value> {
    let fits = |value: &Node<'_>| !nests_deeper(*value, 32);
    if parameter_schema(parameter).is_some()
        && let Some(example) = parameter.get("example").filter(fits)
    {
        return Some(json!([example.to_value()]));
    }
    let values = parameter.members_of("examples").filter_map(|(_, example)| {
        Some(example.target().ok()?.get("value").filter(fits)?.to_value())
    });
    let values: Vec<Value> = values.take(MAX_EXAMPLES).collect();
    (!values.is_empty()).then(|| values.into())
}

/// Returns the schema with an additional keyword.
fn with_keyword(schema: Value, keyword: &str, value: Value) -> Value {
    match schema {
        Value::Object(mut members) => {
            members.insert(keyword.to_owned(), value);
            members.into()
        }
        Value::Bool(true) => json!({ keyword: value }),
        other => other,
    }
}
