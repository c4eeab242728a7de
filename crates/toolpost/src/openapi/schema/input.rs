//! Input schemas: parameters and body as properties of one object.

use serde_json::{Map, Value, json};

use super::super::document::{NodeRef, TreeNode};
use super::context::SchemaContext;
use super::keyword::{is_schema, nests_deeper};
use super::schema_writer::SchemaWriter;
use super::shape::{InputProperty, PropertySource, SchemaUsage};

/// Maximum number of examples per parameter.
const MAX_EXAMPLES: usize = 3;

impl SchemaWriter<'_, '_> {
    pub(super) fn write_input(&mut self, members: &[InputProperty]) -> Value {
        let required = members.iter().filter(|member| member.required);
        let required: Vec<&str> = required.map(|member| &*member.name).collect();
        let properties: Map<String, Value> = members
            .iter()
            .map(|member| (member.name.to_string(), self.write_source(&member.source)))
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

    fn write_source(&mut self, source: &PropertySource) -> Value {
        match source {
            PropertySource::Parameter(node_ref) => {
                self.write_parameter(*node_ref, SchemaUsage::Request)
            }
            PropertySource::Undeclared => json!({"type": "string"}),
            PropertySource::Body(shape, described) => {
                let schema = self.write_shape(shape);
                let node = described.map(|node_ref| self.context.documents.node(node_ref));
                match node.and_then(|node| node.get("description")).and_then(TreeNode::as_str) {
                    Some(description) if schema.get("description").is_none() => {
                        with_keyword(schema, "description", description.into())
                    }
                    _ => schema,
                }
            }
        }
    }

    pub(super) fn write_form(&mut self, parameters: &[NodeRef]) -> Value {
        let documents = &self.context.documents;
        let mut properties = Map::new();
        let mut required = Vec::new();
        for node_ref in parameters {
            let node = documents.node(*node_ref);
            let Some(name) = node.get("name").and_then(TreeNode::as_str) else { continue };
            properties.insert(name.to_owned(), self.write_parameter(*node_ref, SchemaUsage::Form));
            if node.get("required").and_then(TreeNode::as_bool) == Some(true) {
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

    /// Writes the schema of a parameter, with the description, deprecation and examples of the
    /// parameter. A parameter without a schema is read as a schema itself, as in Swagger 2.0.
    fn write_parameter(&mut self, node_ref: NodeRef, usage: SchemaUsage) -> Value {
        let documents = &self.context.documents;
        let schema = match parameter_schema(self.context, node_ref) {
            Some(schema) => self.write_schema(self.cursor(schema, usage)),
            None => self.write_schema(self.cursor(node_ref, usage)),
        };
        let node = documents.node(node_ref);
        let mut schema = schema;
        if let Some(description) = node.get("description").and_then(TreeNode::as_str) {
            schema = with_keyword(schema, "description", description.into());
        }
        if node.get("deprecated").and_then(TreeNode::as_bool) == Some(true) {
            schema = with_keyword(schema, "deprecated", true.into());
        }
        match parameter_examples(self.context, node_ref) {
            Some(examples) => with_keyword(schema, "examples", examples),
            None => schema,
        }
    }
}

/// Returns the schema node of a parameter, if it has one.
pub(super) fn parameter_schema(context: &SchemaContext, parameter: NodeRef) -> Option<NodeRef> {
    let documents = &context.documents;
    let schema =
        documents.get(parameter, "schema").filter(|node_ref| is_schema(documents.node(*node_ref)));
    schema.or_else(|| {
        let content = documents.get(parameter, "content")?;
        let (_, media) = documents.node(content).members().next()?;
        let media = documents.resolve_chain(documents.node_ref(content, media)).ok()?;
        documents.get(media, "schema").filter(|node_ref| is_schema(documents.node(*node_ref)))
    })
}

fn parameter_examples(context: &SchemaContext, parameter: NodeRef) -> Option<Value> {
    let documents = &context.documents;
    let node = documents.node(parameter);
    let fits = |value: &TreeNode<'_>| !nests_deeper(*value, 32);
    if parameter_schema(context, parameter).is_some()
        && let Some(example) = node.get("example").filter(fits)
    {
        return Some(json!([example.to_value()]));
    }
    let listed = documents.get(parameter, "examples")?;
    let values = documents.node(listed).members().filter_map(|(_, example)| {
        let example = documents.resolve_chain(documents.node_ref(listed, example)).ok()?;
        documents.node(example).get("value").filter(fits).map(TreeNode::to_value)
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
